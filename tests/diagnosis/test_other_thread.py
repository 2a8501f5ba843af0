"""A training loop that waits for the thread of autograd, which stands still."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holotrace
from trace_files import write_trace

MAIN, AUTOGRAD = 1, 2


@pytest.mark.parametrize(("call", "cause"), [("cudaMalloc", "allocator"), ("cudaDeviceGetAttribute", "host-pause")])
def test_what_the_other_thread_stands_still_for_is_told_in_place_of_a_pause(
    tmp_path: Path, call: str, cause: str
) -> None:
    """Memory that was allocated at the end of a backward pass was told as a loop that pauses."""

    def event(cat: str, name: str, tid: int, ts: int, dur: int, **args: int) -> dict[str, Any]:
        return {"ph": "X", "cat": cat, "name": name, "pid": cat != "kernel", "tid": tid, "ts": ts, "dur": dur} | {
            "args": args
        }

    events: list[dict[str, Any]] = []
    for step in range(3):
        at = 20_000 * step
        events += [
            event("user_annotation", f"ProfilerStep#{step}", MAIN, at, 19_990),
            event("user_annotation", "update", MAIN, at + 10, 19_900),
            event("cpu_op", "aten::empty", AUTOGRAD, at + 300, 9_000),
            event("cuda_runtime", call, AUTOGRAD, at + 310, 8_900),
        ]
        launched = [("forward", MAIN, 20, 200), ("backward", AUTOGRAD, 250, 1_000), ("adam", MAIN, 9_500, 9_000)]
        for number, (name, tid, ts, dur) in enumerate(launched):
            ids = {"correlation": 10 * step + number, "stream": 7, "device": 0}
            events.append(event("cuda_runtime", "cudaLaunchKernel", tid, at + ts, 9, **ids))
            events.append(event("kernel", name, 7, at + ts + 20, dur, **ids))
    write_trace(tmp_path / "rank-0.json", events=events)
    assert holotrace.open(tmp_path).causes()["cause"][0] == cause
