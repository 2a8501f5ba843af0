"""The search for causes: all that may cost the job time, what each costs, and which of them are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from holotrace.diagnosis.job import (
    cores,
    cores_in_turns,
    earlier_work,
    floors,
    idle,
    less_ahead,
    less_recorded,
    one_cause,
    over_time,
    profiled,
    replayed,
    slow_work,
    small_kernels,
    transfers,
    uneven,
    worth,
    xla_on_all,
    xla_spent,
    xla_steps,
)
from holotrace.diagnosis.job.candidates import Candidate, Costs, Job
from holotrace.diagnosis.job.hidden import with_hidden
from holotrace.diagnosis.job.meetings import Change, Meetings, together
from holotrace.diagnosis.job.replayed import Replayed
from holotrace.diagnosis.job.worth import Worth
from holotrace.diagnosis.rank import account, recording
from holotrace.diagnosis.words.classes import LAUNCH, RECORDING, SYNCHRONIZATION, UNEQUAL


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
    # When the job began, on the clock of the rank that the candidate's event is of.
    begun_ns: int
    step_count: int

    @property
    def share_ratio(self) -> float:
        """What part of the job it costs."""
        return max(0, self.cost_ns) / self.job_ns if self.job_ns else 0.0


@dataclass(frozen=True)
class _Search:
    """A job in which causes are looked for, and from where on they are told."""

    windows: pl.DataFrame
    job: Job
    worth: Worth
    job_ns: int
    # Launching that costs less may be the profiler's.
    unsure_ns: float
    # Which part of what a cause has to cost is enough.
    part: float

    @property
    def floor_ns(self) -> float:
        return self.part * floors.FLOOR_RATIO * self.job_ns

    def least_ratio(self, candidate: Candidate) -> float:
        least = floors.least_ratio_of_job(candidate, rank_count=len(self.job.ranks), windows=self.windows)
        return self.part * least

    def is_enough(self, candidate: Candidate, cost_ns: int) -> bool:
        """Whether it is told by itself."""
        unsure_ns = self.unsure_ns if candidate.cause == LAUNCH else 0
        return cost_ns > max(self.least_ratio(candidate) * self.job_ns, unsure_ns)


def of_rows(rows: pl.DataFrame, unprofiled_ns: int | None = None, part: float = 1.0) -> tuple[list[Found], int]:
    """The causes, dearest first, and what the job would gain without all of them together.

    What is worth knowing and costs nothing comes last: how much recording itself takes, and what was not recorded.

    Args:
        rows: What ``account`` returns of all ranks.
        unprofiled_ns: How long a step takes without the profiler, which slows down hosts; by default what the
            recorder measured, if it did.
        part: Causes are found from this part on of what they have to cost to be told.
    """
    windows = rows.filter(pl.col("row") == account.WINDOW)
    if windows.is_empty():
        return [], 0
    unprofiled_ns = profiled.measured_ns(rows) if unprofiled_ns is None else unprofiled_ns
    rows = less_recorded.rows(profiled.alike(rows) if unprofiled_ns is None else profiled.as_launching(rows))
    replay = replayed.of_rows(rows, windows, part * floors.FLOOR_RATIO)
    job, meetings = replay.job, replay.meetings
    hosts = list(idle.causes(job))
    hosts += less_ahead.causes(job, hosts)
    profiler_ns, hosts = profiled.apart(hosts, job, meetings, unprofiled_ns)
    job_ns = max(1, replay.lasted_ns - (profiler_ns or 0))
    # What hosts take without the profiler is not known call by call.
    room_ns = job_ns if profiler_ns else job_ns - worth.own_ns(rows, meetings, job_ns)
    unsure_ns = recording.UNSURE_RATIO * (profiler_ns or 0) if unprofiled_ns is None else 0
    search = _Search(windows, job, Worth(meetings, room_ns), job_ns, unsure_ns, part)
    kept, joint_ns = _told(search, _every(replay, hosts))
    ranges = [(pair, search.worth.last(pair, kept, joint_ns)) for pair in kept]
    step_count = xla_steps.of_changes(rows)

    def whole(candidate: Candidate) -> tuple[int, int | None, int]:
        rank = candidate.event_rank
        return job_ns, profiler_ns, replay.begun_ns + (0 if rank is None else replay.offsets.get(rank, 0))

    found = [
        Found(candidate, cost, min(cost, last), max(cost, last), *whole(candidate), step_count(candidate.change))
        for (candidate, cost), last in small_kernels.without_parts(ranges, search.floor_ns)
        if max(cost, last) > search.floor_ns
    ]
    known = [*earlier_work.known(rows, windows)]
    if (profiler_ns or 0) > floors.USUAL[LAUNCH] * job_ns:
        known.append(Candidate(RECORDING, Change()))
    costless = [Found(candidate, 0, 0, 0, *whole(candidate), xla_steps.of_hosts(rows)) for candidate in known]
    return sorted(found, key=lambda cause: -cause.cost_ns) + costless, joint_ns


def _every(replay: Replayed, hosts: Sequence[Candidate]) -> list[Candidate]:
    """All that may be a cause: what ``hosts`` do while devices have nothing to do, and what devices do."""
    job, come = replay.job, replay.come
    every = (
        *hosts,
        *small_kernels.causes(job),
        *cores.causes(job, come, go_apart=replay.meetings.are_devices),
        *cores_in_turns.causes(job, come),
        *uneven.causes(job),
        *over_time.causes(job),
        *transfers.causes(job),
        *slow_work.causes(job),
    )
    # Nobody waits for a replica that has more to do; devices of one rank wait for each other.
    return [c for c in every if c.cause not in UNEQUAL or cores.are_told(c) or replay.meetings.meet_others({*c.ranks})]


def _told(search: _Search, every: list[Candidate]) -> tuple[Costs, int]:
    """Those of all that are told, each once and with what it costs by itself, and what all of these cost together."""
    job, meetings = search.job, search.worth.meetings
    beside = xla_spent.of_all(every, job)
    every = xla_on_all.told([*every, *xla_spent.of_some(every, job), *beside], job)
    # Whether anything is told of it does not depend on what others have a part in.
    costs = [(candidate, search.worth.alone(candidate)) for candidate in every]
    costs = one_cause.at_once(xla_spent.beside_gaps(costs, job, meetings), meetings, search.floor_ns)
    costs = _with_waits_by_code(costs, search)
    kept = _enough(costs, search)
    kept = xla_spent.once(xla_spent.without(kept, job, meetings), beside, meetings)
    kept = [(candidate, search.worth.at_most(max(0, cost), candidate)) for candidate, cost in kept]
    joint_ns = search.worth.joint([candidate for candidate, _ in kept])
    return kept, max([joint_ns, *(cost for _, cost in kept)])


def _with_waits_by_code(costs: Costs, search: _Search) -> Costs:
    """A wait costs what the device stands still for and what it exposes, which may each be little."""
    meetings = search.worth.meetings
    waits = [pair for pair in costs if pair[0].cause == SYNCHRONIZATION]
    return [
        *one_cause.by_code(one_cause.once(waits, meetings), meetings),
        *(pair for pair in costs if pair[0].cause != SYNCHRONIZATION),
    ]


def _enough(costs: Costs, search: _Search) -> Costs:
    """Those that cost enough, by themselves or once others are gone, without what is told by another of them."""
    meetings, job_ns, rank_count = search.worth.meetings, search.job_ns, len(search.job.ranks)
    kept = [pair for pair in costs if search.is_enough(*pair)]
    kept = small_kernels.told(kept, costs, meetings, rank_count, (job_ns, search.unsure_ns))
    kept = cores.told_once(one_cause.without_followers(one_cause.without_launches_of_unfused(kept)))
    kept = one_cause.with_copies(one_cause.once(kept, meetings), meetings)
    # What comes about by chance is told where it costs much by itself.
    telling = [pair for pair in costs if not floors.is_of_shared_cores(pair[0], search.windows)]
    kept = with_hidden(one_cause.with_launches(kept, meetings), telling, meetings, search.floor_ns, rank_count)
    others = [pair for pair in costs if pair not in kept]
    kept = [
        *((c, max(cost, _with_later_ns(c, kept, meetings)) if c.change.later else cost) for c, cost in kept),
        *less_ahead.worth_saying(others, meetings, job_ns, search.least_ratio),
    ]
    return less_ahead.without_what_they_hide(kept)


def _with_later_ns(found: Candidate, kept: Costs, meetings: Meetings) -> int:
    """What the job would gain without this cause and what it has a part in.

    What hosts stand still for is told as that, also where hosts that never waited for their devices would hide it.
    """
    if found.cause != SYNCHRONIZATION:
        return meetings.saved_ns(found.change)
    # What another wait costs is no part of that: until its device is done no host is ahead of it.
    told = together([c.change for c, _ in kept if c.cause != SYNCHRONIZATION]).of_hosts
    later = {}
    for rank, parts in found.change.later.items():
        hidden_ns = sum(ns for _, ns in parts)
        told_ns = sum(ns for _, ns in told.get(rank, ()))
        left_ratio = max(0.0, 1 - told_ns / hidden_ns) if hidden_ns else 0.0
        later[rank] = [(at, ns * left_ratio) for at, ns in parts]
    return meetings.saved_ns(replace(found.change, later=later))
