"""Charts as a terminal draws them: a bar to a line, or points on a grid, as wide as there is room."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from holotrace.present import format as fmt
from holotrace.present.charts import picture
from holotrace.present.charts.axes import Axis
from holotrace.present.charts.boxes import Boxes
from holotrace.present.charts.links import Bands
from holotrace.present.charts.plane import Plane
from holotrace.present.charts.rows import Rows
from holotrace.present.charts.texts import plain, title

_MOST_WIDE = 160  # characters; a wider chart is no easier to read
_HEIGHT = 16  # lines of a grid
# One for each part of a bar, so that parts are told apart without colours.
_FILLS, _PLAIN_FILLS = "█▓▒░▚▞", "#=+-:%"
_THIN, _PLAIN_THIN = "▏", "|"
# What stands for characters that are not ASCII.
_PLAIN = dict(zip(map(ord, "µ…→\u2013·\u2212¹²⁵⁹"), "u~>-,-1259", strict=True))


@dataclass(frozen=True)
class Part:
    """A piece of a bar: how many percent of the longest it takes, and the series that it is of."""

    percent: float
    series: int


@dataclass(frozen=True)
class Bar:
    """A named bar with what it comes to."""

    name: str
    value: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Series:
    """What parts of one look are, and their colour on the page."""

    name: str
    color: str


@dataclass(frozen=True)
class BarChart:
    """Bars below each other; of more than ``most`` the rest is counted."""

    head: str
    series: tuple[Series, ...]
    bars: tuple[Bar, ...]
    most: int
    note: str = ""
    # Where names stand: at their bar, or at the left, where they are moved in by what they are in.
    align: str = ">"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = self.bars[: self.most]
        width, plainly = min(options.max_width, _MOST_WIDE), options.ascii_only
        names = min(max((len(bar.name) for bar in shown), default=0), width * 2 // 5)
        values = max((len(bar.value) for bar in shown), default=0)
        room = max(width - names - values - 2, 8)
        yield _text(self.head, plainly)
        if len(self.series) > 1:
            yield self._legend(plainly)
        for bar in shown:
            line = _text(f"{fmt.middle(bar.name, names):>{names}} ", plainly)
            yield line.append_text(self._drawn(bar, room, plainly)).append_text(
                _text(f" {bar.value:>{values}}", plainly)
            )
        if rest := len(self.bars) - len(shown):
            yield _text(f"{fmt.plural(rest, 'more bar')}; show them with --limit", plainly, "dim")
        if self.note:
            yield _text(self.note, plainly, "dim")

    def _legend(self, plainly: bool) -> Text:
        line = Text()
        for i, series in enumerate(self.series):
            line.append(_fill(i, plainly) * 2, series.color).append_text(_text(f" {series.name}  ", plainly))
        return line

    def _drawn(self, bar: Bar, room: int, plainly: bool) -> Text:
        # Ends are rounded, not widths, so that parts add up to their bar.
        ends = [round(end * room / 100) for end in accumulate(part.percent for part in bar.parts)]
        line = Text()
        for part, start, end in zip(bar.parts, (0, *ends), ends, strict=False):
            line.append(_fill(part.series, plainly) * (end - start), self.series[part.series].color)
        if not ends or not ends[-1]:
            line.append((_PLAIN_THIN if plainly else _THIN) if any(part.percent > 0 for part in bar.parts) else "")
        line.truncate(room)
        line.pad_right(room - len(line))
        return line


@dataclass(frozen=True)
class Grid:
    """Points between two axes."""

    x: Axis
    y: Axis
    series: tuple[Series, ...]
    # Of each series: how far its points are across and up, in percent.
    points: tuple[tuple[tuple[float, float], ...], ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, plainly = min(options.max_width, _MOST_WIDE), options.ascii_only
        marks = {_line_of(tick.at): tick.text for tick in self.y.ticks}
        left = max(map(len, marks.values()), default=0)
        room = max(width - left - 2, 8)
        cells = [[-1] * room for _ in range(_HEIGHT)]
        for i, points in enumerate(self.points):
            for across, up in points:
                if 0 <= across <= 100 and 0 <= up <= 100:
                    cells[_line_of(up)][min(int(across * room / 100), room - 1)] = i
        yield _text(self.y.title, plainly)
        if len(self.series) > 1:
            yield self._legend(plainly)
        for number, row in enumerate(cells):
            line = _text(f"{marks.get(number, ''):>{left}} ", plainly).append("|" if plainly else "│", "dim")
            for i in row:
                line.append(" ") if i < 0 else line.append(_point(i, plainly), self.series[i].color)
            yield line
        yield _text(" " * (left + 1), plainly).append(
            ("+" if plainly else "└") + ("-" if plainly else "─") * room, "dim"
        )
        yield _text(" " * (left + 2) + self._below(room), plainly)
        yield _text(f"{self.x.title:^{room}}".rjust(left + 2 + room), plainly)

    def _legend(self, plainly: bool) -> Text:
        line = Text()
        for i, series in enumerate(self.series[: len(_FILLS)]):
            line.append(_point(i, plainly), series.color).append_text(_text(f" {series.name}  ", plainly))
        if more := len(self.series) - len(_FILLS):
            line.append("" if more < 0 else f"and {more} more", "dim")
        return line

    def _below(self, room: int) -> str:
        """Texts of the axis across, those that find room."""
        line = ""
        for tick in sorted(self.x.ticks, key=lambda tick: tick.at):
            start = max(0, min(int(tick.at * room / 100) - len(tick.text) // 2, room - len(tick.text)))
            if start >= len(line) + (2 if line else 0):
                line = line.ljust(start) + tick.text
        return line


Chart = BarChart | Grid | Text


def chart(drawing: dict[str, Any], most: int) -> Chart:
    """What a terminal shows of a ``drawing``, which is in Plotly's form; a sentence where there is nothing to draw.

    Args:
        drawing: What present.figures made of an analysis' chart.
        most: How many bars.
    """
    drawn = picture(drawing)
    if isinstance(drawn, Rows):
        return _of_rows(drawn, most)
    if isinstance(drawn, Boxes):
        return _of_boxes(drawn, drawing, most)
    if isinstance(drawn, Bands):
        return _of_bands(drawn, drawing, most)
    if isinstance(drawn, Plane):
        has_bars = drawing["data"][0]["type"] == "bar"
        return _of_columns(drawn, drawing, most) if has_bars else _of_points(drawn, drawing)
    notes = drawing["layout"].get("annotations", [{"text": "Nothing to draw."}])
    return Text(plain(notes[0]["text"]))


def _of_rows(drawn: Rows, most: int) -> BarChart:
    colors = list(dict.fromkeys(piece.color for row in drawn.rows for piece in row.pieces))
    names = {key.color: key.text for key in drawn.legend}
    bars = tuple(
        Bar(row.name, f"{row.value} {row.share:>6}", tuple(Part(p.width, colors.index(p.color)) for p in row.pieces))
        for row in drawn.rows
    )
    return BarChart(drawn.title, tuple(Series(names.get(c, ""), c) for c in colors), bars, most, drawn.note)


def _of_boxes(drawn: Boxes, drawing: dict[str, Any], most: int) -> BarChart:
    """Boxes of a tree in the order that one reads them, each below and right of the one that it is in."""
    ordered = sorted(drawn.boxes, key=lambda box: (box.left, box.depth))
    bars = tuple(
        Bar("  " * box.depth + box.name, box.told.partition(": ")[2], (Part(box.width, 0),)) for box in ordered
    )
    return BarChart(title(drawing["layout"]), (Series("", "#2f7fc1"),), bars, most, align="<")


def _of_bands(drawn: Bands, drawing: dict[str, Any], most: int) -> BarChart:
    link = drawing["data"][0]["link"]
    largest = max(link["value"]) or 1.0
    pairs = sorted(zip(_in_order(link), drawn.bands, strict=True), key=lambda pair: -pair[0])
    told = [(band.told.rsplit(": ", 1), value) for value, band in pairs]
    bars = tuple(Bar(name, said, (Part(100 * value / largest, 0),)) for (name, said), value in told)
    return BarChart(f"{drawn.title_left} {drawn.title_right}", (Series("", "#d95f0e"),), bars, most, drawn.note)


def _in_order(link: dict[str, Any]) -> list[float]:
    """The widths of bands in the order that they are drawn in."""
    rows = zip(link["source"], link["target"], link["value"], strict=True)
    return [value for *_, value in sorted(rows, key=lambda row: row[:2])]


def _of_columns(drawn: Plane, drawing: dict[str, Any], most: int) -> BarChart:
    """A bar between two axes for each place; of bars beside each other one to a line."""
    traces = [trace for trace in drawing["data"] if trace["type"] == "bar"]
    labels = drawing["layout"]["meta"]["labels"]
    is_stacked = drawing["layout"].get("barmode") == "stack"
    series = tuple(Series(plain(trace["name"]), trace["marker"]["color"]) for trace in traces)
    groups = [list(range(len(traces)))] if is_stacked else [[i] for i in range(len(traces))]
    rows = [
        (label if not line else "", [(traces[i]["y"][place], i) for i in group if traces[i]["y"][place] is not None])
        for place, label in enumerate(labels)
        for line, group in enumerate(groups)
    ]
    largest = max((sum(max(value, 0.0) for value, _ in row) for _, row in rows), default=0.0) or 1.0
    bars = tuple(
        Bar(
            plain(label),
            _said(row, traces[0].get("meta", {})),
            tuple(Part(100 * max(value, 0.0) / largest, i) for value, i in row),
        )
        for label, row in rows
    )
    across = drawn.x.title.lower()
    head = f"{title(drawing['layout']['yaxis'])} by {across}".strip()
    return BarChart(head, series, bars, most)


def _said(row: list[tuple[float, int]], form: dict[str, Any]) -> str:
    if not row:
        return fmt.NOTHING
    return f"{sum(value for value, _ in row):,.{form.get('decimals', 0)}f} {form.get('unit', '')}".strip()


def _of_points(drawn: Plane, drawing: dict[str, Any]) -> Grid:
    traces = drawing["data"]
    series = tuple(Series(plain(trace["name"]), _color(trace)) for trace in traces)
    return Grid(drawn.x, drawn.y, series, tuple(tuple(_places(trace, drawn)) for trace in traces))


def _places(trace: dict[str, Any], drawn: Plane) -> Iterator[tuple[float, float]]:
    """Where points are, and of a line also those between them."""
    before: tuple[float, float] | None = None
    for across, up in zip(trace["x"], trace["y"], strict=True):
        x, y = drawn.x.percent(across), drawn.y.percent(up)
        if x is None or y is None:
            before = None
            continue
        if before is not None and trace["mode"] == "lines":
            yield from _between(before, (x, y))
        yield x, y
        before = x, y


def _between(start: tuple[float, float], end: tuple[float, float]) -> Iterator[tuple[float, float]]:
    """A point for each character between two."""
    wide, tall = end[0] - start[0], end[1] - start[1]
    steps = max(1, min(_MOST_WIDE, round(abs(wide) * _MOST_WIDE / 100)))
    for step in range(1, steps):
        yield start[0] + wide * step / steps, start[1] + tall * step / steps


def _color(trace: dict[str, Any]) -> str:
    look: dict[str, Any] = trace["line"] if trace["mode"] == "lines" else trace["marker"]
    return str(look["color"])


def _line_of(up: float) -> int:
    return _HEIGHT - 1 - min(int(up * _HEIGHT / 100), _HEIGHT - 1)


def _fill(i: int, plainly: bool) -> str:
    fills = _PLAIN_FILLS if plainly else _FILLS
    return fills[i % len(fills)]


def _point(i: int, plainly: bool) -> str:
    points = "*o+x#@" if plainly else "●○◆◇▲△"
    return points[i % len(points)]


def _text(said: str, plainly: bool, style: str = "") -> Text:
    printable = fmt.printable(said)
    return Text(printable.translate(_PLAIN) if plainly else printable, style, no_wrap=True, overflow="ellipsis")
