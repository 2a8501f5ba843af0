"""What hosts do only while their devices work, and are less far ahead when something else keeps them from launching."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import polars as pl

from holotrace.diagnosis.job import of_functions
from holotrace.diagnosis.job.candidates import (
    NAMED_RATIO,
    Candidate,
    Job,
    are_same_steps,
    by_rank,
    called_in,
    lower_median,
    when,
)
from holotrace.diagnosis.job.meetings import Change, Meetings, Removed, together
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.words.classes import BY_NAME, COPY, EVALUATION, FUNCTION, LAUNCH, PAUSE, STALLING

# Evidence: that it costs nothing but what others stand still for longer.
LESS_AHEAD = "is_less_ahead"
# As it costs nothing by itself, only more than this of the job is worth saying.
_LEAST_RATIO = 0.02
_STANDING = (*STALLING, EVALUATION)
# What hosts do between launches.
_HIDDEN = (FUNCTION, PAUSE)
_KEY = ("cause", "key")


def causes(job: Job, others: Sequence[Candidate]) -> Iterator[Candidate]:
    """What hosts would have hidden of what they stand still for without functions that they are in before that.

    Args:
        job: The job.
        others: What devices wait for is told by these, which have what they hide later, too.
    """
    hidden = job.of(account.RECOVERED).filter(pl.col("cause").is_in((*STALLING, EVALUATION, COPY)))
    if hidden.is_empty():
        return
    name = pl.col("name").fill_null("").str.replace_all(of_functions.NUMBERED, "$1")
    keyed = hidden.with_columns(name=name).with_columns(
        key=pl.when(pl.col("cause").is_in(BY_NAME)).then("name").otherwise(pl.lit(""))
    )
    known = {(each.cause, (each.responsible or "") if each.cause in BY_NAME else "") for each in others}
    functions = of_functions.times(job)
    for (cause, key), rows in keyed.sort(*_KEY, "rank", "at_ns").group_by(*_KEY, maintain_order=True):
        if (cause, key) not in known and rows["time_ns"].sum():
            yield _of(str(cause), rows, functions, job)


def worth_saying(
    costs: Sequence[tuple[Candidate, int]],
    meetings: Meetings,
    job_ns: int,
    least_ratio: Callable[[Candidate], float],
) -> list[tuple[Candidate, int]]:
    """Those of the causes that cost mostly what others stand still for longer, if that is enough.

    Args:
        costs: All causes, each with what it costs by itself.
        meetings: Replays the job.
        job_ns: How long that takes.
        least_ratio: What part of it a cause is worth telling from.
    """
    # What costs enough by itself is told, or a part of something else.
    later = [
        _told(c)
        for c, cost in costs
        if LESS_AHEAD in c.evidence or (c.change.later and c.cause in _STANDING and cost <= least_ratio(c) * job_ns)
    ]
    every = [(c, meetings.saved_ns(c.change)) for c in later]
    return [(c, cost) for c, cost in every if cost > max(_LEAST_RATIO, least_ratio(c)) * job_ns]


def without_what_they_hide(kept: list[tuple[Candidate, int]]) -> list[tuple[Candidate, int]]:
    """The causes but for what ranks do or launch too late only because they are less far ahead, which costs the same.

    Once what they stood still for before is gone, it is hidden: so it is gone, too, in what causes cost together.
    """

    def hides(delay: Candidate, part: Candidate) -> bool:
        is_late, is_other = part.cause == LAUNCH and bool(part.ranks), part.cause in _HIDDEN
        lost_ns = _sum_ns(part.change.removed)
        return (
            ((is_late and LESS_AHEAD in delay.evidence) or (is_other and _sum_ns(delay.change.removed) > lost_ns))
            and delay.ranks == part.ranks
            and are_same_steps(delay.steps, part.steps)
            and _sum_ns(delay.change.later) >= NAMED_RATIO * lost_ns > 0
        )

    hiding = {id(part): [delay for delay, _ in kept if hides(delay, part)] for part, _ in kept}
    parts: dict[int, list[Change]] = {}
    for part, _ in kept:
        if (by := next((delay for delay in hiding[id(part)] if not hiding[id(delay)]), None)) is not None:
            parts.setdefault(id(by), []).append(part.change)

    def with_parts(found: Candidate) -> Candidate:
        hidden = parts.get(id(found))
        if not hidden:
            return found
        return replace(found, change=replace(together([found.change, *hidden]), later=found.change.later))

    return [(with_parts(found), cost) for found, cost in kept if not hiding[id(found)]]


def _sum_ns(parts: Mapping[int, Removed]) -> float:
    return sum(ns for of_rank in parts.values() for _, ns in of_rank)


def _told(found: Candidate) -> Candidate:
    """The cause as one that costs what others stand still for longer; what evaluates does so whatever that costs."""
    is_evaluation = found.cause == EVALUATION
    return found if is_evaluation else replace(found, evidence={**found.evidence, LESS_AHEAD: True})


def _of(cause: str, rows: pl.DataFrame, functions: pl.DataFrame, job: Job) -> Candidate:
    longest = rows.sort("time_ns", "rank", "at_ns", descending=[True, False, False]).row(0, named=True)
    times = functions.filter(name=longest["name"])
    later = by_rank(rows)
    return Candidate(
        cause,
        Change(later=later),
        _whose(tuple(sorted(later)), times, set(rows["rank"]), job),
        when(times, "time_ns"),
        longest["name"] or None,
        event_rank=longest["rank"],
        event_id=longest["event_id"],
        evidence={
            "time_ns": int(rows["time_ns"].sum()),
            "count": int(rows["count"].sum()),
            **called_in(rows, "time_ns"),
            LESS_AHEAD: True,
        },
    )


def _whose(ranks: tuple[int, ...], times: pl.DataFrame, calling: set[int], job: Job) -> tuple[int, ...]:
    """The ranks that stand still later, or none if the others' hosts are as long in the function.

    Where that is not known most others are those that are ``calling`` it as well.
    """
    of_rank = dict(times.group_by("rank").agg(pl.col("time_ns").sum()).iter_rows())
    others = [rank for rank in job.ranks if rank not in ranks]
    if of_rank:
        own = max(of_rank.get(rank, 0) for rank in ranks)
        usual = lower_median(pl.Series([of_rank.get(rank, 0) for rank in others])) if others else 0
        is_everybodys = usual > of_functions.ALIKE_RATIO * own
    else:
        is_everybodys = len(calling.intersection(others)) > len(others) / 2
    is_of_all = len(job.ranks) > 1 and not others
    return () if is_everybodys or is_of_all else ranks
