"""What hosts of all ranks of XLA do for as long, though devices of only some of them stand still for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from holotrace.diagnosis.job.candidates import NAMED_RATIO, Candidate, Job
from holotrace.diagnosis.rank.xla.hosts import SPENT
from holotrace.diagnosis.words.classes import COMPILATION, LAUNCH, STALLING, UNRECORDED, UPLOAD

# Of these one thread asks for what others do, which have names of their own, or nobody knows the name.
_NAMELESS = (COMPILATION, UPLOAD, LAUNCH, UNRECORDED)


def told(candidates: Sequence[Candidate], job: Job) -> list[Candidate]:
    """The candidates, those of some ranks as everybody's where the others' hosts do that for as long in its steps.

    Devices of the others stand at a barrier meanwhile, for a rank that something else makes later still: without it on
    that rank alone the job would wait for them.
    """
    spent = job.of(SPENT)
    if spent.is_empty() or len(job.ranks) < 2:
        return list(candidates)
    return [_told(each, spent, job) if each.cause in (*STALLING, *_NAMELESS) else each for each in candidates]


def _told(found: Candidate, spent: pl.DataFrame, job: Job) -> Candidate:
    if not found.ranks or len(found.ranks) == len(job.ranks):
        return found
    is_same = pl.col("cause") == found.cause
    is_same &= pl.col("name").eq_missing(pl.lit(found.responsible)) if found.cause not in _NAMELESS else True
    is_same &= pl.col("step").is_in(found.steps) if found.steps else True
    sums = dict(spent.filter(is_same).group_by("rank").agg(pl.col("time_ns").sum()).iter_rows())
    most = max(sums.get(rank, 0) for rank in found.ranks)
    others = [sums.get(rank, 0) for rank in job.ranks if rank not in found.ranks]
    is_everybodys = min(others) > 0 and min(others) >= NAMED_RATIO * most
    return replace(found, ranks=()) if is_everybodys else found
