"""How a host launches a program, on each kind of device."""

from __future__ import annotations

from collections.abc import Callable

from xla_jobs import on_cpu, on_gpu, on_tpu
from xla_jobs.faults import CPU, GPU, TPU
from xla_jobs.hosts import Host, Waiting
from xla_jobs.programs import Program

_LAUNCHES: dict[str, Callable[[Host, Program, float], Waiting]] = {
    TPU: on_tpu.launch,
    GPU: on_gpu.launch,
    CPU: on_cpu.launch,
}


def launch(h: Host, program: Program, ready: float) -> Waiting:
    """Launches a program whose inputs are there at ``ready``."""
    yield from _LAUNCHES[h.job.accelerator](h, program, ready)
