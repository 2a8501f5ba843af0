"""The causes of a job's lost time, by what the job would gain without each."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import polars as pl

from holotrace.derive import arrivals
from holotrace.derive.vendors import COPYING as COPYING_CALLS
from holotrace.derive.vendors import GRAPH_LAUNCHING, LAUNCHING
from holotrace.diagnosis.job import (
    cores,
    cores_in_turns,
    earlier_work,
    floors,
    idle,
    less_ahead,
    less_recorded,
    not_recorded,
    one_cause,
    over_time,
    profiled,
    slow_work,
    small_kernels,
    transfers,
    uneven,
    xla_on_all,
    xla_pace,
    xla_spent,
    xla_steps,
)
from holotrace.diagnosis.job.candidates import CALLED_IN, Candidate, Job
from holotrace.diagnosis.job.cores import DEVICE
from holotrace.diagnosis.job.hidden import with_hidden
from holotrace.diagnosis.job.meetings import Change, Meetings, together
from holotrace.diagnosis.job.unrecorded_ranks import ABSENT, LONGEST, NEEDED
from holotrace.diagnosis.rank import account, pairs, recording
from holotrace.diagnosis.rank.small_kernels import REPEATED
from holotrace.diagnosis.rank.xla.hosts import SPENT, WAITED
from holotrace.diagnosis.words import wording
from holotrace.diagnosis.words.advice import advice
from holotrace.diagnosis.words.class_texts import ALL_RANKS, CLASSES, OF_XLA, Class
from holotrace.diagnosis.words.classes import (
    COPY,
    COSTLESS,
    EARLIER,
    EXPERTS,
    INPUT,
    LAUNCH,
    MORE_WORK,
    PAUSE,
    PIPELINE,
    QUEUED,
    RECORDING,
    SLOW_HOST,
    SYNCHRONIZATION,
    UNEVEN_WORK,
    UNFUSED_OPTIMIZER,
    UNRECORDED,
    UNRECORDED_RANK,
    WRONG_TYPE,
    is_file_of_program,
)
from holotrace.diagnosis.words.texts_on_host import OF_HOSTS, XLA_OF_HOSTS

_CRITICAL_RATIO = 0.2
# What the trace does not say in so many words.
_INFERRED = (QUEUED, PAUSE, UNRECORDED, EARLIER)
_ADDRESS = r" at 0x[0-9a-fA-F]+"
# Some ranks have more to do than others, which costs those that wait for them.
_UNEQUAL = (MORE_WORK, UNEVEN_WORK, EXPERTS, PIPELINE)
# Of these the responsible name says it all.
_WHOLE = (COPY, MORE_WORK, UNEVEN_WORK, EXPERTS, WRONG_TYPE, LAUNCH, UNFUSED_OPTIMIZER)


@dataclass(frozen=True)
class Found:
    """A cause with what it costs."""

    candidate: Candidate
    # What the job would gain without it, alone.
    cost_ns: int
    # The same if all other causes were removed before it, or if that is more the other way round.
    low_ns: int
    high_ns: int
    job_ns: int
    # What the profiler took, which none of these has in it; null if that is not known.
    profiler_ns: int | None
    # When the job began, on its clock.
    begun_ns: int
    step_count: int


def of_rows(rows: pl.DataFrame, unprofiled_ns: int | None = None) -> tuple[list[Found], int]:
    """The causes, dearest first, and what the job would gain without all of them together.

    What is worth knowing and costs nothing comes last: how much recording itself takes, and what was not recorded.

    Args:
        rows: What ``account`` returns of all ranks.
        unprofiled_ns: How long a step takes without the profiler, which slows down hosts; by default what the
            recorder measured, if it did.
    """
    windows = rows.filter(pl.col("row") == account.WINDOW)
    if windows.is_empty():
        return [], 0
    unprofiled_ns = profiled.measured_ns(rows) if unprofiled_ns is None else unprofiled_ns
    rows = less_recorded.rows(profiled.alike(rows) if unprofiled_ns is None else profiled.as_launching(rows))
    come = _arrived(rows, windows)
    visits = pairs.apart(_visits(come))
    offsets = dict(visits.select("rank", "clock_offset_ns").unique("rank").iter_rows())
    ranks = tuple(windows["rank"].unique().sort())
    ends = dict(windows.select("rank", "at_ns").iter_rows())
    starts = {rank: start - offsets.get(rank, 0) for rank, start in windows.select("rank", "start_ns").iter_rows()}
    waiting = {*rows.filter(pl.col("row") == SPENT)["rank"]}
    meetings = Meetings(visits, ends, offsets, late=_late(rows, visits), waits=_waits(rows), waiting=waiting)
    begun_ns = min(starts.values())
    job_ns = meetings.lasted_ns(starts)
    job = not_recorded.told_by_others(Job(rows, visits, ranks, int(floors.FLOOR_RATIO * job_ns)))
    hosts = list(idle.causes(job))
    hosts += less_ahead.causes(job, hosts)
    profiler_ns, hosts = profiled.apart(hosts, job, meetings, unprofiled_ns)
    job_ns = max(1, job_ns - (profiler_ns or 0))
    floor_ns = floors.FLOOR_RATIO * job_ns
    every: Sequence[Candidate] = (
        *hosts,
        *small_kernels.causes(job),
        *cores.causes(job, come),
        *cores_in_turns.causes(job, come),
        *uneven.causes(job),
        *over_time.causes(job),
        *transfers.causes(job),
        *slow_work.causes(job),
    )
    # What hosts take without the profiler is not known call by call.
    room_ns = job_ns if profiler_ns else job_ns - _own_ns(rows, meetings, job_ns)
    # Nobody waits for a replica that has more to do; devices of one rank wait for each other.
    every = [c for c in every if c.cause not in _UNEQUAL or cores.are_told(c) or meetings.meet_others({*c.ranks})]
    beside = xla_spent.of_all(every, job)
    every = xla_on_all.told([*every, *xla_spent.of_some(every, job), *beside], job)
    # Whether anything is told of it does not depend on what others have a part in.
    costs = [(c, _at_most(meetings.saved_ns(replace(c.change, later={})), c, room_ns)) for c in every]
    costs = one_cause.at_once(xla_spent.beside_gaps(costs, job, meetings), meetings, floor_ns)
    # A wait costs what the device stands still for and what it exposes, which may each be little.
    waits = [pair for pair in costs if pair[0].cause == SYNCHRONIZATION]
    costs = [
        *one_cause.by_code(one_cause.once(waits, meetings), meetings),
        *(pair for pair in costs if pair[0].cause != SYNCHRONIZATION),
    ]
    least_ratio = partial(floors.least_ratio_of_job, rank_count=len(ranks), windows=windows)
    unsure_ns = recording.UNSURE_RATIO * (profiler_ns or 0) if unprofiled_ns is None else 0
    kept = [
        (c, cost) for c, cost in costs if cost > max(least_ratio(c) * job_ns, unsure_ns if c.cause == LAUNCH else 0)
    ]
    kept = small_kernels.told(kept, costs, meetings, len(ranks), (job_ns, unsure_ns))
    kept = cores.told_once(one_cause.without_followers(one_cause.without_launches_of_unfused(kept)))
    kept = one_cause.with_copies(one_cause.once(kept, meetings), meetings)
    # What comes about by chance is told where it costs much by itself.
    telling = [pair for pair in costs if not floors.is_of_shared_cores(pair[0], windows)]
    kept = with_hidden(one_cause.with_launches(kept, meetings), telling, meetings, floor_ns, len(ranks))
    kept = [
        *((c, max(cost, meetings.saved_ns(c.change)) if c.change.later else cost) for c, cost in kept),
        *less_ahead.worth_saying([pair for pair in costs if pair not in kept], meetings, job_ns, least_ratio),
    ]
    kept = less_ahead.without_their_launches(kept)
    kept = xla_spent.once(xla_spent.without(kept, job, meetings), beside, meetings)
    kept = [(candidate, _at_most(max(0, cost), candidate, room_ns)) for candidate, cost in kept]
    joint = max([_joint_ns([candidate for candidate, _ in kept], meetings, room_ns), *(cost for _, cost in kept)])
    whole, step_count = (job_ns, profiler_ns, begun_ns), xla_steps.of_changes(rows)
    ranges = [(pair, _last_ns(pair, kept, joint, meetings, room_ns)) for pair in kept]
    found = [
        Found(candidate, cost, min(cost, last), max(cost, last), *whole, step_count(candidate.change))
        for (candidate, cost), last in small_kernels.without_parts(ranges, floor_ns)
        if max(cost, last) > floor_ns
    ]
    known = [*earlier_work.known(rows, windows)]
    if (profiler_ns or 0) > floors.USUAL[LAUNCH] * job_ns:
        known.append(Candidate(RECORDING, Change()))
    costless = [Found(candidate, 0, 0, 0, *whole, xla_steps.of_hosts(rows)) for candidate in known]
    return sorted(found, key=lambda cause: -cause.cost_ns) + costless, joint


def _own_ns(rows: pl.DataFrame, meetings: Meetings, job_ns: int) -> int:
    """How long the slowest host takes by itself."""
    own = dict(rows.filter(pl.col("row") == account.HOST).group_by("rank").agg(pl.col("time_ns").max()).iter_rows())
    own |= {rank: ratio * job_ns for rank, ratio in xla_pace.own_ratios(rows).items()}
    return meetings.mean_ns(lambda met: max(own.get(rank) or 0 for rank in met))


def _arrived(rows: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    """When ranks came to where they meet; what is recorded of one of several tells of the others."""
    calls = rows.filter(pl.col("row") == account.MEETING).drop("row")
    # Devices of one XLA rank meet each other.
    if windows["rank"].n_unique() == 1 and account.XLA not in windows["detail"]:
        return arrivals.of_one_rank(calls, max(windows["count"].drop_nulls().to_list(), default=1))
    # Threads of a host execute what they wait for themselves.
    is_program = windows["detail"].eq_missing(account.XLA) & windows["name"].ne_missing(account.ON_HOST)
    return arrivals.of_ranks(calls, are_awaited_later=bool(is_program.any()), with_broadcasts=True)


def _at_most(cost_ns: int, candidate: Candidate, room_ns: int) -> int:
    """The cost: with faster devices and links the job still takes as long as its slowest host does."""
    return min(cost_ns, max(0, room_ns)) if _is_of_devices(candidate) else cost_ns


def _last_ns(
    pair: tuple[Candidate, int], kept: list[tuple[Candidate, int]], joint: int, meetings: Meetings, room_ns: int
) -> int:
    """What the cause costs once all others are gone."""
    others = [other for other, _ in kept if other is not pair[0]]
    return max(0, joint - _joint_ns(others, meetings, room_ns)) if others else pair[1]


def _joint_ns(candidates: list[Candidate], meetings: Meetings, room_ns: int) -> int:
    """What the job would gain without all of these: of devices and links no more than their hosts leave."""
    if not candidates:
        return 0
    saved = meetings.saved_ns(together([candidate.change for candidate in candidates]))
    of_devices = [candidate.change for candidate in candidates if _is_of_devices(candidate)]
    if not of_devices:
        return saved
    by_devices = saved if len(of_devices) == len(candidates) else meetings.saved_ns(together(of_devices))
    return saved - max(0, by_devices - max(0, room_ns))


def _is_of_devices(candidate: Candidate) -> bool:
    """Whether it goes away without the host doing less."""
    change = candidate.change
    return not (change.of_hosts or change.later or (candidate.cause in _UNEQUAL and change.spent))


def _late(rows: pl.DataFrame, visits: pl.DataFrame) -> pl.DataFrame:
    """What each rank's host launched too late."""
    found = rows.filter(pl.col("row") == account.LATE)
    found = pl.concat([found.filter(pl.col("cause").is_null()), _awaited(found.drop_nulls("cause"), visits)])
    launched = pl.coalesce("end_ns", "at_ns")
    return found.select(
        pl.col("rank").cast(pl.Int64), begun_ns="at_ns", since_ns="start_ns", gap_ns="time_ns", launched_ns=launched
    )


