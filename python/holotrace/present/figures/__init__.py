"""Charts as declared, drawn with Plotly."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import polars as pl

from holotrace.core.analysis import Analysis
from holotrace.core.charts import Bar, Chart, Line, Links, OverSteps, Ranking, Roofline, Stacked, Tree
from holotrace.errors import UsageError
from holotrace.present import format as fmt
from holotrace.present.figures import heat, rooflines, trees
from holotrace.present.figures.bars import bars, bars_or_points, over_steps, placed
from holotrace.present.figures.colors import COLORS, color, colors
from holotrace.present.figures.lines import lines
from holotrace.present.figures.links import links
from holotrace.present.figures.ranking import ranking
from holotrace.present.figures.style import Columns, Drawing, axis_style, layout_of, nothing

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["COLORS", "Drawing", "color", "colors", "drawing", "drawings", "figure"]


def figure(analysis: Analysis[Any], table: pl.DataFrame) -> Figure:
    """The chart ``analysis`` declares, drawn from its ``table``."""
    from plotly.graph_objects import Figure  # noqa: PLC0415  # takes as long as all other imports together

    return Figure(drawing(analysis, table))


def drawing(analysis: Analysis[Any], table: pl.DataFrame) -> Drawing:
    """The same chart as plain data, as a page embeds it."""
    if analysis.chart is None:
        raise UsageError(f"{analysis.name} declares no chart; look at its table instead")
    chart, columns = analysis.chart, {column.name: column for column in analysis.columns}
    if isinstance(chart, (Bar, Stacked)) and not table.is_empty():
        chart, table, columns = placed(chart, table, columns)
    if table.is_empty():
        return nothing()
    for kind, draw in _DRAWN:
        if isinstance(chart, kind):
            return draw(chart, table, columns)
    raise UsageError(f"{analysis.name} declares a {type(chart).__name__}, which present.figures cannot draw yet")


def drawings(analysis: Analysis[Any], table: pl.DataFrame) -> tuple[Drawing, ...]:
    """The chart, and where ranks are compared step by step or name by name a map of them."""
    chart = analysis.chart
    if chart is None:
        return ()
    maps = []
    columns = {column.name: column for column in analysis.columns}
    if isinstance(chart, OverSteps):
        maps = [heat.trace(table, columns[chart.x], columns[name]) for name in (chart.whole, chart.y[0])]
    elif isinstance(chart, Ranking) and chart.compares_ranks:
        maps = [heat.trace(table, columns[chart.x], columns[name], most=chart.top) for name in chart.y]
    layouts = {"template": "none", "height": 340, "yaxis": {"title": {"text": "Rank"}}}
    return (drawing(analysis, table), *({"data": [one], "layout": dict(layouts)} for one in maps if one))


def _roofline(chart: Roofline, table: pl.DataFrame, columns: Columns) -> Drawing:
    parts = table[chart.by].drop_nulls().unique().sort().to_list()
    traces = rooflines.traces(chart, table, dict(zip(parts, colors(parts), strict=True)))
    if not traces:
        return nothing("Nothing to draw: of no row both speed and work per byte are known.")
    layout = layout_of(chart, height=460, legend=True)
    axes = {name: axis_style() | axis for name, axis in rooflines.layout().items()}
    return {"data": traces, "layout": layout | {"hovermode": "closest"} | axes}


def _tree(chart: Tree, table: pl.DataFrame, columns: Columns) -> Drawing:
    boxes = trees.traces(chart, table, fmt.scale(columns[chart.total], table[chart.total]))
    if not boxes:
        return nothing("Nothing to draw: nothing that was launched ran on a device.")
    return {"data": boxes, "layout": layout_of(chart, height=460, legend=False)}


# What draws each kind of chart.
_DRAWN: tuple[tuple[type[Chart], Callable[[Any, pl.DataFrame, Columns], Drawing]], ...] = (
    (Ranking, ranking),
    (Line, lines),
    (Links, links),
    (Roofline, _roofline),
    (Tree, _tree),
    (OverSteps, over_steps),
    (Bar, bars_or_points),
    (Stacked, bars),
)
