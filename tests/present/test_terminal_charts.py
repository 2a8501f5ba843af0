"""What a terminal shows of charts."""

import io
from typing import Any

import made_up
import polars as pl
import pytest
from rich.console import Console

from holotrace.analyses import ALL
from holotrace.core.analysis import Analysis
from holotrace.core.schema import Unit
from holotrace.present import figures
from holotrace.present.terminal_charts import chart


def shown(drawing: dict[str, Any], width: int = 80, most: int = 20, encoding: str = "utf-8") -> list[str]:
    """The lines of a chart on a terminal of this width and encoding."""
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(file=file, width=width).print(chart(drawing, most))
    file.seek(0)
    return file.read().splitlines()


TIMES = figures.drawing(made_up.time_breakdown, made_up.make(8).tables["time_breakdown"])


def test_parts_of_a_bar_add_up_to_it() -> None:
    head, legend, *bars = shown(TIMES)
    assert head.rstrip() == "Time [ms] by rank"
    assert [word for word in ("Compute", "Exposed communication", "Idle") if word not in legend] == []
    values = [float(bar.split()[-2]) for bar in bars]
    widths = [sum(bar.count(fill) for fill in "█▓▒░") for bar in bars]
    longest = max(widths)
    assert len(bars) == 8 and longest > 50
    for value, width in zip(values, widths, strict=True):
        assert width / longest == pytest.approx(value / max(values), abs=1.5 / longest)


@pytest.mark.parametrize("width", [30, 80, 200])
def test_a_chart_is_as_wide_as_the_terminal_and_never_wider(width: int) -> None:
    for name in ("time_breakdown", "kernels"):
        analysis = getattr(made_up, name)
        lines = shown(figures.drawing(analysis, made_up.make(8).tables[name]), width)
        assert max(map(len, lines)) <= min(width, 160)
    assert max(map(len, shown(TIMES, width))) == min(width, 160)


def test_a_terminal_without_utf_8_gets_ascii() -> None:
    for name in ("time_breakdown", "kernels"):
        lines = shown(figures.drawing(getattr(made_up, name), made_up.make(2).tables[name]), encoding="ascii")
        assert "".join(lines).isascii() and "#" in "".join(lines) and "?" not in "".join(lines)


def test_the_longest_bars_are_drawn_and_the_rest_is_counted() -> None:
    drawing = figures.drawing(made_up.kernels, made_up.make(1).tables["kernels"])
    lines = shown(drawing, most=3)
    assert sum(line.rstrip().endswith("%") for line in lines) == 3
    assert any("12 more bars; show them with --limit" in line for line in lines)


def test_a_line_is_drawn_between_its_points() -> None:
    line = {
        "type": "scatter",
        "mode": "lines",
        "name": "queue",
        "x": [0, 100],
        "y": [0, 10],
        "line": {"color": "#ff0000"},
    }
    layout = {"height": 300, "xaxis": {}, "yaxis": {"rangemode": "tozero"}}
    rows = [text.partition("│")[2] for text in shown({"data": [line], "layout": layout}) if "│" in text]
    places = [row.find("●") for row in rows if "●" in row]
    assert len(places) > 10 and places == sorted(places, reverse=True)


def test_bands_name_who_waited_for_whom() -> None:
    waits = next(analysis for analysis in ALL if analysis.name == "waits")
    table = waits.nothing.clear(2).with_columns(
        waiting_rank=pl.Series([0, 1], dtype=pl.Int32),
        rank=pl.Series([2, 2], dtype=pl.Int32),
        excess_ns=pl.Series([1_000_000, 3_000_000], dtype=pl.Int64),
    )
    lines = shown(figures.drawing(waits, table))
    assert [line.split()[:5] for line in lines[1:]] == [["Rank", n, "→", "Rank", "2"] for n in ("1", "0")]
    assert lines[1].count("█") > 2 * lines[2].count("█")


@pytest.mark.parametrize("analysis", [a for a in ALL if a.chart is not None], ids=lambda analysis: analysis.name)
def test_every_declared_chart_is_drawn_also_of_hostile_names(analysis: Analysis[Any]) -> None:
    table = analysis.nothing.clear(2).with_columns(
        *(pl.lit("\x1b[31m<a>[bold]").cast(c.unit.dtype).alias(c.name) for c in analysis.columns if is_text(c.unit)),
        *(
            pl.Series(c.name, [1, 2]).cast(c.unit.dtype)
            for c in analysis.columns
            if c.unit.dtype.is_numeric() and c.unit is not Unit.RANKS
        ),
    )
    text = "\n".join(shown(figures.drawing(analysis, table)))
    assert text and "\x1b[31m" not in text


def is_text(unit: Unit) -> bool:
    return unit in (Unit.TEXT, Unit.LABEL)


def test_a_chart_of_nothing_is_a_sentence() -> None:
    (line,) = shown(figures.drawing(made_up.kernels, made_up.empty().tables["kernels"]))
    assert line.rstrip() == "Nothing to draw: the table is empty."
