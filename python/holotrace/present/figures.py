"""Charts as declared, drawn with Plotly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from holotrace.core.analysis import Analysis
from holotrace.core.charts import Bar, Chart, Line, OverSteps, Ranking, Roofline, Stacked, Tree
from holotrace.core.schema import Column, Unit
from holotrace.errors import UsageError
from holotrace.present import format as fmt
from holotrace.present import heat, rooflines, trees

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# One colour per concept, in every chart. Hues after Okabe and Ito: apart for colour-blind readers,
# readable on white and on black.
COLORS = {
    "hidden": "#f2b680",
    "communication": "#d95f0e",
    "compute": "#2f7fc1",
    "memory": "#2a9d78",
    "idle": "#a9b1ba",
    "sync": "#d9a400",
    "other": "#a977b8",
    "compilation": "#c2577f",
    "input": "#7a9a01",
    "tracing": "#6b7fd7",
    "dispatch": "#5ab4e5",
    "read back": "#8c6d31",
}
_MORE_COLORS = ("#5ab4e5", "#8c6d31", "#c2577f", "#6b7fd7", "#7a9a01")
# Words of column names and kernel kinds that stand for a concept; the first that fits wins.
_CONCEPTS = (
    ("hidden", "hidden"),
    ("comm", "communication"),
    ("moving", "communication"),
    ("memory", "memory"),
    ("copy", "memory"),
    ("exposed", "communication"),
    ("idle", "idle"),
    ("wait", "sync"),
    ("unattributed", "idle"),
    ("sync", "sync"),
    ("compute", "compute"),
    ("busy", "compute"),
    ("work", "compute"),
    ("program", "compute"),
    ("compil", "compilation"),
    ("input", "input"),
    ("tracing", "tracing"),
    ("dispatch", "dispatch"),
    ("upload", "memory"),
    ("read_back", "read back"),
    ("other", "other"),
)
# Plotly's own form of a chart: {"data": [trace, …], "layout": {…}}.
Drawing = dict[str, Any]

_QUANTITIES = {Unit.NS: "Time", Unit.BYTES: "Size", Unit.COUNT: "Count", Unit.RATIO: "Share"}
_SPREAD = {"most": "#c4314b", "least": "#5b6676"}
_GRID = "rgba(128, 136, 148, 0.25)"
_NAME_WIDTH = 52  # characters of a kernel's name that fit beside its bar
_LABELLED = 33  # bars that each carry their label; beyond it Plotly picks round ones
_LINES_WITH_LEGEND = 12
_BARS_BESIDE_EACH_OTHER = 500  # more would be narrower than two pixels, and hide each other
_TITLE_HEIGHT = 28  # pixels


@dataclass(frozen=True)
class _Axis:
    """Where the rows of a table stand on the x axis, and the layout of that axis."""

    positions: list[Any]
    layout: dict[str, Any]
    # What each row is called.
    labels: list[str]


def figure(analysis: Analysis[Any], table: pl.DataFrame) -> Figure:
    """The chart ``analysis`` declares, drawn from its ``table``."""
    from plotly.graph_objects import Figure  # noqa: PLC0415  # takes as long as all other imports together

    return Figure(drawing(analysis, table))


def drawing(analysis: Analysis[Any], table: pl.DataFrame) -> Drawing:
    """The same chart as plain data, as a page embeds it."""
    if analysis.chart is None:
        raise UsageError(f"{analysis.name} declares no chart; look at its table instead")
    chart, columns = analysis.chart, {column.name: column for column in analysis.columns}
    if isinstance(chart, Bar):
        table = _placed(chart, table, columns)
        columns = {name: column for name, column in columns.items() if name in table.columns}
    if table.is_empty():
        return _nothing()
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


def untitled(layout: Mapping[str, Any]) -> dict[str, Any]:
    """The layout without its title and the room it takes, for a page whose heading says it."""
    if not layout.get("title", {}).get("text"):
        return dict(layout)
    margin = {**layout["margin"], "t": layout["margin"]["t"] - _TITLE_HEIGHT}
    return {**layout, "title": {}, "margin": margin, "height": layout["height"] - _TITLE_HEIGHT}


def color(name: str, position: int = 0) -> str:
    """The colour of the concept a column or a kind stands for; else one by ``position``."""
    for word, concept in _CONCEPTS:
        if word in name:
            return COLORS[concept]
    return _MORE_COLORS[position % len(_MORE_COLORS)]


def _placed(chart: Bar, table: pl.DataFrame, columns: dict[str, Column]) -> pl.DataFrame:
    """The rows that have a bar."""
    of_ranks = table.drop_nulls(chart.x) if columns[chart.x].unit is Unit.RANK else table
    if not chart.is_summed:
        return of_ranks
    place = [name for name in (chart.x, "step") if name in table.columns]
    return of_ranks.group_by(place).agg(pl.col(chart.y).sum()).sort(place)


def _bars(chart: Chart, table: pl.DataFrame, columns: dict[str, Column]) -> Drawing:
    stacked = isinstance(chart, Stacked)
    axis = _axis(columns[chart.x], table, columns)
    by, unit_layout = _values(chart.y, table, columns)
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
            "y": _scaled(table[name], by),
            "marker": {"color": color(name, position), "line": {"width": 0}},
            "hovertemplate": f"{shown}<extra>{fmt.label(columns[name])}</extra>",
            "meta": _written(by),
        }
        if whole is not None:
            trace["customdata"] = _rounded(table[name] / whole, 4)
            trace["hovertemplate"] = f"{shown} (%{{customdata:.1%}})<extra>{fmt.label(columns[name])}</extra>"
        traces.append(trace)
    layout = _layout(chart, height=340, legend=len(traces) > 1)
    layout |= {
        "barmode": "stack" if stacked else "group",
        "bargap": 0.35 if table.height <= _LABELLED else 0.15 if table.height <= 128 else 0.0,
        "hovermode": "x unified",
        "meta": {"labels": axis.labels},
        "xaxis": _axis_style() | {"showgrid": False} | axis.layout,
        "yaxis": _axis_style() | unit_layout,
    }
    return {"data": traces, "layout": layout}


def _bars_or_points(chart: Bar, table: pl.DataFrame, columns: dict[str, Column]) -> Drawing:
    many = table.height * len(chart.y) > _BARS_BESIDE_EACH_OTHER
    return (_points if many else _bars)(chart, table, columns)


def _over_steps(chart: OverSteps, table: pl.DataFrame, columns: dict[str, Column]) -> Drawing:
    """The mean rank's parts as bars, and the least and the most of any rank as lines."""
    means = table.group_by(chart.x).agg(pl.col(chart.y).mean()).sort(chart.x)
    ends = table.group_by(chart.x).agg(least=pl.col(chart.whole).min(), most=pl.col(chart.whole).max()).sort(chart.x)
    drawn = _bars(Stacked(chart.x, chart.y, chart.title), means, columns)
    by, unit_layout = _values((chart.whole,), table, columns)
    if table["rank"].n_unique() > 1:
        for name in ("most", "least"):
            drawn["data"].append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": f"{fmt.label(columns[chart.whole])}, {name} of any rank",
                    "x": drawn["data"][0]["x"],
                    "y": _scaled(ends[name], by),
                    "line": {"width": 1.5, "color": _SPREAD[name]},
                    "hovertemplate": f"%{{y:,.{by.decimals}f}} {by.unit}<extra>{name}</extra>",
                    "meta": _written(by),
                }
            )
    for trace, name in zip(drawn["data"], chart.y, strict=False):
        # All in the unit of the whole, so that lines stand where bars end.
        trace |= {"y": _scaled(means[name], by), "meta": _written(by)}
    drawn["layout"]["yaxis"] = _axis_style() | unit_layout | {"title": {"text": f"Time [{by.unit}]"}}
    return drawn


