"""Trees as boxes inside boxes: what a path and all inside it take of the whole."""

from __future__ import annotations

from typing import Any

import polars as pl

from holotrace.core.charts import Tree
from holotrace.present import format as fmt

_MOST_BOXES = 1_500
_NAME_WIDTH = 60


def traces(chart: Tree, table: pl.DataFrame, by: fmt.Scale) -> list[dict[str, Any]]:
    """The boxes of all ranks together, the largest that can be told apart; of none where nothing has a size."""
    path, whole = pl.col(chart.x), pl.col(chart.total)
    if "step" in table.columns and table["step"].null_count():
        table = table.filter(pl.col("step").is_null())
    held = (pl.col(chart.rate) * whole).sum() / whole.filter(pl.col(chart.rate).is_not_null()).sum()
    boxes = (
        table.drop_nulls(chart.x)
        .group_by(path)
        .agg(whole.sum(), pl.when(held.is_finite()).then(held).alias(chart.rate))
        .filter(whole > 0)
        .top_k(_MOST_BOXES, by=chart.total)
        .sort(path)
    )
    outer = path.str.replace(r"/?[^/]*$", "")
    boxes = boxes.with_columns(outer=outer, own=path.str.extract(r"([^/]*)$"))
    # What is around a box is larger, so it is among the largest; a path with other slashes in it has nothing around it.
    boxes = boxes.with_columns(
        pl.when(pl.col("outer").is_in(pl.lit(boxes[chart.x]).implode())).then("outer").otherwise(pl.lit(""))
    )
    if boxes.is_empty():
        return []
    names = [_shown(name) for name in boxes["own"]]
    rates = boxes[chart.rate].to_list()
    return [
        {
            "type": "icicle",
            "ids": boxes[chart.x].to_list(),
            "parents": boxes["outer"].to_list(),
            "labels": names,
            "values": [value * by.factor for value in boxes[chart.total]],
            "branchvalues": "total",
            "marker": {"colors": [rate or 0.0 for rate in rates], "colorscale": "Blues", "cmin": 0, "cmax": 1},
            "customdata": [[fmt.percent(rate) if rate is not None else fmt.NOTHING] for rate in rates],
            "hovertemplate": (
                f"%{{label}}<br><b>%{{value:,.{by.decimals}f}} {by.unit}</b> (%{{percentRoot:.1%}})"
                "<br>%{customdata[0]} of the peak<extra></extra>"
            ),
            "tiling": {"orientation": "v"},
            "meta": {
                "unit": by.unit,
                "decimals": by.decimals,
                "rate": "of the peak",
                "colors": "The darker, the closer to the peak",
            },
        }
    ]


def _shown(name: str) -> str:
    # Plotly's markup knows these three entities but no quotes.
    text = fmt.printable(fmt.middle(name, _NAME_WIDTH))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
