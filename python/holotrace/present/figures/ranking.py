"""Named bars, the longest first, with how far ranks differ."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from holotrace.core.charts import Ranking
from holotrace.present import format as fmt
from holotrace.present.figures.colors import color
from holotrace.present.figures.style import (
    Columns,
    Drawing,
    axis_style,
    layout_of,
    markup,
    note_below,
    scaled,
    values_axis,
    wrapped,
    written,
)

_FEW = 3  # bars that are drawn also where they are nothing
_NAME_WIDTH = 52  # characters of a kernel's name that fit beside its bar


def ranking(chart: Ranking, table: pl.DataFrame, columns: Columns) -> Drawing:
    # What has no value is no bar, as rows of a tree that contain others.
    table = table.filter(pl.any_horizontal(pl.col(name).is_not_null() for name in chart.y))
    unnamed = _names(chart, table).alias("_name")
    kind = pl.col(chart.color).cast(pl.String).drop_nulls().first().fill_null("other") if chart.color else pl.lit("")
    sums, ranks = _per_rank(table, chart, unnamed, kind)
    bar = pl.sum_horizontal(chart.y)
    top = sums.sort(bar, "_name", descending=[True, False]).head(chart.top)
    by, unit_layout = values_axis(chart.y, top, columns)
    # What would be written as nothing is none of the largest.
    top = top.filter(bar * by.factor >= 0.5 / 10**by.decimals) if top["_name"].len() > _FEW else top
    total = float(sums.select(bar.sum()).item()) or 1.0
    names = [fmt.printable(name) for name in top["_name"]]
    # Names may be equal once they are cut, so a bar's place is its position and the name only its tick.
    places = list(range(len(names)))
    parts = top["_kind"].unique(maintain_order=True).to_list() if chart.color else [None]
    traces = []
    for position, (part, name) in enumerate((part, name) for part in parts for name in chart.y):
        mine = [i for i in places if part is None or top["_kind"][i] == part]
        values = scaled(top[name], by)
        spread = _spread(top, mine, by) if ranks > 1 and len(chart.y) == 1 else {}
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                **spread,
                "name": markup(str(part)) if chart.color else fmt.label(columns[name]),
                "x": [values[i] for i in mine],
                "y": mine,
                "customdata": [[wrapped(names[i]), (top[name][i] or 0) / total] for i in mine],
                "marker": {"color": color(str(part) if part else name, position), "line": {"width": 0}},
                "hovertemplate": (
                    f"%{{customdata[0]}}<br><b>%{{x:,.{by.decimals}f}} {by.unit}</b>{_of_ranks(ranks)} "
                    "(%{customdata[1]:.1%})<extra></extra>"
                ),
                "meta": written(by),
            }
        )
    below = 20 if sums.height > len(names) else 0
    layout = layout_of(chart, height=124 + below + 24 * max(len(names), 3), legend=len(traces) > 1, below=below)
    layout |= {
        "barmode": "stack",
        "bargap": 0.25,
        "hovermode": "closest",
        "xaxis": axis_style()
        | unit_layout
        | {"title": {"text": unit_layout["title"]["text"] + _of_ranks(ranks, bool(len(chart.y) == 1))}},
        "yaxis": axis_style()
        | {
            "showgrid": False,
            "tickvals": places,
            "ticktext": [markup(fmt.middle(name, _NAME_WIDTH)) + " " for name in names],
            "range": [max(len(names), 3) - 0.5, -0.5],
        },
    }
    if below:
        covered = fmt.percent(float(top.select(bar.sum()).item()) / total)
        layout["annotations"] = [
            note_below(f"the largest {len(names)} of {fmt.number(sums.height)}, {covered} of the sum")
        ]
    return {"data": traces, "layout": layout}


def _names(chart: Ranking, table: pl.DataFrame) -> pl.Expr:
    """The name of each row, with what it belongs to where that has several meanings."""
    name = pl.col(chart.x).cast(pl.String).fill_null("(no name)")
    different = [column for column in chart.within if table[column].n_unique() > 1]
    if not different:
        return name
    whose = pl.concat_str(pl.col(different).cast(pl.String), separator=" ", ignore_nulls=True)
    is_of_several = pl.struct(different).n_unique().over(chart.x) > 1
    return pl.when(is_of_several).then(pl.format("{} in {}", name, whose)).otherwise(name)


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
    ends = {"array": scaled(beyond["most"], by), "arrayminus": scaled(beyond["least"], by)}
    return {"error_x": {"type": "data", "symmetric": False, "thickness": 1, "width": 3, "color": "#6b7280", **ends}}


def _of_ranks(ranks: int, has_spread: bool = False) -> str:
    if ranks == 1:
        return ""
    return f" per rank, mean of {ranks}" + (" and least to most" if has_spread else "")
