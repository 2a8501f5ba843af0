"""Hosts that launch too late while a collective runs, and what launching was for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holotrace
from drawing import draw
from holotrace.job import Job
from trace_files import write_trace


def launching(job: Job) -> list[tuple[int, str | None]]:
    """What launching too late costs, in microseconds, and in what range."""
    found = job.causes().filter(cause="launch-bound")
    return [(cost // 1_000, name) for cost, name in found.select("cost_ns", "responsible").iter_rows()]


def test_a_device_that_only_communicates_waits_for_its_host_if_the_next_kernel_begins_when_it_is_launched() -> None:
    job = draw("""
        host    |AC.............B....|
        compute |..AAA............BBB|
        comm    |....CCCCCCCCCCCCCCCC|
        op      |OOOOOOOOOOOOOOOOOO..|
    """)
    assert launching(job) == [(12, None)]


def test_a_kernel_that_was_launched_before_the_collective_ended_waited_for_that() -> None:
    job = draw("""
        host    |ACB......................|
        compute |..AAA.................BBB|
        comm    |....CCCCCCCCCCCCCCCCCC...|
        op      |OOOO.....................|
    """)
    assert launching(job) == []


def test_launching_is_told_by_the_range_that_it_is_for() -> None:
    job = draw("""
        range   |RRRRRRRRRRRRRRRRRRRR|
        host    |A.........B.........|
        compute |.AA........BB.......|
        op      |OOOOOOOOOOOO........|
    """)
    assert launching(job) == [(8, "R")]


def test_where_nothing_follows_a_collective_nothing_was_launched_too_late() -> None:
    job = draw("""
        step    |11111111111111111111|
        host    |AC..................|
        compute |..AAA...............|
        comm    |....CCCCCCCCCCCCC...|
    """)
    assert sum(cost for cost, _ in launching(job)) <= 5


@pytest.mark.parametrize(("launch_us", "cause"), [(5_000, "host-pause"), (900, "launch-bound")])
def test_a_launch_that_lasts_while_the_device_has_nothing_to_do_stands_still(
    tmp_path: Path, launch_us: int, cause: str
) -> None:
    """As where a kernel is loaded when it is used for the first time: fewer launches would not help."""

    def event(cat: str, name: str, ts: int, dur: int, **args: int) -> dict[str, Any]:
        place = {"pid": 0, "tid": 7} if cat == "kernel" else {"pid": 1, "tid": 1}
        return {"ph": "X", "cat": cat, "name": name, **place, "ts": ts, "dur": dur, "args": args}

    end = 1_000 + launch_us
    events = [
        event("cuda_runtime", "cudaLaunchKernel", 0, 10, correlation=1),
        event("kernel", "relu", 20, 300, correlation=1, stream=7, device=0),
        event("cpu_op", "aten::cudnn_convolution", 900, launch_us + 200),
        event("cuda_runtime", "cudaLaunchKernel", 1_000, launch_us, correlation=2),
        event("kernel", "conv", end, 300, correlation=2, stream=7, device=0),
    ]
    write_trace(tmp_path / "rank-0.json", events=events)
    found = holotrace.open(tmp_path).causes().row(0, named=True)
    assert found["cause"] == cause
    assert (found["responsible"] or "").startswith("aten::cudnn_convolution") == (cause == "host-pause")
    assert ("stands still in a launch, aten::cudnn_convolution" in found["message"]) == (cause == "host-pause")
