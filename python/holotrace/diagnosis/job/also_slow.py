"""Devices that are slow and have something else at once: more work than others, or an evaluation that takes longer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import polars as pl

from holotrace.derive.totals import total
from holotrace.diagnosis.job import sizes
from holotrace.diagnosis.job.candidates import Candidate, Job, Where, candidate, of_share, when
from holotrace.diagnosis.job.equal_work import with_others_pooled
from holotrace.diagnosis.job.meetings import together
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.words.classes import EVALUATION, EXPERTS, MORE_WORK, SLOW_DEVICE

# A device is slow beside more work if equal work takes longer by more than healthy devices differ, nearly all of it by
# one factor, and if it is so much of its work.
_SLOW_RATIO, _ALIKE_RATIO, _COMPARABLE_RATIO = 0.025, 0.9, 0.25
# By so much of the excess kernels of one factor differ.
_APART_RATIO = 0.3
# So much of what a slow device's evaluation takes longer explains its clocks, and no more of it.
_EXPLAINED_RATIO = 1.5


def apart(found: Candidate, own: pl.DataFrame, kinds: pl.DataFrame, share: float = 1.0) -> Iterator[Candidate]:
    """The cause, and if its only rank has more work on a slow device, each of the two by itself.

    Args:
        found: The cause.
        own: Its segments, with the part of each that is beyond others, ``part_ns``.
        kinds: Kernels of all ranks, as of ``equal_work.by_kind``.
        share: How much of what it has beyond others it would not have with an even share of the work.
    """
    ratio = _slowness(kinds, found.ranks[0]) if found.cause in (MORE_WORK, EXPERTS) and len(found.ranks) == 1 else 0.0
    if not ratio:
        yield found
        return
    slow_ns = pl.min_horizontal("part_ns", pl.col("time_ns") * (ratio / (1 + ratio)))
    slow = own.with_columns(part_ns=slow_ns)
    left_ns = share * (pl.col("part_ns") - slow_ns)
    more = candidate(found.cause, None, own.with_columns(part_ns=left_ns), Where((), ()))
    evidence = {**found.evidence, "time_ratio": round(found.evidence["time_ratio"] / (1 + ratio), 4)}
    yield replace(found, change=replace(found.change, removed=more.change.removed), evidence=evidence)
    where = Where(found.ranks, when(slow, "part_ns"))
    yield candidate(SLOW_DEVICE, None, slow, where, time_ratio=round(1 + ratio, 4))


def as_fast(kinds: pl.DataFrame, rank: int) -> pl.DataFrame:
    """The rank's kernels as if its device were as fast as those of others, where it is slow."""
    fast = (pl.col("time_ns") / (1 + _slowness(kinds, rank))).round().cast(kinds.schema["time_ns"])
    return kinds.filter(rank=rank).with_columns(time_ns=fast)


def without(job: Job, slow: Sequence[Candidate]) -> Job:
    """The job as if its slow devices had computed as fast as the others: what else ranks differ by shows then."""
    rows = job.rows
    for found in slow:
        is_theirs = pl.col("rank").is_in(found.ranks) & pl.col("row").is_in((account.WORK, account.SEGMENT))
        is_then = pl.col("step").is_in(found.steps) if found.steps else pl.lit(value=True)
        fast = (pl.col("time_ns") / found.evidence["time_ratio"]).round().cast(pl.Int64)
        rows = rows.with_columns(time_ns=pl.when(is_theirs & is_then).then(fast).otherwise("time_ns"))
    return replace(job, rows=rows)


def _slowness(kinds: pl.DataFrame, rank: int) -> float:
    """By how much equal work takes longer on a rank than on others; 0 where it is not all of it by one factor."""
    if not sizes.are_known(kinds):
        return 0.0
    own = with_others_pooled(kinds, rank)
    equal = own.filter(pl.col("count") == pl.col("usual_count"), pl.col("usual_ns") > 0)
    usual_ns = total(equal["usual_ns"])
    if usual_ns <= _COMPARABLE_RATIO * total(own["time_ns"]):
        return 0.0
    ratio = total(equal["time_ns"]) / usual_ns - 1
    longer = pl.col("time_ns") / pl.col("usual_ns") - 1
    alike = equal.filter(longer.is_between((1 - _APART_RATIO) * ratio, (1 + _APART_RATIO) * ratio))
    return ratio if ratio > _SLOW_RATIO and total(alike["usual_ns"]) > _ALIKE_RATIO * usual_ns else 0.0


def with_evaluation(found: Candidate, job: Job, time_ratio: float) -> Candidate:
    """A slow device's cause with what its evaluation takes longer than others', if it is as slow in that.

    Args:
        found: The cause.
        job: The job, of ranks that do the same.
        time_ratio: How many times as long the same kernels take.
    """
    rows = job.of(account.GAP).filter(pl.col("cause") == EVALUATION)
    if rows.is_empty():
        return found
    sums = rows.group_by("rank", "step").agg(pl.col("time_ns").sum())
    usual = sums.filter(~pl.col("rank").is_in(found.ranks)).group_by("step").agg(usual_ns=pl.col("time_ns").median())
    mine = sums.filter(pl.col("rank").is_in(found.ranks), pl.col("step").is_in(found.steps) | pl.lit(not found.steps))
    mine = mine.join(usual, on="step", how="left", nulls_equal=True)
    longer = (1 - pl.col("usual_ns") / pl.col("time_ns")).clip(0, _EXPLAINED_RATIO * (1 - 1 / time_ratio))
    # Where no other rank evaluates it is as slow as at all else.
    longer = longer.fill_null(1 - 1 / time_ratio)
    parts = of_share(rows, mine.select("rank", "step", part_ratio=longer))
    if parts.is_empty() or not parts["part_ns"].sum():
        return found
    evaluated = candidate(SLOW_DEVICE, None, parts, Where((), ()))
    return replace(found, change=together([found.change, replace(evaluated.change, of_hosts={})]))
