"""What hosts of XLA send to their GPUs: what GPUs copy, and launches that wait until it has been handed over."""

from __future__ import annotations

import polars as pl

from holotrace.core.tables import XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive import host_time, intervals, skew
from holotrace.derive.host_activities import BACK_PRESSURE, DISPATCH, UPLOAD, WAIT
from holotrace.diagnosis.words.classes import LAUNCH

_COPIES = XLA_OPS.only("event_id", "name", "module", "device", "plane", "start_ns", "end_ns")
READS = (_COPIES,)
# What copies from the host to a GPU, and back, is called.
TO_DEVICE, _TO_HOST = "MemcpyH2D", "MemcpyD2H"


def copies(rank: RankTrace) -> pl.DataFrame:
    """What GPUs copy from and to their host beside all programs, on its clock: event_id, name, start_ns, end_ns."""
    is_one = pl.col("name").cast(pl.String).is_in([TO_DEVICE, _TO_HOST]) & pl.col("module").is_null()
    found = rank.where(_COPIES, is_one)
    return skew.shifted(found, rank.cached(skew.shifts)).select("event_id", "name", "start_ns", "end_ns")


def sent(rank: RankTrace) -> pl.DataFrame:
    """Those of them from the host."""
    return rank.cached(copies).filter(pl.col("name").cast(pl.String) == TO_DEVICE)


def with_copies(activities: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """The activities of the host, and as sending what GPUs copy while the program's threads launch nothing."""
    copied = rank.cached(sent)
    if copied.is_empty():
        return activities
    alone = intervals.subtract(copied, _launching(activities, host_time.stepping_threads(rank)))
    sending = alone.with_columns(name=pl.lit(TO_DEVICE, pl.Categorical()), tid=pl.lit(""), activity=pl.lit(UPLOAD))
    return pl.concat([activities, sending], how="diagonal")


def beside_copies(parts: pl.DataFrame, activities: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """The parts of gaps, those of launching without what goes on while GPUs copy: programs would wait for that, too."""
    launching = _launching(activities, host_time.stepping_threads(rank))
    beside = intervals.intersect(launching, intervals.union(rank.cached(sent)))
    hidden_ns = parts["end_ns"] - parts["start_ns"] - intervals.uncovered_ns(parts, beside)
    own_ns = pl.when(cause=LAUNCH).then(pl.col("share_ns") - hidden_ns).otherwise("share_ns")
    return parts.with_columns(share_ns=own_ns).filter(pl.col("share_ns") > 0)


def in_launches(activities: pl.DataFrame, threads: pl.Series) -> pl.DataFrame:
    """What other threads send while one of ``threads`` is in a launch: it waits until that is handed to the devices."""
    is_other = ~pl.col("tid").is_in(["", *threads])
    sending = host_time.outermost(activities.filter(is_other, activity=UPLOAD))
    met = sending.rename({"start_ns": "from_ns", "end_ns": "until_ns"}).join_where(
        _launching(activities, threads), pl.col("from_ns") < pl.col("end_ns"), pl.col("until_ns") > pl.col("start_ns")
    )
    within = met.with_columns(pl.max_horizontal("start_ns", "from_ns"), pl.min_horizontal("end_ns", "until_ns"))
    return within.select(activities.columns)


def _launching(activities: pl.DataFrame, threads: pl.Series) -> pl.DataFrame:
    """When one of the threads launches, and does not wait for room in the queue of a device."""
    own = activities.filter(pl.col("tid").is_in(pl.lit(threads).implode()), activity=DISPATCH)
    waiting = activities.filter(pl.col("activity").is_in((BACK_PRESSURE, WAIT)))
    return intervals.subtract(intervals.union(own), waiting)
