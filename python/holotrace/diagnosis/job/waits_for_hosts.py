"""Hosts that wait for another rank's, as workers of a server do for their scheduler: they lose what that loses."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from holotrace.diagnosis.job.candidates import Candidate, Job
from holotrace.diagnosis.job.meetings import Change, together
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.words.classes import FROM_OTHERS, PAUSE, STALLING, UNRECORDED

# The wait and what it was for end with the next launches of both ranks, so much of the wait apart.
_APART_RATIO = 0.5
_OWNER = ("rank", "at_ns", "time_ns")


def apart(job: Job) -> tuple[Job, pl.DataFrame]:
    """The job without gaps in which a host waited for what another did, and these gaps, with that of the other.

    Of the other it is ``owner_rank``, ``owner_at_ns`` and ``owner_time_ns``, on its clock.
    """
    gaps = job.of(account.GAP)
    names = pl.concat_str(pl.col("name", "detail").fill_null(""), separator=" ")
    is_waiting = names.str.contains(FROM_OTHERS)
    waiting = gaps.filter(is_waiting)
    if waiting.is_empty() or len(job.ranks) < 2:
        return job, waiting
    clocks = job.visits.select("rank", "clock_offset_ns").unique("rank")
    # What a gap was most of.
    holding = (
        gaps.filter(~is_waiting)
        .sort("time_ns", "name", descending=[True, False])
        .unique(["rank", "at_ns"], keep="first", maintain_order=True)
        .filter(pl.col("cause").is_in((*STALLING, PAUSE, UNRECORDED)))
    )
    holding = on_one_clock(holding.select(*_OWNER), clocks).select(
        "clock_ns", *(pl.col(name).alias(f"owner_{name}") for name in _OWNER)
    )
    found = (
        on_one_clock(waiting, clocks)
        .join_asof(holding, on="clock_ns", strategy="nearest", coalesce=False, check_sortedness=False)
        .filter((pl.col("clock_ns") - pl.col("clock_ns_right")).abs() <= _APART_RATIO * pl.col("time_ns"))
    )
    keys = ["rank", "at_ns", "start_ns", "cause", "name"]
    told = job.rows.join(found.select(*keys, row=pl.lit(account.GAP)), on=["row", *keys], how="anti", nulls_equal=True)
    return replace(job, rows=told), found


def with_waits(found: Candidate, parts: pl.DataFrame, waiting: pl.DataFrame) -> Candidate:
    """The cause with as much of others' waits for it as it takes away of itself, its ``parts``."""
    if waiting.is_empty():
        return found
    owner = parts.select("part_ns", *(pl.col(name).alias(f"owner_{name}") for name in _OWNER))
    taken = waiting.join(owner, on=[f"owner_{name}" for name in _OWNER]).with_columns(
        pl.min_horizontal("time_ns", "part_ns").alias("part_ns")
    )
    removed: dict[int, list[tuple[int, float]]] = {}
    for rank, at_ns, part_ns in taken.select("rank", "at_ns", "part_ns").iter_rows():
        removed.setdefault(rank, []).append((at_ns, part_ns))
    return replace(found, change=together([found.change, Change(removed=removed, of_hosts=removed)]))


def on_one_clock(rows: pl.DataFrame, clocks: pl.DataFrame) -> pl.DataFrame:
    offset = pl.col("clock_offset_ns").fill_null(0)
    return rows.join(clocks, on="rank", how="left").with_columns(clock_ns=pl.col("at_ns") - offset).sort("clock_ns")
