"""Heat maps: a picture of a pixel per cell that the page stretches, and its values for who points at it."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from holotrace.present.charts.axes import Tick
from holotrace.present.charts.texts import plain

_LESS, _SAME, _MORE = (33, 102, 172), (236, 238, 241), (178, 24, 43)  # the ends and the middle of Plotly's "RdBu"
_SHADES = 120  # on each side of the middle
_NONE = 2 * _SHADES + 1  # the colour of a cell without a value, which is clear
_FULL = 0.02  # what is off by less than this is not shown in full colour, however even all others are
_MOST_TICKS, _MOST_TEXT = 12, 90
_LEAST_HEIGHT, _MOST_HEIGHT, _ROW = 60, 520, 22  # pixels


@dataclass(frozen=True)
class Cells:
    """A heat map."""

    image: str
    height: int
    x: tuple[Tick, ...]
    y: tuple[Tick, ...]
    title_x: str
    title_y: str
    told: dict[str, Any]
    # What the ends of the colours stand for.
    scale: tuple[str, str]
    value: str
    legend: tuple[Any, ...] = ()
    note: str = ""
    form: str = "cells"

    @property
    def names_width(self) -> int:
        """Characters of the longest text beside the vertical axis."""
        return max((len(tick.text) for tick in self.y), default=1)

    @classmethod
    def of(cls, drawing: dict[str, Any]) -> Cells:
        """The cells of a drawing with a heat map."""
        trace = drawing["data"][0]
        rows: list[list[float | None]] = trace["z"]
        most = max((abs(v) for row in rows for v in row if v is not None), default=0.0)
        full = max(most, _FULL)
        told = [[None if v is None else round(1000 * v) for v in row] for row in rows]
        form = trace["meta"]
        return cls(
            image=_png([bytes(_shade(v, full) for v in row) for row in rows]),
            height=min(_MOST_HEIGHT, max(_LEAST_HEIGHT, _ROW * len(rows))),
            x=tuple(_ticks([plain(name) for name in trace["x"]], _MOST_TEXT)),
            y=tuple(_ticks(trace["y"], None)),
            title_x=form["across"],
            title_y="Rank",
            told={"x": [plain(name) for name in trace["x"]], "y": trace["y"], "permille": told, "of": form["across"]},
            scale=(f"\u2212{min(full, 1.0):.0%}", f"+{full:.0%}"),
            value=form["value"],
        )


def _shade(value: float | None, full: float) -> int:
    return _NONE if value is None else _SHADES + round(_SHADES * max(-1.0, min(1.0, value / full)))


def _ticks(names: Sequence[str], most_text: int | None) -> Iterable[Tick]:
    """Marks at the middle of cells, as many as there is room for."""
    longest = max(map(len, names), default=1) + 2
    count = _MOST_TICKS if most_text is None else max(1, min(_MOST_TICKS, most_text // longest))
    every = max(1, -(-len(names) // count))
    for i in range(0, len(names), every):
        yield Tick(round(100 * (i + 0.5) / len(names), 2), names[i])


def _palette() -> bytes:
    down = [_mixed(_SAME, _LESS, 1 - i / _SHADES) for i in range(_SHADES)]
    up = [_mixed(_SAME, _MORE, i / _SHADES) for i in range(_SHADES + 1)]
    return b"".join(map(bytes, (*down, *up, _SAME)))


def _mixed(a: tuple[int, ...], b: tuple[int, ...], share: float) -> tuple[int, ...]:
    return tuple(round(x + (y - x) * share) for x, y in zip(a, b, strict=True))


def _png(rows: Sequence[bytes]) -> str:
    """An image of a byte per pixel, each the place of its colour in the palette."""
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 3, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    clear = bytes([255] * _NONE) + b"\0"
    chunks = ((b"IHDR", header), (b"PLTE", _palette()), (b"tRNS", clear), (b"IDAT", pixels), (b"IEND", b""))
    written = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + written).decode()