def _awaited(pauses: pl.DataFrame, visits: pl.DataFrame) -> pl.DataFrame:
    """The pauses that others waited for at the next meeting, so that they were no waits for these."""
    if pauses.is_empty() or visits.is_empty():
        return pauses.clear()
    second = visits.group_by("match").agg(second_ns=pl.when(pl.len() > 1).then(pl.col("arrival_ns").top_k(2).min()))
    met = (
        visits.join(second, on="match")
        .select(
            "rank",
            at_ns=pl.col("arrival_ns") + pl.col("clock_offset_ns"),
            last_ns=pl.col("arrival_ns") - pl.col("second_ns"),
        )
        .sort("at_ns")
    )
    known = pauses.sort("at_ns").join_asof(met, on="at_ns", by="rank", strategy="forward", check_sortedness=False)
    return known.filter(pl.col("last_ns") > floors.MOSTLY_RATIO * pl.col("time_ns")).select(pauses.columns)


def _waits(rows: pl.DataFrame) -> pl.DataFrame:
    """When hosts that launch whole programs had waited for their devices."""
    found = rows.filter(pl.col("row") == WAITED)
    return found.select(pl.col("rank").cast(pl.Int64), returned_ns="at_ns", began_ns="start_ns", ready_ns="end_ns")


def _visits(come: pl.DataFrame) -> pl.DataFrame:
    # A rank comes with the last of its devices and leaves with the first, which has stood still until then: what its
    # devices wait for each other is its own affair.
    of_rank = ["match", "rank"]
    ranks = pl.col("rank").n_unique().cast(pl.Int64)
    others = pl.len() - pl.col("rank").n_unique()
    left = pl.col("left_ns").min()
    # One that comes earlier and leaves later than others may be held for longer than the rank is there.
    held = pl.min_horizontal(pl.col("time_ns").max(), left - pl.col("arrival_ns").max()).clip(lower_bound=0)
    together = come.with_columns(
        left.over(of_rank),
        held.over(of_rank).alias("time_ns"),
        pl.col("exposed_ns").max().over(of_rank),
        # Devices are the members of groups of XLA, and those of one rank are one visit; small groups meet at once.
        (pl.col("group_size") - others.over("match").cast(pl.Int64)).clip(lower_bound=ranks.over("match")),
    )
    return together.sort("arrival_ns").unique(of_rank, keep="last", maintain_order=True)


