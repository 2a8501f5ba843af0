"""Programs on CPU devices: threads of the host execute them, and their operations are events of these threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xla_jobs.devices import Launch, Ran, Run
from xla_jobs.hosts import IN_FLIGHT, Host, Waiting
from xla_jobs.profiles import Event, Stats
from xla_jobs.programs import Program

_IDS_OF_PROCESS = 2048  # numbers of devices that each process has


def launch(h: Host, program: Program, ready: float) -> Waiting:
    """Hands the program to a pool of threads, one for each device."""
    number, h.launched = h.launched, h.launched + 1
    times = []
    with h.open(
        f"CommonPjRtLoadedExecutable::Execute ({program.name})",
        run_id=h.run_id(0, number),
        name=program.name,
        num_addressable_devices=h.job.cores,
    ):
        h.spend(12)
        if number >= IN_FLIGHT:
            h.now = max(h.now, (yield from h.wait(number - IN_FLIGHT)) + 10)
        for core in range(h.job.cores):
            flow = h.flows[(core, number)] = h.flow()
            h.at(h.thread, "ThreadpoolListener::Record", h.now, h.now, _pt=15, _p=flow)
            h.spend(8)
            times.append(max(h.now + 25, ready))
        with h.open("Wait for LaunchOnDevice completion"):
            h.spend(15)
        with h.open("Wait for donation holds"):
            h.spend(1)
    h.cores.launch(h.number, number, Launch(program, h.step, tuple(times)))


def threads(host: Host, core: int, runs: Sequence[Run]) -> Iterator[Event]:
    """What the thread did that executed the programs of a device."""
    number = 1 << 20
    for run in runs:
        if run.start < host.begun:
            continue
        start = run.start - host.begun
        flow = host.flows[(core, run.number)]
        yield Event("ThreadpoolListener::StartRegion", start - 1.2, start - 1.2, {"_ct": 15, "_c": flow})
        yield Event("ThunkExecutor::Execute", start - 0.8, run.end - host.begun + 0.6)
        for ran in run.operations:
            number += 1
            yield from _operation(host, core, run, ran, number)


def _operation(host: Host, core: int, run: Run, ran: Ran, number: int) -> Iterator[Event]:
    start, end = ran.start - host.begun, ran.end - host.begun
    stats: Stats = {
        "hlo_op": ran.operation.name,
        "hlo_module": run.program.name,
        "program_id": run.program.number,
        "run_id": host.run_id(0, run.number),
        "device_ordinal": host.number * _IDS_OF_PROCESS + core,
        "_pt": 0,
        "_p": number,
    }
    yield Event(ran.operation.name, start, end, stats)
    if ran.operation.collective:
        yield Event("Rendezvous", start + 0.2, end - 0.1)
    yield Event(f"end: {ran.operation.name}", end, end + 0.001, {"_ct": 0, "_c": number})
