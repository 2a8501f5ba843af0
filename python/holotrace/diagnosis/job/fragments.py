"""Parts of recordings that cannot be compared: of turns that some ranks have only a part of, or lost work of."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from holotrace.diagnosis.job.candidates import Job
from holotrace.diagnosis.rank import account

_COMPUTED = (account.WORK, account.SEGMENT)


def without(job: Job) -> Job:
    """The job without what ranks computed in steps of which half of them lost work, and parts of steps and turns.

    Those that have all of it would have more work than is usual.
    """
    ranks = job.of(account.LOST).group_by("step").agg(pl.col("rank").n_unique()).drop_nulls()
    lost = ranks.filter(2 * pl.col("rank") >= len(job.ranks))["step"]
    is_lost = pl.col("row").is_in(_COMPUTED) & pl.col("step").is_in(pl.lit(lost).implode()).fill_null(value=False)
    return _of_turns(_of_ends(job if lost.is_empty() else replace(job, rows=job.rows.filter(~is_lost))))


def _of_ends(job: Job) -> Job:
    """The job of XLA without what ranks computed in the first and the last step, and before, if not all have as much.

    Devices are in the middle of programs as recordings begin and end, and elsewhere on each rank.
    """
    if account.XLA not in job.of(account.WINDOW)["detail"]:
        return job
    counts = job.of(account.WORK).group_by("rank", "step").agg(pl.col("count").sum())
    is_usual = pl.col("count") == pl.col("count").quantile(0.5, "lower").over("rank")
    is_same = pl.col("count").n_unique().over("step") == 1
    is_end = pl.col("step").is_null() | pl.col("step").is_in([counts["step"].min(), counts["step"].max()])
    parts = counts.filter(is_end, ~is_usual & ~is_same).select("step").unique()
    is_computed = pl.col("row").is_in(_COMPUTED)
    others = job.rows.filter(is_computed).join(parts, on="step", how="anti", nulls_equal=True, maintain_order="left")
    return replace(job, rows=pl.concat([job.rows.filter(~is_computed), others]))


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
