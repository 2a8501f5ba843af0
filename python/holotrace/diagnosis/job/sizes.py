"""How much larger the work of one rank is than that of others, as far as its kernels tell."""

from __future__ import annotations

import polars as pl

from holotrace.derive.totals import total

# Details of kernels: grid, block and, where they were recorded, shapes.
_GRID, _NO_SHAPES = r"^\[([\d, ]+)\]\|", r"\|$"
# Grids of equal work are equal; so much of a rank's work in larger ones is more work.
_LARGER_RATIO, _MUCH_RATIO = 1.02, 0.4
# Equal work of healthy devices differs by less, and of a model with experts so much is equal on all ranks.
_EQUAL_RATIO, _REST_RATIO = 0.05, 0.1
# What takes all ranks as long, however much data each of them has.
UPDATES = r"(?i)_fused_(ada|sgd)|_foreach_|optim"


def has_larger_grids(kinds: pl.DataFrame, rank: int) -> bool:
    """Whether the rank runs the same kernels in larger grids, where no shapes tell how much work is in each.

    A product's grid is that of its result, so that those of gradients of weights stay the same, and take longer.
    """
    if are_known(kinds):
        return False
    sizes = pl.col("detail").str.extract(_GRID).str.split(", ").cast(pl.List(pl.Float64))
    counted = kinds.with_columns(blocks=sizes.list.eval(pl.element().product()).list.first() * pl.col("count"))
    sums = counted.group_by("rank", "name", "operator").agg(pl.col("blocks", "time_ns", "count").sum())
    usual = pl.col("blocks", "count").quantile(0.5, "lower").over("name", "operator").name.prefix("usual_")
    own = sums.with_columns(usual).filter(pl.col("rank") == rank)
    is_larger = (pl.col("blocks") > _LARGER_RATIO * pl.col("usual_blocks")) & (pl.col("count") == pl.col("usual_count"))
    return total(own.filter(is_larger)["time_ns"]) > _MUCH_RATIO * total(own["time_ns"])


def are_known(kinds: pl.DataFrame) -> bool:
    """Whether shapes were recorded, which tell how much work there is in each call."""
    return not kinds["detail"].str.contains(_NO_SHAPES).all()


def has_equal_work(kinds: pl.DataFrame) -> bool:
    """Whether part of this work takes as long as that of others, as all but the experts of a model does.

    A rank with more data has more of everything but updates of its parameters.
    """
    own = kinds.filter(~pl.col("operator").fill_null("").str.contains(UPDATES))
    is_as_long = (pl.col("time_ns") / pl.col("usual_ns") - 1).abs() < _EQUAL_RATIO
    equal = own.filter(pl.col("count") == pl.col("usual_count"), pl.col("usual_ns") > 0, is_as_long)
    return total(equal["time_ns"]) > _REST_RATIO * total(own["time_ns"])
