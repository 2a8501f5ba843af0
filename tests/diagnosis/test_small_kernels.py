"""Small kernels in a row: what their launches cost is told beside what else hosts lose their lead by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holotrace
from holotrace.diagnosis.job import small_kernels
from holotrace.diagnosis.job.candidates import Candidate
from holotrace.diagnosis.job.meetings import Change
from holotrace.diagnosis.job.small_kernels import IN_A_ROW
from holotrace.diagnosis.words.classes import LAUNCH
from trace_files import write_trace

STEPS, LAUNCH_US, LONG_US, FREE_US = 4, 10, 400, 300
ROTATE = "model.py(5): rotate"


def event(cat: str, name: str, ts: int, dur: int, **args: int) -> dict[str, Any]:
    place = {"pid": 0, "tid": 7} if cat == "kernel" else {"pid": 1, "tid": 1}
    return {"ph": "X", "cat": cat, "name": name, **place, "ts": ts, "dur": dur, "args": args}


def launched(name: str, took_us: int, at: int, begun: int, number: int) -> list[dict[str, Any]]:
    """One launch at that time, and what it launches, which begins and lasts as told."""
    return [
        event("cpu_op", f"aten::{name}", at, LAUNCH_US - 1),
        event("cuda_runtime", "cudaLaunchKernel", at, LAUNCH_US - 2, correlation=number),
        event("kernel", name, begun, took_us, correlation=number, stream=7, device=0),
    ]


def steps(
    folder: Path,
    *,
    count: int = 100,
    small: tuple[str, ...] = ("rotary", "scale"),
    small_us: int = 2,
    around: str = ROTATE,
    within: str = "",
    ahead: bool = False,
    frees: bool = False,
    step_name: str = "ProfilerStep#",
) -> dict[str, tuple[float, str | None]]:
    """What is told of steps that launch so many small kernels in turns, then long ones, and read their loss at last.

    Some hosts are ahead of their devices when they launch the small ones. Some free memory between these, which waits
    for the device, and collect garbage while that has nothing to do.
    """
    events, host, device, correlation = [], 0, 0, 0

    def launch(name: str, took_us: int) -> None:
        nonlocal host, device, correlation
        correlation += 1
        begun = max(device, host + 4)
        events.extend(launched(name, took_us, host, begun, correlation))
        host, device = host + LAUNCH_US, begun + took_us

    for step in range(STEPS):
        start = host
        for _ in range(4 if ahead else 0):
            launch("gemm", LONG_US)
        begin = host
        for place in range(count):
            launch(small[place % len(small)], small_us)
        if around:
            events.append(event("python_function", around, begin, host - begin))
        if within:
            events.append(event("user_annotation", within, begin, host - begin + 1))
        for _ in range(4):
            launch("gemm", LONG_US)
        if frees:
            events.append(event("cuda_runtime", "cudaFree", host, device - host))
            events.append(event("python_function", "<built-in function collect>", device + 5, FREE_US - 10))
            host = device + FREE_US
            for _ in range(4):
                launch("gemm", LONG_US)
        events.append(event("cpu_op", "aten::item", host, device + 5 - host))
        events.append(event("cuda_runtime", "cudaStreamSynchronize", host + 1, device + 3 - host))
        host = device + 10
        events.append(event("user_annotation", f"{step_name}{step}", start, host - start))
    write_trace(folder / "rank-0.json", events=events)
    told = holotrace.open(folder).causes()
    return {row["cause"]: (row["cost_ns"] / 1e6, row["responsible"]) for row in told.to_dicts()}


def test_small_kernels_in_a_row_cost_what_their_device_waits_for(tmp_path: Path) -> None:
    """All of it was laid to the wait before, without which the host could be further ahead, too."""
    cost_ms, responsible = steps(tmp_path)["launch-bound"]
    assert responsible == ROTATE
    assert cost_ms == pytest.approx(STEPS * 100 * (LAUNCH_US - 2) / 1e3, rel=0.1)


def test_what_a_wait_loses_by_small_kernels_after_it_is_told_once(tmp_path: Path) -> None:
    """It was a synchronization, too (2.5 of the 3.2 ms), though the job wins these only once."""
    assert "synchronization" not in steps(tmp_path)


def test_launching_late_that_costs_nothing_without_the_small_kernels_is_a_part_of_them() -> None:
    """A rank that was behind launched them too late, which was told beside what all of them cost."""
    late, chain = Candidate(LAUNCH, Change(), (1,)), Candidate(LAUNCH, Change(), evidence={IN_A_ROW: 400})
    lasting = [((late, 2_800), 0), ((chain, 8_500), 5_900)]
    assert small_kernels.without_parts(lasting, 100) == lasting[1:]
    assert small_kernels.without_parts(lasting[:1], 100) == lasting[:1]


def test_one_kernel_over_and_over_costs_all_but_the_last_of_it(tmp_path: Path) -> None:
    """Only what the device waited for was told, though one launch for all of them would take next to nothing."""
    cost_ms, responsible = steps(tmp_path, small=("rotary",))["launch-bound"]
    assert responsible == ROTATE
    assert cost_ms == pytest.approx(STEPS * 99 * LAUNCH_US / 1e3, rel=0.02)


@pytest.mark.parametrize("small_us", [2, 5])
def test_one_kernel_over_and_over_costs_its_time_where_the_host_is_ahead(tmp_path: Path, small_us: int) -> None:
    """As the device never stands still nothing was told."""
    cost_ms, responsible = steps(tmp_path, small=("rotary",), small_us=small_us, ahead=True)["launch-bound"]
    assert responsible == ROTATE
    assert cost_ms == pytest.approx(STEPS * 99 * small_us / 1e3, rel=0.02)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({}, id="in turns"),
        pytest.param({"small": ("rotary",), "count": 20}, id="few"),
        pytest.param({"small": ("rotary",), "small_us": 6, "ahead": True}, id="not so short"),
    ],
)
def test_other_kernels_cost_their_device_nothing_where_the_host_is_ahead(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    assert "launch-bound" not in steps(tmp_path, **{"ahead": True, **changed})


def test_small_kernels_after_one_over_and_over_are_no_part_of_that(tmp_path: Path) -> None:
    mixed = ("rotary",) * 80 + ("scale", "shift") * 10
    told = steps(tmp_path, small=mixed, ahead=True)
    assert told["launch-bound"][0] == pytest.approx(STEPS * 79 * 2 / 1e3, rel=0.02)


@pytest.mark.parametrize("step_name", ["ProfilerStep#", "training_step "])
def test_one_kernel_over_and_over_that_only_the_step_is_around_is_its_operators(tmp_path: Path, step_name: str) -> None:
    """Nothing was named, or each step by a name of its own."""
    told = steps(tmp_path, small=("rotary",), around="", ahead=True, step_name=step_name)
    assert told["launch-bound"][1] == "aten::rotary"


def test_small_kernels_of_an_optimizer_are_its(tmp_path: Path) -> None:
    """They were told beside an optimizer that is not fused, by the function of it that launches them."""
    optimizer = "Optimizer.step#Lion.step"
    assert steps(tmp_path, around="lion.py(5): step", within=optimizer)["launch-bound"][1] == optimizer


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"count": 20}, id="few"),
        pytest.param({"small_us": LAUNCH_US - 2}, id="as long as their launches"),
        pytest.param({"around": "train.py(9): evaluate"}, id="told by something else"),
    ],
)
def test_other_kernels_are_no_small_ones_in_a_row(tmp_path: Path, changed: dict[str, Any]) -> None:
    assert "launch-bound" not in steps(tmp_path, **changed)


def test_what_frees_memory_uses_up_what_a_host_would_be_ahead(tmp_path: Path) -> None:
    """Garbage that is collected after that seemed to be hidden without the small kernels before."""
    cost_ms, _ = steps(tmp_path, frees=True)["launch-bound"]
    assert cost_ms == pytest.approx(STEPS * 100 * (LAUNCH_US - 2) / 1e3, rel=0.1)


def test_one_kernel_over_and_over_costs_nothing_while_its_host_stands_still_for_longer(tmp_path: Path) -> None:
    """It waits for the work before them, then for its input, for which the device would only wait longer."""
    events, begin, number = [], 0, 0
    for step in range(STEPS):
        host, device = begin, begin + 4
        for name, took_us, count in (("gemm", LONG_US, 20), ("rotary", 2, 300)):
            for _ in range(count):
                number += 1
                device = max(device, host + 4)
                events += launched(name, took_us, host, device, number)
                host, device = host + LAUNCH_US, device + took_us
        done = device - 2 * 300
        events.append(event("cuda_runtime", "cudaEventSynchronize", host, done - host))
        events.append(event("user_annotation", "enumerate(DataLoader)#Loader.__next__", done + 5, 3_000))
        events.append(event("user_annotation", f"ProfilerStep#{step}", begin, done + 3_010 - begin))
        begin = done + 3_010
    write_trace(tmp_path / "rank-0.json", events=events)
    assert holotrace.open(tmp_path).causes()["cause"].to_list() == ["input"]
