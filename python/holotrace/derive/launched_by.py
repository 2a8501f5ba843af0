"""Which operator launched which work: the innermost around the launch, on its thread."""

from __future__ import annotations

import polars as pl

from holotrace.derive import call_tree
from holotrace.derive.kernel_kinds import WORK
from holotrace.tables import CPU_OPS, DEVICE_EVENTS, LAUNCHES
from holotrace.trace import RankTrace

READS = (
    CPU_OPS.only("event_id", "name", "pid", "tid", "start_ns", "end_ns"),
    LAUNCHES.only("launch_id", "device_event_id", "pid", "tid", "launch_start_ns", "launch_end_ns"),
    DEVICE_EVENTS.only("event_id", "kind", "name", "start_ns", "end_ns"),
)
_OWN = ("launch_ns", "self_work_count", "self_work_ns")


def operators(rank: RankTrace) -> pl.DataFrame:
    """Every call of an operator, with what it and those below it took and launched.

    ``self_ns`` is its time in no operator and no launch that it called, ``launch_ns`` the time of launches that it
    called itself; ``self_work_count`` and ``self_work_ns`` are of what these launched.
    """
    nested = _nested(rank)
    is_launch = pl.col("launches")
    own = (
        nested.filter(is_launch)
        .group_by("parent_id")
        .agg(
            launch_ns=(pl.col("end_ns") - pl.col("start_ns")).sum(),
            self_work_count=pl.col("work_count").cast(pl.Int64).sum(),
            self_work_ns=pl.col("work_ns").sum(),
        )
    )
    return (
        nested.filter(~is_launch)
        .join(own, left_on="event_id", right_on="parent_id", how="left")
        .with_columns(pl.col(*_OWN).fill_null(0), pl.col("work_count").cast(pl.Int64))
    )


def work(rank: RankTrace) -> pl.DataFrame:
    """Every kernel and copy that an operator launched: its launch, and the operator's ``op_id`` and start."""
    nested = _nested(rank)
    ops = nested.select(op_id="event_id", operator="name", op_start_ns="start_ns")
    launches = nested.filter("launches").select(launch_id="event_id", op_id="parent_id").join(ops, on="op_id")
    return _launched(rank).join(launches, on="launch_id")


def _nested(rank: RankTrace) -> pl.DataFrame:
    """Operators and launches in one tree."""
    ops = rank[CPU_OPS].select("event_id", "name", "pid", "tid", "start_ns", "end_ns", launches=False)
    launches = (
        rank[LAUNCHES]
        .unique("launch_id")
        .select(
            pl.col("launch_id").alias("event_id"),
            pl.lit(None, ops.schema["name"]).alias("name"),
            "pid",
            "tid",
            pl.col("launch_start_ns").alias("start_ns"),
            pl.col("launch_end_ns").alias("end_ns"),
            launches=True,
        )
    )
    # An operator may take no longer than the launch that it calls, but no launch calls an operator: so number anew.
    calls = pl.concat([ops.sort("event_id"), launches.sort("event_id")]).rename({"event_id": "id"})
    calls = calls.with_row_index("event_id")
    numbers = calls.filter("launches").select(launch_id="id", number="event_id")
    work = _launched(rank).join(numbers, on="launch_id").select("start_ns", "end_ns", launch_id="number")
    return (
        call_tree.nested(calls, work)
        .with_columns(event_id="id", parent_id=pl.col("id").gather(pl.col("parent_id")))
        .drop("id")
    )


def _launched(rank: RankTrace) -> pl.DataFrame:
    return (
        rank[DEVICE_EVENTS]
        .filter(pl.col("kind").is_in(WORK))
        .join(rank[LAUNCHES], left_on="event_id", right_on="device_event_id")
    )
