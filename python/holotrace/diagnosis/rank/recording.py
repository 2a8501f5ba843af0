"""What recording costs hosts: how much sooner they would launch if nobody wrote down each of their calls."""

from __future__ import annotations

import polars as pl

from holotrace.capture import UNPROFILED_STEP_NS
from holotrace.core.plans import done
from holotrace.core.tables import LAUNCHES
from holotrace.core.trace import RankTrace
from holotrace.derive import intervals
from holotrace.diagnosis.rank.calls import host_calls

READS = (LAUNCHES.only("launch_id", "tid"),)
# Hosts that launch operators took 1.5 to 2.8 times as long while PyTorch recorded them, with or without stacks, and
# twice as long in the middle: 17 jobs and loops, and another 44 recordings, on an H100, see docs/decisions/0019.
PART = 0.5
PARTS = (PART, 1 / 3)
# What was late beyond the estimate by less than this part of it was mostly the profiler's, too.
UNSURE_RATIO = 0.55
# Those had 4.5 to 33 calls on record for each launch, one every 2 to 10 microseconds. Where calls are fewer, writing
# them down is a smaller part of what hosts do.
_CALLS_PER_LAUNCH, _MOST_NS = 4.4, 12_000
# A host that calls nothing for so long does something else, or waits.
_APART_NS = 100_000
# No step takes a day.
_LONGEST_NS = 86_400_000_000_000
# Threads that launch: one runs forward, one backward passes of each device.
_MOST_THREADS = 8
_NONE = pl.DataFrame(schema=dict.fromkeys(("start_ns", "end_ns", "count"), pl.Int64()))


def measured_step_ns(rank: RankTrace) -> int | None:
    """How long a step took while nothing was recorded; None if the recorder did not measure it."""
    told = rank.metadata.get(UNPROFILED_STEP_NS)
    return told if isinstance(told, int) and 0 < told < _LONGEST_NS else None


def unprofiled(rank: RankTrace) -> pl.DataFrame:
    """That step's ``time_ns``, in a row; none where it is not known."""
    measured_ns = measured_step_ns(rank)
    return pl.DataFrame({"time_ns": pl.Series([] if measured_ns is None else [measured_ns], dtype=pl.Int64)})


def dense(rank: RankTrace) -> pl.DataFrame:
    """Times in which threads that launch make calls so densely that recording takes ``PART`` of them: spans, merged.

    None of them where calls are fewer, or where the recorder measured what it takes.
    """
    if measured_step_ns(rank) is not None:
        return intervals.union(_NONE)
    calls = rank.cached(host_calls)
    # A graph is one launch of many kernels.
    launches = rank[LAUNCHES].drop_nulls("tid").unique("launch_id")
    by_thread = launches["tid"].value_counts().sort("count", "tid", descending=[True, False]).head(_MOST_THREADS)
    runs = [_runs(calls["start_ns"].filter(calls["tid"] == tid)) for tid in by_thread["tid"]]
    found = pl.concat([_NONE, *runs])
    calling_ns, count = found.select((pl.col("end_ns") - pl.col("start_ns")).sum(), pl.col("count").sum()).row(0)
    is_dense = count >= _CALLS_PER_LAUNCH * int(by_thread["count"].sum()) and calling_ns <= _MOST_NS * count
    return intervals.union(found.filter(is_dense))


def _runs(starts: pl.Series) -> pl.DataFrame:
    """Spans in which calls begin one after the other, with the number of those."""
    ordered = starts if starts.is_sorted() else starts.sort()
    if len(ordered) < 2:
        return _NONE
    runs = (ordered[1:] - ordered[:-1] <= _APART_NS).rle().struct.unnest().lazy()
    runs = runs.with_columns(begin=pl.col("len").cum_sum() - pl.col("len"), end=pl.col("len").cum_sum())
    runs = done(runs.filter("value"))
    return pl.DataFrame(
        {"start_ns": ordered[runs["begin"]], "end_ns": ordered[runs["end"]], "count": runs["len"].cast(pl.Int64)}
    )
