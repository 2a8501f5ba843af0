"""When a thread did nothing, which profilers record nothing of, and what it waited for then."""

from __future__ import annotations

import polars as pl

from holotrace.derive import groups

SPAN = ("event_id", "name", "pid", "tid", "start_ns", "end_ns")
# What a thread is called that does nothing until a device has nothing to do either.
WAIT = "waiting for the device"
# Waits that were not recorded have numbers of their own.
FIRST_MADE = 2**32 - 2**20
_MOST = 2**20 - 1
_PLACE = ["pid", "tid"]
_LEAST_NS = 100_000
# A thread goes on so soon after what it waited for, or within so much of its wait where threads have to share CPUs.
_GOES_ON_NS, _GOES_ON_RATIO = 200_000, 0.1


def of(spans: pl.DataFrame, ranges: pl.DataFrame) -> pl.LazyFrame:
    """The pauses of threads between what they did, by their end: pid, tid, start_ns, end_ns.

    Args:
        spans: What threads did: pid, tid, start_ns, end_ns.
        ranges: Ranges that only have names: the same. A pause is on one side of where a range begins or ends.
    """
    cuts = [ranges.select(*_PLACE, start_ns=time, end_ns=time) for time in ("start_ns", "end_ns")]
    every = pl.concat([spans.select(*_PLACE, "start_ns", "end_ns"), *cuts])
    return (
        groups.ordered(every, ["start_ns"])
        .lazy()
        .select(*_PLACE, start_ns=pl.col("end_ns").cum_max().shift(1).over(_PLACE), end_ns="start_ns")
        .filter(pl.col("end_ns") - pl.col("start_ns") >= _LEAST_NS)
        .sort("end_ns")
    )


def waits(found: pl.LazyFrame) -> pl.LazyFrame:
    """Those pauses that ended because of what ended at ``ended_ns``, as ``SPAN`` and what else they have."""
    lasted, after = pl.col("end_ns") - pl.col("start_ns"), pl.col("end_ns") - pl.col("ended_ns")
    is_wait = (after <= pl.max_horizontal(_GOES_ON_NS, _GOES_ON_RATIO * lasted)) & (2 * after <= lasted)
    named = found.filter(is_wait).head(_MOST).with_row_index("event_id", offset=FIRST_MADE)
    return named.with_columns(name=pl.lit(WAIT, pl.Categorical()))
