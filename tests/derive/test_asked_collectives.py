"""Collectives of which only the operator tells that launched them, as PyTorch recorded them for years."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holotrace
from holotrace.derive import collectives
from trace_files import ALL_REDUCE, write_trace

TOLD = {**ALL_REDUCE, "Process Group Name": "tp", "Process Group Ranks": "[2, 3]"}


def launching(correlation: int, at: int, *, kernel_args: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """A launch of a communication kernel, which begins 10 us later."""
    args = {"correlation": correlation, "stream": 20, "device": 0, **(kernel_args or {})}
    name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "pid": 1, "tid": 1}
    return [
        {**call, "ts": at, "dur": 2, "args": {"correlation": correlation}},
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 20, "ts": at + 10, "dur": 5, "args": args},
    ]


def operator(at: int, thread: int = 1, **args: Any) -> dict[str, Any]:
    """The operator that tells of a collective, from 5 us before its launch to 5 us after it."""
    place = {"pid": 1, "tid": thread, "ts": at - 5, "dur": 10}
    return {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", **place, "args": args}


@pytest.mark.parametrize(
    ("beside", "group"),
    [
        ([operator(100, **TOLD)], "[2, 3]"),
        # It was over when the kernel was launched, or is of another thread.
        ([operator(80, **TOLD)], None),
        ([operator(100, thread=2, **TOLD)], None),
    ],
)
def test_what_the_operator_tells_is_known_of_the_kernel_that_is_launched_within_it(
    tmp_path: Path, beside: list[dict[str, Any]], group: str | None
) -> None:
    """Ranks of tensor and data parallelism seemed to be one group, and nobody who was late was found."""
    write_trace(tmp_path / "rank-2.json", events=[*launching(7, 100), *beside])
    (found,) = holotrace.open(tmp_path).map(collectives.calls, collectives.READS)
    assert found["group_ranks"].to_list() == [group]
    assert found["element_count"].to_list() == [1_000 if group else None]


def test_what_a_kernel_tells_by_itself_counts(tmp_path: Path) -> None:
    own = {**TOLD, "Process Group Ranks": "[0, 2]"}
    beside = [operator(100, **TOLD), operator(200, **TOLD)]
    write_trace(tmp_path / "rank-2.json", events=[*launching(7, 100, kernel_args=own), *launching(8, 200), *beside])
    (found,) = holotrace.open(tmp_path).map(collectives.calls, collectives.READS)
    assert found["group_ranks"].to_list() == ["[0, 2]", "[2, 3]"]
