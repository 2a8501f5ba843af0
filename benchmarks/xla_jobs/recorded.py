"""What the profiler of each host records of a job: planes of its devices, of its threads and of its programs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from xla_jobs.devices import Cores, Ran, Run
from xla_jobs.faults import GPU
from xla_jobs.hosts import Host
from xla_jobs.profiles import Event, Line, Plane, Stats, space
from xla_jobs.programs import PEAK_BYTES, PEAK_FLOPS, Program, shared_stats

_EPOCH_NS = 1_741_722_000_000_000_000
_DEVICE: Stats = {
    "device_type_string": "TPU v6 Lite",
    "peak_teraflops_per_second": PEAK_FLOPS / 1e12,
    "peak_hbm_bw_gigabytes_per_second": PEAK_BYTES / 1e9,
    "has_megacore": 0,
}
# As of an H100.
_GPU: Stats = {
    "device_vendor": "Nvidia",
    "compute_cap_major": 9,
    "compute_cap_minor": 0,
    "clock_rate": 1_980_000,
    "core_count": 132,
    "memory_bandwidth": 3_352_320_000_000,
}
_KERNEL = "regs:64 static_shared:0 dynamic_shared:0 grid:1024,1,1 block:256,1,1 occ_pct:50"
_COPY = "kind_src:pinned kind_dst:device size:16777216 dest:0 async:1"


def written(host: Host, cores: Cores, skew_us: float) -> bytes:
    """The profile of a host, whose clock is ahead by ``skew_us``."""
    job = host.job
    first = host.number * job.cores
    runs = [[each[first + core] for each in cores.runs] for core in range(job.cores)]
    is_gpu = job.accelerator == GPU
    planes = [_gpu(host, runs[0])] if is_gpu else [_device(host, core, runs[core]) for core in range(job.cores)]
    programs = {run.program.title: run.program for run in runs[0] if run.start >= host.begun}
    metadata = Plane("/host:metadata", programs={title: each.written() for title, each in programs.items()})
    started_ns = _EPOCH_NS + round(1e3 * (host.begun + skew_us))
    over_ns = started_ns + round(1e3 * (host.now - host.begun)) + 5_000_000
    times = {"profile_start_time": started_ns, "profile_stop_time": over_ns}
    planes += [metadata] if job.protos else []
    planes += [_threads(host, runs), Plane("Task Environment", stats=times)]
    return space(planes, f"host{host.number}")


def _device(host: Host, core: int, runs: Sequence[Run]) -> Plane:
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
    lines = (
        Line(2, "XLA Modules", modules),
        Line(3, "XLA Ops", operations),
        Line(4, "Async XLA Ops", spans),
        Line(6, "XLA TraceMe", notes),
    )
    return Plane(f"/device:TPU:{core}", lines, _DEVICE, number=2 + 8 * core)


def _gpu(host: Host, runs: Sequence[Run]) -> Plane:
    """Streams of kernels and of copies: nothing tells of programs but what each kernel says of its own."""
    kernels: list[Event] = []
    for run in runs:
        flow = host.flows[(0, run.number)]
        told: Stats = {
            "hlo_module": run.program.name,
            "program_id": run.program.number,
            "correlation_id": flow,
            "context_id": "$$1",
        }
        for ran in run.operations:
            if ran.start >= host.begun:
                start, end = ran.start - host.begun, ran.end - host.begun
                stats: Stats = {**told, "hlo_op": ran.operation.name, "kernel_details": _KERNEL}
                kernels.append(Event(ran.operation.name.replace(".", "_"), start, end, stats))
    copies = [
        Event("MemcpyH2D", start - host.begun, end - host.begun, {"correlation_id": flow, "memcpy_details": _COPY})
        for start, end, flow in host.copies
        if start >= host.begun
    ]
    lines = (Line(14, "Stream #14(Compute)", kernels), Line(15, "Stream #15(MemcpyH2D)", copies))
    return Plane("/device:GPU:0", lines, _GPU, number=2)


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


def _threads(host: Host, runs: Sequence[Sequence[Run]]) -> Plane:
    events: dict[str, list[Event]] = defaultdict(list)
    for span in host.spans:
        if span.start >= host.begun:
            events[span.thread].append(Event(span.name, span.start - host.begun, span.end - host.begun, span.stats))
    for core, each in enumerate(runs if host.job.accelerator != GPU else ()):
        events[f"futex-default-SDomainT/{70 + core}"] += _completions(host, core, each)
    return Plane(
        "/host:CPU",
        [
            Line(100 + place, thread, sorted(found, key=lambda e: (e.start, -e.end)))
            for place, (thread, found) in enumerate(events.items())
        ],
    )


def _completions(host: Host, core: int, runs: Iterable[Run]) -> list[Event]:
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
