"""What devices compute beside the steps' own work: evaluations, and kernels that are tried out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holotrace
from trace_files import ALL_REDUCE, write_trace

KERNELS, KERNEL_US, FUNCTION_US = 4, 800, 2_600
# The slower of two devices takes a tenth longer.
STEP_US = 30 + round(1.1 * KERNELS * KERNEL_US) + 60


def event(cat: str, name: str, ts: int, dur: int, **args: Any) -> dict[str, Any]:
    place = {"pid": 0, "tid": 7} if cat == "kernel" else {"pid": 1, "tid": 1}
    return {"ph": "X", "cat": cat, "name": name, **place, "ts": ts, "dur": dur, "args": args}


def rank_of(rank: int, function: str | None, *, slow: float) -> list[dict[str, Any]]:
    """Four steps of four kernels and a reduction that both ranks meet in, and before step 1 a function.

    The function waits 1 ms, runs three kernels of 0.5 ms and waits until they are done. The reduction of that step ends
    so much later on both ranks.
    """
    events: list[dict[str, Any]] = []
    correlation = 0

    def launch(name: str, at: int, begun: int, dur: int, **args: Any) -> None:
        nonlocal correlation
        correlation += 1
        known = {"correlation": correlation, "stream": 20 if args else 7, "device": 0, "grid": [8, 1, 1]}
        events.append(event("cuda_runtime", "cudaLaunchKernel", at, 5, correlation=correlation))
        events.append(event("kernel", name, begun, dur, **known, **args))

    at = 0
    for step in range(4):
        begun = own = at
        if step == 1:
            if function:
                events.append(event("python_function", function, at + 5, FUNCTION_US - 10))
                for kernel in range(3):
                    launch("gemm", at + 1_010 + 10 * kernel, at + 1_050 + 500 * kernel, 499)
                events.append(event("cuda_runtime", "cudaStreamSynchronize", at + 1_100, 1_460))
                own += FUNCTION_US
            at += FUNCTION_US
        for kernel in range(KERNELS):
            lasts = round(KERNEL_US * slow)
            launch(f"kernel{kernel}", own + 10 * kernel + 10, own + 30 + kernel * lasts, lasts - 1)
        came, left = own + 30 + KERNELS * lasts, at + STEP_US - 20
        launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", own + 60, came, left - came, **ALL_REDUCE)
        at += STEP_US
        events.append(event("user_annotation", f"ProfilerStep#{step}", begun, at - begun))
    return events


def found(folder: Path, functions: tuple[str | None, str | None], slow: float = 1.0) -> list[dict[str, Any]]:
    for rank, function in enumerate(functions):
        told = {"rank": rank, "world_size": 2, "backend": "nccl"}
        events = rank_of(rank, function, slow=slow if rank == 0 else 1.0)
        write_trace(folder / f"rank-{rank}.json", events=events, distributedInfo=told)
    return holotrace.open(folder).causes().to_dicts()


EVALUATE, TUNE = "train.py(7): run_validation", "triton/testing.py(96): do_bench"


@pytest.mark.parametrize(
    ("functions", "cause", "ranks"),
    [
        ((EVALUATE, EVALUATE), "evaluation", []),
        ((EVALUATE, None), "evaluation", [0]),
        # It keeps the device busy, so that only the waits between its kernels were told, as synchronization.
        ((TUNE, TUNE), "compilation", []),
    ],
)
def test_what_is_computed_beside_the_steps_is_one_cause_with_what_its_host_waits_for(
    tmp_path: Path, functions: tuple[str | None, str | None], cause: str, ranks: list[int]
) -> None:
    """Where the parts of the host and of the device each were less than is told of an evaluation, nothing was."""
    (only,) = found(tmp_path, functions)
    assert (only["cause"], only["ranks"], only["steps"]) == (cause, ranks, [1])
    assert only["cost_ns"] == pytest.approx(2_600_000, rel=0.1)


def test_a_slow_device_that_evaluates_has_two_causes(tmp_path: Path) -> None:
    """All that the rank computed beyond the others was laid to its evaluation."""
    causes = {one["cause"]: one for one in found(tmp_path, (EVALUATE, None), slow=1.1)}
    assert set(causes) == {"evaluation", "slow-device"}
    assert {name: one["ranks"] for name, one in causes.items()} == {"evaluation": [0], "slow-device": [0]}


def test_an_evaluation_that_is_all_that_a_job_does_keeps_it_from_nothing(tmp_path: Path) -> None:
    """Whatever such a job waited for was told as training that stands still."""
    events = [event("python_function", "evaluate.py(7): evaluate", 0, 20_000)]
    for batch in range(10):
        at = 2_000 * batch
        known = {"correlation": batch + 1, "stream": 7, "device": 0}
        events += [
            event("cuda_runtime", "cudaLaunchKernel", at + 10, 5, correlation=batch + 1),
            event("kernel", "gemm", at + 20, 900, **known),
            event("cuda_runtime", "cudaDeviceSynchronize", at + 30, 900),
            event("python_function", "data.py(3): read_rows", at + 940, 1_050),
        ]
    write_trace(tmp_path / "rank-0.json", events=events)
    (cause,) = holotrace.open(tmp_path).causes().to_dicts()
    assert (cause["cause"], cause["responsible"]) == ("python-function", "data.py(3): read_rows")


def test_an_evaluation_that_waits_for_itself_hides_nothing_later(tmp_path: Path) -> None:
    """While its host waited its device did nothing else: the loader after it took 8 ms, which were told twice."""
    events: list[dict[str, Any]] = []

    def add(cat: str, name: str, ts: int, dur: int, **args: int) -> None:
        place = {"pid": 0, "tid": 7} if cat == "kernel" else {"pid": 1, "tid": 1}
        events.append({"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, **place, "args": args})

    for step in range(4):
        at = 30_000 * step
        add("user_annotation", f"ProfilerStep#{step}", at, 29_990)
        add("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at + 10, 8_000)
        for number, (name, begins, lasts) in enumerate((("gemm", 8_100, 14_000), ("another_gemm", 22_150, 7_800))):
            ids = {"correlation": 2 * step + number + 1}
            add("cuda_runtime", "cudaLaunchKernel", at + begins - 20, 8, **ids)
            add("kernel", name, at + begins, lasts, stream=7, device=0, **ids)
            add("cuda_runtime", "cudaStreamSynchronize", at + begins, lasts + 5)
        add("python_function", "train.py(9): evaluate", at + 22_115, 7_850)
    write_trace(tmp_path / "rank-0.json", events=events)
    costs = {row["cause"]: row["cost_ns"] for row in holotrace.open(tmp_path).causes().to_dicts()}
    assert costs["evaluation"] == pytest.approx(4 * 7_850_000, rel=0.02)
