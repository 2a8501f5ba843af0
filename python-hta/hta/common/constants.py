"""Defaults of HTA's interface."""

from __future__ import annotations

DEFAULT_TRACE_DIR = "/tmp/trace"
# Launches that CUDA holds per stream before the host has to wait.
CUDA_MAX_LAUNCH_QUEUE_PER_STREAM = 1024
MAX_EVENT_DURATION_US = 604_800_000_000  # a week
# The calls that HTA counts as launches; those of graphs are not among them.
LAUNCHES = frozenset(
    {
        "cudaLaunchKernel",
        "cudaLaunchKernelExC",
        "cuLaunchKernel",
        "cuLaunchKernelEx",
        "cudaMemcpyAsync",
        "cudaMemsetAsync",
        "hipLaunchKernel",
        "hipExtModuleLaunchKernel",
        "hipMemcpyAsync",
        "hipMemcpyWithStream",
        "hipMemsetAsync",
        "runFunction - job_prep_and_submit_for_execution",
    }
)
