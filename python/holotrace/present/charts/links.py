"""Bands from names on the left to names on the right, as wide as what goes from one to the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holotrace.present.charts.texts import plain

_LEAST_SLOT = 20.0  # pixels, so that names do not run into each other
_WIDE = 12.0  # pixels of all bands for each name of the longer side
_LEAST_WIDE = 140.0
_BETWEEN = 4.0
_MIDDLE, _RIGHT = 500, 1000  # across; stretched to the room there is


@dataclass(frozen=True)
class Node:
    """A name, with the share of it that begins or ends there."""

    name: str
    value: str
    share: str
    top: float
    height: float
    color: str


@dataclass(frozen=True)
class Band:
    """What goes from a name to another."""

    path: str
    color: str
    told: str


@dataclass(frozen=True)
class Bands:
    """All names of both sides with the bands between them."""

    left: tuple[Node, ...]
    right: tuple[Node, ...]
    bands: tuple[Band, ...]
    height: float
    title_left: str
    title_right: str
    note: str = ""
    legend: tuple[Any, ...] = ()
    form: str = "bands"

    @classmethod
    def of(cls, drawing: dict[str, Any]) -> Bands:
        """The bands of a drawing with a Sankey diagram."""
        trace = drawing["data"][0]
        link = trace["link"]
        sides = [_sums(link, "source"), _sums(link, "target")]
        scale = max(_LEAST_WIDE, _WIDE * max(map(len, sides))) / (sum(link["value"]) or 1.0)
        height = max(_tall(side, scale) for side in sides)
        left, right = (_nodes(trace, sums, scale, height) for sums in sides)
        notes = drawing["layout"].get("annotations", [])
        return cls(
            tuple(left.values()),
            tuple(right.values()),
            tuple(_bands(trace, left, right, scale)),
            round(height, 1),
            trace["meta"]["from"],
            trace["meta"]["to"],
            plain(notes[0]["text"]) if notes else "",
        )


def _sums(link: dict[str, Any], side: str) -> dict[int, float]:
    """What begins or ends at each name, in the order of names."""
    found = dict[int, float]()
    for i, value in sorted(zip(link[side], link["value"], strict=True)):
        found[i] = found.get(i, 0.0) + value
    return found


def _slot(value: float, scale: float) -> float:
    return max(value * scale, _LEAST_SLOT) + _BETWEEN


def _tall(sums: dict[int, float], scale: float) -> float:
    return sum(_slot(value, scale) for value in sums.values())


def _nodes(trace: dict[str, Any], sums: dict[int, float], scale: float, height: float) -> dict[int, Node]:
    """The names of a side from above; the shorter side stands in the middle."""
    whole = sum(sums.values()) or 1.0
    at, found = (height - _tall(sums, scale)) / 2, dict[int, Node]()
    for i, value in sums.items():
        slot, tall = _slot(value, scale), value * scale
        name, color = plain(trace["node"]["label"][i]), trace["node"]["color"][i]
        top = round(at + (slot - tall) / 2, 1)
        found[i] = Node(name, _said(value, trace), f"{value / whole:.1%}", top, round(tall, 1), color)
        at += slot
    return found


def _bands(trace: dict[str, Any], left: dict[int, Node], right: dict[int, Node], scale: float) -> Sequence[Band]:
    link = trace["link"]
    rows = list(zip(link["source"], link["target"], link["value"], link["color"], strict=True))
    starts, ends = {i: node.top for i, node in left.items()}, {i: node.top for i, node in right.items()}
    found = []
    # In the order of names on both sides, so that bands cross as little as they can.
    for source, target, value, color in sorted(rows, key=lambda row: row[:2]):
        wide, a, b = value * scale, starts[source], ends[target]
        starts[source], ends[target] = a + wide, b + wide
        path = (
            f"M0 {a:.1f}C{_MIDDLE} {a:.1f} {_MIDDLE} {b:.1f} {_RIGHT} {b:.1f}V{b + wide:.1f}"
            f"C{_MIDDLE} {b + wide:.1f} {_MIDDLE} {a + wide:.1f} 0 {a + wide:.1f}z"
        )
        found.append(Band(path, color, f"{left[source].name} → {right[target].name}: {_said(value, trace)}"))
    return found


def _said(value: float, trace: dict[str, Any]) -> str:
    form = trace["meta"]
    return f"{value:,.{form['decimals']}f} {form['unit']}".strip()