def _points(chart: Chart, table: pl.DataFrame, columns: dict[str, Column]) -> Drawing:
    """A point per row and ``y`` column, all rows of one ``x`` above each other."""
    x = columns[chart.x]
    places = table.unique(chart.x, maintain_order=True)
    axis = _axis(x, places, columns)
    place = dict(zip(places[chart.x], axis.positions, strict=True))
    by, unit_layout = _values(chart.y, table, columns)
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": fmt.label(columns[name]),
            "x": [place[value] for value in table[chart.x]],
            "y": _scaled(table[name], by),
            "customdata": _labels(_telling(x, table, columns), table),
            "marker": {"color": color(name, position), "size": 4, "opacity": 0.7},
            "hovertemplate": (
                f"%{{customdata}}<br>%{{y:,.{by.decimals}f}} {by.unit}<extra>{fmt.label(columns[name])}</extra>"
            ),
            "meta": _written(by),
        }
        for position, name in enumerate(chart.y)
    ]
    layout = _layout(chart, height=340, legend=len(traces) > 1)
    layout |= {"hovermode": "closest", "xaxis": _axis_style() | axis.layout, "yaxis": _axis_style() | unit_layout}
    return {"data": traces, "layout": layout}


def _ranking(chart: Ranking, table: pl.DataFrame, columns: dict[str, Column]) -> Drawing:
    # What has no value is no bar, as rows of a tree that contain others.
    table = table.filter(pl.any_horizontal(pl.col(name).is_not_null() for name in chart.y))
    unnamed = pl.col(chart.x).cast(pl.String).fill_null("(no name)").alias("_name")
    kind = pl.col(chart.color).cast(pl.String).drop_nulls().first().fill_null("other") if chart.color else pl.lit("")
    sums, ranks = _per_rank(table, chart, unnamed, kind)
    bar = pl.sum_horizontal(chart.y)
    top = sums.sort(bar, "_name", descending=[True, False]).head(chart.top)
    by, unit_layout = _values(chart.y, top, columns)
    total = float(sums.select(bar.sum()).item()) or 1.0
    names = [fmt.printable(name) for name in top["_name"]]
    # Names may be equal once they are cut, so a bar's place is its position and the name only its tick.
    places = list(range(len(names)))
    parts = top["_kind"].unique(maintain_order=True).to_list() if chart.color else [None]
    traces = []
    for position, (part, name) in enumerate((part, name) for part in parts for name in chart.y):
        mine = [i for i in places if part is None or top["_kind"][i] == part]
        values = _scaled(top[name], by)
        spread = _spread(top, mine, by) if ranks > 1 and len(chart.y) == 1 else {}
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                **spread,
                "name": _markup(str(part)) if chart.color else fmt.label(columns[name]),
                "x": [values[i] for i in mine],
                "y": mine,
                "customdata": [[_wrapped(names[i]), (top[name][i] or 0) / total] for i in mine],
                "marker": {"color": color(str(part) if part else name, position), "line": {"width": 0}},
                "hovertemplate": (
                    f"%{{customdata[0]}}<br><b>%{{x:,.{by.decimals}f}} {by.unit}</b>{_of_ranks(ranks)} "
                    "(%{customdata[1]:.1%})<extra></extra>"
                ),
                "meta": _written(by),
            }
        )
    below = 20 if sums.height > len(names) else 0
    layout = _layout(chart, height=124 + below + 24 * max(len(names), 3), legend=len(traces) > 1, below=below)
    layout |= {
        "barmode": "stack",
        "bargap": 0.25,
        "hovermode": "closest",
        "xaxis": _axis_style()
        | unit_layout
        | {"title": {"text": unit_layout["title"]["text"] + _of_ranks(ranks, bool(len(chart.y) == 1))}},
        "yaxis": _axis_style()
        | {
            "showgrid": False,
            "tickvals": places,
            "ticktext": [_markup(fmt.middle(name, _NAME_WIDTH)) + " " for name in names],
            "range": [max(len(names), 3) - 0.5, -0.5],
        },
    }
    if below:
        covered = fmt.percent(float(top.select(bar.sum()).item()) / total)
        layout["annotations"] = [_note(f"the largest {len(names)} of {fmt.number(sums.height)}, {covered} of the sum")]
    return {"data": traces, "layout": layout}


