"""Made-up jobs of XLA: hosts that launch programs, cores that run them, and faults that are known.

They share no code with holotrace. Times are microseconds. A host is a generator that gives way when it has to know when
one of its runs is over, and goes on when all hosts have launched what that depends on. What a fault costs is the length
of the job minus its length without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xla_jobs import recorded
from xla_jobs.devices import Cores
from xla_jobs.faults import JAX, KINDS, TORCH, Fault, Job, Kind, any_job, can_have, planted
from xla_jobs.hosts import Host
from xla_jobs.loops import run
from xla_jobs.programs import step_program

__all__ = ["JAX", "KINDS", "TORCH", "Job", "Truth", "any_job", "can_have", "write"]

# A fault is made to cost so much of the job.
_LEAST, _MOST = 0.04, 0.28
# Launching is a part of every healthy step.
_LEAST_LAUNCHING = 0.09
_TRIES = 9


@dataclass(frozen=True)
class Truth:
    """A fault, what it costs, and the hosts that have it: none where all do."""

    fault: Fault
    cost_us: float
    ranks: tuple[int, ...] = ()

    @property
    def kind(self) -> Kind:
        """What a search for causes should tell it as."""
        return KINDS[self.fault.kind]


def write(folder: Path, job: Job) -> tuple[list[Truth], float]:
    """Writes the job's profiles; what is wrong with it, dearest first, and how long it takes."""
    faults = [_of_cost(job, kind) for kind in job.faults]
    hosts, cores = _simulated(job, faults)
    run_folder = folder / "plugins" / "profile" / "2026_11_21_03_00_00"
    run_folder.mkdir(parents=True)
    clocks = job.random("clocks")
    for host in hosts:
        skew_us = clocks.choice((0.0, 200.0, 3000.0)) * clocks.random()
        (run_folder / f"host{host.number}.xplane.pb").write_bytes(recorded.written(host, cores, skew_us))
    whole = _length(hosts)
    truths = []
    for fault in faults:
        # What ran before the recording is as it was: nothing of the profile tells of it.
        begun = () if fault.kind == "exposed" else [host.begun for host in hosts]
        without = _length(_simulated(job, [each for each in faults if each != fault], (fault, begun))[0])
        truths.append(Truth(fault, whole - without, _ranks(job, fault)))
    return sorted(truths, key=lambda truth: -truth.cost_us), whole


def _ranks(job: Job, fault: Fault) -> tuple[int, ...]:
    if fault.host is None:
        return ()
    half = job.hosts // 2
    of_group = tuple(range(half)) if fault.host == 0 else tuple(range(half, job.hosts))
    return of_group if KINDS[fault.kind].of == "group" else (fault.host,)


def _of_cost(job: Job, kind: str) -> Fault:
    """A fault that costs as much of the job as is asked for, by its amount."""
    least = _LEAST_LAUNCHING if kind == "small" else _LEAST
    share = least + (_MOST - least) * job.random("share", kind).random()
    plain = _length_with(job, [])
    low, high = 0.0, 1.0
    for _ in range(_TRIES):
        middle = (low + high) / 2
        whole = _length_with(job, [planted(job, kind, middle)])
        low, high = (middle, high) if whole * (1 - share) < plain else (low, middle)
    return planted(job, kind, (low + high) / 2)


def _length_with(job: Job, faults: Sequence[Fault]) -> float:
    return _length(_simulated(job, faults)[0])


def _length(hosts: Sequence[Host]) -> float:
    """Until the last host has read its last result: what it does after its last program is part of the job, too."""
    return max(host.now for host in hosts) - min(host.begun for host in hosts)


def _simulated(
    job: Job, faults: Sequence[Fault], gone: tuple[Fault, Sequence[float]] | None = None
) -> tuple[list[Host], Cores]:
    """The hosts and cores, and how they would be had one more fault ``gone`` when each host's recording began."""
    cores, program = Cores(job, faults, gone), step_program(job, faults)
    before = step_program(job, [*faults, gone[0]]) if gone and gone[1] else program
    device_us = sum(each.us for each in step_program(job).operations if not each.collective)
    hosts = [Host(job, number, faults, cores) for number in range(job.hosts)]
    running = {host.number: run(host, (before, program), device_us) for host in hosts}
    waits: dict[int, int] = {}
    while running:
        ready = [n for n in running if n not in waits or cores.ended(n, waits[n]) is not None]
        if not ready:
            raise RuntimeError(f"hosts wait for each other: {waits}")
        for number in ready:
            waits.pop(number, None)
            try:
                waits[number] = next(running[number])
            except StopIteration:
                del running[number]
    return hosts, cores