def table(rows: pl.DataFrame, unprofiled_ns: int | None = None) -> pl.DataFrame:
    """The causes as a table, dearest first: see the columns of the analysis; arguments as of ``of_rows``."""
    found, joint_ns = of_rows(rows, unprofiled_ns)
    steps = tuple(rows.filter(pl.col("row") == account.STEP)["step"].unique().sort())
    count = rows["rank"].n_unique()
    words = _words(rows)
    return pl.DataFrame(
        [_row(cause, words[cause.candidate.cause], steps, count) | {"joint_ns": joint_ns} for cause in found],
        infer_schema_length=None,
    )


def _words(rows: pl.DataFrame) -> Mapping[str, Class]:
    """What is said of each class in a job of this kind."""
    of_job = rows.filter(pl.col("row") == account.WINDOW)
    is_on_host = not of_job.is_empty() and of_job["name"].eq_missing(account.ON_HOST).all()
    if (of_job["detail"] == account.XLA).any():
        return XLA_OF_HOSTS if is_on_host else OF_XLA
    return OF_HOSTS if is_on_host else CLASSES


def is_hidden(row: Mapping[str, Any]) -> bool:
    """Whether a row of the table is of a cause that costs next to nothing by itself, since others hide it."""
    return bool(row) and row["share_ratio"] <= floors.FLOOR_RATIO and row["high_ns"] > row["cost_ns"]


