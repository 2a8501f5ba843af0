"""Recordings that begin and end anywhere, at other times on each rank, as those that are asked for while a job runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import other_jobs
import pytest
from other_jobs import Other

import holotrace
from holotrace import sample
from holotrace.diagnosis.words.classes import COSTLESS, SLOW_DEVICE
from quick import every
from trace_files import write_trace

EXCHANGE = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def cut(
    folder: Path, seed: int, *, marked: bool, part: tuple[float, float] = (0.25, 0.45), apart: float = 0.02
) -> None:
    """Leave of each trace what a recorder has that was asked for it: events that begin and end within, marks or not.

    Functions of Python that are open as it begins, or ends, are there from then on, or until then.

    Args:
        folder: Where the traces are.
        seed: Of all that is random.
        marked: Whether steps are.
        part: How much of the job is recorded, between these.
        apart: Ranks are asked within so much of the job of each other.
    """
    random = Random(seed)
    begin, length = random.uniform(0.05, 0.5), random.uniform(*part)
    for path in sorted(folder.glob("*.json")):
        trace = json.loads(path.read_text(encoding="utf-8"))
        times = [event["ts"] for event in trace["traceEvents"] if event.get("ph") == "X"]
        whole = max(times) - min(times)
        since, until = (min(times) + whole * (at + random.uniform(0, apart)) for at in (begin, begin + length))
        known = (_recorded(event, since, until) for event in trace["traceEvents"])
        trace["traceEvents"] = [event for event in known if event and _is_left(event, marked=marked)]
        path.write_text(json.dumps(trace), encoding="utf-8")


def _recorded(event: dict[str, Any], since: float, until: float) -> dict[str, Any] | None:
    """What there is of an event."""
    if "ts" not in event:
        return event
    began, ended = event["ts"], event["ts"] + event.get("dur", 0)
    if event.get("cat") == "python_function":
        began, ended = max(began, since), min(ended, until)
        return {**event, "ts": began, "dur": ended - began} if began < ended else None
    return event if since <= began and ended <= until else None


def _is_left(event: dict[str, Any], *, marked: bool) -> bool:
    return marked or not str(event.get("name")).startswith("ProfilerStep")


def told(folder: Path) -> list[dict[str, Any]]:
    """What is said to cost anything."""
    return [row for row in holotrace.open(folder).causes().to_dicts() if row["cause"] not in COSTLESS]


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("seed", every(4, [4, 1, 2, 3, 9, 5, 6, 7, 8, 10, 11, 12]))
def test_of_a_healthy_job_nothing_is_told(tmp_path: Path, seed: int, *, marked: bool) -> None:
    """Some ranks had more work, by what others had not recorded; or hosts launched late what was not recorded."""
    sample.write(tmp_path, ranks=4, steps=8, seed=seed, faults=[], compress=False)
    cut(tmp_path, seed, marked=marked)
    assert [row["message"] for row in told(tmp_path)] == []


@pytest.mark.parametrize("seed", every(3, [4, 1, 2, 3, 5, 6]))
def test_a_slow_device_is_told_or_nothing_is(tmp_path: Path, seed: int) -> None:
    sample.write(tmp_path, ranks=4, steps=8, seed=seed, faults=[SLOW_DEVICE], compress=False)
    cut(tmp_path, seed, marked=False)
    assert {row["cause"] for row in told(tmp_path)} <= {SLOW_DEVICE}


@pytest.mark.parametrize(
    ("job", "most", "marked"),
    [
        pytest.param(Other("pipeline", seed=7), 0.45, False, id="stages that never all meet"),
        pytest.param(Other("pipeline", seed=1), 0.45, False, id="what had been launched before"),
        pytest.param(Other("experts", seed=5), 0.45, True, id="the end, which is of no marked step"),
        pytest.param(Other("nodes", seed=2), 0.12, False, id="reductions that are hidden"),
        pytest.param(Other("nodes", seed=2, stacks=True), 0.12, True, id="a part of a step"),
        pytest.param(Other("nodes", seed=4), 0.12, False, id="another part of a step"),
    ],
)
def test_nor_is_anything_of_healthy_jobs_of_other_kinds(
    tmp_path: Path, job: Other, most: float, *, marked: bool
) -> None:
    """Ranks had more work than others, or slow devices; or were slow stages."""
    other_jobs.write(tmp_path, replace(job, steps=8))
    cut(tmp_path, job.seed, marked=marked, part=(0.06 if most < 0.2 else 0.08, most), apart=0.03)
    assert [row["message"] for row in told(tmp_path)] == []


@pytest.mark.parametrize("seed", every(2, [1, 2, 3, 4]))
def test_a_slow_device_costs_what_it_does_in_all_that_was_recorded(tmp_path: Path, seed: int) -> None:
    """It was told to cost a third of that, as only what all ranks had recorded between their meetings counted."""
    truth = other_jobs.write(tmp_path, Other("ddp", "slow-device", steps=8, seed=seed))
    cut(tmp_path, seed, marked=False, apart=0.01)
    (found,) = told(tmp_path)
    assert truth.fault is not None
    assert (found["cause"], tuple(found["ranks"])) == (SLOW_DEVICE, truth.fault.ranks)
    assert found["share_ratio"] == pytest.approx(truth.cost_us / truth.job_us, rel=0.3)


def test_copies_of_a_checkpoint_that_the_recording_begins_in_are_its_as_those_of_the_next_are(tmp_path: Path) -> None:
    """They were told as copies, beside the checkpoint."""
    events: list[dict[str, Any]] = []

    def ran(cat: str, name: str, launched: int, at: int, dur: int) -> None:
        number = len(events) + 1
        launch = {"cat": "cuda_runtime", "name": "cudaMemcpyAsync" if cat == "gpu_memcpy" else "cudaLaunchKernel"}
        events.append(
            {"ph": "X", "pid": 1, "tid": 1, "ts": launched, "dur": 5, "args": {"correlation": number}} | launch
        )
        args = {"correlation": number, "stream": 7, "device": 0}
        events.append({"ph": "X", "pid": 0, "tid": 7, "ts": at, "dur": dur, "cat": cat, "name": name, "args": args})

    for begun in (0, 30_000):
        for place in range(2):
            at = begun + 5_000 * place
            ran("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", at + 10, at + 20, 4_950)
        for place in range(10):
            at = begun + 10_000 + 2_000 * place
            ran("kernel", "gemm", begun + 10_000 + 10 * place, at + 20, 1_990)
    events.append({"ph": "X", "pid": 1, "tid": 1, "ts": 30_000, "dur": 10_000} | {"cat": "user_annotation"})
    events[-1]["name"] = "save_checkpoint"
    write_trace(tmp_path / "rank-0.json", events=events)
    (found,) = told(tmp_path)
    assert (found["cause"], found["responsible"]) == ("checkpoint", "save_checkpoint")
    assert found["cost_ns"] == pytest.approx(4 * 4_950_000, rel=0.05)


def kernel(number: int, name: str, span_us: tuple[int, int], stream: int) -> list[dict[str, Any]]:
    """A kernel from one time to another, and its launch a millisecond before."""
    begin_us, end_us = span_us
    ids = {"correlation": number}
    call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "dur": 9}
    ran = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": begin_us, "dur": end_us - begin_us}
    return [call | {"ts": begin_us - 1_000, "args": ids}, ran | {"args": ids | {"stream": stream, "device": 0}}]


def test_ranks_of_which_one_computes_in_each_meeting_are_not_compared_by_what_they_recorded(tmp_path: Path) -> None:
    """Rank 1 began to record earlier, when rank 0 computed as well, and was told to have more work."""
    for rank, (since, stood_still) in enumerate([(0, range(5, 13)), (-12, range(0))]):
        events = kernel(1_000, EXCHANGE, (12_100 if rank else 5_000, 12_995), 20)
        events += kernel(1_001, EXCHANGE, (30_100, 30_400), 20)
        for number in range(since, 40):
            if number not in stood_still:
                events += kernel(100 + number, f"gemm_{number % 7}", (1_000 * number, 1_000 * number + 1_000), 7)
        info = {"rank": rank, "world_size": 2, "backend": "nccl"}
        write_trace(tmp_path / f"rank-{rank}.json", events=events, distributedInfo=info)
    assert told(tmp_path) == []
