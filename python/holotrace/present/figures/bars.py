"""Bars between two axes, beside or on each other; where they were too many, points."""

from __future__ import annotations

from typing import Any

import polars as pl

from holotrace.core.charts import Bar, Chart, OverSteps, Stacked
from holotrace.core.schema import Unit
from holotrace.present import format as fmt
from holotrace.present.figures.colors import color
from holotrace.present.figures.places import LABELLED, axis_of, labels_of, telling
from holotrace.present.figures.style import (
    Columns,
    Drawing,
    axis_style,
    layout_of,
    rounded,
    scaled,
    values_axis,
    written,
)

_SPREAD = {"most": "#c4314b", "least": "#5b6676"}
_BARS_BESIDE_EACH_OTHER = 500  # more would be narrower than two pixels, and hide each other


def placed(chart: Bar, table: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """The rows that have a bar."""
    of_ranks = table.drop_nulls(chart.x) if columns[chart.x].unit is Unit.RANK else table
    if not chart.is_summed:
        return of_ranks
    place = [name for name in (chart.x, "step") if name in table.columns]
    return of_ranks.group_by(place).agg(pl.col(chart.y).sum()).sort(place)


def bars(chart: Chart, table: pl.DataFrame, columns: Columns) -> Drawing:
    stacked = isinstance(chart, Stacked)
    axis = axis_of(columns[chart.x], table, columns)
    by, unit_layout = values_axis(chart.y, table, columns)
    if isinstance(chart, Bar) and chart.is_summed:
        unit_layout["title"]["text"] += ", in sum"
    whole = table.select(pl.sum_horizontal(chart.y)).to_series() if stacked else None
    traces = []
    for position, name in enumerate(chart.y):
        shown = f"%{{y:,.{by.decimals}f}} {by.unit}"
        trace: dict[str, Any] = {
            "type": "bar",
            "name": fmt.label(columns[name]),
            "x": axis.positions,
            "y": scaled(table[name], by),
            "marker": {"color": color(name, position), "line": {"width": 0}},
            "hovertemplate": f"{shown}<extra>{fmt.label(columns[name])}</extra>",
            "meta": written(by),
        }
        if whole is not None:
            trace["customdata"] = rounded(table[name] / whole, 4)
            trace["hovertemplate"] = f"{shown} (%{{customdata:.1%}})<extra>{fmt.label(columns[name])}</extra>"
        traces.append(trace)
    layout = layout_of(chart, height=340, legend=len(traces) > 1)
    layout |= {
        "barmode": "stack" if stacked else "group",
        "bargap": 0.35 if table.height <= LABELLED else 0.15 if table.height <= 128 else 0.0,
        "hovermode": "x unified",
        "meta": {"labels": axis.labels},
        "xaxis": axis_style() | {"showgrid": False} | axis.layout,
        "yaxis": axis_style() | unit_layout,
    }
    return {"data": traces, "layout": layout}


def bars_or_points(chart: Bar, table: pl.DataFrame, columns: Columns) -> Drawing:
    many = table.height * len(chart.y) > _BARS_BESIDE_EACH_OTHER
    return (points if many else bars)(chart, table, columns)


def over_steps(chart: OverSteps, table: pl.DataFrame, columns: Columns) -> Drawing:
    """The mean rank's parts as bars, and the least and the most of any rank as lines."""
    means = table.group_by(chart.x).agg(pl.col(chart.y).mean()).sort(chart.x)
    ends = table.group_by(chart.x).agg(least=pl.col(chart.whole).min(), most=pl.col(chart.whole).max()).sort(chart.x)
    drawn = bars(Stacked(chart.x, chart.y, chart.title), means, columns)
    by, unit_layout = values_axis((chart.whole,), table, columns)
    if table["rank"].n_unique() > 1:
        for name in ("most", "least"):
            drawn["data"].append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": f"{fmt.label(columns[chart.whole])}, {name} of any rank",
                    "x": drawn["data"][0]["x"],
                    "y": scaled(ends[name], by),
                    "line": {"width": 1.5, "color": _SPREAD[name]},
                    "hovertemplate": f"%{{y:,.{by.decimals}f}} {by.unit}<extra>{name}</extra>",
                    "meta": written(by),
                }
            )
    for trace, name in zip(drawn["data"], chart.y, strict=False):
        # All in the unit of the whole, so that lines stand where bars end.
        trace |= {"y": scaled(means[name], by), "meta": written(by)}
    drawn["layout"]["yaxis"] = axis_style() | unit_layout | {"title": {"text": f"Time [{by.unit}]"}}
    return drawn


def points(chart: Chart, table: pl.DataFrame, columns: Columns) -> Drawing:
    """A point per row and ``y`` column, all rows of one ``x`` above each other."""
    x = columns[chart.x]
    places = table.unique(chart.x, maintain_order=True)
    axis = axis_of(x, places, columns)
    place = dict(zip(places[chart.x], axis.positions, strict=True))
    by, unit_layout = values_axis(chart.y, table, columns)
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": fmt.label(columns[name]),
            "x": [place[value] for value in table[chart.x]],
            "y": scaled(table[name], by),
            "customdata": labels_of(telling(x, table, columns), table),
            "marker": {"color": color(name, position), "size": 4, "opacity": 0.7},
            "hovertemplate": (
                f"%{{customdata}}<br>%{{y:,.{by.decimals}f}} {by.unit}<extra>{fmt.label(columns[name])}</extra>"
            ),
            "meta": written(by),
        }
        for position, name in enumerate(chart.y)
    ]
    layout = layout_of(chart, height=340, legend=len(traces) > 1)
    layout |= {"hovermode": "closest", "xaxis": axis_style() | axis.layout, "yaxis": axis_style() | unit_layout}
    return {"data": traces, "layout": layout}
