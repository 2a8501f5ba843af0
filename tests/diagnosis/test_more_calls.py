"""Ranks that have more calls than others: their hosts launch these, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holotrace
from trace_files import write_trace

STEPS, USUAL, KERNEL_US, LAUNCH_US = 4, 200, 20, 19


def rank(number: int, count: int) -> list[dict[str, Any]]:
    """Steps of so many kernels, which their host launches hardly faster than its device computes them, and a reduction.

    That ends when the rank with the most kernels has come.
    """
    events: list[dict[str, Any]] = []
    host, lasted = 0, 2 * USUAL * KERNEL_US + 100

    def launch(name: str, begun: int, ended: int, stream: int) -> None:
        nonlocal host
        ids = {"correlation": len(events) + 1}
        place = {"pid": number, "tid": stream, "args": {**ids, "stream": stream, "device": number}}
        called = {"pid": 100, "tid": 1, "args": ids}
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": host, "dur": 9, **called})
        events.append({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": host, "dur": LAUNCH_US - 1, **called})
        events.append({"ph": "X", "cat": "kernel", "name": name, "ts": begun, "dur": ended - begun, **place})
        host += LAUNCH_US

    for step in range(STEPS):
        start = step * lasted
        host = begin = start + 10
        for place in range(count):
            launch("gemm", begin + 10 + place * KERNEL_US, begin + 10 + (place + 1) * KERNEL_US, 7)
        launch("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", begin + 10 + count * KERNEL_US, start + lasted - 5, 7)
        mark = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": start, "dur": lasted}
        events.append({**mark, "pid": 100, "tid": 1, "args": {}})
    return events


def test_a_rank_that_has_more_calls_need_not_launch_them(tmp_path: Path) -> None:
    """A stage of a pipeline with a layer more cost 9 ms, as its host took as long, and 18 could be saved."""
    for number in range(4):
        count = 2 * USUAL if number == 1 else USUAL
        write_trace(tmp_path / f"rank-{number}.json", rank=number, world=4, events=rank(number, count))
    (found, *_) = holotrace.open(tmp_path).causes().to_dicts()
    assert (found["cause"], found["ranks"]) == ("more-work", [1])
    assert found["cost_ns"] == pytest.approx(STEPS * USUAL * KERNEL_US * 1e3, rel=0.1)