def _row(found: Found, words: Class, known_steps: tuple[int, ...], rank_count: int) -> dict[str, object]:
    c = found.candidate
    share = max(0, found.cost_ns) / found.job_ns if found.job_ns else 0.0
    who = wording.whose(c.ranks, rank_count)
    if DEVICE in c.evidence:
        who = f"device {c.evidence[DEVICE]} of {who}"
    filled = {"who": who, "what": _what(c), **wording.verbs(c.ranks, rank_count)}
    filled["computer"] = "CPU" if words is OF_HOSTS[c.cause] else "device"
    filled["is_slow"] = "is slow" if DEVICE in c.evidence else f"{filled['has']} a slow {filled['computer']}"
    is_equal = bool(c.evidence.get("is_equal"))
    # Turns are told to be of equal calls only where shapes are known.
    is_told = is_equal and c.cause == UNEVEN_WORK
    more = wording.LONGER if is_equal else wording.MORE
    filled["those"], filled["one"] = ("devices", "device") if cores.DEVICES in c.evidence else ("ranks", "rank")
    filled["uneven"], filled["longest"] = wording.UNEVEN_TIMES if is_equal else wording.UNEVEN
    what = _what(c) if c.responsible else ""
    is_launch = not (LAUNCHING | GRAPH_LAUNCHING).isdisjoint((c.responsible, _innermost(c)))
    filled |= {"how": more.format(**filled), "in_what": f" in {what}" if what else ""}
    meanwhile = wording.COPYING if c.evidence.get("copies_to_host") else ""
    filled["than"], filled["stands"] = wording.OTHERS.get(c.cause, ""), "waits for" if c.cause == COPY else "is in"
    filled |= {"pauses": wording.pauses(what, meanwhile, is_launch=is_launch), "meanwhile": meanwhile, **c.evidence}
    is_call = _innermost(c).startswith(COPYING_CALLS)
    absent = int(c.evidence.get(ABSENT, 0))
    filled["tokens"] = wording.tokens(str(filled["who"]), is_of_some=bool(c.ranks))
    waits = f"{who if c.ranks else 'all recorded ranks'} {'waits' if len(c.ranks) == 1 else 'wait'}"
    filled["exposed"] = wording.exposed(str(filled["what"]), absent, waits)
    if c.cause == UNRECORDED_RANK:
        told_ns = (int(c.evidence[name]) for name in (LONGEST, NEEDED))
        filled["awaited"] = wording.awaited(str(filled["what"]), absent, waits, *told_ns)
    filled["copying"] = wording.copying(str(filled["who"]), str(filled["copies"]), is_call=is_call)
    is_of_function = less_ahead.LESS_AHEAD in c.evidence and c.cause != SLOW_HOST
    told = wording.LESS_AHEAD if is_of_function else wording.REPEATED if REPEATED in c.evidence else words.sentence
    is_before = bool(c.evidence.get(idle.BEFORE))
    taken = wording.taken(found.profiler_ns or 0, found.step_count if known_steps else 1)
    filled["lasted"] = wording.taken(int(c.evidence.get(earlier_work.LASTED, 0)), 1)
    whenever = wording.BEFORE_STEPS if is_before else wording.when(c.steps, known_steps)
    sentence = told.format(**filled, taken=taken) + wording.called_in(c.evidence.get(CALLED_IN)) + whenever
    if share <= floors.FLOOR_RATIO and c.cause not in COSTLESS:
        sentence += wording.HIDDEN
    return {
        "rank": c.event_rank,
        "cause": c.cause,
        "severity": "info" if c.cause in COSTLESS else "critical" if share >= _CRITICAL_RATIO else "warning",
        "message": sentence[0].upper() + sentence[1:],
        "ranks": list(c.ranks),
        # Turns that were inferred have no numbers that anybody knows.
        "steps": list(c.steps) if known_steps else [],
        "responsible": c.responsible,
        "where_ns": None if c.start_ns is None else c.start_ns - found.begun_ns,
        "event_id": c.event_id,
        "cost_ns": found.cost_ns,
        "cost_per_step_ns": None if is_before else found.cost_ns // found.step_count,
        "low_ns": found.low_ns,
        "high_ns": found.high_ns,
        "profiler_ns": found.profiler_ns,
        "share_ratio": share,
        "confidence": "inferred" if c.cause in _INFERRED or absent else "measured",
        "evidence": json.dumps(dict(c.evidence) | ({"around": c.detail} if c.detail else {}), ensure_ascii=False),
        "advice": advice(
            words, c.responsible, c.detail or "", has_copies=bool(c.evidence.get("copies_to_host")), is_equal=is_equal
        ),
        # Known when the findings of other analyses are: see ``symptoms.explained``.
        "explains": None,
        "to_know_more": ALL_RANKS if absent else None if is_told else words.to_know_more or None,
    }


def _what(candidate: Candidate) -> str:
    if candidate.responsible is None:
        return "what nothing in the trace names"
    inner = _innermost(candidate)
    # What a loader of a library is in says nothing.
    is_whole = candidate.cause in _WHOLE or (candidate.cause == INPUT and not is_file_of_program(inner))
    says_all = inner in ("", candidate.responsible) or is_whole
    said = wording.short(candidate.responsible)
    return said if says_all else f"{said} ({wording.short(inner)})"


def _innermost(candidate: Candidate) -> str:
    return re.sub(_ADDRESS, "", (candidate.detail or "").partition(" < ")[0])
