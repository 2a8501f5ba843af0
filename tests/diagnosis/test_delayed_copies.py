"""Copies in a queue of their own, which would be hidden had the host not stood still before it launched them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import holotrace
from holotrace.diagnosis.job.candidates import Where, candidate
from holotrace.diagnosis.words.classes import SYNCHRONIZATION
from trace_files import write_trace

STEPS, COPY_US, COMPUTE_US, UPDATE_US, WRITES_US = 6, 2_000, 6_000, 300, 4_000


@pytest.mark.parametrize(
    ("call", "cause", "lasts_us"),
    [("cudaStreamSynchronize", "synchronization", 0), ("cudaFree", "allocator", 0), ("log", "logging", WRITES_US)],
)
def test_what_made_a_host_late_has_exposed_the_batches_that_it_sends_later(
    tmp_path: Path, call: str, cause: str, lasts_us: int
) -> None:
    """A wait was worth only the gap after it, and the copy of the next batch was exposed as if by itself, or untold."""
    events: list[dict[str, Any]] = []
    host = 0
    queues = {7: 0, 22: 0}

    def launch(name: str, took_us: int, stream: int) -> None:
        nonlocal host
        category, runtime = ("gpu_memcpy", "cudaMemcpyAsync") if stream == 22 else ("kernel", "cudaLaunchKernel")
        ids = {"correlation": len(events) + 1}
        # Each batch is copied before anything is computed of it.
        begun = max(queues[stream], host + 4, queues[22] if stream == 7 else 0)
        place = {"pid": 0, "tid": stream, "args": {**ids, "stream": stream, "device": 0}}
        of_host = {"ph": "X", "pid": 1, "tid": 1, "args": ids}
        events.append({**of_host, "cat": "cuda_runtime", "name": runtime, "ts": host, "dur": 8})
        events.append({"ph": "X", "cat": category, "name": name, "ts": begun, "dur": took_us, **place})
        host, queues[stream] = host + 10, begun + took_us

    for step in range(STEPS):
        begun = host
        launch("Memcpy HtoD (Pinned -> Device)", COPY_US, 22)
        for _ in range(4):
            launch("gemm", COMPUTE_US // 4, 7)
        own = {"ph": "X", "pid": 1, "tid": 1, "ts": host, "args": {}}
        end = max(queues[7] + 3 if lasts_us == 0 else host + lasts_us + COMPUTE_US, host + 5)
        category = "user_annotation" if lasts_us else "cuda_runtime"
        events.append({**own, "cat": category, "name": call if not lasts_us else "log_scalars", "dur": end - host})
        host = end + 5
        launch("update", UPDATE_US, 7)
        mark = {"cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": begun, "dur": host - begun}
        events.append({**own, **mark})
    write_trace(tmp_path / "rank-0.json", events=events)
    (found,) = holotrace.open(tmp_path).causes().to_dicts()
    assert found["cause"] == cause
    # Nothing could hide the first batch; all others are hidden, as hosts are ahead.
    ideal_us = COPY_US + STEPS * (COMPUTE_US + UPDATE_US)
    assert found["cost_ns"] == pytest.approx(1_000 * (max(queues.values()) - ideal_us), rel=0.05)


def test_what_waits_often_does_so_in_the_steps_that_are_told() -> None:
    """One wait in each of five steps, of which one exposed a copy, was several in that step, and was told."""
    rows = [
        {
            "rank": 0,
            "step": step,
            "at_ns": 10 * step,
            "start_ns": 0,
            "part_ns": ns,
            "count": 1,
            "detail": "",
            "event_id": 1,
        }
        for step, ns in enumerate((1, 1, 900, 1, 1))
    ]
    found = candidate(SYNCHRONIZATION, "aten::item", pl.DataFrame(rows), Where((), (2,)))
    assert found.evidence["count"] == 1
