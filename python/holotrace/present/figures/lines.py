"""Lines over time, one for each rank, device or stream."""

from __future__ import annotations

import polars as pl

from holotrace.core.charts import Line
from holotrace.present import format as fmt
from holotrace.present.figures.colors import COLORS, MORE_COLORS, color
from holotrace.present.figures.style import (
    Columns,
    Drawing,
    axis_style,
    axis_title,
    layout_of,
    markup,
    scaled,
    values_axis,
    written,
)

_LINES_WITH_LEGEND = 12


def lines(chart: Line, table: pl.DataFrame, columns: Columns) -> Drawing:
    by, unit_layout = values_axis(chart.y, table, columns)
    across = fmt.scale(columns[chart.x], table[chart.x])
    groups = table.partition_by(chart.by, maintain_order=True) if chart.by else [table]
    many = len(groups) * len(chart.y) > _LINES_WITH_LEGEND
    traces = []
    for position, (group, name) in enumerate((group, name) for group in groups for name in chart.y):
        owner = f"{fmt.label(columns[chart.by])} {group[chart.by][0]}" if chart.by else ""
        title = " ".join(part for part in (owner, fmt.label(columns[name]) if len(chart.y) > 1 else "") if part)
        title = markup(fmt.printable(title or fmt.label(columns[name])))
        palette = [*COLORS.values(), *MORE_COLORS]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": title,
                "x": scaled(group[chart.x], across) if fmt.is_number(columns[chart.x]) else group[chart.x].to_list(),
                "y": scaled(group[name], by),
                "opacity": 0.5 if many else 1.0,
                "line": {
                    "width": 1 if many else 2,
                    **({"shape": "hv"} if chart.holds else {}),
                    "color": palette[position % len(palette)] if chart.by else color(name, position),
                },
                "hovertemplate": f"%{{x}}: %{{y:,.{by.decimals}f}} {by.unit}<extra>{title}</extra>",
                "meta": written(by),
            }
        )
    layout = layout_of(chart, height=340, legend=len(traces) > 1 and not many)
    layout |= {
        "hovermode": "closest",
        "xaxis": axis_style() | {"title": {"text": axis_title(columns[chart.x], across)}},
        "yaxis": axis_style() | unit_layout,
    }
    return {"data": traces, "layout": layout}
