"""Copies in a queue of their own: they begin when they are launched, whatever computing waits for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holotrace
from trace_files import ALL_REDUCE, write_trace

Work = tuple[str, int, int, int, int]


def event(cat: str, name: str, ts: int, dur: int, **args: Any) -> dict[str, Any]:
    place = {"pid": 0, "tid": args["stream"]} if "stream" in args else {"pid": 1, "tid": 1}
    return {"ph": "X", "cat": cat, "name": name, **place, "ts": ts, "dur": dur, "args": args}


def launched(work: list[Work]) -> list[dict[str, Any]]:
    """Events of work: its name, when it is launched and begins, how long it takes, and its queue."""
    events = []
    for number, (name, at, begins, lasts, stream) in enumerate(work):
        call = "cudaMemcpyAsync" if name.startswith("Memcpy") else "cudaLaunchKernel"
        kind = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
        events.append(event("cuda_runtime", call, at, 9, correlation=number))
        own = ALL_REDUCE if name.startswith("nccl") else {}
        events.append(event(kind, name, begins, lasts, correlation=number, stream=stream, device=0, **own))
    return events


UPLOAD = "Memcpy HtoD (Pinned -> Device)"


def test_who_copies_while_it_waits_for_another_rank_waits_no_less(tmp_path: Path) -> None:
    """The copy was launched during the wait, so that its host seemed late, and the wait to be its own fault."""
    reduction = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    first: list[Work] = [
        ("gemm", 10, 20, 980, 7),
        (reduction, 30, 1_000, 3_120, 20),
        ("gemm", 50, 4_125, 995, 7),
        (UPLOAD, 3_000, 3_010, 800, 30),
    ]
    second: list[Work] = [("gemm", 10, 20, 980, 7), (reduction, 4_010, 4_020, 100, 20), ("gemm", 4_030, 4_125, 995, 7)]
    for rank, work in enumerate((first, second)):
        events = launched(work)
        events.append(event("user_annotation", "ProfilerStep#1", 0, 5_120))
        if rank == 1:
            events.append(event("python_function", "train.py(7): log", 100, 3_900))
        told = {"rank": rank, "world_size": 2, "backend": "nccl"}
        write_trace(tmp_path / f"rank-{rank}.json", events=events, distributedInfo=told)
    (cause,) = holotrace.open(tmp_path).causes().to_dicts()
    assert (cause["responsible"], cause["ranks"]) == ("train.py(7): log", [1])
    # Without it the reduction begins when both ranks have computed.
    assert cause["cost_ns"] == pytest.approx(3_020_000, rel=0.01)


@pytest.mark.parametrize(("queue", "costs_us"), [(30, [3_310]), (7, [3_010, 291])])
def test_a_copy_that_is_late_as_its_host_stood_still_would_be_hidden_without_that(
    tmp_path: Path, queue: int, costs_us: list[int]
) -> None:
    """It was told as a copy that nothing hides, beside the loader; where computing is behind it, that is what it is.

    Such work begins no earlier than it is launched.
    """
    events = launched([("gemm", 10, 20, 980, 7), (UPLOAD, 4_000, 4_010, 300, queue), ("gemm", 4_020, 4_311, 900, 7)])
    events.append(event("user_annotation", "ProfilerStep#1", 0, 5_220))
    events.append(event("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 40, 3_955))
    write_trace(tmp_path / "rank-0.json", events=events)
    found = holotrace.open(tmp_path).causes()
    assert found["cause"].to_list() == ["input", "copy"][: len(costs_us)]
    assert found["cost_ns"].to_list() == pytest.approx([1_000 * cost for cost in costs_us], rel=0.01)


def test_a_copy_that_nothing_waits_for_exposes_nothing(tmp_path: Path) -> None:
    """A copy to the host, as of an asynchronous checkpoint, took the time in which a function was waited for."""
    download = "Memcpy DtoH (Device -> Pinned)"
    events = launched([("gemm", 10, 20, 980, 7), (download, 30, 1_000, 3_000, 30), ("gemm", 5_000, 5_010, 990, 7)])
    events.append(event("user_annotation", "ProfilerStep#1", 0, 6_000))
    events.append(event("python_function", "train.py(7): augment", 100, 4_850))
    write_trace(tmp_path / "rank-0.json", events=events)
    (cause,) = holotrace.open(tmp_path).causes().to_dicts()
    assert (cause["cause"], cause["responsible"]) == ("python-function", "train.py(7): augment")
    assert cause["cost_ns"] == pytest.approx(4_010_000, rel=0.02)
