"""Computing that takes longer than it needs to, as causes: operators that most ranks compute with too slowly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from holotrace.diagnosis.job.candidates import Candidate, Job, Where, by_rank, candidate, limits, usually
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.rank.inefficient import SLOW_WORK
from holotrace.diagnosis.rank.small_kernels import REPEATED
from holotrace.diagnosis.words.classes import LAUNCH, UNFUSED_ATTENTION, UNFUSED_OPTIMIZER


def causes(job: Job) -> Iterator[Candidate]:
    """Operators by what is wrong with them; what one rank alone does is told by comparing ranks.

    Of what could be fused its launches are a part, where the device waits for them.
    """
    found = job.of(SLOW_WORK)
    for (cause,), rows in found.group_by("cause", maintain_order=True):
        if rows["rank"].n_unique() > len(job.ranks) / 2:
            names = rows.group_by("name").agg(pl.col("time_ns").sum()).sort("time_ns", "name", descending=[True, False])
            name = str(names["name"][0])
            where = Where(job.ranks if len(job.ranks) == 1 else (), usually(rows, "time_ns"))
            # What is fused is launched by fewer calls.
            is_fused = cause in (UNFUSED_ATTENTION, UNFUSED_OPTIMIZER)
            late = job.of(account.GAP).filter(pl.lit(is_fused), pl.col("cause") == LAUNCH, pl.col("name") == name)
            parts = pl.concat([rows, late], how="diagonal_relaxed").with_columns(part_ns="time_ns")
            told = candidate(str(cause), name, parts, where, of_hosts=is_fused)
            # So are launches that are laid to what hosts had done before.
            is_laid = ~pl.col("cause").is_in((LAUNCH, REPEATED))
            laid = job.of(account.CHAIN).filter(pl.lit(is_fused), is_laid, pl.col("name") == name)
            yield replace(told, change=replace(told.change, limits=limits(late), later=by_rank(laid)))
