"""Parts of recordings that cannot be compared: of turns that some ranks have only a part of, or lost work of."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from holotrace.diagnosis.job.candidates import Job
from holotrace.diagnosis.rank import account

_COMPUTED = (account.WORK, account.SEGMENT)


def without(job: Job) -> Job:
    """The job without what ranks computed in steps of which half of them lost work, and parts of turns.

    Those that have all of it would have more work than is usual.
    """
    ranks = job.of(account.LOST).group_by("step").agg(pl.col("rank").n_unique()).drop_nulls()
    lost = ranks.filter(2 * pl.col("rank") >= len(job.ranks))["step"]
    is_lost = pl.col("row").is_in(_COMPUTED) & pl.col("step").is_in(pl.lit(lost).implode()).fill_null(value=False)
    return _of_turns(job if lost.is_empty() else replace(job, rows=job.rows.filter(~is_lost)))


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
