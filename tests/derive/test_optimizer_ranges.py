"""Steps of optimizers whose closures compute the forward and backward passes within them, as Lightning's do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holotrace
from holotrace.derive import optimizer_ranges
from trace_files import write_trace

SIZES = [1 << 22]
RANGE = "Optimizer.step#AdamW.step"
DEVICE = {"name": "NVIDIA H100 80GB HBM3", "id": 0, "computeMajor": 9, "computeMinor": 0, "numSms": 132}


def event(cat: str, name: str, ts: int, dur: int, *, tid: int = 1, **args: Any) -> dict[str, Any]:
    place = {"pid": 0, "tid": 7} if cat == "kernel" else {"pid": 1, "tid": tid}
    return {"ph": "X", "cat": cat, "name": name, **place, "ts": ts, "dur": dur, "args": args}


def steps(*, closure: bool) -> list[dict[str, Any]]:
    """Three steps of 10 ms: forward, backward on a thread of its own, and an optimizer of four operators a parameter.

    The closure's part is 8 ms long; without a closure the range of the optimizer begins after it.
    """
    events: list[dict[str, Any]] = []

    def run(at: int, begun: int, dur: int, name: str, *, tid: int = 1, around: str | None = None) -> None:
        number = len(events) + 1
        if around:
            events.append(event("cpu_op", around, at - 1, 12, tid=tid, external=number))
        known: dict[str, Any] = {
            "Input Dims": [SIZES, SIZES, SIZES, []],
            "Input type": ["float", "float", "float", "Scalar"],
        }
        events.append(event("cpu_op", name, at, 10, tid=tid, **known, **{"External id": number}))
        events.append(event("cuda_runtime", "cudaLaunchKernel", at + 2, 5, tid=tid, correlation=number))
        told: dict[str, Any] = {
            "correlation": number,
            "External id": number,
            "stream": 7,
            "device": 0,
            "grid": [8192, 1, 1],
        }
        events.append(event("kernel", "elementwise_kernel", begun, dur, **told))

    for step in range(3):
        at = 10_000 * step
        events.append(event("user_annotation", f"ProfilerStep#{step}", at, 9_990))
        begun = at + 10 if closure else at + 700
        events.append(event("user_annotation", RANGE, begun, at + 1_000 - begun))
        for call in range(20):
            run(at + 20 + 15 * call, at + 50 + 200 * call, 190, "aten::mul")
            run(
                at + 350 + 15 * call, at + 4_050 + 200 * call, 190, "aten::mul", tid=2, around=optimizer_ranges.BACKWARD
            )
        for call, name in enumerate(["aten::lerp_", "aten::mul_", "aten::addcmul_", "aten::sqrt", "aten::addcdiv_"]):
            run(at + 720 + 15 * call, at + 8_100 + 100 * call, 40, name)
    return events


@pytest.mark.parametrize("closure", [False, True])
def test_what_a_closure_computes_is_none_of_the_optimizers(tmp_path: Path, *, closure: bool) -> None:
    """A job of Lightning was told to save nine tenths of its time by a fused optimizer."""
    write_trace(tmp_path / "rank-0.json", events=steps(closure=closure), deviceProperties=[DEVICE])
    job = holotrace.open(tmp_path)
    (found,) = job.map(optimizer_ranges.own, optimizer_ranges.READS)
    assert found["has_closure"].to_list() == [closure] * 3
    assert (found["end_ns"] - found["start_ns"]).to_list() == [354_000 if closure else 300_000] * 3
    costs = {
        cause: cost
        for cause, name, cost in job.causes()[["cause", "responsible", "cost_ns"]].iter_rows()
        if name == RANGE
    }
    assert list(costs) == ["unfused-optimizer"]
    assert 0 < costs["unfused-optimizer"] < 3 * 5 * 40_000
