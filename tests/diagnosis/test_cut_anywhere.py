"""Recordings that begin and end anywhere, at other times on each rank, as those that are asked for while a job runs."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

import holotrace
from holotrace import sample
from holotrace.diagnosis.words.classes import COSTLESS, SLOW_DEVICE
from quick import every
from trace_files import write_trace

EXCHANGE = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def cut(folder: Path, seed: int, *, marked: bool) -> None:
    """Leave of each trace what a recorder has that was asked for it: events that begin and end within, marks or not.

    Ranks are asked within a fifth of a step of each other.
    """
    random = Random(seed)
    begin, length = random.uniform(0.05, 0.5), random.uniform(0.25, 0.45)
    for path in sorted(folder.glob("rank-*")):
        trace = json.loads(path.read_text(encoding="utf-8"))
        times = [event["ts"] for event in trace["traceEvents"] if event.get("ph") == "X"]
        whole = max(times) - min(times)
        since, until = (min(times) + whole * (at + random.uniform(0, 0.02)) for at in (begin, begin + length))
        trace["traceEvents"] = [
            event
            for event in trace["traceEvents"]
            if _is_within(event, since, until) and _is_left(event, marked=marked)
        ]
        path.write_text(json.dumps(trace), encoding="utf-8")


def _is_within(event: dict[str, Any], since: float, until: float) -> bool:
    return "ts" not in event or (since <= event["ts"] and event["ts"] + event.get("dur", 0) <= until)


def _is_left(event: dict[str, Any], *, marked: bool) -> bool:
    return marked or not str(event.get("name")).startswith("ProfilerStep")


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("seed", every(4, [4, 1, 2, 3, 9, 5, 6, 7, 8, 10, 11, 12]))
def test_of_a_healthy_job_nothing_is_told(tmp_path: Path, seed: int, *, marked: bool) -> None:
    """Some ranks had more work, by what others had not recorded; or hosts launched late what was not recorded."""
    sample.write(tmp_path, ranks=4, steps=8, seed=seed, faults=[], compress=False)
    cut(tmp_path, seed, marked=marked)
    told = holotrace.open(tmp_path).causes().to_dicts()
    assert [row["message"] for row in told if row["cause"] not in COSTLESS] == []


@pytest.mark.parametrize("seed", every(3, [4, 1, 2, 3, 5, 6]))
def test_a_slow_device_is_told_or_nothing_is(tmp_path: Path, seed: int) -> None:
    sample.write(tmp_path, ranks=4, steps=8, seed=seed, faults=[SLOW_DEVICE], compress=False)
    cut(tmp_path, seed, marked=False)
    told = holotrace.open(tmp_path).causes().to_dicts()
    assert {row["cause"] for row in told} <= {SLOW_DEVICE, *COSTLESS}


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
        told = {"rank": rank, "world_size": 2, "backend": "nccl"}
        write_trace(tmp_path / f"rank-{rank}.json", events=events, distributedInfo=told)
    assert holotrace.open(tmp_path).causes().is_empty()
