"""Rows of all ranks put together: of equal operators on different ranks one row, and how much the ranks differ."""

from __future__ import annotations

import polars as pl

_GIVEN = ("input_dims", "input_types", "input_strides", "scalars")
_KEYS = ("step", "name", *_GIVEN, "assumed")


def operators(rows: pl.DataFrame) -> pl.DataFrame:
    """One row for each step, operator and arguments: sums, means of all calls, and the rank that takes the longest.

    Figures that ranks do not have in common are null, and so is the median, which does not follow from theirs.
    """
    mean, several = pl.col("mean_ns"), pl.len() > 1
    slowest = pl.col("rank").sort_by("mean_ns", "rank", descending=[True, False]).first()
    return (
        rows.group_by(_KEYS)
        .agg(
            pl.col("category").mode().sort().first(),
            pl.col("call_count", "work_ns", "union_ns", "above_roofline_ns", "rank_count").sum(),
            *_times(),
            *(_common(name) for name in ("flops", "moved_bytes", "confidence", "bound_by", "intensity")),
            *(_common(name) for name in ("peak_tflops", "peak_gbps")),
            *(_weighed(name) for name in ("tflops", "gbps", "roofline_ratio")),
            _rounded(mean.std()).alias("rank_std_ns"),
            pl.when(several).then(slowest).alias("worst_rank"),
        )
        .with_columns(
            pl.lit(None, pl.Int32()).alias("rank"),
            pl.when(pl.col("roofline_ratio").is_not_null()).then("above_roofline_ns").alias("above_roofline_ns"),
        )
        .sort("step", "work_ns", "name", *_GIVEN, descending=[False, True, *[False] * 5])
    )


def _times() -> list[pl.Expr]:
    """Times of all calls: their variance is that within ranks and that between them."""
    calls, mean = pl.col("call_count"), pl.col("mean_ns")
    whole = (calls * mean).sum() / calls.sum()
    within = (pl.col("std_ns").fill_null(0).cast(pl.Float64()) ** 2 * (calls - 1)).sum()
    between = (calls * (mean - whole) ** 2).sum()
    spread = ((within + between) / (calls.sum() - 1)).sqrt()
    return [
        _rounded(whole).alias("mean_ns"),
        _rounded(pl.when(calls.sum() > 1).then(spread)).alias("std_ns"),
        pl.col("min_ns").min(),
        pl.when(pl.len() == 1).then(pl.col("p50_ns").first()).alias("p50_ns"),
        pl.col("max_ns").max(),
    ]


def _weighed(rate: str) -> pl.Expr:
    """The rate of all calls: that of each rank by its time."""
    time = (pl.col("call_count") * pl.col("mean_ns")).filter(pl.col(rate).is_not_null())
    mean = (pl.col(rate).drop_nulls() * time).sum() / time.sum()
    return pl.when(mean.is_finite()).then(mean).alias(rate)


def _common(name: str) -> pl.Expr:
    return pl.when(pl.col(name).n_unique() == 1).then(pl.col(name).first()).alias(name)


def _rounded(time: pl.Expr) -> pl.Expr:
    return time.round().cast(pl.Int64())
