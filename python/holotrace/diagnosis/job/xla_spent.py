"""What a job of XLA is without a cause: its hosts do none of that, also while their devices work."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import polars as pl

from holotrace.derive.host_activities import INPUT_RANGES, PROGRAM, of_calls, of_ranges
from holotrace.derive.totals import total
from holotrace.diagnosis.job.candidates import NAMED_RATIO, Candidate, Job, beyond_others, when, who
from holotrace.diagnosis.job.meetings import Change, Meetings, Removed, together
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.rank.xla.hosts import SPENT, WAITED
from holotrace.diagnosis.rank.xla.saving import READING
from holotrace.diagnosis.words.classes import (
    BY_NAME,
    FUNCTION,
    LAUNCH,
    SLOW_HOST,
    STALLING,
    SYNCHRONIZATION,
    UNRECORDED,
    UPLOAD,
)

# A slow host takes longer for these, too.
_WHOLE_OF_ALL = (UPLOAD, LAUNCH, UNRECORDED)
# Of fewer hosts none is one of a few.
_FEWEST = 3


def without(kept: list[tuple[Candidate, int]], job: Job, meetings: Meetings) -> list[tuple[Candidate, int]]:
    """The causes, each with what the job gains if its hosts do none of it, if that is more."""
    if job.of(SPENT).is_empty():
        return kept
    every = [c for c, _ in kept]
    whole = [(c if _is_sending(c, cost, kept) else _without(c, job, every), cost) for c, cost in kept]
    return [(_named(candidate, job), max(cost, meetings.saved_ns(candidate.change))) for candidate, cost in whole]


def of_some(candidates: Sequence[Candidate], job: Job) -> list[Candidate]:
    """What some hosts do beyond the others, of which their gaps tell nothing as they do something else for longer.

    A host that collects garbage, and reads input as all others do, is late by both. A slow host does everything longer.
    """
    spent = job.of(SPENT).filter(pl.col("cause").is_in(STALLING))
    if spent.is_empty() or len(job.ranks) < _FEWEST:
        return []
    keys = ["cause", "name"]
    beyond = beyond_others(spent, job, tuple(keys)).filter(pl.col("beyond_ns") > 0)
    known = {(each.cause, each.responsible if each.cause in BY_NAME else None) for each in candidates}
    slow = {rank for each in candidates if each.cause == SLOW_HOST for rank in each.ranks}
    found: list[Candidate] = []
    for (cause, name), own in beyond.partition_by(keys, as_dict=True, maintain_order=True).items():
        ranks = who(own, "beyond_ns")
        is_known = (cause, name if cause in BY_NAME else None) in known
        if is_known or 2 * len(ranks) > len(job.ranks) or total(own["beyond_ns"]) <= job.floor_ns:
            continue
        theirs = own.filter(pl.col("rank").is_in(ranks))
        if slow.intersection(ranks) or 2 * total(theirs["beyond_ns"]) < total(theirs["time_ns"]):
            continue
        evidence = {"time_ns": int(theirs["beyond_ns"].sum()), "count": theirs.height}
        found.append(Candidate(str(cause), Change(), ranks, when(theirs, "beyond_ns"), name, evidence=evidence))
    return found


def of_all(candidates: Sequence[Candidate], job: Job) -> list[Candidate]:
    """What all hosts do for as long on their way to launches, of which gaps tell nothing as one does more for longer.

    Without it, that one would be as much sooner. What a wait exposes, or what few steps have, is no cause beside that:
    without that it is hidden. Where what is sent takes long, it may wait for what is sent before, whatever hosts do.
    """
    is_of_some = any(each.cause in STALLING and 0 < len(each.ranks) < len(job.ranks) for each in candidates)
    is_beside = any(each.cause in (SYNCHRONIZATION, UPLOAD) for each in candidates)
    if not is_of_some or is_beside or not _are_mostly_late(job):
        return []
    known = {(each.cause, each.responsible if each.cause in BY_NAME else None) for each in candidates}
    spent = job.of(SPENT).filter(pl.col("cause").is_in(STALLING))
    spent = spent.with_columns(told=pl.when(pl.col("cause").is_in(BY_NAME)).then("name"))
    found: list[Candidate] = []
    for (cause, name), own in spent.partition_by("cause", "told", as_dict=True, maintain_order=True).items():
        sums = own.group_by("rank").agg(pl.col("time_ns").sum())["time_ns"]
        least: Any = sums.min() if len(sums) == len(job.ranks) else 0
        most: Any = sums.max()
        if (cause, name) in known or least <= max(job.floor_ns, NAMED_RATIO * most):
            continue
        evidence = {"time_ns": int(own["time_ns"].sum()), "count": own.height}
        of_name = own.group_by("name").agg(pl.col("time_ns").sum()).sort("time_ns", "name", descending=[True, False])
        steps, longest = when(own, "time_ns"), of_name["name"][0]
        found.append(Candidate(str(cause), Change(), (), steps, longest, evidence=evidence))
    return found


def once(
    kept: list[tuple[Candidate, int]], beside: Sequence[Candidate], meetings: Meetings
) -> list[tuple[Candidate, int]]:
    """The causes but for those that all hosts have, ``beside``, if most of what they cost is what some lose anyway.

    Hosts that do less are further ahead, which hides what some of them do beyond that: both cost the same once.
    """
    of_all = {(each.cause, each.responsible) for each in beside}
    changes = [each.change for each, _ in kept if each.ranks]
    if not of_all or not changes:
        return kept
    of_some_ns = meetings.saved_ns(together(changes))
    return [
        (each, cost)
        for each, cost in kept
        if each.ranks
        or (each.cause, each.responsible) not in of_all
        or 2 * (meetings.saved_ns(together([*changes, each.change])) - of_some_ns) >= cost
    ]


def _are_mostly_late(job: Job) -> bool:
    """Whether devices of a rank stand still in most of the steps."""
    steps = job.of(account.STEP)["step"].n_unique()
    stood = job.of(account.GAP).drop_nulls("step").group_by("rank", "step").agg(pl.col("time_ns").sum())
    late: Any = stood.filter(pl.col("time_ns") * steps > job.floor_ns).group_by("rank").len()["len"].max()
    return 2 * (late or 0) >= steps


def beside_gaps(costs: list[tuple[Candidate, int]], job: Job, meetings: Meetings) -> list[tuple[Candidate, int]]:
    """The causes, waits and what hosts are held up by each with what the job gains if its hosts go on at once.

    Of waits that is mostly what they expose, and of several things that a host does one hides the others in its gaps.
    """
    if job.of(WAITED).is_empty() and job.of(SPENT).is_empty():
        return costs
    whole = [_is_whole(c, job) and not _is_sending(c, cost, costs) for c, cost in costs]
    every = [c for c, _ in costs]
    return [
        (c, _at_once(_without(c, job, every), cost, meetings) if is_whole else cost)
        for (c, cost), is_whole in zip(costs, whole, strict=True)
    ]


def _at_once(found: Candidate, cost: int, meetings: Meetings) -> int:
    """What the job gains if its hosts go on at once, which of waits that are known is all."""
    saved_ns = meetings.saved_ns(found.change)
    return saved_ns if found.cause == SYNCHRONIZATION and found.change.waits else max(cost, saved_ns)


def _is_whole(found: Candidate, job: Job) -> bool:
    """Whether the cause is judged by all of it: a host that is slow at all that it does sends slowly, too.

    The only host of a job is all of them; but what it launches between waits is a part of these.
    """
    is_only = len(job.ranks) == 1 and found.cause != LAUNCH
    is_of_all = found.cause in _WHOLE_OF_ALL and (not found.ranks or is_only)
    return found.cause in (SYNCHRONIZATION, *STALLING, *READING) or is_of_all


def _is_sending(found: Candidate, cost: int, costs: list[tuple[Candidate, int]]) -> bool:
    """Whether hosts are long in launching only as what these launch programs with is sent, which costs more."""
    sent = (ns for each, ns in costs if each.cause == UPLOAD and each.ranks == found.ranks)
    return found.cause == LAUNCH and cost < max(sent, default=0)


def _without(found: Candidate, job: Job, every: Sequence[Candidate]) -> Candidate:
    """The cause with all that its hosts do of it, or all their waits for it; as it is where that is not known.

    What some hosts have beyond others is not everybody's, if that is one of ``every`` cause.
    """
    ranks = found.ranks or job.ranks
    if found.cause in (SYNCHRONIZATION, *READING):
        # Without others their hosts would only be further ahead.
        waits = _of_name(job.of(WAITED), found).filter(pl.col("rank").is_in(ranks), cause=found.cause)
        ended = {rank: frozenset(own["at_ns"]) for (rank,), own in waits.partition_by("rank", as_dict=True).items()}
        found = replace(found, change=replace(found.change, waits=ended)) if ended else found
    if found.cause == SYNCHRONIZATION:
        return _with_work_after_waits(found, job) if found.change.waits else found
    if found.cause == SLOW_HOST:
        spent = _slowed(found, replace(job, rows=_as_launching(job.rows, ranks)), every)
        return replace(found, change=_with_spent(spent, found, job))
    if found.cause not in (*STALLING, *READING, *_WHOLE_OF_ALL):
        return found
    own = _of_name(job.of(SPENT), found).filter(cause=found.cause)
    spent = _beyond(own, ranks, job) if found.ranks else _without_beyond(own, _who_has_more(found, every), job)
    return replace(found, change=_with_spent(spent, found, job))


def _with_spent(spent: pl.DataFrame, found: Candidate, job: Job) -> Change:
    """The change of the cause with what its hosts do of it, ``ns``."""
    parts: dict[int, list[tuple[int, float]]] = {}
    for rank, at, ns in spent.filter(pl.col("ns") > 0).select("rank", "at_ns", "ns").iter_rows():
        parts.setdefault(rank, []).append((at, float(ns)))
    return replace(found.change, spent=_with_gaps(parts, found, job)) if parts else found.change


def _slowed(found: Candidate, job: Job, every: Sequence[Candidate]) -> pl.DataFrame:
    """What a slow host takes beyond others for whatever these do, too: for no longer than its calls take.

    What it has beyond that is told by itself, if it is a cause.
    """
    told = {each.cause for each in every if each.cause != SLOW_HOST and {*each.ranks} & {*found.ranks}}
    spent = _beyond(job.of(SPENT).filter(~pl.col("cause").is_in([*told])), found.ranks, job, by=("cause",))
    longest_ns = (found.evidence.get("host_ratio", inf) - 1) * pl.col("usual_ns").fill_null(0)
    own_ns = pl.col("ns").sum().over("rank", "step", "cause")
    return spent.with_columns(ns=pl.col("ns") * (longest_ns / own_ns).fill_nan(0).clip(upper_bound=1))


def _with_work_after_waits(found: Candidate, job: Job) -> Candidate:
    """The cause but for gaps in which hosts do after their waits what they would do earlier without them.

    Those are ended by what they launch next, which is as late as the replay makes it.
    """
    begun = {rank: {*at_ns} for rank, at_ns in job.of(account.LATE).group_by("rank").agg("at_ns").iter_rows()}
    removed: dict[int, Removed] = {}
    for rank, parts in found.change.removed.items():
        gaps, late = Counter(ns for _, ns in found.change.launched.get(rank, ())), begun.get(rank, set())
        kept = []
        for at, ns in parts:
            is_ended = gaps[ns] > 0 and at in late
            gaps[ns] -= is_ended
            kept += [] if is_ended else [(at, ns)]
        removed[rank] = kept
    return replace(found, change=replace(found.change, removed=removed, of_hosts=removed, launched={}))


def _with_gaps(spent: Mapping[int, Removed], found: Candidate, job: Job) -> dict[int, Removed]:
    """What hosts do not do, and as much as is laid to the cause of what they do on their ways to late launches.

    A gap is laid to what takes longest before it, which hosts may have done before they waited for their devices.
    """
    returned = dict(job.of(WAITED).group_by("rank").agg(pl.col("at_ns").sort()).iter_rows())
    every: dict[int, Removed] = {**spent}
    for rank, parts in found.change.launched.items():
        own, waits = sorted(spent.get(rank, ())), returned.get(rank, [])
        lost: dict[int, float] = {}
        for at, ns in parts:
            lost[at] = lost.get(at, 0.0) + ns
        more, before = [], 0
        for at, ns in sorted(lost.items()):
            place = bisect_left(waits, at)
            since = max(before, waits[place - 1] if place else 0)
            done = sum(length for when, length in own[bisect_right(own, (since, inf)) : bisect_right(own, (at, inf))])
            more += [(at, ns - done)] if ns > done else []
            before = at
        every[rank] = [*own, *more]
    return every


def _who_has_more(found: Candidate, every: Sequence[Candidate]) -> tuple[int, ...]:
    """The ranks of which it is told that they have more of it than others."""
    same = (each for each in every if each.cause == found.cause)
    if found.cause in BY_NAME:
        same = (each for each in same if each.responsible == found.responsible)
    return tuple(sorted({rank for each in same for rank in each.ranks}))


def _without_beyond(spent: pl.DataFrame, ranks: tuple[int, ...], job: Job) -> pl.DataFrame:
    """What all ranks have, ``ns``, these no more than what is usual for the others."""
    usual = _beyond(spent, ranks, job).with_columns(ns=pl.col("time_ns") - pl.col("ns"))
    others = spent.filter(~pl.col("rank").is_in(ranks)).with_columns(ns=pl.col("time_ns").cast(pl.Float64))
    return pl.concat([usual, others], how="diagonal")


def _as_launching(rows: pl.DataFrame, ranks: tuple[int, ...]) -> pl.DataFrame:
    """What slow hosts do as all others do, sooner, as launching: that takes these shorter, which has other classes."""
    others = rows.filter(pl.col("row") == SPENT, ~pl.col("rank").is_in(ranks))
    is_everybodys = pl.col("name").is_in(pl.lit(others["name"]).implode()) & (pl.col("cause") == FUNCTION)
    return rows.with_columns(cause=pl.when(is_everybodys).then(pl.lit(LAUNCH)).otherwise("cause"))


def _named(found: Candidate, job: Job) -> Candidate:
    """Launching that takes some hosts longer than others, by the code of the program that takes as much longer.

    Where graphs are collected by running that, it is told as launching.
    """
    if found.cause != LAUNCH or not found.ranks or len(found.ranks) >= len(job.ranks):
        return found
    spent = _beyond(job.of(SPENT).filter(cause=LAUNCH), found.ranks, job, by=("name",))
    of_name = spent.group_by("name").agg(pl.col("ns").sum()).filter(pl.col("ns") > 0)
    most = of_name.sort("ns", "name", descending=[True, False]).row(0, named=True) if of_name.height else None
    if most is None or most["name"] is None or most["ns"] < NAMED_RATIO * total(of_name["ns"]):
        return found
    name = pl.Series([most["name"]])
    is_own = of_ranges(name, INPUT_RANGES)[0] == PROGRAM and of_calls(name)[0] in (None, PROGRAM)
    return replace(found, cause=FUNCTION, responsible=most["name"]) if is_own else found


def longer(ranks: tuple[int, ...], ns: float, job: Job) -> tuple[str, str | None] | None:
    """The class and the name of what hosts of these ranks do beyond the others, if it is most of so long."""
    spent = job.of(SPENT)
    if spent.is_empty():
        return None
    of_one = ("cause", "name")
    sums = _beyond(spent, ranks, job, by=of_one).group_by(of_one).agg(pl.col("ns").sum())
    longest = sums.filter(pl.col("ns") >= NAMED_RATIO * ns).sort("ns", *of_one, descending=[True, False, False])
    return longest.select(of_one).row(0) if longest.height else None


def _of_name(rows: pl.DataFrame, found: Candidate) -> pl.DataFrame:
    is_by_name = found.cause in BY_NAME and found.responsible is not None
    return rows.filter(pl.col("name") == found.responsible) if is_by_name else rows


def _beyond(spent: pl.DataFrame, ranks: tuple[int, ...], job: Job, by: tuple[str, ...] = ()) -> pl.DataFrame:
    """What these ranks have beyond what is usual for the others in the same step, ``ns``."""
    others = [rank for rank in job.ranks if rank not in ranks]
    by_step = spent.group_by("rank", "step", *by).agg(pl.col("time_ns").sum())
    theirs = by_step.filter(pl.col("rank").is_in(others))
    # Those that have none of it count, too.
    middle = pl.col("time_ns").sort(descending=True).get(max(0, len(others)) // 2, null_on_oob=True)
    usual = theirs.group_by("step", *by).agg(usual_ns=middle.fill_null(0))
    own = spent.filter(pl.col("rank").is_in(ranks)).join(usual, on=["step", *by], how="left", nulls_equal=True)
    whole = pl.col("time_ns").sum().over("rank", "step", *by)
    ratio = 1 - (pl.col("usual_ns").fill_null(0) / whole).clip(upper_bound=1)
    return own.with_columns(ns=pl.col("time_ns") * ratio)
