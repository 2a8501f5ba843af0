"""Recordings without steps that begin in the middle of a turn, on some ranks: these have another number of turns."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from holotrace.diagnosis import account
from holotrace.diagnosis.candidates import Job


def without(job: Job) -> Job:
    """The job without what ranks computed before their first turn, and in those that not all ranks have.

    Marked steps have numbers that count for all ranks.
    """
    turns = job.of(account.WORK).group_by("rank").agg(pl.col("step").max())["step"]
    last = turns.min()
    if last is None or not job.of(account.STEP).is_empty():
        return job
    is_computed = pl.col("row").is_in((account.WORK, account.SEGMENT))
    return replace(job, rows=job.rows.filter(~is_computed | (pl.col("step") <= last).fill_null(value=False)))
