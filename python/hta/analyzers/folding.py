"""Folding the names that matter least into one, as HTA does in its breakdowns."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

FOLDED = "others"
STATISTICS = ("sum (us)", "max (us)", "min (us)", "stddev", "mean (us)")


def folded(
    names: pl.DataFrame, group: Sequence[str], duration_ratio: float, most_names: int, *, kept: pl.Expr | None = None
) -> pl.DataFrame:
    """Statistics in microseconds of each name of a group; where there are too many, the least ones together.

    Args:
        names: A row per name and group: ``name``, ``count``, ``sum_ns``, ``min_ns``, ``max_ns``, ``std_ns``.
        group: The columns that make a group.
        duration_ratio: Names are folded that lie beyond this quantile of the running sum of times.
        most_names: So many names are never folded; of more, those beyond are.
        kept: Which rows are never folded.
    """
    ranked = names.sort(*group, "sum_ns", "name", descending=[*[False] * len(group), True, False]).with_columns(
        running=pl.col("sum_ns").cum_sum().over(group), position=pl.int_range(pl.len()).over(group)
    )
    beyond = pl.col("running") > pl.col("running").quantile(duration_ratio, "linear").over(group)
    is_folded = (pl.len().over(group) > most_names) & (beyond | (pl.col("position") >= most_names))
    if kept is not None:
        is_folded &= ~kept
    count, mean = pl.col("count"), pl.col("sum_ns") / pl.col("count")
    overall = pl.col("sum_ns").sum() / count.sum()
    # Squares within each name and between the names' means.
    squares = ((count - 1) * pl.col("std_ns").fill_null(0) ** 2 + count * (mean - overall) ** 2).sum()
    return (
        ranked.with_columns(name=pl.when(is_folded).then(pl.lit(FOLDED)).otherwise("name"))
        .group_by(*group, "name")
        .agg(
            pl.col("sum_ns").sum().alias("sum (us)"),
            pl.col("max_ns").max().alias("max (us)"),
            pl.col("min_ns").min().alias("min (us)"),
            pl.when(count.sum() > 1).then((squares / (count.sum() - 1)).sqrt()).otherwise(0.0).alias("stddev"),
            overall.alias("mean (us)"),
        )
        .with_columns(pl.col(STATISTICS) / 1000)
    )
