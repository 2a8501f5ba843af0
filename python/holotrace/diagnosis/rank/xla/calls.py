"""How long a host takes for what it does to launch programs of XLA, by which hosts are compared."""

from __future__ import annotations

import polars as pl

from holotrace.core.trace import RankTrace
from holotrace.derive import host_time, intervals
from holotrace.derive.host_activities import (
    BACK_PRESSURE,
    COMPILATION,
    DISPATCH,
    INPUT_RANGES,
    PROGRAM,
    READ_BACK,
    TRACING,
    WAIT,
)

# Fewer calls of one name tell nothing.
_LEAST = 3
# In these a host waits, or does what only some steps need.
_BESIDE = (BACK_PRESSURE, COMPILATION, READ_BACK, WAIT)


def medians(rank: RankTrace) -> pl.DataFrame:
    """``name``, ``count`` and ``time_ns``, the median, of calls that launch programs on the threads with the steps.

    Where graphs are collected, that is what the program's own ranges do.
    """
    threads = host_time.stepping_threads(rank).implode()
    every = host_time.activities(rank, INPUT_RANGES)
    own = every.filter(pl.col("tid").is_in(threads))
    launching = [DISPATCH, TRACING, *([PROGRAM] if TRACING in own["activity"] else [])]
    spans = own.filter(pl.col("activity").is_in(launching))
    # With several GPUs other threads launch, and wait for room in queues, while the one with the steps waits for them.
    is_waiting = pl.col("activity") == BACK_PRESSURE
    beside = intervals.union(pl.concat([own.filter(pl.col("activity").is_in(_BESIDE)), every.filter(is_waiting)]))
    return (
        spans.select(pl.col("name").cast(pl.String), time_ns=intervals.uncovered_ns(spans, beside))
        .group_by("name")
        .agg(count=pl.len(), time_ns=pl.col("time_ns").median().cast(pl.Int64))
        .filter(pl.col("count") >= _LEAST, pl.col("time_ns") > 0)
    )
