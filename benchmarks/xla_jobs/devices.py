"""What the cores of a job do: each runs its programs in order, and all of them meet in collectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xla_jobs.faults import TPU, Fault, Job
from xla_jobs.programs import Operation, Program

BARRIER_US = 2.5  # that cores take to leave a barrier when all have come


@dataclass(frozen=True)
class Ran:
    """One operation on one core; ``until`` is when what it started is over."""

    operation: Operation
    start: float
    end: float
    until: float = 0.0


@dataclass
class Run:
    """One execution of a program on one core."""

    program: Program
    number: int
    step: int
    core: int
    launched: float
    kernels: tuple[float, ...] = ()
    start: float = 0.0
    met: float = 0.0
    end: float = 0.0
    operations: list[Ran] = field(default_factory=list)


@dataclass(frozen=True)
class Launch:
    """A host's request to run a program on its cores: when each may begin, as the host and what it sends allow."""

    program: Program
    step: int
    ready: tuple[float, ...]
    # When each of the program's operations may, on each core, where these are launched by themselves.
    kernels: tuple[tuple[float, ...], ...] = ()


class Cores:
    """All cores of the job. Every host launches the same programs in the same order."""

    def __init__(self, job: Job, faults: Sequence[Fault], gone: tuple[Fault, Sequence[float]] | None = None) -> None:
        """Operations need not do what is of a fault that is ``gone`` from when each host's recording begins."""
        self.job = job
        self._gone = gone
        self.faults = faults
        self.runs: list[list[Run]] = []  # by launch, then core
        self._asked: list[dict[int, Launch]] = []
        self._free = [0.0] * job.members
        self._link: dict[tuple[int, ...], float] = {}

    def launch(self, host: int, number: int, launch: Launch) -> None:
        """A host launches its next program; that of the last one runs it."""
        while len(self._asked) <= number:
            self._asked.append({})
        self._asked[number][host] = launch
        while len(self.runs) < len(self._asked) and len(self._asked[len(self.runs)]) == self.job.hosts:
            self._execute(self._asked[len(self.runs)])

    def ended(self, host: int, number: int) -> float | None:
        """When the run of that number is over on all cores of the host; null while nobody knows."""
        if number >= len(self.runs):
            return None
        own = slice(host * self.job.cores, (host + 1) * self.job.cores)
        return max(run.end for run in self.runs[number][own])

    def _execute(self, asked: dict[int, Launch]) -> None:
        number, job = len(self.runs), self.job
        runs = []
        for core in range(job.members):
            launch = asked[core // job.cores]
            ready = launch.ready[core % job.cores]
            kernels = launch.kernels[core % job.cores] if launch.kernels else ()
            run = Run(launch.program, number, launch.step, core, ready, kernels)
            run.start = max(ready, self._free[core] + 1.5)
            runs.append(run)
        for run in runs:
            beside = [each for each in runs if job.meets_all or each.core // job.cores == run.core // job.cores]
            # Other devices than TPUs begin programs by themselves.
            meets = run.program.meets and len(beside) > 1 and job.accelerator == TPU
            run.met = max(each.start for each in beside) + BARRIER_US if meets else run.start
        self._run(runs)
        self._free = [run.end for run in runs]
        self.runs.append(runs)

    def _run(self, runs: Sequence[Run]) -> None:
        job, program = self.job, runs[0].program
        randoms = [job.random("core", run.core, run.step, program.name) for run in runs]
        drift = [1 + random.gauss(0, job.noise / 4) for random in randoms]
        now = [run.met for run in runs]
        started: dict[str, list[tuple[float, float]]] = {}
        for place, operation in enumerate(program.operations):
            if runs[0].kernels and not operation.is_done:
                now = [max(at, run.kernels[place]) for at, run in zip(now, runs, strict=True)]
            # The same however many others there are.
            noises = [max(0.5, 1 + random.gauss(0, job.noise)) for random in randoms]
            if operation.is_done:
                times = started[operation.awaits]
                ends = [max(at + 0.4, until) for at, (_, until) in zip(now, times, strict=True)]
            elif operation.collective:
                ends = self._meet(operation, now, runs, started)
            else:
                ends = [
                    at
                    + self._us(operation, run, at)
                    * self._factor(operation, run)
                    * (noise if not operation.is_host else 1)
                    * slow
                    for at, run, noise, slow in zip(now, runs, noises, drift, strict=True)
                ]
            for run, start, end in zip(runs, now, ends, strict=True):
                run.operations.append(Ran(operation, start, end, self._until(operation, started, run.core)))
            now = [end + 0.003 for end in ends]
        for run, end in zip(runs, now, strict=True):
            run.end = end

    def _us(self, operation: Operation, run: Run, at: float) -> float:
        if self._gone is None or operation.fault != self._gone[0].kind:
            return operation.us
        begun = self._gone[1][run.core // self.job.cores]
        return operation.us - operation.fault_us if at >= begun else operation.us

    def _until(self, operation: Operation, started: dict[str, list[tuple[float, float]]], core: int) -> float:
        return started[operation.name][core][1] if operation.name in started else 0.0

    def _meet(
        self,
        operation: Operation,
        now: Sequence[float],
        runs: Sequence[Run],
        started: dict[str, list[tuple[float, float]]],
    ) -> list[float]:
        """When each core goes on; a group's transfer begins when all have come and the link is free."""
        overs = [0.0] * len(now)
        for group in operation.groups:
            random = self.job.random("link", group[0], runs[0].step, operation.name)
            us = operation.us * self._link_factor(group, runs[0].step) * max(0.5, 1 + random.gauss(0, self.job.noise))
            come = max(*(now[core] for core in group), self._link.get(group, 0.0))
            self._link[group] = come + us
            for core in group:
                overs[core] = come + us
        if not operation.is_start:
            return overs
        started[operation.name] = [(at, over) for at, over in zip(now, overs, strict=True)]
        return [at + 0.2 for at in now]

    def _factor(self, operation: Operation, run: Run) -> float:
        found = 1.0
        for fault in self.faults:
            if fault.core is None or not fault.hits(run.core // self.job.cores, run.step):
                continue
            if fault.core == run.core % self.job.cores and (fault.kind != "longer" or operation.kind):
                found *= fault.amount
        return found

    def _link_factor(self, group: tuple[int, ...], step: int) -> float:
        found = 1.0
        for fault in self.faults:
            half = 0 if group[0] == 0 else 1
            if fault.kind == "slow-link" and fault.hits(half, step):
                found *= fault.amount
        return found
