"""Changes of a job in its own words: what is scaled, made like the other ranks, or hidden."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from holotrace.derive.kernel_kinds import COMMUNICATION, COMPUTE, MEMORY
from holotrace.graph.engine import Changes
from holotrace.graph.job import STEP, JobGraph

# What activities can be bound by.
HOST, LOADING = "host", "data_loading"
KINDS = (HOST, LOADING, COMPUTE, COMMUNICATION, MEMORY)
# An own time of more than this, in ns, is no time: the sum of a graph's stays within 64 bits.
_MOST_NS = 2.0**53


def scaled(graph: JobGraph, factors: Mapping[str, float], ranks: tuple[int, ...] = ()) -> Changes:
    """Own times multiplied by factors.

    Args:
        graph: Of the job.
        factors: By kind (``KINDS``) or by a regular expression that names match; all that fit count.
        ranks: Only those of these; of all by default.
    """
    time = pl.col("own_ns").cast(pl.Float64)
    for of, factor in factors.items():
        time = pl.when(fits(of)).then(time * factor).otherwise(time)
    new = time.clip(upper_bound=_MOST_NS).round().cast(pl.Int64)
    rows = graph.activities.filter(_of(ranks), pl.col("kind") != STEP)
    return Changes(
        own=rows.select("activity", new_ns=new, old_ns="own_ns")
        .filter(pl.col("new_ns") != pl.col("old_ns"))
        .select("activity", own_ns="new_ns")
    )


def fits(of: str) -> pl.Expr:
    """Whether an activity is of the kind, or has a name that the regular expression matches."""
    return (
        pl.col("kind") == of if of in KINDS else pl.col("name").cast(pl.String).str.contains(of).fill_null(value=False)
    )


def like_median(graph: JobGraph, ranks: tuple[int, ...] = ()) -> Changes:
    """Every activity takes as long as the same one of the median rank.

    The same are those with one kind, name and number among these in the step, on hosts and on devices. What less than
    half of the ranks have stays as it is.

    Args:
        graph: Of the job.
        ranks: Whose activities; of all by default.
    """
    key = ["step", "is_device", "kind", "name", "number"]
    numbered = (
        graph.activities.filter(pl.col("kind") != STEP)
        .sort("start_ns", "activity")
        .with_columns(number=pl.int_range(pl.len(), dtype=pl.UInt32).over("rank", *key[:-1]))
    )
    world = graph.activities["rank"].n_unique()
    usual = (
        numbered.group_by(key)
        .agg(usual_ns=pl.col("own_ns").median().round().cast(pl.Int64), member_count=pl.col("rank").n_unique())
        .filter(2 * pl.col("member_count") > world)
    )
    changed = numbered.filter(_of(ranks)).join(usual, on=key, nulls_equal=True)
    return Changes(
        own=changed.filter(pl.col("own_ns") != pl.col("usual_ns"))
        .select("activity", own_ns="usual_ns")
        .sort("activity")
    )


def together(*changes: Changes) -> Changes:
    """All of several changes; of those of one activity or edge the last counts."""
    return Changes(own=pl.concat([one.own for one in changes]), lags=pl.concat([one.lags for one in changes]))


def _of(ranks: tuple[int, ...]) -> pl.Expr:
    return pl.col("rank").is_in(list(ranks)) if ranks else pl.lit(True)
