"""Kernels of one queue run one after the other, though GPUs may begin one a little before the one before has ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holotrace
from trace_files import write_trace

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
SAVED_US = 20_000


def events_of(*, is_saving: bool, early_us: float) -> list[dict[str, Any]]:
    """One rank computes, reduces twice and computes; while one saves a checkpoint first, the other waits for it."""
    late = SAVED_US if is_saving else 0
    reduced = SAVED_US + 2_000
    work = [
        ("gemm", 7, 200 + late, 1_200 + late),
        (ALL_REDUCE, 9, 1_200 + late, reduced),
        (ALL_REDUCE, 9, reduced - early_us, reduced + 1_000),
        ("gemm", 7, reduced + 1_010, reduced + 3_010),
    ]
    meets = {"Collective name": "allreduce", "Process Group Name": "0", "Process Group Ranks": "[0, 1]"}
    call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "dur": 5}
    saving = {"ph": "X", "cat": "python_function", "name": "train.py(30): save_checkpoint", "pid": 1, "tid": 1}
    before = [("gemm", 7, 20, 120)]
    events = [saving | {"ts": 110, "dur": late}] if late else []
    for number, (name, stream, begun, ended) in enumerate([*before, *work], 1):
        known: dict[str, Any] = {"correlation": number, "stream": stream, "device": 0}
        kernel = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": begun, "dur": ended - begun}
        launched = 10 if number == 1 else 120 + late + 10 * number
        events.append(call | {"ts": launched, "args": {"correlation": number}})
        events.append(kernel | {"args": known | (meets if name == ALL_REDUCE else {})})
    return events


@pytest.mark.parametrize("early_us", [0, 0.5, 2])
def test_ranks_that_wait_are_late_to_nothing_that_stands_behind_what_they_wait_for(
    tmp_path: Path, early_us: float
) -> None:
    """A checkpoint of 60 ms was told to cost 2 ms, which is not worth saying."""
    for rank in range(2):
        info = {"rank": rank, "world_size": 2, "backend": "nccl"}
        events = events_of(is_saving=rank == 0, early_us=0 if rank == 0 else early_us)
        write_trace(tmp_path / f"rank-{rank}.json", events=events, distributedInfo=info)
    (found,) = holotrace.open(tmp_path).causes().filter(cause="checkpoint").to_dicts()
    assert found["ranks"] == [0]
    assert found["cost_ns"] == pytest.approx(SAVED_US * 1_000, rel=0.05)
