"""Recorders drop some work: a device that seems to stand still meanwhile waits for nothing that is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holotrace
from holotrace.diagnosis.rank import account, lost_work
from trace_files import write_trace

KERNEL_US, STEP_US, PER_STEP, STEPS = 500, 5_100, 10, 4


def event(cat: str, name: str, ts: int, dur: int, **args: Any) -> dict[str, Any]:
    pid, tid = (0, 7) if cat == "kernel" else (1, 1)
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def told(folder: Path, lost: range, *, captures: bool = False) -> list[str]:
    """What is said of a host that launches all kernels of a step, then reads the loss; of the third some are lost."""
    events: list[dict[str, Any]] = []
    for step in range(STEPS):
        begun = step * STEP_US
        events.append(event("user_annotation", f"ProfilerStep#{step}", begun, STEP_US))
        for place in range(PER_STEP):
            number = step * PER_STEP + place + 1
            launched = begun + 20 + 20 * place
            events.append(event("cuda_runtime", "cudaLaunchKernel", launched, 9, correlation=number))
            if step != 2 or place not in lost:
                at = begun + 40 + KERNEL_US * place
                events.append(event("kernel", "gemm", at, KERNEL_US, correlation=number, stream=7, device=0))
        events.append(event("cpu_op", "aten::item", begun + 300, KERNEL_US * PER_STEP - 250))
        events.append(event("cuda_runtime", "cudaStreamSynchronize", begun + 310, KERNEL_US * PER_STEP - 270))
    if captures:
        begun = 2 * STEP_US + 20 + 20 * lost.start
        events.append(event("cuda_runtime", "cudaStreamBeginCapture", begun - 8, 4))
        events.append(event("cuda_runtime", "cudaStreamEndCapture", begun + 20 * len(lost) - 8, 4))
    write_trace(folder / "rank-0.json", events=events)
    return [row["cause"] for row in holotrace.open(folder).causes().to_dicts()]


@pytest.mark.parametrize("lost", [range(3, 8), range(3, 10)])
def test_a_device_whose_kernels_were_dropped_is_not_told_to_wait(tmp_path: Path, lost: range) -> None:
    assert told(tmp_path, lost) == []


def test_what_is_captured_was_not_dropped(tmp_path: Path) -> None:
    assert told(tmp_path, range(3, 8), captures=True) != []


@pytest.mark.parametrize(("recorded", "lost"), [(range(1, 10), 31), (range(32, 41), 0)])
def test_what_a_host_had_launched_when_the_recording_ended_is_lost_however_far_ahead_it_was(
    tmp_path: Path, recorded: range, lost: int
) -> None:
    """Ranks had more work than others that were recorded for some kernels longer."""
    launches = [
        event("cuda_runtime", "cudaLaunchKernel", 20 * number, 9, correlation=number) for number in range(1, 41)
    ]
    ran = [event("kernel", "gemm", 1_000 * n, 900, correlation=n, stream=7, device=0) for n in recorded]
    write_trace(tmp_path / "rank-0.json", events=[*launches, *ran])
    (found,) = holotrace.open(tmp_path).map(lost_work.launches, account.READS)
    assert len(found) == lost


@pytest.mark.parametrize(("launched_us", "cost_ms"), [(900, 0), (4_000, 3)])
def test_a_device_whose_last_kernel_ends_after_the_recording_stands_still_until_that_was_launched(
    tmp_path: Path, launched_us: int, cost_ms: int
) -> None:
    """Of what was cut off at its end the host was to blame that did something meanwhile."""
    events = [event("python_function", "train.py(9): log_metrics", 1_000, 9_000)]
    for number, at in ((1, 20), (2, launched_us)):
        events.append(event("cuda_runtime", "cudaLaunchKernel", at, 9, correlation=number))
    events.append(event("kernel", "gemm", 40, 960, correlation=1, stream=7, device=0))
    write_trace(tmp_path / "rank-0.json", events=events)
    told = holotrace.open(tmp_path).causes()["cost_ns"]
    assert [round(cost_ns / 1e6) for cost_ns in told] == [cost_ms] * bool(cost_ms)


@pytest.mark.parametrize(("steps", "before"), [((), "the recording began"), (("ProfilerStep#3",), "these steps")])
def test_a_gap_before_what_had_been_launched_before_the_recording_is_not_laid_to_the_host(
    tmp_path: Path, steps: tuple[str, ...], before: str
) -> None:
    """A stage that waits for a message, whose kernel had begun before the recording, was told to wait for its host."""
    events = [event("python_function", "model.py(3): forward", 0, 20_000)]
    events += [event("kernel", "gemm", at, 1_000, correlation=at, stream=7, device=0) for at in (10, 9_000)]
    events.append(event("cuda_runtime", "cudaLaunchKernel", 9_500, 9, correlation=3))
    events.append(event("kernel", "gemm", 10_001, 8_000, correlation=3, stream=7, device=0))
    events += [event("user_annotation", step, 0, 18_100) for step in steps]
    write_trace(tmp_path / "rank-0.json", events=events)
    (cause,) = holotrace.open(tmp_path).causes().to_dicts()
    assert cause["cause"] == "earlier-work"
    assert f"what had been launched before {before}, or waited for it" in cause["message"]