def _per_rank(table: pl.DataFrame, chart: Ranking, name: pl.Expr, kind: pl.Expr) -> tuple[pl.DataFrame, int]:
    """What each name comes to on the average rank, ``_least`` and ``_most`` on any, and of how many ranks."""
    ranks = table["rank"].n_unique() if "rank" in table.columns else 1
    if ranks == 1:
        return table.group_by(name).agg(kind.alias("_kind"), *(pl.col(y).sum() for y in chart.y)), 1
    of_rank = table.group_by("rank", name).agg(kind.alias("_kind"), *(pl.col(y).sum() for y in chart.y))
    bar = pl.sum_horizontal(chart.y)
    # A rank without any has none of it.
    least = pl.when(pl.len() == ranks).then(bar.min()).otherwise(0)
    means = of_rank.group_by("_name").agg(
        pl.col("_kind").sort().first(), *(pl.col(y).sum() / ranks for y in chart.y), _least=least, _most=bar.max()
    )
    # In one order, so that sums of fractions are the same each time.
    return means.sort("_name"), ranks


def _spread(top: pl.DataFrame, mine: Sequence[int], by: fmt.Scale) -> Drawing:
    """Lines from the least to the most of any rank."""
    mean = pl.sum_horizontal(name for name in top.columns if not name.startswith("_"))
    beyond = top.select(most=pl.col("_most") - mean, least=mean - pl.col("_least"))[list(mine)]
    ends = {"array": _scaled(beyond["most"], by), "arrayminus": _scaled(beyond["least"], by)}
    return {"error_x": {"type": "data", "symmetric": False, "thickness": 1, "width": 3, "color": "#6b7280", **ends}}


