"""Groups of events by their category, and kinds of devices and copies."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

import pandas as pd

from hta.utils.utils import COMMUNICATION_NAME, MEMORY_NAME, OTHER_NAME


class DeviceType(Enum):
    """Where events ran."""

    UNKNOWN = 0
    CPU = 1
    GPU = 2
    ALL = 3


class MemcpyType(Enum):
    """From where to where a copy goes."""

    DTOD = 0
    DTOH = 1
    HTOD = 2
    UNKNOWN = 3


MEMCPY_TYPE_TO_STR = {
    MemcpyType.DTOD: "memcpy_dtod",
    MemcpyType.DTOH: "memcpy_dtoh",
    MemcpyType.HTOD: "memcpy_htod",
    MemcpyType.UNKNOWN: "memcpy_type_unknown",
}


@dataclass(frozen=True)
class GroupingPattern:
    """Names that belong together: those whose start matches a pattern, or all others."""

    pattern: re.Pattern[str]
    inverse_match: bool = False
    group_name: str = ""

    def match(self, name: str) -> bool:
        """Whether a name belongs to the group."""
        return (re.match(self.pattern, name) is not None) != self.inverse_match


def to_grouping_pattern(
    pattern: str | list[str] | re.Pattern[str] | GroupingPattern,
    group_name: str | None = None,
    inverse_match: bool | None = None,
) -> GroupingPattern:
    """A group from a regular expression or several; a group that is one already stays as it is."""
    if isinstance(pattern, GroupingPattern):
        return pattern
    if isinstance(pattern, list):
        pattern = "|".join(f"({one})" for one in pattern)
    if not isinstance(pattern, (str, re.Pattern)):
        raise ValueError(f"a {type(pattern).__name__} is no pattern; give a regular expression or a list of them")
    return GroupingPattern(re.compile(pattern), bool(inverse_match), group_name or "")


def infer_device_type(df: pd.DataFrame) -> DeviceType:
    """Where all of some events ran; UNKNOWN where they did not all run on one side."""
    if "stream" not in df:
        return DeviceType.UNKNOWN
    if df["stream"].ge(0).all():
        return DeviceType.GPU
    return DeviceType.CPU if df["stream"].eq(-1).all() else DeviceType.UNKNOWN


KERNEL_CATEGORY_PATTERN = to_grouping_pattern(["kernel", "gpu_mem.+", "mtia_ccp_events"], "GPU Kernels")
KERNEL_LAUNCH_CATEGORY_PATTERN = to_grouping_pattern(
    ["cuda.*LaunchKernel", "cuLaunchKernel", "^runFunction"], "Kernel Launch"
)
CPU_OP_CATEGORY_PATTERN = to_grouping_pattern(["^cpu_op", "^user_annotation$"], "CPU Ops")
DEVICE_RUNTIME_CATEGORY_PATTERN = to_grouping_pattern(["cuda_runtime", "mtia_runtime"], "Device Runtimes")
MEMORY_CATEGORY_PATTERN = to_grouping_pattern(["gpu_mem.+", "mtia_ccp_events"], "Memory")
GPU_EVENT_CATEGORY_PATTERN = to_grouping_pattern(
    [".*kernel", "^gpu_mem", "^mtia_ccp_events", "^cuda_sync"], "GPU Events"
)
POST_PROCESSED_ANNOTATION_CATEGORY_PATTERN = to_grouping_pattern(["^gpu_user_annotation"], "Post-Processed Annotations")
CPU_EVENTS_CATEGORY_PATTERN = to_grouping_pattern(["^cpu_op", "^user_annotation$", "^(.+)_runtime"], "CPU Events")
CPU_AND_GPU_EVENTS_CATEGORY_PATTERN = to_grouping_pattern(
    ["^cpu_op", "^user_annotation$", "cuda_runtime", ".*kernel", "^gpu_mem", "^mtia_ccp_events", "^cuda_sync"],
    "CPU/GPU Events",
)
PYTHON_FUNCTION_PATTERN = to_grouping_pattern(["python_function"], "Python Functions")
ALL_CATEGORY_PATTERN = to_grouping_pattern(".*", "All")
ProfilerStepGroupingPattern = to_grouping_pattern(r"^ProfilerStep#(\d+)", "Profiler Step")
MemoryKernelGroupingPattern = GroupingPattern(MEMORY_NAME, group_name="Memory")
MTIAMemoryKernelGroupingPattern = to_grouping_pattern("dma", "MTIA Memory")
CommunicateKernelGroupingPattern = GroupingPattern(COMMUNICATION_NAME, group_name="Communicate")
ComputeKernelGroupingPattern = GroupingPattern(OTHER_NAME, inverse_match=True, group_name="Compute")
CUDA_SYNC_PATTERN = to_grouping_pattern(["cuda_sync"], "CUDA Sync")
# The groups of kernels that HTA has by name.
common_grouping_patterns = {
    "memory_kernels": MemoryKernelGroupingPattern,
    "compute_kernels": ComputeKernelGroupingPattern,
    "communicate_kernels": CommunicateKernelGroupingPattern,
}
