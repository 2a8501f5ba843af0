"""Parts of recordings that cannot be compared: of turns that some ranks have only a part of, or lost work of."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from holotrace.diagnosis.job.candidates import Job
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.rank.computed import MOST_PIECES

_COMPUTED = (account.WORK, account.SEGMENT)
# When a rank went on from a meeting, by its own clock.
_WENT_ON_NS = pl.col("left_ns") + pl.col("clock_offset_ns")


def without(job: Job) -> Job:
    """The job without what ranks computed in steps of which half of them lost work, and parts of steps and turns.

    Those that have all of it would have more work than is usual.
    """
    ranks = job.of(account.LOST).group_by("step").agg(pl.col("rank").n_unique()).drop_nulls()
    lost = ranks.filter(2 * pl.col("rank") >= len(job.ranks))["step"]
    is_lost = pl.col("row").is_in(_COMPUTED) & pl.col("step").is_in(pl.lit(lost).implode()).fill_null(value=False)
    return _in_common(_of_turns(_of_ends(job if lost.is_empty() else replace(job, rows=job.rows.filter(~is_lost)))))


def _of_ends(job: Job) -> Job:
    """The job of XLA without what ranks computed in the first and the last step, and before, if not all have as much.

    Devices are in the middle of programs as recordings begin and end, and elsewhere on each rank. A rank that has as
    much in another step has recorded all of it.
    """
    if not _is_xla(job):
        return job
    computed = job.of(account.WORK).group_by("rank", "step").agg(pl.col("count").sum())
    ranks = pl.DataFrame({"rank": job.ranks}, schema={"rank": computed.schema["rank"]})
    every = computed.select("step").unique().join(ranks, how="cross")
    counts = every.join(computed, on=["rank", "step"], how="left", nulls_equal=True).with_columns(
        pl.col("count").fill_null(0)
    )
    is_marked = pl.col("step").is_not_null()
    is_usual = is_marked & (pl.len().over("rank", "count", is_marked) > 1) & (pl.col("count") > 0)
    is_same = pl.col("count").n_unique().over("step") == 1
    is_end = ~is_marked | pl.col("step").is_in([counts["step"].min(), counts["step"].max()])
    # Without steps nothing is before them.
    is_part = is_end & ~is_usual & ~is_same & pl.lit(counts["step"].null_count() < counts.height)
    parts = counts.filter(is_part).select("step").unique()
    is_computed = pl.col("row").is_in(_COMPUTED)
    others = job.rows.filter(is_computed).join(parts, on="step", how="anti", nulls_equal=True, maintain_order="left")
    return replace(job, rows=pl.concat([job.rows.filter(~is_computed), others]))


def _is_xla(job: Job) -> bool:
    return account.XLA in job.of(account.WINDOW)["detail"]


def _of_turns(job: Job) -> Job:
    """The job without what ranks computed before their first turn, and in those that not all ranks have.

    Marked steps have numbers that count for all ranks.
    """
    turns = job.of(account.WORK).group_by("rank").agg(pl.col("step").max())["step"]
    last = turns.min()
    if last is None or not job.of(account.STEP).is_empty():
        return job
    is_computed = pl.col("row").is_in(_COMPUTED)
    return replace(job, rows=job.rows.filter(~is_computed | (pl.col("step") <= last).fill_null(value=False)))


def _in_common(job: Job) -> Job:
    """The job, where nothing marks steps or turns, without what not all ranks have recorded.

    That is what they computed before the first meeting of all of them that each has recorded, and after the last, if
    some run more kernels there than others.
    """
    work = job.of(account.WORK)
    met = job.visits.filter(_is_of_all(job)) if not job.visits.is_empty() else job.visits
    is_told_by_steps = work.is_empty() or work["step"].null_count() < work.height
    is_computed = pl.col("row").is_in(_COMPUTED)
    if len(job.ranks) == 1 or is_told_by_steps:
        return job
    if met.is_empty():
        counts = work.group_by("rank").agg(pl.col("count").sum())["count"]
        # Programs exchange much that holds nobody up.
        is_known = not _is_xla(job) or (len(counts) == len(job.ranks) and counts.n_unique() == 1)
        return job if is_known else replace(job, rows=job.rows.filter(~is_computed))
    ran = work.group_by("rank").agg(begin_ns=pl.col("start_ns").min(), end_ns=pl.col("start_ns").max())
    went_on = met.select(rank=pl.col("rank").cast(work.schema["rank"]), went_on_ns=_WENT_ON_NS, match="match")
    is_within = pl.col("went_on_ns").is_between("begin_ns", "end_ns").all().over("match")
    of_all = pl.col("went_on_ns").filter("is_within")
    bounds = (
        went_on.join(ran, on="rank")
        .with_columns(is_within=is_within)
        .group_by("rank")
        .agg(
            since_ns=of_all.min(),
            until_ns=of_all.max(),
            before=(pl.col("went_on_ns") < of_all.min()).sum(),
            after=(pl.col("went_on_ns") > of_all.max()).sum(),
        )
    )
    computed = job.rows.filter(is_computed).join(bounds, on="rank", maintain_order="left")
    for is_there in (pl.col("start_ns") < pl.col("since_ns"), pl.col("start_ns") >= pl.col("until_ns")):
        there = computed.filter(is_there, pl.col("row") == account.WORK)
        counts = there.group_by("rank").agg(pl.col("count").sum())["count"]
        if len(counts) not in (0, len(job.ranks)) or counts.n_unique() > 1:
            computed = computed.filter(~is_there)
    if bounds["since_ns"].null_count() or max(*bounds["before"], *bounds["after"]) >= MOST_PIECES:
        # No part of the work is known to be that of all.
        computed = computed.clear()
    return replace(job, rows=pl.concat([job.rows.filter(~is_computed), computed.select(job.rows.columns)]))


def _is_of_all(job: Job) -> pl.Expr:
    """Whether a meeting held up all ranks, so that none computed as it ended."""
    return (pl.col("rank").n_unique() == len(job.ranks)).over("match") & (pl.col("time_ns") > 0).all().over("match")
