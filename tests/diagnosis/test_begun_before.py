"""What was launched before the recording began is no work of its steps: each rank has recorded another part of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import holotrace
from drawing import US, draw
from holotrace.core.tables import DEVICE_EVENTS
from holotrace.diagnosis.rank import account
from holotrace.loading.of_steps import OfSteps
from trace_files import write_trace

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
KERNELS, KERNEL_US, STEPS = 8, 500, 12
# Hosts are soon far ahead of their devices, and from then on as fast as these.
STEP_US, LAUNCHED_US, AHEAD_STEPS = (KERNELS + 1) * KERNEL_US, 600, 4


def host_us(step: int) -> int:
    """When the host begins a step."""
    return step * LAUNCHED_US if step <= AHEAD_STEPS else AHEAD_STEPS * LAUNCHED_US + (step - AHEAD_STEPS) * STEP_US


def events_of(since_us: int) -> list[dict[str, Any]]:
    """What is recorded of a rank since then."""
    events: list[dict[str, Any]] = []

    def add(cat: str, name: str, ts: int, dur: int, **args: Any) -> None:
        pid, tid = (0, args["stream"]) if cat == "kernel" else (1, 1)
        if ts >= since_us:
            events.append(
                {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur} | {"args": args}
            )

    for step in range(STEPS):
        until_us = host_us(step + 1)
        add("user_annotation", f"ProfilerStep#{step}", host_us(step), until_us - host_us(step))
        for place in range(KERNELS + 1):
            number, is_last = step * (KERNELS + 1) + place + 1, place == KERNELS
            name, stream = (ALL_REDUCE, 9) if is_last else ("gemm", 7)
            add("cuda_runtime", "cudaLaunchKernel", host_us(step) + 10 + 20 * place, 9, correlation=number)
            begun_us = 100 + (number - 1) * KERNEL_US
            add("kernel", name, begun_us, KERNEL_US, correlation=number, stream=stream, device=0)
    return events


@pytest.mark.parametrize("since_us", [host_us(3) + 5, host_us(4) + 10, host_us(5) - 4_000, host_us(5)])
def test_the_first_step_has_no_work_from_before_it(tmp_path: Path, since_us: int) -> None:
    """A rank whose device was further behind had more work in that step than others."""
    write_trace(tmp_path / "rank-0.json", events=events_of(since_us))
    (rows,) = holotrace.open(tmp_path).map(account.account, account.READS)
    for kind in (account.WORK, account.SEGMENT):
        by_step = rows.filter(row=kind).drop_nulls("step").group_by("step").agg(pl.col("time_ns").sum())
        assert set(by_step["time_ns"]) == {KERNELS * KERNEL_US * 1_000}


def test_ranks_are_compared_without_work_from_before_the_steps_that_all_have(tmp_path: Path) -> None:
    """Devices that never stood still were told to wait for queued work: some of what they ran before was left out."""
    write_trace(tmp_path / "rank-0.json", events=events_of(host_us(2) + 10))
    of_steps = OfSteps(lambda rank: rank[DEVICE_EVENTS], [DEVICE_EVENTS], 5, STEPS - 1)
    (work,) = holotrace.open(tmp_path).map(of_steps, of_steps.reads)
    assert work["launch_ns"].null_count() == 0
    assert work.height == (STEPS - 5) * (KERNELS + 1)


def test_a_device_that_runs_on_with_earlier_work_is_not_idle(tmp_path: Path) -> None:
    """Each step begins with a copy in a queue of its own, while the device works on the step before."""
    for rank, first in enumerate((0, 4)):
        events = events_of(host_us(first))
        for step in range(first, STEPS):
            at_us, ids = host_us(step) + 1, {"correlation": 1_000 + step}
            copy = {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": 0, "tid": 13}
            args = ids | {"stream": 13, "device": 0}
            events.append(copy | {"ts": at_us + 1, "dur": 5, "args": args})
            call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 1, "tid": 1}
            events.append(call | {"ts": at_us, "dur": 1, "args": ids})
        write_trace(tmp_path / f"rank-{rank}.json", events=events, rank=rank)
    with holotrace.open(tmp_path) as job:
        rows = job.step_times().filter(pl.col("step") == 4)
    idle_ns = dict(rows.select("rank", "idle_ns").iter_rows())
    # Of the kernel that ran as rank 1 began to record nothing is known.
    assert idle_ns[0] == 0
    assert idle_ns[1] < KERNEL_US * 1_000


def _range(name: str, begun_us: int, lasts_us: int) -> dict[str, object]:
    place = {"ph": "X", "cat": "user_annotation", "pid": 1, "tid": 1}
    return {**place, "name": name, "ts": begun_us, "dur": lasts_us}


@pytest.mark.parametrize(("waited_us", "is_told"), [(20_000, True), (-250, False)])
def test_a_device_that_does_what_was_launched_before_has_no_idle_time_to_explain(
    tmp_path: Path, waited_us: int, *, is_told: bool
) -> None:
    """Of one batch of a server, cut from a longer recording, the host was to blame for 98 % of the time."""
    events = [_range("execute_context_1(4)", 0, 9_000)]

    def run(number: int, launched_us: int, begun_us: int, stream: int) -> None:
        args = {"correlation": number, "stream": stream, "device": 0}
        launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": launched_us, "dur": 5}
        kernel = {"cat": "kernel", "name": "gemm", "pid": 0, "tid": stream, "ts": begun_us, "dur": 300}
        events.extend({"ph": "X", "args": args, **each} for each in (launch, kernel))

    run(1, 10, 20, 7)
    for number in range(2, 12):
        run(number, 20 * number, waited_us + 300 * number, 8)
    write_trace(tmp_path / "rank-0.json", events=events)
    job = holotrace.open(tmp_path)
    assert job.causes()["cause"].to_list() == ["earlier-work"] * is_told
    assert [finding.message for finding in job.findings() if finding.severity != "info"] == []


def test_each_queue_may_have_earlier_work_and_no_copy_is_exposed_until_all_of_that_is_over(tmp_path: Path) -> None:
    """One recorded step told copies beside which nothing ran, and work that waited for what was not on record."""
    events = [_range("step", 0, 9_000)]

    def run(name: str, stream: int, launched_us: int, begun_us: int, lasts_us: int) -> None:
        ids = {"correlation": len(events), "stream": stream, "device": 0}
        launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": launched_us, "dur": 5}
        category = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
        work = {"cat": category, "name": name, "pid": 0, "tid": stream, "ts": begun_us, "dur": lasts_us}
        events.extend({"ph": "X", "args": ids, **each} for each in (launch, work))

    run("Memcpy HtoD (Pageable -> Device)", 22, 10, 20, 900)
    run("permute", 20, 30, 3_000, 300)
    run("gemm", 7, 40, 5_000, 4_000)
    write_trace(tmp_path / "rank-0.json", events=events)
    assert holotrace.open(tmp_path).causes()["cause"].to_list() == ["earlier-work"]


def test_a_device_is_not_idle_as_a_recording_ends_with_a_program_that_was_launched_in_time() -> None:
    """In the steps that all have nothing is of what was launched last: it seemed to do nothing for 30 of 183 ms."""
    job = draw(f"""
        step |{"1" * 1000}{"2" * 1000}{"3" * 1000}|
        tpu  |{"A" * 990}{"." * 10}{"B" * 990}{"." * 1010}|
        call |a{"." * 600}b{"." * 98}{"L" * 100}{"." * 2200}|
        L = Execute
    """)
    (rows,) = job.map(account.account, account.READS)
    assert rows.filter(row=account.GAP)["time_ns"].to_list() == [10 * US]
