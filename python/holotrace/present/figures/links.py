"""Who did what to whom: bands from each rank to the ranks that it waited for, as wide as the time."""

from __future__ import annotations

from typing import Any

import polars as pl

from holotrace.core.charts import Links
from holotrace.present import format as fmt
from holotrace.present.figures.colors import COLORS, MORE_COLORS
from holotrace.present.figures.style import Columns, Drawing, layout_of, markup, nothing, scaled, written

# On each side; more would be too narrow to tell apart.
MOST_FROM, MOST_TO = 16, 8
_FROM_COLOR = "#8a929c"
_TO_COLORS = (COLORS["communication"], COLORS["compute"], COLORS["memory"], COLORS["other"], *MORE_COLORS)
_OTHERS = -1
_LEAST_SHARE = 0.0005  # of the sum; a narrower band is not seen


def links(chart: Links, table: pl.DataFrame, columns: Columns) -> Drawing:
    """Bands between the ranks that have most of the sum; all others are one on each side, so that bands add up."""
    pairs = _pairs(chart, table)
    drawn = pairs.filter(pl.col("value") > 0)
    if drawn.is_empty():
        return nothing("Nothing to draw: no rank waited for another.")
    left_out = pairs.filter(pl.col("value") < 0)
    sides = [_side(drawn, "source", MOST_FROM), _side(drawn, "target", MOST_TO)]
    drawn = _grouped(drawn, sides)
    ends = [drawn.group_by(side).agg(pl.col("value").sum())["value"] for side in ("source", "target")]
    by = fmt.scale(columns[chart.y[0]], pl.concat(ends))
    names = [_names(side, chart.nobody) for side in sides]
    place = [{key: i for i, (key, _) in enumerate(side)} for side in names]
    colors = [_TO_COLORS[i % len(_TO_COLORS)] for i in range(len(names[1]))]
    first = len(names[0])
    targets = [place[1][key] for key in drawn["target"]]
    trace: dict[str, Any] = {
        "type": "sankey",
        "node": {
            "label": [markup(name) for side in names for _, name in side],
            "color": [*[_FROM_COLOR] * first, *colors],
        },
        "link": {
            "source": [place[0][key] for key in drawn["source"]],
            "target": [first + target for target in targets],
            "value": scaled(drawn["value"], by),
            "color": [_clear(colors[target]) for target in targets],
        },
        "valuesuffix": f" {by.unit}",
        "valueformat": f",.{by.decimals}f",
        "meta": {**written(by), "from": chart.leaves, "to": chart.reaches},
    }
    layout = layout_of(chart, height=120 + 22 * max(map(len, names)), legend=False)
    if left_out.height:
        less = fmt.duration(-int(left_out["value"].sum()))
        layout["annotations"] = [{"text": f"Left out: {less} of pairs whose sum is below zero", "showarrow": False}]
    return {"data": [trace], "layout": layout}


def _pairs(chart: Links, table: pl.DataFrame) -> pl.DataFrame:
    """The sum of each pair; null where a side is nobody."""
    return table.group_by(source=pl.col(chart.x).cast(pl.Int64), target=pl.col(chart.to).cast(pl.Int64)).agg(
        value=pl.col(chart.y[0]).sum()
    )


def _side(pairs: pl.DataFrame, side: str, most: int) -> tuple[list[int | None], int]:
    """The ranks with the largest sums, largest first, and how many others there are."""
    sums = pairs.group_by(side).agg(pl.col("value").sum()).sort("value", side, descending=[True, False])
    kept = sums.filter(pl.col("value") >= _LEAST_SHARE * pl.col("value").sum())[side].to_list()[:most]
    # One more takes no more room than a place for the others.
    kept = sums[side].to_list() if sums.height == len(kept) + 1 else kept
    return kept, sums.height - len(kept)


def _grouped(pairs: pl.DataFrame, sides: list[tuple[list[int | None], int]]) -> pl.DataFrame:
    """Pairs with all ranks that have no place of their own as one."""
    for name, (kept, others) in zip(("source", "target"), sides, strict=True):
        if others:
            own = pl.col(name).is_in([key for key in kept if key is not None])
            own = own | pl.col(name).is_null() if None in kept else own.fill_null(False)
            pairs = pairs.with_columns(pl.when(own).then(name).otherwise(_OTHERS).alias(name))
    return (
        pairs.group_by("source", "target").agg(pl.col("value").sum()).sort("value", "source", descending=[True, False])
    )


def _names(side: tuple[list[int | None], int], nobody: str) -> list[tuple[int | None, str]]:
    kept, others = side
    named = [(key, nobody if key is None else f"Rank {key}") for key in kept]
    return [*named, (_OTHERS, fmt.plural(others, "other rank"))] if others else named


def _clear(color: str) -> str:
    """The colour, through which other bands are seen."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, 0.45)"
