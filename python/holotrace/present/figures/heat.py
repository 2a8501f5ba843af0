"""Heat maps of ranks: how far each rank is from the median of all, step by step or name by name."""

from __future__ import annotations

from typing import Any

import polars as pl

from holotrace.core.schema import Column
from holotrace.present import format as fmt

_MOST_ACROSS = 400  # steps or names
_LEAST_RANKS = 2
_SAME = 0.01  # equal ranks and steps differ by as much; a map of it would show nothing


def trace(table: pl.DataFrame, across: Column, value: Column, *, most: int = _MOST_ACROSS) -> dict[str, Any] | None:
    """A row per rank, a column per step or name, coloured by the share that it is off the
    median of the ranks; None if all are alike.

    Args:
        across: Column of the steps or names.
        value: What is compared; several rows are summed.
        most: How many steps, or names with the largest sums.
    """
    sums = table.drop_nulls([across.name, "rank"]).group_by("rank", across.name).agg(pl.col(value.name).sum())
    ranks = sums["rank"].unique().sort()
    if len(ranks) < _LEAST_RANKS:
        return None
    whole = sums.group_by(across.name).agg(pl.col(value.name).sum())
    # In the order of the axis: steps as they came, names by their sum, those of equal sums in alphabetical order.
    order = [] if fmt.is_number(across) else [-pl.col(value.name)]
    places = whole.sort(*order, pl.col(across.name)).head(most)[across.name].to_list()
    cells = pl.DataFrame({across.name: places}, schema={across.name: sums.schema[across.name]}).with_row_index("place")
    grid = (
        pl.DataFrame({"rank": ranks})
        .join(cells, how="cross")
        .join(sums, on=["rank", across.name], how="left")
        .with_columns(middle=pl.col(value.name).median().over(across.name))
        .with_columns(off=pl.when(pl.col("middle") > 0).then(pl.col(value.name) / pl.col("middle") - 1))
        .sort("rank", "place")
    )
    off = [None if share is None else round(share, 4) for share in grid["off"]]
    if max((abs(share) for share in off if share is not None), default=0.0) < _SAME:
        return None
    width = len(places)
    return {
        "type": "heatmap",
        "x": [fmt.printable(str(place)) for place in places],
        "y": [str(rank) for rank in ranks],
        "z": [off[start : start + width] for start in range(0, len(off), width)],
        "zmid": 0,
        "colorscale": "RdBu",
        "reversescale": True,
        "hovertemplate": "rank %{y}, %{x}: %{z:+.1%}<extra></extra>",
        "meta": {"across": fmt.label(across), "value": fmt.label(value).lower()},
    }
