"""What charts share: axes, scales, margins, and names that Plotly takes for no markup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from holotrace.core.charts import Chart
from holotrace.core.schema import Column, Unit
from holotrace.present import format as fmt

# Plotly's own form of a chart: {"data": [trace, …], "layout": {…}}.
Drawing = dict[str, Any]
Columns = dict[str, Column]

_QUANTITIES = {Unit.NS: "Time", Unit.BYTES: "Size", Unit.COUNT: "Count", Unit.RATIO: "Share"}
_GRID = "rgba(128, 136, 148, 0.25)"
_TITLE_HEIGHT = 28  # pixels


def values_axis(names: Sequence[str], table: pl.DataFrame, columns: Columns) -> tuple[fmt.Scale, dict[str, Any]]:
    """The scale shared by all drawn columns, and the layout of their axis."""
    column = columns[names[0]]
    by = fmt.scale(column, pl.concat([table[name].cast(pl.Float64).alias("v") for name in names]))
    layout: dict[str, Any] = {"title": {"text": axis_title(column, by, alone=len(names) == 1)}}
    layout |= {"rangemode": "tozero", "separatethousands": True}
    if column.unit is Unit.RATIO:
        layout |= {"ticksuffix": "%", "title": {"text": axis_title(column, fmt.Scale(), alone=len(names) == 1)}}
        # A share is shown of its whole; other ratios may be more.
        if not any((most := table[name].max()) is not None and most > 1 for name in names):  # type: ignore[operator]  # of floats
            layout |= {"range": [0, 100]}
    return by, layout


def axis_title(column: Column, by: fmt.Scale, *, alone: bool = True) -> str:
    """What an axis says: the column's name, or the quantity that several columns share."""
    what = fmt.label(column) if alone else _QUANTITIES.get(column.unit, "")
    return f"{what} [{by.unit}]".strip() if by.unit else what


def written(by: fmt.Scale) -> dict[str, Any]:
    """How the page writes its values."""
    return {"unit": by.unit, "decimals": by.decimals}


def scaled(values: pl.Series, by: fmt.Scale) -> list[Any]:
    if by.factor == 1.0 and not values.dtype.is_float():
        return values.to_list()
    return rounded(values.cast(pl.Float64) * by.factor, by.decimals + 2)


def rounded(values: pl.Series, decimals: int) -> list[Any]:
    # What a sum or a counter made infinite has no place on an axis, nor in JSON.
    finite = pl.select(pl.when(values.is_finite()).then(values)).to_series()
    return finite.round(decimals).to_list()


def markup(text: str) -> str:
    """The text as Plotly's markup, which knows these three entities but no quotes."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def wrapped(name: str, width: int = 80) -> str:
    """A long name on several lines, safe in Plotly's own markup."""
    pieces = [name[i : i + width] for i in range(0, min(len(name), 8 * width), width)]
    return "<br>".join(markup(piece) for piece in pieces)


def axis_style() -> dict[str, Any]:
    return {
        "gridcolor": _GRID,
        "zerolinecolor": _GRID,
        "linecolor": _GRID,
        "ticks": "",
        "zeroline": False,
        "automargin": True,
    }


def layout_of(chart: Chart, *, height: int, legend: bool, below: int = 0) -> dict[str, Any]:
    height += _TITLE_HEIGHT if chart.title else 0
    top = 24 + (_TITLE_HEIGHT if chart.title else 0) + (20 if legend else 0)
    return {
        "showlegend": legend,
        "template": "none",
        "title": {"text": markup(chart.title), "x": 0, "xref": "paper", "xanchor": "left", "font": {"size": 15}},
        "height": height,
        "margin": {"l": 64, "r": 16, "t": top, "b": 64 + below},
        "font": {"family": "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", "size": 13},
        "legend": {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1.02,
            "yanchor": "bottom",
            "traceorder": "normal",
        },
    }


def note_below(text: str) -> dict[str, Any]:
    """A line under the axis' title, flush right."""
    place = {"xref": "paper", "x": 1, "xanchor": "right", "yref": "paper", "y": 0, "yanchor": "top", "yshift": -58}
    return {"text": text, "showarrow": False, "font": {"size": 12}, **place}


def nothing(text: str = "Nothing to draw: the table is empty.") -> Drawing:
    hidden = {"visible": False}
    note: dict[str, Any] = {"text": text, "showarrow": False, "x": 0.5, "y": 0.5}
    note |= {"xref": "paper", "yref": "paper"}
    layout = {"template": "none", "height": 160, "xaxis": hidden, "yaxis": hidden, "annotations": [note]}
    return {"data": [], "layout": layout}
