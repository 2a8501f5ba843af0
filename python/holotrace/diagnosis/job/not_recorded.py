"""Hosts of which nothing was recorded: what those of other ranks stand still for at the same time tells of them."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from holotrace.diagnosis.job.candidates import Job
from holotrace.diagnosis.job.waits_for_hosts import on_one_clock
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.words.classes import EVALUATION, STALLING, UNRECORDED

# So long gaps are compared; those that are of one thing end as soon after each other, and are as long, by this part.
_LEAST_NS, _APART_RATIO = 1_000_000, 0.5
# So many hosts are enough to tell what all do, of whom no more are asked; and so many of the longest gaps are told.
_FEWEST, _MOST, _MOST_GAPS = 2, 16, 4_096
_TELLING = ("cause", "name", "detail", "operator")


def told_by_others(job: Job) -> Job:
    """The job with what most hosts that were recorded stand still for as what the others do for as long then.

    All ranks run one program: what all do would seem to be of some, and to cost nothing, as the others' is hidden by
    what nobody knows.
    """
    # Of launches alone nothing tells what a host does between them.
    every = job.of(account.HOST).filter(pl.col("time_ns") > 0)["rank"].unique().sort()
    gaps = job.of(account.GAP).filter(pl.col("time_ns") >= _LEAST_NS)
    bare = gaps.filter(~pl.col("rank").is_in(pl.lit(every).implode()), pl.col("cause") == UNRECORDED)
    bare = bare.top_k(_MOST_GAPS, by="time_ns")
    recorded = every.head(_MOST)
    is_telling = pl.col("cause").is_in((*STALLING, EVALUATION))
    others = gaps.filter(pl.col("rank").is_in(pl.lit(recorded).implode()), is_telling)
    if bare.is_empty() or others.is_empty() or len(recorded) < _FEWEST:
        return job
    clocks = job.visits.select("rank", "clock_offset_ns").unique("rank")
    asked = on_one_clock(bare, clocks).select("rank", "at_ns", "start_ns", "clock_ns", "time_ns")
    known = on_one_clock(others, clocks).select("clock_ns", *_TELLING, other="rank", other_ns="time_ns")
    beside = asked.join(recorded.to_frame("other"), how="cross").sort("clock_ns")
    found = beside.join_asof(
        known, on="clock_ns", by="other", strategy="nearest", coalesce=False, check_sortedness=False
    ).filter(
        (pl.col("clock_ns") - pl.col("clock_ns_right")).abs() <= _APART_RATIO * pl.col("time_ns"),
        pl.col("other_ns").is_between(_APART_RATIO * pl.col("time_ns"), pl.col("time_ns") / _APART_RATIO),
    )
    keys = ["rank", "at_ns", "start_ns"]
    told = (
        found.sort("other")
        .group_by(*keys, "cause", "name", maintain_order=True)
        .agg(pl.col("detail", "operator").first(), pl.col("other").n_unique())
        .filter(pl.col("other") > len(recorded) / 2)
        .select(*keys, *(pl.col(name).alias(f"their_{name}") for name in _TELLING), row=pl.lit(account.GAP))
    )
    rows = job.rows.join(told, on=["row", *keys], how="left", maintain_order="left")
    is_told = pl.col("their_cause").is_not_null() & (pl.col("cause") == UNRECORDED)
    named = {name: pl.when(is_told).then(f"their_{name}").otherwise(name) for name in _TELLING}
    return replace(job, rows=rows.with_columns(**named).select(job.rows.columns))
