"""What the profiler of each host records of a job: planes of its devices, of its threads and of its programs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from xla_jobs import on_cpu, on_gpu, on_tpu
from xla_jobs.devices import Cores, Run
from xla_jobs.faults import CPU, DEVICES, GPU, TPU
from xla_jobs.hosts import Host
from xla_jobs.profiles import Event, Line, Plane, space

_EPOCH_NS = 1_741_722_000_000_000_000
_PLANES = {TPU: on_tpu.plane, GPU: on_gpu.plane}


def written(host: Host, cores: Cores, skew_us: float) -> bytes:
    """The profile of a host, whose clock is ahead by ``skew_us``."""
    job = host.job
    first = host.number * job.cores
    runs = [[each[first + core] for each in cores.runs] for core in range(job.cores)]
    plane = _PLANES.get(job.accelerator)
    planes = [plane(host, core, runs[core]) for core in range(job.cores)] if plane else []
    programs = {run.program.title: run.program for run in runs[0] if run.start >= host.begun}
    metadata = Plane("/host:metadata", programs={title: each.written() for title, each in programs.items()})
    started_ns = _EPOCH_NS + round(1e3 * (host.begun + skew_us))
    over_ns = started_ns + round(1e3 * (host.now - host.begun)) + 5_000_000
    times = {"profile_start_time": started_ns, "profile_stop_time": over_ns}
    planes += [metadata] if job.protos else []
    planes += [_threads(host, runs)] if job.records != DEVICES else []
    return space([*planes, Plane("Task Environment", stats=times)], f"host{host.number}")


def _threads(host: Host, runs: Sequence[Sequence[Run]]) -> Plane:
    events: dict[str, list[Event]] = defaultdict(list)
    for span in host.spans:
        if span.start >= host.begun:
            events[span.thread].append(Event(span.name, span.start - host.begun, span.end - host.begun, span.stats))
    for core, each in enumerate(runs):
        if host.job.accelerator == TPU:
            events[f"futex-default-SDomainT/{70 + core}"] += on_tpu.completions(host, core, each)
        if host.job.accelerator == CPU:
            events[f"tf_XLAEigen/{80 + core}"] += on_cpu.threads(host, core, each)
    return Plane(
        "/host:CPU",
        [
            Line(100 + place, thread, sorted(found, key=lambda e: (e.start, -e.end)))
            for place, (thread, found) in enumerate(events.items())
        ],
    )
