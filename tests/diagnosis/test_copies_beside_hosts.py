"""Copies that the host goes on beside: they cost what comes after them no more than it is late anyway."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holotrace
from trace_files import write_trace

STEPS, COPY_US, COMPUTE_US = 6, 3_000, 6_000


def copied_ms(folder: Path, *, prepares_us: int) -> float:
    """What copies cost of steps whose host prepares something for so long after it has launched one."""
    events: list[dict[str, Any]] = []
    host = device = 0

    def launch(category: str, name: str, call: str, took_us: int) -> None:
        nonlocal host, device
        ids = {"correlation": len(events) + 1}
        begun = max(device, host + 4)
        place = {"pid": 0, "tid": 7, "args": {**ids, "stream": 7, "device": 0}}
        events.append(
            {"ph": "X", "cat": "cuda_runtime", "name": call, "ts": host, "dur": 8, "pid": 1, "tid": 1} | {"args": ids}
        )
        events.append({"ph": "X", "cat": category, "name": name, "ts": begun, "dur": took_us, **place})
        host, device = host + 10, begun + took_us

    for step in range(STEPS):
        begun = host
        launch("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", "cudaMemcpyAsync", COPY_US)
        own = {"cat": "cpu_op", "pid": 1, "tid": 1, "args": {}}
        parts = range(host, host + prepares_us, 50)
        events += [{"ph": "X", "name": "aten::prepare", "ts": at, "dur": 49, **own} for at in parts]
        host += prepares_us
        for _ in range(4):
            launch("kernel", "gemm", "cudaLaunchKernel", COMPUTE_US // 4)
        end = max(host, device) + 3
        events.append(
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "ts": host, "dur": end - host}
            | {"pid": 1, "tid": 1, "args": {}}
        )
        host = end + 5
        mark = f"ProfilerStep#{step}"
        events.append({"ph": "X", "name": mark, "ts": begun, "dur": host - begun, **own, "cat": "user_annotation"})
    write_trace(folder / "rank-0.json", events=events)
    rows = {row["cause"]: row for row in holotrace.open(folder).causes().to_dicts()}
    return rows["copy"]["cost_ns"] / 1e6 if "copy" in rows else 0.0


@pytest.mark.parametrize("prepares_us", [0, 1_000, 2_000, 2_950])
def test_a_copy_costs_what_it_lasts_beyond_the_launch_of_what_comes_next(tmp_path: Path, prepares_us: int) -> None:
    """All of it was told, as if the host launched earlier without it."""
    assert copied_ms(tmp_path, prepares_us=prepares_us) == pytest.approx(STEPS * (COPY_US - prepares_us) / 1e3, abs=0.3)
