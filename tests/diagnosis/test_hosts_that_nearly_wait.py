"""Hosts that keep up with a slow device only: a faster one would wait for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import holotrace
from holotrace.diagnosis.rank import account, host, nearly_late
from trace_files import ALL_REDUCE, write_trace

STEPS, LAUNCH_US, REDUCES_US = 6, 10, 100
REDUCTION = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def job(folder: Path, *, loads_us: int, computes_us: tuple[int, int]) -> int:
    """Writes two ranks that load a batch, compute four kernels of each kind and reduce, ahead of their devices.

    Returns when it ends.
    """
    events: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
    hosts, devices, number = [0, 0], [0, 0], 0

    def event(rank: int, cat: str, name: str, ts: int, dur: int, **args: Any) -> None:
        place = {"pid": 0, "tid": args["stream"]} if "stream" in args else {"pid": 1, "tid": 1}
        events[rank].append({"ph": "X", "cat": cat, "name": name, **place, "ts": ts, "dur": dur, "args": args})

    for step in range(STEPS):
        came = [0, 0]
        launched = [0, 0]
        for rank in range(2):
            begin = hosts[rank]
            loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
            event(rank, "user_annotation", loader, begin, loads_us if rank == 0 else 20)
            at = begin + (loads_us if rank == 0 else 20)
            for name in ("gemm", "norm", "softmax", "gelu"):
                number += 1
                event(rank, "cuda_runtime", "cudaLaunchKernel", at, LAUNCH_US - 1, correlation=number)
                starts = max(devices[rank], at + LAUNCH_US)
                lasts = computes_us[rank] // 4
                event(rank, "kernel", name, starts, lasts - 1, correlation=number, stream=7, device=0)
                devices[rank], at = starts + lasts, at + LAUNCH_US
            event(rank, "cuda_runtime", "cudaLaunchKernel", at, LAUNCH_US - 1, correlation=10_000 + step)
            came[rank], launched[rank] = devices[rank], at
            hosts[rank] = at + LAUNCH_US
            event(rank, "user_annotation", f"ProfilerStep#{step}", begin, hosts[rank] - begin)
        left = max(came) + REDUCES_US
        for rank in range(2):
            known = {"correlation": 10_000 + step, "stream": 20, "device": 0, **ALL_REDUCE}
            event(rank, "kernel", REDUCTION, came[rank] + 1, left - came[rank] - 2, **known)
            devices[rank] = left
    for rank in range(2):
        told = {"rank": rank, "world_size": 2, "backend": "nccl"}
        write_trace(folder / f"rank-{rank}.json", events=events[rank], distributedInfo=told)
    return max(devices)


@pytest.mark.parametrize("loads_us", [20, 700, 900])
def test_a_slow_device_is_worth_what_the_loader_of_another_rank_leaves(tmp_path: Path, loads_us: int) -> None:
    """The host was taken to have waited for its device while it loaded, and so to be as much faster as that."""
    recorded = job(tmp_path, loads_us=loads_us, computes_us=(500, 1_000))
    other = tmp_path / "even"
    other.mkdir()
    even = job(other, loads_us=loads_us, computes_us=(500, 500))
    for path in other.iterdir():
        path.unlink()
    other.rmdir()
    found = holotrace.open(tmp_path).causes().filter(cause="slow-device").row(0, named=True)
    assert found["ranks"] == [1]
    assert found["cost_ns"] == pytest.approx(1_000 * (recorded - even), rel=0.1)


def test_what_is_launched_as_a_wait_returns_is_launched_after_that(tmp_path: Path) -> None:
    """Rounded to whole microseconds the launch came first, and its host seemed to have launched all the time."""
    times = ((0, 10, 500), (1_500, 1_510, 100))
    events = [
        part
        for number, (launched, began, took) in enumerate(times)
        for part in (
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": launched}
            | {"dur": 5, "args": {"correlation": number}},
            {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": began, "dur": took}
            | {"args": {"correlation": number, "stream": 7, "device": 0}},
        )
    ]
    place = {"ph": "X", "cat": "cuda_runtime", "pid": 1, "tid": 1}
    events.append({**place, "name": "cudaDeviceSynchronize", "ts": 100, "dur": 1_401, "args": {}})
    write_trace(tmp_path / "rank-0.json", events=events)
    (rows,) = holotrace.open(tmp_path).map(account.account, account.READS)
    late = rows.filter(pl.col("row") == account.LATE, pl.col("time_ns") == 0).sort("at_ns")
    begun_ns = rows.filter(pl.col("row") == account.WINDOW)["start_ns"][0]
    assert (late["start_ns"] - begun_ns).to_list()[-1] == 1_491_000  # since the device had begun


def test_a_host_that_waited_for_room_in_its_queue_launches_since_then(tmp_path: Path) -> None:
    """An optimizer of thousands of kernels seemed to limit the host, so that a pause before it was worth half."""
    place = {"pid": 1, "tid": 1, "ph": "X"}
    events: list[dict[str, Any]] = []
    begun_us = [10 * number for number in range(1_500)]
    launched_us = [max(number, begun_us[number - 1_024] if number >= 1_024 else 0) for number in range(1_500)]
    # It goes on without a pause, and launches one more while the last of those wait.
    calls_us = range(launched_us[-1] + 5, 12_000, 40)
    launched_us, begun_us = [*launched_us, 12_000], [*begun_us, 15_000]
    for number, (launched, begun) in enumerate(zip(launched_us, begun_us, strict=True)):
        kernel = {"name": "mul", "cat": "kernel", "ph": "X", "pid": 0, "tid": 7, "ts": begun, "dur": 9}
        args = {"correlation": number, "stream": 7, "device": 0}
        call = {"name": "cudaLaunchKernel", "cat": "cuda_runtime", **place, "ts": launched, "dur": 1}
        events += [{**kernel, "args": args}, {**call, "args": {"correlation": number}}]
    events += [{"name": "aten::mul", "cat": "cpu_op", **place, "ts": at, "dur": 38, "args": {}} for at in calls_us]
    write_trace(tmp_path / "rank-0.json", events=events)
    (found,) = holotrace.open(tmp_path).map(nearly_late.of_rank, account.READS)
    since, launched_ns = found.select("start_ns", "end_ns").row(-1)
    assert (since, launched_ns) == (1_000 * launched_us[-2], 12_000_000)


def test_a_thread_stands_still_though_no_gap_ends_with_what_it_launches(tmp_path: Path) -> None:
    """Memory that was freed in a backward pass hid a rank with more work: its host had not seemed to wait since."""
    events: list[dict[str, Any]] = []
    # The second thread launches the second kernel in time, and waits; the first one launches what comes too late.
    for number, (tid, at, begin) in enumerate(((1, 0, 5), (2, 10, 105), (1, 900, 910))):
        args = {"correlation": number}
        call = {"ph": "X", "cat": "cuda_runtime", "pid": 1, "tid": tid, "ts": at, "args": args}
        kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": begin, "dur": 100}
        events += [
            {**call, "name": "cudaLaunchKernel", "dur": 5},
            {**kernel, "args": {**args, "stream": 7, "device": 0}},
        ]
    wait = {"ph": "X", "cat": "cuda_runtime", "name": "cudaFree", "pid": 1, "tid": 2, "ts": 20, "dur": 600, "args": {}}
    write_trace(tmp_path / "rank-0.json", events=[*events, wait])
    (found,) = holotrace.open(tmp_path).map(host.returns, account.READS)
    assert 620_000 in found.to_list()


@pytest.mark.parametrize(("name", "ends_us"), [("compile_inner (dynamo_timed)", []), ("forward", [5_100])])
def test_a_host_that_compiles_does_not_stand_still_for_it(tmp_path: Path, name: str, ends_us: list[int]) -> None:
    """Stages compile at once, of which one waits for a message: compiling was worth 22 of 148 ms on all of them."""
    events: list[dict[str, Any]] = []
    for number, at in enumerate((90, 5_100)):
        ids = {"correlation": number}
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at, "dur": 5, "args": ids}
        kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": at + 10, "dur": 5_000, "pid": 0, "tid": 7}
        events += [{**call, "pid": 1, "tid": 1}, {**kernel, "args": {**ids, "stream": 7, "device": 0}}]
    # It is in something else for the first and the last of it.
    for what, at, dur in ((name, 100, 4_990), ("inner", 1_300, 2_400)):
        mark = {"ph": "X", "cat": "user_annotation", "name": what, "ts": at, "dur": dur, "args": {}}
        events.append({**mark, "pid": 1, "tid": 1})
    write_trace(tmp_path / "rank-0.json", events=events)
    (found,) = holotrace.open(tmp_path).map(host.returns, account.READS)
    assert [at_ns // 1_000 for at_ns in found.to_list() if at_ns > 1_300_000] == ends_us


def test_a_slow_host_does_not_stand_still_as_it_launches(tmp_path: Path) -> None:
    """Its launches were taken for waits, so that a loader of another rank was worth twice what its host leaves."""
    events: list[dict[str, Any]] = []
    for number in range(40):
        ids = {"correlation": number}
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 70 * number, "dur": 65, "args": ids}
        kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 500 + 70 * number, "dur": 60, "pid": 0, "tid": 7}
        events += [{**call, "pid": 1, "tid": 1}, {**kernel, "args": {**ids, "stream": 7, "device": 0}}]
    write_trace(tmp_path / "rank-0.json", events=events)
    (found,) = holotrace.open(tmp_path).map(host.returns, account.READS)
    assert len(found) == 1  # as the recording began
