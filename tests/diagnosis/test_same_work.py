"""Ranks that are compared: those that do the same, and serve the same requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import holotrace
from holotrace.diagnosis.job import same_work
from holotrace.diagnosis.job.candidates import Job
from trace_files import write_trace

TURNS, COMPUTED_US, MOVED_US = 12, 100.0, 20.0
# How many blocks each of two replicas computes between two reductions: one has more requests to serve.
BLOCKS = (3, 5)


def replica(number: int, slow: float) -> dict[int, list[dict[str, Any]]]:
    """The events of its two ranks, of which the first takes ``slow`` times as long for all it computes."""
    ranks = (2 * number, 2 * number + 1)
    group = {"Collective name": "allreduce", "Process Group Name": str(number), "Process Group Ranks": str([*ranks])}
    events: dict[int, list[dict[str, Any]]] = {rank: [] for rank in ranks}

    def launch(rank: int, name: str, start_us: float, end_us: float, stream: int, **args: Any) -> None:
        ids = {"correlation": len(events[rank]) + 1}
        call = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": len(events[rank]) * 4.0, "dur": 3.0}
        kernel = {"cat": "kernel", "name": name, "ts": start_us, "dur": end_us - start_us}
        events[rank] += [
            {"ph": "X", **call, "pid": 1, "tid": 1, "args": ids},
            {"ph": "X", **kernel, "pid": 0, "tid": stream, "args": {**ids, "stream": stream, "device": 0, **args}},
        ]

    begun_us = 3_000.0
    for _ in range(TURNS):
        ends = []
        for rank in ranks:
            at = begun_us
            for _ in range(BLOCKS[number]):
                for name in ("gemm", "softmax", "layer_norm"):
                    lasts = COMPUTED_US * (slow if rank == ranks[0] else 1.0)
                    launch(rank, name, at, at + lasts, 7, grid=[8, 1, 1])
                    at += lasts + 1
            ends.append(at)
        left = max(ends) + MOVED_US
        for rank, at in zip(ranks, ends, strict=True):
            launch(rank, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", at, left, 20, **group, **{"Group size": 2})
        begun_us = left + 1
    return events


@pytest.mark.parametrize("busier_is_slow", [False, True])
def test_a_slow_device_is_told_from_those_of_its_replica(tmp_path: Path, busier_is_slow: bool) -> None:
    """All ranks of replicas with more requests took longer than those of the others, and none of them was slow."""
    for number in (0, 1):
        slow = 1.2 if bool(number) == busier_is_slow else 1.0
        for rank, events in replica(number, slow).items():
            told = {"rank": rank, "world_size": 4, "backend": "nccl"}
            write_trace(tmp_path / f"rank-{rank}.json", events=events, distributedInfo=told)
    (cause,) = holotrace.open(tmp_path).causes().to_dicts()
    assert (cause["cause"], cause["ranks"]) == ("slow-device", [2 * busier_is_slow])
    # Half of the ranks are in that replica.
    expected_us = TURNS * BLOCKS[busier_is_slow] * 3 * 0.2 * COMPUTED_US / 2
    assert cause["cost_ns"] == pytest.approx(1_000 * expected_us, rel=0.05)


@pytest.mark.parametrize("collective", ["send/recv", "allreduce"])
def test_ranks_of_a_stage_run_equal_kernels_as_often(collective: str) -> None:
    """A slow device of one stage was told as a little slower than a stage with more to do, if at all."""
    calls = {0: 4, 1: 5, 2: 4, 3: 5, 4: 4, 5: 7}
    rows = [
        {"rank": rank, "row": "work", "name": name, "detail": "8x1x1", "operator": "aten::mm", "count": count}
        for rank, count in calls.items()
        for name in ("gemm", "norm")
    ]
    visits = pl.DataFrame({"match": 0, "rank": [*calls], "collective": collective})
    stages = same_work.of_each_stage(Job(pl.DataFrame(rows), visits, (*calls,), floor_ns=1))
    assert [stage.ranks for stage in stages] == ([(0, 2, 4), (1, 3)] if collective == "send/recv" else [])


@pytest.mark.parametrize(("is_pipeline", "is_told"), [(False, True), (True, False)])
def test_ranks_that_call_the_same_operators_can_be_compared_though_other_shapes_have_other_kernels(
    is_pipeline: bool, is_told: bool
) -> None:
    """A rank with half as many samples again had other kernels for all its products, and was compared with nobody."""
    times = {0: {"mm_64": 40, "mm_128": 40, "norm": 20}, 1: {"mm_96": 60, "mm_192": 60, "norm": 30}}
    rows = [
        {"rank": rank, "row": "work", "name": name, "operator": operator, "count": 12, "time_ns": time}
        for rank, of_rank in times.items()
        for (name, time), operator in zip(of_rank.items(), ("aten::mm", "aten::mm", "aten::norm"), strict=True)
    ]
    visits = pl.DataFrame({"match": 0, "rank": [0, 1], "collective": ["send/recv" if is_pipeline else "allreduce"] * 2})
    groups = same_work.alike(Job(pl.DataFrame(rows), visits, (0, 1), floor_ns=1))
    assert [group.ranks for group in groups] == ([(0, 1)] if is_told else [(0,), (1,)])


@pytest.mark.parametrize(("other", "is_told"), [("allreduce", True), ("send/recv", False), ("_allgather_base", False)])
def test_ranks_whose_graphs_run_other_kernels_are_compared_if_they_meet_alike(other: str, is_told: bool) -> None:
    """Of a rank with half as many tokens again nothing was said, for which the others waited a third of the time."""
    times = {0: {"mm_64": 60, "norm": 20}, 1: {"mm_96": 100, "norm": 30}}
    rows = [
        {"rank": rank, "row": "work", "name": name, "operator": None, "count": 12, "time_ns": time}
        for rank, of_rank in times.items()
        for name, time in of_rank.items()
    ]
    work = pl.DataFrame(rows, schema_overrides={"operator": pl.String})
    visits = pl.DataFrame({"match": [0, 0, 1, 1], "rank": [0, 1] * 2, "collective": ["allreduce"] * 3 + [other]})
    groups = same_work.alike(Job(work, visits, (0, 1), floor_ns=1))
    assert [group.ranks for group in groups] == ([(0, 1)] if is_told else [(0,), (1,)])