def _of_ranks(ranks: int, has_spread: bool = False) -> str:
    if ranks == 1:
        return ""
    return f" per rank, mean of {ranks}" + (" and least to most" if has_spread else "")


def _lines(chart: Line, table: pl.DataFrame, columns: dict[str, Column]) -> Drawing:
    by, unit_layout = _values(chart.y, table, columns)
    across = fmt.scale(columns[chart.x], table[chart.x])
    groups = table.partition_by(chart.by, maintain_order=True) if chart.by else [table]
    many = len(groups) * len(chart.y) > _LINES_WITH_LEGEND
    traces = []
    for position, (group, name) in enumerate((group, name) for group in groups for name in chart.y):
        owner = f"{fmt.label(columns[chart.by])} {group[chart.by][0]}" if chart.by else ""
        title = " ".join(part for part in (owner, fmt.label(columns[name]) if len(chart.y) > 1 else "") if part)
        title = _markup(fmt.printable(title or fmt.label(columns[name])))
        palette = [*COLORS.values(), *_MORE_COLORS]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": title,
                "x": _scaled(group[chart.x], across) if fmt.is_number(columns[chart.x]) else group[chart.x].to_list(),
                "y": _scaled(group[name], by),
                "opacity": 0.5 if many else 1.0,
                "line": {
                    "width": 1 if many else 2,
                    "color": palette[position % len(palette)] if chart.by else color(name, position),
                },
                "hovertemplate": f"%{{x}}: %{{y:,.{by.decimals}f}} {by.unit}<extra>{title}</extra>",
                "meta": _written(by),
            }
        )
    layout = _layout(chart, height=340, legend=len(traces) > 1 and not many)
    layout |= {
        "hovermode": "closest",
        "xaxis": _axis_style() | {"title": {"text": _axis_title(columns[chart.x], across)}},
        "yaxis": _axis_style() | unit_layout,
    }
    return {"data": traces, "layout": layout}


