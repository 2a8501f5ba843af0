"""What a critical path graph is made of: nodes, edges, and what bounds an edge."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass
class CPNode:
    """The start or end of an event: its number, the event's index, and when it is, in microseconds."""

    idx: int = -1
    ev_idx: int = -1
    ts: int = 0
    is_start: bool = False
    is_blocking: bool = False


class CPEdgeType(Enum):
    """What the end of an edge waited for."""

    OPERATOR_KERNEL = "critical_path_operator"
    DEPENDENCY = "critical_path_dependency"
    KERNEL_LAUNCH_DELAY = "critical_path_kernel_launch_delay"
    KERNEL_KERNEL_DELAY = "critical_path_kernel_kernel_delay"
    SYNC_DEPENDENCY = "critical_path_sync_dependency"

    # Enum's own is written in Python, and edges are hashed by the hundred thousand.
    __hash__ = object.__hash__


class BoundType(Enum):
    """What a part of the critical path is bound by."""

    GPU_KERNEL_KERNEL_OVERHEAD = "gpu_kernel_kernel_overhead"
    GPU_KERNEL_LAUNCH_OVERHEAD = "gpu_kernel_launch_overhead"
    DATA_LOADING = "data_loading"
    CPU_BOUND = "cpu_bound"
    GPU_COMPUTE_BOUND = "gpu_compute_bound"
    GPU_COMMUNICATION_BOUND = "gpu_communication_bound"


@dataclass(frozen=True)
class CPEdge:
    """An edge: the numbers of its nodes, its type, and its weight in microseconds."""

    begin: int
    end: int
    type: CPEdgeType
    weight: int = 0
