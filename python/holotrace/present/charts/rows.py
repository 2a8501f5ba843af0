"""Charts of named bars, one below the other: rows of the page, so that names wrap and fit any width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holotrace.present.charts.plane import Key
from holotrace.present.charts.texts import plain, title


@dataclass(frozen=True)
class Piece:
    """A part of a bar, in percent of the widest."""

    left: float
    width: float
    color: str
    text: str = ""


@dataclass(frozen=True)
class Row:
    """A bar with its name and its value."""

    name: str
    value: str
    share: str
    pieces: tuple[Piece, ...]
    # From the least to the most of any rank; None where there is one.
    spread: Piece | None = None


@dataclass(frozen=True)
class Rows:
    """Named bars, the longest first."""

    rows: tuple[Row, ...]
    legend: tuple[Key, ...]
    title: str
    note: str = ""
    form: str = "rows"

    @classmethod
    def of(cls, drawing: dict[str, Any]) -> Rows:
        """The rows of a drawing with horizontal bars."""
        layout, traces = drawing["layout"], drawing["data"]
        bars = _bars(traces)
        widest = max((sum(value for value, *_ in parts) for parts in bars.values()), default=0.0)
        most = max((end for parts in bars.values() for *_, (_, end) in parts), default=0.0)
        scale = 100 / (max(widest, most) or 1.0)
        legend = tuple(Key(t["marker"]["color"], plain(t["name"])) for t in traces) if layout["showlegend"] else ()
        notes = layout.get("annotations", [])
        return cls(
            tuple(_row(bars[place], scale) for place in sorted(bars)),
            legend,
            title(layout["xaxis"]),
            plain(notes[0]["text"]) if notes else "",
        )


def _bars(traces: list[dict[str, Any]]) -> dict[int, list[Any]]:
    """The parts of each bar by its place: value, data of the trace, name and share, the ends of its spread."""
    found = dict[int, list[Any]]()
    for trace in traces:
        spread = trace.get("error_x", {})
        count = len(trace["x"])
        ends = zip(spread.get("arrayminus", [0] * count), spread.get("array", [0] * count), strict=True)
        for value, place, told, (less, more) in zip(trace["x"], trace["y"], trace["customdata"], ends, strict=True):
            reach = (value - less, value + more) if spread else (0.0, 0.0)
            found.setdefault(place, []).append((value or 0.0, trace, told, reach))
    return found


def _row(parts: list[Any], scale: float) -> Row:
    whole, pieces = 0.0, []
    for value, trace, _, _ in parts:
        told = f"{plain(trace['name'])}: {_said(value, trace)}"
        pieces.append(Piece(round(whole * scale, 2), round(value * scale, 2), trace["marker"]["color"], told))
        whole += value
    _, trace, (name, _), (low, high) = parts[0]
    spread = None
    if high:
        text = f"{_said(low, trace)} to {_said(high, trace)}"
        spread = Piece(round(low * scale, 2), round((high - low) * scale, 2), "", text)
    share = sum(told[1] for _, _, told, _ in parts)
    return Row(plain(name), _said(whole, trace), f"{share:.1%}", tuple(pieces), spread)


def _said(value: float, trace: dict[str, Any]) -> str:
    form = trace.get("meta", {})
    return f"{value:,.{form.get('decimals', 0)}f} {form.get('unit', '')}".strip()
