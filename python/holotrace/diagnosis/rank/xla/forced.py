"""Graphs that PyTorch/XLA ran in the middle of a step for a result that was read: the step's own repeats all of it."""

from __future__ import annotations

import polars as pl

from holotrace.core.trace import RankTrace
from holotrace.derive import host_time
from holotrace.derive.host_activities import INPUT_RANGES, TRACING
from holotrace.diagnosis.rank.xla import gaps as xla_gaps
from holotrace.diagnosis.rank.xla import hosts as xla_hosts
from holotrace.diagnosis.words.classes import SYNCHRONIZATION


def runs(rank: RankTrace) -> pl.DataFrame:
    """``launch_id`` of each, ``cause`` and ``name``, as what read the result is told.

    A graph that no step follows may be all that is computed, and one that takes longer than its step's is no part of
    that.
    """
    tracing = host_time.outermost(host_time.activities(rank, INPUT_RANGES).filter(activity=TRACING))
    spans = tracing.select(since_ns="start_ns", is_forced=pl.col("name").cast(pl.String) == host_time.SYNC)
    if not spans["is_forced"].any():
        return pl.DataFrame(schema={"launch_id": pl.UInt32, "cause": pl.String, "name": pl.String})
    launched = rank[xla_gaps.RUNS].drop_nulls(["launch_id", "launch_ns"]).group_by("launch_id")
    lasted = (pl.col("end_ns") - pl.col("start_ns")).max()
    every = launched.agg(pl.col("launch_ns").min(), time_ns=lasted).sort("launch_ns", "launch_id")
    known = every.join_asof(
        spans.sort("since_ns"), left_on="launch_ns", right_on="since_ns", check_sortedness=False
    ).drop_nulls("is_forced")
    of_step = pl.when(~pl.col("is_forced")).then("time_ns").backward_fill()
    found = known.filter("is_forced", of_step >= pl.col("time_ns"))
    waits = rank.cached(xla_hosts.host).waits.select("responsible", "began_ns").drop_nulls().sort("began_ns")
    asked = found.join_asof(waits, left_on="launch_ns", right_on="began_ns", check_sortedness=False)
    return asked.select("launch_id", cause=pl.lit(SYNCHRONIZATION), name="responsible")
