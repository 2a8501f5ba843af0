"""Bars between two axes, beside or on each other; where they were too many, points."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from holotrace.core.charts import Bar, Chart, OverSteps, Stacked
from holotrace.core.schema import Unit
from holotrace.present import format as fmt
from holotrace.present.figures.colors import colors
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


def placed(chart: Chart, table: pl.DataFrame, columns: Columns) -> tuple[Chart, pl.DataFrame, Columns]:
    """A row for each bar, with the chart and the columns that they are of."""
    if isinstance(chart, Stacked) and chart.by:
        return _parts_by_value(chart, chart.by, table, columns)
    if columns[chart.x].unit is Unit.RANK:
        table = table.drop_nulls(chart.x)
    elif columns[chart.x].unit is Unit.STEP and not table[chart.x].is_unique().all():
        table = table.group_by(chart.x).agg(pl.col(chart.y).mean()).sort(chart.x)
    elif columns[chart.x].unit is Unit.TEXT:
        # What costs nothing, as recording does, has no bar.
        has_length = pl.any_horizontal(pl.col(chart.y) != 0)
        table = table.filter(has_length) if table.select(has_length.any()).item() else table
    return chart, table, {name: column for name, column in columns.items() if name in table.columns}


def _parts_by_value(
    chart: Stacked, by: str, table: pl.DataFrame, columns: Columns
) -> tuple[Chart, pl.DataFrame, Columns]:
    """One column for each value of the column ``by``, the largest first."""
    (y,) = chart.y
    unit = y.rpartition("_")[2]
    table = table.with_columns(pl.col(by).cast(pl.String).fill_null(fmt.NOTHING))
    sums = table.group_by(by).agg(pl.col(y).sum()).sort(y, by, descending=[True, False])
    names = {value: f"{value}_{unit}" for value in sums[by]}
    parts = table.pivot(by, index=chart.x, values=y, aggregate_function="sum").sort(chart.x).fill_null(0).rename(names)
    named = {name: replace(columns[y], name=name) for name in names.values()}
    return Stacked(chart.x, tuple(named), chart.title), parts, {chart.x: columns[chart.x], **named}


def bars(chart: Chart, table: pl.DataFrame, columns: Columns) -> Drawing:
    stacked = isinstance(chart, Stacked)
    axis = axis_of(columns[chart.x], table, columns)
    by, unit_layout = values_axis(chart.y, table, columns)
    whole = table.select(pl.sum_horizontal(chart.y)).to_series() if stacked else None
    # What is nowhere is no part of any bar.
    drawn = [name for name in chart.y if table[name].sum()] if stacked else []
    drawn = drawn or list(chart.y)
    traces = []
    for name, its_color in zip(drawn, colors(drawn), strict=True):
        shown = f"%{{y:,.{by.decimals}f}} {by.unit}"
        trace: dict[str, Any] = {
            "type": "bar",
            "name": fmt.label(columns[name]),
            "x": axis.positions,
            "y": scaled(table[name], by),
            "marker": {"color": its_color, "line": {"width": 0}},
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
    labels = {fmt.label(columns[name]): name for name in chart.y}
    for trace in drawn["data"]:
        # All in the unit of the whole, so that lines stand where bars end.
        if trace["type"] == "bar":
            trace |= {"y": scaled(means[labels[trace["name"]]], by), "meta": written(by)}
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
            "marker": {"color": its_color, "size": 4, "opacity": 0.7},
            "hovertemplate": (
                f"%{{customdata}}<br>%{{y:,.{by.decimals}f}} {by.unit}<extra>{fmt.label(columns[name])}</extra>"
            ),
            "meta": written(by),
        }
        for name, its_color in zip(chart.y, colors(chart.y), strict=True)
    ]
    layout = layout_of(chart, height=340, legend=len(traces) > 1)
    layout |= {"hovermode": "closest", "xaxis": axis_style() | axis.layout, "yaxis": axis_style() | unit_layout}
    return {"data": traces, "layout": layout}
