"""Every analysis, in the order the report shows them."""

from __future__ import annotations

from typing import Any

from holotrace.analyses.annotated_work import annotated_work
from holotrace.analyses.causes import causes
from holotrace.analyses.communication import communication
from holotrace.analyses.compilations import compilations
from holotrace.analyses.critical_path import critical_path
from holotrace.analyses.device_memory import device_memory
from holotrace.analyses.device_speed import device_speed
from holotrace.analyses.device_steps import device_steps
from holotrace.analyses.duty_cycle import duty_cycle
from holotrace.analyses.efficiency import efficiency
from holotrace.analyses.factors import factors
from holotrace.analyses.gaps import gaps
from holotrace.analyses.hlo_ops import hlo_ops
from holotrace.analyses.host_steps import host_steps
from holotrace.analyses.idle_causes import idle_causes
from holotrace.analyses.job_path import job_path
from holotrace.analyses.kernel_sequences import kernel_sequences
from holotrace.analyses.kernels import kernels
from holotrace.analyses.launch_stats import launch_stats
from holotrace.analyses.memory_bandwidth import memory_bandwidth
from holotrace.analyses.modules import modules
from holotrace.analyses.operator_counters import operator_counters
from holotrace.analyses.operator_efficiency import operator_efficiency
from holotrace.analyses.operator_kernels import operator_kernels
from holotrace.analyses.operators import operators
from holotrace.analyses.overlap import overlap
from holotrace.analyses.peak_buffers import peak_buffers
from holotrace.analyses.phases import phases
from holotrace.analyses.program_launches import program_launches
from holotrace.analyses.program_memory import program_memory
from holotrace.analyses.programs import programs
from holotrace.analyses.queue_length import queue_length
from holotrace.analyses.replay import replay
from holotrace.analyses.scopes import scopes
from holotrace.analyses.skew import skew
from holotrace.analyses.slowdown import slowdown
from holotrace.analyses.step_times import step_times
from holotrace.analyses.stragglers import stragglers
from holotrace.analyses.time_breakdown import time_breakdown
from holotrace.analyses.waits import waits
from holotrace.analyses.work_categories import work_categories
from holotrace.core.analysis import Analysis
from holotrace.errors import UsageError

__all__ = ["ALL", "Analyses", "named"]


class Analyses:
    """Inherited by Job, so each line below is also a method, a command and a page."""

    causes = causes
    time_breakdown = time_breakdown
    step_times = step_times
    idle_causes = idle_causes
    critical_path = critical_path
    job_path = job_path
    replay = replay
    waits = waits
    slowdown = slowdown
    factors = factors
    overlap = overlap
    stragglers = stragglers
    device_speed = device_speed
    communication = communication
    kernels = kernels
    operators = operators
    efficiency = efficiency
    modules = modules
    work_categories = work_categories
    operator_efficiency = operator_efficiency
    operator_kernels = operator_kernels
    kernel_sequences = kernel_sequences
    annotated_work = annotated_work
    launch_stats = launch_stats
    queue_length = queue_length
    memory_bandwidth = memory_bandwidth
    operator_counters = operator_counters
    duty_cycle = duty_cycle
    device_steps = device_steps
    gaps = gaps
    host_steps = host_steps
    compilations = compilations
    program_launches = program_launches
    phases = phases
    scopes = scopes
    programs = programs
    hlo_ops = hlo_ops
    device_memory = device_memory
    program_memory = program_memory
    peak_buffers = peak_buffers
    skew = skew


ALL: tuple[Analysis[Any], ...] = tuple(value for value in vars(Analyses).values() if isinstance(value, Analysis))


def named(name: str) -> Analysis[Any]:
    """The analysis of that name, as written here or in kebab case."""
    known = {analysis.name: analysis for analysis in ALL}
    if (found := known.get(name.replace("-", "_"))) is None:
        raise UsageError(f"there is no analysis {name!r}; there are {', '.join(known)}")
    return found