def _axis(x: Column, table: pl.DataFrame, columns: dict[str, Column]) -> _Axis:
    """Places of the rows: at the rank itself where each has one row, else one after the other."""
    values = table[x.name]
    counted = x.unit in (Unit.RANK, Unit.STEP) and values.n_unique() == table.height and not values.null_count()
    if counted:
        low, high = int(values.cast(pl.Int64).min() or 0), int(values.cast(pl.Int64).max() or 0)
        if high - low < 4 * table.height + 8:
            # A few bars across the whole page look like walls; leave room for eight.
            room = max(0.0, (7 - (high - low)) / 2)
            layout: dict[str, Any] = {"title": {"text": fmt.label(x)}, "range": [low - room - 0.6, high + room + 0.6]}
            if high - low < _LABELLED:
                ticks = values.sort().to_list()
                layout |= {"tickvals": ticks, "ticktext": [str(tick) for tick in ticks]}
            else:
                layout |= {"nticks": 17, "tickformat": "d"}
            return _Axis(values.to_list(), layout, [f"{fmt.label(x)} {value}" for value in values])
    named = _telling(x, table, columns)
    labels = _labels(named, table)
    every = max(1, -(-len(labels) // _LABELLED))
    room = max(0.0, (8 - len(labels)) / 2)
    return _Axis(
        list(range(len(labels))),
        {
            "title": {"text": " · ".join(fmt.label(c) for c in named)},
            "tickvals": list(range(0, len(labels), every)),
            "ticktext": [fmt.middle(text, 24) for text in labels[::every]],
            "range": [-room - 0.6, len(labels) - 1 + room + 0.6],
        },
        labels,
    )


def _telling(x: Column, table: pl.DataFrame, columns: dict[str, Column]) -> list[Column]:
    """What tells rows apart: ``x``, else the step as well, and a device or stream where there are several."""
    if table[x.name].n_unique() == table.height:
        return [x]
    return [x, *(c for c in columns.values() if c.name != x.name and _tells_apart(c, table))]


def _labels(named: Sequence[Column], table: pl.DataFrame) -> list[str]:
    return [
        _markup(fmt.printable(" · ".join(fmt.NOTHING if v is None else str(v) for v in row)))
        for row in table.select(c.name for c in named).iter_rows()
    ]


def _tells_apart(column: Column, table: pl.DataFrame) -> bool:
    return column.unit is Unit.STEP or (column.unit is Unit.NUMBER and table[column.name].n_unique() > 1)


def _values(names: Sequence[str], table: pl.DataFrame, columns: dict[str, Column]) -> tuple[fmt.Scale, dict[str, Any]]:
    """The scale shared by all drawn columns, and the layout of their axis."""
    column = columns[names[0]]
    by = fmt.scale(column, pl.concat([table[name].cast(pl.Float64).alias("v") for name in names]))
    layout: dict[str, Any] = {"title": {"text": _axis_title(column, by, alone=len(names) == 1)}}
    layout |= {"rangemode": "tozero", "separatethousands": True}
    if column.unit is Unit.RATIO:
        layout |= {"ticksuffix": "%", "title": {"text": fmt.label(column)}}
        # A share is shown of its whole; other ratios may be more.
        if not any((most := table[name].max()) is not None and most > 1 for name in names):  # type: ignore[operator]  # of floats
            layout |= {"range": [0, 100]}
    return by, layout


def _axis_title(column: Column, by: fmt.Scale, *, alone: bool = True) -> str:
    """What an axis says: the column's name, or the quantity that several columns share."""
    what = fmt.label(column) if alone else _QUANTITIES.get(column.unit, "")
    return f"{what} [{by.unit}]".strip() if by.unit else what


def _written(by: fmt.Scale) -> dict[str, Any]:
    """How the page writes its values."""
    return {"unit": by.unit, "decimals": by.decimals}


def _scaled(values: pl.Series, by: fmt.Scale) -> list[Any]:
    if by.factor == 1.0 and not values.dtype.is_float():
        return values.to_list()
    return _rounded(values.cast(pl.Float64) * by.factor, by.decimals + 2)


def _rounded(values: pl.Series, decimals: int) -> list[Any]:
    # What a sum or a counter made infinite has no place on an axis, nor in JSON.
    finite = pl.select(pl.when(values.is_finite()).then(values)).to_series()
    return finite.round(decimals).to_list()


def _markup(text: str) -> str:
    """The text as Plotly's markup, which knows these three entities but no quotes."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _wrapped(name: str, width: int = 80) -> str:
    """A long name on several lines, safe in Plotly's own markup."""
    pieces = [name[i : i + width] for i in range(0, min(len(name), 8 * width), width)]
    return "<br>".join(_markup(piece) for piece in pieces)


def _axis_style() -> dict[str, Any]:
    return {
        "gridcolor": _GRID,
        "zerolinecolor": _GRID,
        "linecolor": _GRID,
        "ticks": "",
        "zeroline": False,
        "automargin": True,
    }


def _layout(chart: Chart, *, height: int, legend: bool, below: int = 0) -> dict[str, Any]:
    height += _TITLE_HEIGHT if chart.title else 0
    top = 24 + (_TITLE_HEIGHT if chart.title else 0) + (20 if legend else 0)
    return {
        "showlegend": legend,
        "template": "none",
        "title": {"text": _markup(chart.title), "x": 0, "xref": "paper", "xanchor": "left", "font": {"size": 15}},
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


def _note(text: str) -> dict[str, Any]:
    """A line under the axis' title, flush right."""
    place = {"xref": "paper", "x": 1, "xanchor": "right", "yref": "paper", "y": 0, "yanchor": "top", "yshift": -58}
    return {"text": text, "showarrow": False, "font": {"size": 12}, **place}


def _roofline(chart: Roofline, table: pl.DataFrame, columns: dict[str, Column]) -> Drawing:
    parts = table[chart.by].drop_nulls().unique().sort().to_list()
    traces = rooflines.traces(chart, table, {part: color(part, position) for position, part in enumerate(parts)})
    if not traces:
        return _nothing("Nothing to draw: of no row both speed and work per byte are known.")
    layout = _layout(chart, height=460, legend=True)
    axes = {name: _axis_style() | axis for name, axis in rooflines.layout().items()}
    return {"data": traces, "layout": layout | {"hovermode": "closest"} | axes}


def _tree(chart: Tree, table: pl.DataFrame, columns: dict[str, Column]) -> Drawing:
    boxes = trees.traces(chart, table, fmt.scale(columns[chart.total], table[chart.total]))
    if not boxes:
        return _nothing("Nothing to draw: nothing that was launched ran on a device.")
    return {"data": boxes, "layout": _layout(chart, height=460, legend=False)}


def _nothing(text: str = "Nothing to draw: the table is empty.") -> Drawing:
    hidden = {"visible": False}
    note: dict[str, Any] = {"text": text, "showarrow": False, "x": 0.5, "y": 0.5}
    note |= {"xref": "paper", "yref": "paper"}
    layout = {"template": "none", "height": 160, "xaxis": hidden, "yaxis": hidden, "annotations": [note]}
    return {"data": [], "layout": layout}


# What draws each kind of chart.
_DRAWN: tuple[tuple[type[Chart], Callable[[Any, pl.DataFrame, dict[str, Column]], Drawing]], ...] = (
    (Ranking, _ranking),
    (Line, _lines),
    (Roofline, _roofline),
    (Tree, _tree),
    (OverSteps, _over_steps),
    (Bar, _bars_or_points),
    (Stacked, _bars),
)
