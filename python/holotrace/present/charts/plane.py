"""Charts between two axes: bars, lines and dots as shapes that stretch with the page, texts beside them as texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holotrace.present.charts.axes import Axis, Tick
from holotrace.present.charts.texts import plain

_SIDE = 1000  # units of the drawing across and down; it is stretched to the place it gets
_MOST_TOLD = 4_000  # values that the page can tell where one points at a chart
_MOST_POINTS = 3_000  # of a line; a screen has fewer columns


@dataclass(frozen=True)
class Mark:
    """Shapes of one colour."""

    kind: str
    path: str
    color: str
    width: float = 0.0
    opacity: float = 1.0


@dataclass(frozen=True)
class Key:
    """An entry of the legend."""

    color: str
    text: str


@dataclass(frozen=True)
class Plane:
    """A chart between two axes."""

    height: int
    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    legend: tuple[Key, ...]
    # What is told where one points: of each series its name, colour, unit, decimals, places and values.
    told: dict[str, Any]
    note: str = ""
    # Places that are marked above the shapes, with what is told of each.
    flags: tuple[Tick, ...] = ()
    form: str = "plane"

    @property
    def names_width(self) -> int:
        """Characters of the longest text beside the vertical axis."""
        return max((len(tick.text) for tick in self.y.ticks), default=1)

    def flagged(self, told: Mapping[float, str]) -> Plane:
        """The same with marks above these places of the horizontal axis."""
        at = {place: self.x.percent(place) for place in told}
        flags = (
            Tick(round(left, 2), told[place]) for place, left in at.items() if left is not None and 0 <= left <= 100
        )
        return replace(self, flags=tuple(flags))

    @classmethod
    def of(cls, drawing: dict[str, Any]) -> Plane:
        """The plane of a drawing with bars or scattered points."""
        layout, traces = drawing["layout"], drawing["data"]
        is_stacked = layout.get("barmode") == "stack"
        bases = _bases(traces, is_stacked)
        tops = [b + v for t, base in zip(traces, bases, strict=True) for b, v in zip(base, t["y"], strict=True) if v]
        x = Axis.of(layout["xaxis"], (v for t in traces for v in t["x"]), beyond=False)
        y = Axis.of(layout["yaxis"], [*tops, *(v for t in traces for v in t["y"])])
        frame = _Frame(
            x, y, 1 if is_stacked else sum(t["type"] == "bar" for t in traces), 1 - float(layout.get("bargap", 0))
        )
        marks = [
            mark
            for position, (trace, base) in enumerate(zip(traces, bases, strict=True))
            for mark in _marks(trace, base, 0 if is_stacked else position, frame)
        ]
        legend = [Key(_color(t), plain(t["name"])) for t in traces if t.get("showlegend", True)]
        return cls(
            height=max(120, layout["height"] - 100),
            x=x,
            y=y,
            marks=tuple(marks),
            legend=tuple(legend) if layout.get("showlegend") else (),
            told=_told(traces, x, y, layout),
        )


@dataclass(frozen=True)
class _Frame:
    """Where values stand in the drawing, and how many bars stand beside each other on which share of a place."""

    x: Axis
    y: Axis
    beside: int
    share: float

    def across(self, value: Any) -> float:
        return _SIDE / 100 * (self.x.percent(value) or 0.0)

    def down(self, value: Any) -> float:
        return _SIDE - _SIDE / 100 * (self.y.percent(value) or 0.0)

    def has(self, across: Any, up: Any) -> bool:
        return self.x.percent(across) is not None and self.y.percent(up) is not None


def _bases(traces: Sequence[dict[str, Any]], is_stacked: bool) -> list[list[float]]:
    """What each bar stands on."""
    found, reached = [], dict[Any, float]()
    for trace in traces:
        if not is_stacked or trace["type"] != "bar":
            found.append([0.0] * len(trace["y"]))
            continue
        found.append([reached.get(place, 0.0) for place in trace["x"]])
        for place, value in zip(trace["x"], trace["y"], strict=True):
            reached[place] = reached.get(place, 0.0) + (value or 0.0)
    return found


def _marks(trace: dict[str, Any], base: Sequence[float], position: int, frame: _Frame) -> Iterator[Mark]:
    color, opacity = _color(trace), float(trace.get("opacity", 1.0))
    if trace["type"] == "bar":
        yield Mark("bar", "".join(_bars(trace, base, position, frame)), color)
    elif trace["mode"] == "lines":
        width = float(trace["line"].get("width", 2))
        yield Mark("line", "".join(_line(trace, frame)), color, width, opacity)
    else:
        yield from _dots(trace, color, frame)


def _bars(trace: dict[str, Any], base: Sequence[float], position: int, frame: _Frame) -> Iterator[str]:
    width = frame.share / frame.beside
    for place, low, value in zip(trace["x"], base, trace["y"], strict=True):
        if not value:
            continue
        left, right = (frame.across(place - frame.share / 2 + (position + i) * width) for i in (0, 1))
        bottom, top = frame.down(low), frame.down(low + value)
        yield f"M{left:.1f} {bottom:.1f}V{top:.1f}H{right:.1f}V{bottom:.1f}z"


def _line(trace: dict[str, Any], frame: _Frame) -> Iterator[str]:
    is_open, is_held = False, trace["line"].get("shape") == "hv"
    points = list(zip(trace["x"], trace["y"], strict=True))
    for across, value in points[:: max(1, len(points) // _MOST_POINTS)]:
        if not frame.has(across, value):
            is_open = False
            continue
        x, y = f"{frame.across(across):.1f}", f"{frame.down(value):.1f}"
        yield f"M{x} {y}" if not is_open else f"H{x}V{y}" if is_held else f"L{x} {y}"
        is_open = True


def _dots(trace: dict[str, Any], color: str, frame: _Frame) -> Iterator[Mark]:
    sizes = trace["marker"]["size"]
    opacity = float(trace["marker"].get("opacity", 1.0))
    points = [
        (f"M{frame.across(a):.1f} {frame.down(b):.1f}h0", i)
        for i, (a, b) in enumerate(zip(trace["x"], trace["y"], strict=True))
        if frame.has(a, b)
    ]
    if isinstance(sizes, list):
        for path, i in points:
            yield Mark("dot", path, color, round(float(sizes[i]), 1), opacity)
    else:
        yield Mark("dot", "".join(path for path, _ in points), color, float(sizes), opacity)


def _color(trace: dict[str, Any]) -> str:
    return str((trace.get("line") if trace.get("mode") == "lines" else trace["marker"])["color"])  # type: ignore[index]


def _told(traces: Sequence[dict[str, Any]], x: Axis, y: Axis, layout: dict[str, Any]) -> dict[str, Any]:
    """What the page tells where one points; nothing of charts with more values than it could carry."""
    if sum(len(trace["y"]) for trace in traces) > _MOST_TOLD:
        return {}
    dotted = [trace for trace in traces if trace.get("mode") == "markers"]
    if dotted:
        return {"dots": [dot for trace in dotted for dot in _told_dots(trace, x, y)]}
    labels = layout.get("meta", {}).get("labels")
    series = [_told_series(trace, x) for trace in traces]
    shared = all(one["at"] == series[0]["at"] for one in series)
    if shared:
        places = labels or [f"{x.title} {value:,}" if isinstance(value, int) else value for value in traces[0]["x"]]
        return {"at": series[0]["at"], "labels": places, "series": [_without(one, "at") for one in series]}
    return {"series": series}


def _told_series(trace: dict[str, Any], x: Axis) -> dict[str, Any]:
    return {
        "name": plain(trace["name"]),
        "color": _color(trace),
        **trace.get("meta", {}),
        "at": [_rounded(x.percent(value)) for value in trace["x"]],
        "values": trace["y"],
    }


def _told_dots(trace: dict[str, Any], x: Axis, y: Axis) -> Iterable[list[Any]]:
    texts = trace.get("text") or trace.get("customdata") or [""] * len(trace["x"])
    for a, b, text in zip(trace["x"], trace["y"], texts, strict=True):
        at = x.percent(a), y.percent(b)
        if None not in at:
            yield [_rounded(at[0]), _rounded(at[1]), plain(text, "\n")]


def _without(entry: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != name}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
