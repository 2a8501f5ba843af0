"""Charts of trees: boxes below the box that they are in, as wide as their share of the whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holotrace.present.charts.texts import plain, title

_NARROWEST = 0.15  # percent of the width; nobody sees or hits a narrower box
_LIGHT, _DARK = (222, 235, 247), (8, 81, 156)  # the ends of Plotly's "Blues"
_INVERTED = 0.5  # share of the way to the dark end from which on text is white


@dataclass(frozen=True)
class Box:
    """A part of the whole, in percent of its width."""

    left: float
    width: float
    depth: int
    name: str
    told: str
    color: str
    is_dark: bool


@dataclass(frozen=True)
class Boxes:
    """A tree of boxes, roots above."""

    boxes: tuple[Box, ...]
    depth: int
    hidden: int
    # What the colour tells, with its two ends.
    scale: tuple[str, str] = ("", "")
    note: str = ""
    legend: tuple[Any, ...] = ()
    form: str = "boxes"

    @classmethod
    def of(cls, drawing: dict[str, Any]) -> Boxes:
        """The boxes of a drawing with an icicle."""
        trace = drawing["data"][0]
        boxes = tuple(_boxes(trace))
        ends = _color(0.0)[0], _color(1.0)[0]
        hidden = len(trace["ids"]) - len(boxes)
        note = plain(trace.get("meta", {}).get("colors", "")) or title(drawing["layout"])
        return cls(boxes, max((box.depth for box in boxes), default=0) + 1, hidden, ends, note)


def _boxes(trace: dict[str, Any]) -> Iterator[Box]:
    below = dict[str, list[int]]()
    for i, outer in enumerate(trace["parents"]):
        below.setdefault(outer, []).append(i)
    whole = sum(trace["values"][i] for i in below.get("", ())) or 1.0
    # What is left to be placed: a box, where it begins, and how deep it is.
    left = [(i, at, 0) for i, at in _beside(below.get("", []), trace, 0.0, whole)]
    while left:
        i, at, depth = left.pop()
        width = 100 * trace["values"][i] / whole
        if width < _NARROWEST:
            continue
        color, is_dark = _color(float(trace["marker"]["colors"][i]))
        yield Box(
            round(at, 2), round(width, 2), depth, plain(trace["labels"][i]), _told(trace, i, whole), color, is_dark
        )
        left += [
            (inner, start, depth + 1) for inner, start in _beside(below.get(trace["ids"][i], []), trace, at, whole)
        ]


def _beside(members: list[int], trace: dict[str, Any], at: float, whole: float) -> Iterator[tuple[int, float]]:
    """Boxes side by side, the widest first, and where each begins."""
    for i in sorted(members, key=lambda i: -trace["values"][i]):
        yield i, at
        at += 100 * trace["values"][i] / whole


def _told(trace: dict[str, Any], i: int, whole: float) -> str:
    value, form = trace["values"][i], trace.get("meta", {})
    said = f"{value:,.{form.get('decimals', 0)}f} {form.get('unit', '')}".strip()
    rate = f"{' '.join(trace['customdata'][i])} {form.get('rate', '')}".strip()
    return f"{plain(trace['ids'][i])}: {said}, {value / whole:.1%}; {rate}"


def _color(share: float) -> tuple[str, bool]:
    share = min(max(share, 0.0), 1.0)
    mixed = (round(a + (b - a) * share) for a, b in zip(_LIGHT, _DARK, strict=True))
    return f"rgb({', '.join(map(str, mixed))})", share >= _INVERTED
