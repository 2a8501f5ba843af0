"""Programs on TPUs: how a host hands them over, and what is recorded of cores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xla_jobs.devices import Launch, Ran, Run
from xla_jobs.faults import PROGRAMS
from xla_jobs.hosts import IN_FLIGHT, Host, Waiting
from xla_jobs.profiles import Event, Line, Plane, Stats
from xla_jobs.programs import PEAK_BYTES, PEAK_FLOPS, Program, shared_stats

_DEVICE: Stats = {
    "device_type_string": "TPU v6 Lite",
    "peak_teraflops_per_second": PEAK_FLOPS / 1e12,
    "peak_hbm_bw_gigabytes_per_second": PEAK_BYTES / 1e9,
    "has_megacore": 0,
}


def launch(h: Host, program: Program, ready: float) -> Waiting:
    """Threads of the runtime hand the program to the cores."""
    number, h.launched = h.launched, h.launched + 1
    flow = h.flow()
    with h.open("PJRT_LoadedExecutable_Execute"), h.open("TpuLoadedExecutable::Execute", _pt=5, _p=flow):
        h.spend(18)
        free = h.now
        if number >= IN_FLIGHT:
            free = max(free, (yield from h.wait(number - IN_FLIGHT)) + 40)
        times = [_execute(h, (core, number), max(h.now, free), ready, flow) for core in range(h.job.cores)]
        h.now = max(h.now, free)
        h.spend(30 + 12 * h.job.cores)
    h.cores.launch(h.number, number, Launch(program, h.step, tuple(times)))


def _execute(h: Host, run: tuple[int, int], free: float, ready: float, flow: int) -> float:
    """What threads of the runtime do to hand a program to one core; when that has it."""
    core, number = run
    thread, begun = f"py_xla_execute/{50 + core}", h.now + 6 + 4 * core
    free = max(free, begun + 4)
    issued, enqueued = h.flow(), h.flow()
    over = free + 46
    h.at(thread, "Scheduled TpuLoadedExecutable::Execute", begun, over + 6, _ct=5, _c=flow)
    h.at(thread, "TpuLoadedExecutable::ExecutePrepare", begun + 1, free)
    if free > begun + 8:
        h.at(thread, "Acquire semaphore", begun + 2, free - 2)
    h.at(thread, "TpuLoadedExecutable::ExecuteLaunch", free + 2, over)
    h.at(thread, "tpu::System::Execute", free + 4, over - 8, _pt=7, _p=issued)
    handed = max(over - 6, ready)
    place = {"run_id": h.run_id(core, number), "queue_id": 0, "device_ordinal": core, "core_type": 0}
    queue = f"tfrt-non-blocking-queue/{31 + core}"
    h.at(queue, "tpu::System::Execute=>IssueSequencedEvent", handed, handed + 18, _ct=7, _c=issued)
    h.at(queue, "DoEnqueueProgram", handed + 4, handed + 16, **place, _pt=12, _p=enqueued)
    h.flows[(core, number)] = enqueued
    return handed + 10


def plane(host: Host, core: int, runs: Sequence[Run]) -> Plane:
    """What a core ran."""
    modules: list[Event] = []
    operations: list[Event] = []
    spans: list[Event] = []
    notes: list[Event] = []
    places: dict[str, int] = {}
    for run in runs:
        if run.start >= host.begun:
            modules.append(_module(host, core, run))
            name = "barrier-cores" if run.met > run.start else "dependency-wait"
            notes.append(Event(name, run.start - host.begun, run.met - host.begun))
        for ran in run.operations:
            if ran.start < host.begun:
                continue
            place = places.setdefault(f"{run.program.title}/{ran.operation.name}", len(places) + 1)
            operations.append(_operation(host, ran, run.program, place))
            if ran.until:
                spans.append(_span(host, ran, run, place))
    lines = [Line(2, "XLA Modules", modules)]
    if host.job.records != PROGRAMS:
        lines += [Line(3, "XLA Ops", operations), Line(4, "Async XLA Ops", spans), Line(6, "XLA TraceMe", notes)]
    return Plane(f"/device:TPU:{core}", lines, _DEVICE, number=2 + 8 * core)


def _module(host: Host, core: int, run: Run) -> Event:
    stats = {"run_id": host.run_id(core, run.number), "replica_id": 0, "queue_id": 0, "core_type": 0}
    stats |= {"_ct": 12, "_c": host.flows[(core, run.number)]}
    return Event(run.program.title, run.start - host.begun, run.end - host.begun, stats)


def _operation(host: Host, ran: Ran, program: Program, place: int) -> Event:
    start, end = ran.start - host.begun, ran.end - host.begun
    measured = {"device_offset_ps": round(1e6 * start), "device_duration_ps": round(1e6 * (end - start))}
    shared = shared_stats(ran.operation, program, place)
    return Event(ran.operation.text(), start, end, measured, ran.operation.name, shared)


def _span(host: Host, ran: Ran, run: Run, place: int) -> Event:
    """From the start of a collective to its end, whatever runs beside it."""
    done = next(each for each in run.program.operations if each.awaits == ran.operation.name)
    # The end is executed when the core comes to it.
    over = next(each.end for each in run.operations if each.operation is done)
    shared = shared_stats(ran.operation, run.program, place)
    stats: Stats = {"hlo_op": done.name, "_a": 1, "flow": place, "id": place}
    return Event(ran.operation.text(), ran.start - host.begun, over - host.begun, stats, "async-collective", shared)


def completions(host: Host, core: int, runs: Iterable[Run]) -> list[Event]:
    """How the host hears that runs are over."""
    found = []
    for run in runs:
        end = run.end - host.begun + 28
        if end < 0:
            continue
        place = {"run_id": host.run_id(core, run.number), "queue_id": 0, "device_ordinal": core, "core_type": 0}
        place |= {"_ct": 12, "_c": host.flows[(core, run.number)]}
        found += [
            Event("ReadSyncFlag", end - 24, end - 4),
            Event("CompleteCallbacks", end, end + 14, place),
            Event("tpu::System::Execute=>Done", end + 2, end + 12),
        ]
    return found
