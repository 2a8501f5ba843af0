"""Hosts that launch too late while a collective runs, and what launching was for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import holotrace
from drawing import draw
from holotrace.core.schema import filled
from holotrace.diagnosis.job import replayed
from holotrace.diagnosis.rank import account
from holotrace.job import Job
from trace_files import write_trace

AG = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
EXCHANGE = "void deep_ep::internode_ll::combine<3>(void*, int)"


def event(cat: str, name: str, ts: int, dur: int, **args: int) -> dict[str, Any]:
    place = {"pid": 0, "tid": args["stream"]} if "stream" in args else {"pid": 1, "tid": 1}
    return {"ph": "X", "cat": cat, "name": name, **place, "ts": ts, "dur": dur, "args": args}


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


def test_what_frees_memory_waits_for_what_is_communicated_meanwhile(tmp_path: Path) -> None:
    """All of the exchange that it waited for was told to be lost in freeing memory, thrice of what that cost."""

    events = [
        event("cuda_runtime", "cudaLaunchKernel", 0, 5, correlation=1),
        event("kernel", "gemm", 10, 1_000, correlation=1, stream=7, device=0),
        event("cuda_runtime", "cudaLaunchKernelExC", 10, 5, correlation=2),
        event("kernel", AG, 1_010, 5_000, correlation=2, stream=20, device=0),
        event("cpu_op", "aten::empty", 20, 6_800),
        event("cuda_runtime", "cudaFree", 30, 6_780),
        event("cuda_runtime", "cudaLaunchKernel", 6_830, 5, correlation=3),
        event("kernel", "gemm", 6_840, 3_000, correlation=3, stream=7, device=0),
    ]
    write_trace(tmp_path / "rank-0.json", events=events)
    ((cause, cost),) = holotrace.open(tmp_path).causes().filter(cause="allocator").select("cause", "cost_ns").rows()
    assert (cause, round(cost, -5)) == ("allocator", 800_000)


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


def test_what_was_launched_before_the_recording_was_not_launched_too_late(tmp_path: Path) -> None:
    """Hosts seemed to do what was not recorded while parameters were gathered: 14 % of the job."""
    events = []
    for place in range(6):
        at = 3_000 * place
        events += [event("kernel", "gemm", at, 2_000, correlation=2 * place, stream=7, device=0)]
        events += [event("kernel", AG, at + 1_990, 1_000, correlation=2 * place + 1, stream=20, device=0)]
    events += [
        event("cpu_op", "aten::mm", 17_000, 20),
        event("cuda_runtime", "cudaLaunchKernel", 17_005, 5, correlation=99),
    ]
    write_trace(tmp_path / "rank-0.json", events=events)
    assert "unrecorded-host" not in holotrace.open(tmp_path).causes()["cause"]


@pytest.mark.parametrize(("launch_us", "cause"), [(5_000, "host-pause"), (900, "launch-bound")])
def test_a_launch_that_lasts_while_the_device_has_nothing_to_do_stands_still(
    tmp_path: Path, launch_us: int, cause: str
) -> None:
    """As where a kernel is loaded when it is used for the first time: fewer launches would not help."""

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


def kernels_around_a_call(folder: Path, *, begins_us: int, small: int) -> Job:
    """A host that waits for its device, launches a long kernel, is in a function for 8 ms, and launches small ones."""

    end = begins_us + 8_000
    events = [
        event("cuda_runtime", "cudaLaunchKernel", 0, 10, correlation=1),
        event("kernel", "gemm", 20, 2_000, correlation=1, stream=7, device=0),
        event("cuda_runtime", "cudaLaunchKernel", 30, 10, correlation=2),
        event("kernel", "ncclDevKernel_AllReduce_Sum", 1_500, 1_000, correlation=2, stream=20, device=0),
        event("python_function", "train.py(7): update_ema", begins_us, 8_000),
    ]
    events.append(event("cpu_op", "aten::_foreach_add_", end + 10, 30 * small + 10))
    for number in range(small):
        launch = end + 20 + 30 * number
        events += [
            event("cuda_runtime", "cudaLaunchKernel", launch, 10, correlation=3 + number),
            event("kernel", "add", launch + 10, 5, correlation=3 + number, stream=7, device=0),
        ]
    write_trace(folder / "rank-0.json", events=events)
    return holotrace.open(folder)


def test_of_a_call_that_lasts_the_part_beside_a_collective_is_its_too(tmp_path: Path) -> None:
    """That part was short, so it was told as launching, or as the wait before it."""
    found = kernels_around_a_call(tmp_path, begins_us=100, small=1).causes()
    assert found["responsible"].to_list() == ["train.py(7): update_ema"]
    assert found["cost_ns"][0] > 6_050_000


def test_what_is_launched_too_late_after_a_call_that_used_up_the_lead_is_what_that_costs(tmp_path: Path) -> None:
    """It was told as a host that is too slow, or as the last wait before it."""
    found = kernels_around_a_call(tmp_path, begins_us=100, small=60).causes()
    assert found["responsible"].to_list() == ["train.py(7): update_ema", "aten::_foreach_add_"]
    assert found["cost_ns"][0] > 6_050_000 + 59 * 20_000
    # Launching less would save a part of it, too, and next to nothing beside it.
    assert found["cause"][1] == "launch-bound"
    assert found["low_ns"][1] <= 10_000


@pytest.mark.parametrize("launched_us", [100, 5_000])
def test_work_whose_launch_was_not_recorded_was_launched_before_what_comes_after_it_in_its_queue(
    tmp_path: Path, launched_us: int
) -> None:
    """As at the beginning of a recording of a device that is far behind its host."""
    kernels = [(200, "first"), (8_000, "second"), (9_000, "third")]
    launches = {9_000: launched_us}
    events: list[dict[str, Any]] = [
        *(
            {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": 1_000}
            | {"args": {"correlation": ts, "stream": 7, "device": 0}}
            for ts, name in kernels
        ),
        *(
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": ts, "dur": 5}
            | {"args": {"correlation": correlation}}
            for correlation, ts in launches.items()
        ),
        {"ph": "X", "cat": "python_function", "name": "model.py(3): mask", "pid": 1, "tid": 1, "ts": 0, "dur": 9_500},
    ]
    write_trace(tmp_path / "rank-0.json", events=events)
    causes = {(gap["start_ns"] // 1_000, gap["cause"]) for gap in holotrace.open(tmp_path).gaps().to_dicts()}
    assert causes == {(1_200, "queued")}


@pytest.mark.parametrize("world_size", [1, 4])
def test_the_only_rank_that_was_recorded_waits_for_data_or_for_others(tmp_path: Path, world_size: int) -> None:
    """It was told that no cause is known, though two thirds of its time went into exchanges."""
    events: list[dict[str, Any]] = []
    for step in range(4):
        begin = 10_000 * step
        events.append(
            {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": begin, "dur": 9_990}
            | {"pid": 1, "tid": 1, "args": {}}
        )
        work = [("gemm", 100, 2_000, 7), *((EXCHANGE, 2_200 + 3_800 * n, 3_700, 9) for n in range(2))]
        for number, (name, ts, dur, stream) in enumerate(work):
            launched = {"pid": 1, "tid": 1, "ts": begin + 10 + 20 * number, "dur": 9}
            args = {"correlation": 10 * step + number + 1, "stream": stream, "device": 0}
            events += [
                {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", **launched, "args": args},
                {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": begin + ts, "dur": dur}
                | {"args": args},
            ]
    job_info = {"rank": 2, "world_size": world_size, "backend": "nccl"}
    write_trace(tmp_path / "rank-2.json", events=events, distributedInfo=job_info)
    found = holotrace.open(tmp_path).causes().filter(cause="exposed-transfer")
    assert found.height == (world_size > 1)
    for cause in found.to_dicts():
        assert cause["ranks"] == [2]
        assert cause["message"].startswith("Rank 2 waits in ")
        assert "3 ranks that were not recorded in these steps" in cause["message"]
        # What is computed in each of four steps could hide so much of it.
        assert cause["cost_ns"] == pytest.approx(4 * 2_000_000, rel=0.05)


@pytest.mark.parametrize(
    ("collective", "reductions", "cost_us"),
    [("AllReduce_Sum", 1, 1_030), ("AllReduce_Sum", 2, 4_030), ("AllGather", 1, 1_030)],
)
def test_what_comes_after_the_last_reduction_of_a_step_needs_its_result(
    tmp_path: Path, collective: str, reductions: int, cost_us: int
) -> None:
    """A function that the host was in meanwhile was told to cost all of it, though the optimizer has to wait.

    So has the next step for parameters that are gathered after the optimizer.
    """

    work = [("gemm", 10, 20, 1_980, 7), (f"ncclDevKernel_{collective}", 30, 2_000, 3_000, 20)]
    work.append(("adam", 6_020, 6_030, 300, 7))
    work += [(f"ncclDevKernel_{collective}", 6_050, 6_330, 100, 20)] * (reductions - 1)
    events = [
        event("user_annotation", "ProfilerStep#1", 0, 6_230 + 100 * reductions),
        event("python_function", "monitor.py(9): histogram", 100, 5_900),
    ]
    for number, (name, launched, ts, dur, stream) in enumerate(work):
        events.append(event("cuda_runtime", "cudaLaunchKernel", launched, 9, correlation=number))
        events.append(event("kernel", name, ts, dur, correlation=number, stream=stream, device=0))
    write_trace(tmp_path / "rank-0.json", events=events)
    found = holotrace.open(tmp_path).causes().row(0, named=True)
    assert (found["responsible"], found["cost_ns"] // 1_000) == ("monitor.py(9): histogram", cost_us)


@pytest.mark.parametrize(("other_ns", "is_own"), [(90_000, True), (104_000, False), (120_000, False)])
def test_a_pause_that_others_waited_for_was_no_wait_for_these(other_ns: int, is_own: bool) -> None:
    """Products in fp32 before a pause were worth 2.9 times what was lost: without them it is awaited for longer."""
    schema = dict.fromkeys(("match", "rank", "arrival_ns", "clock_offset_ns"), pl.Int64())
    visits = pl.DataFrame([(0, 0, 105_000, 0), (0, 1, other_ns, 0)], schema=schema, orient="row")
    # Until 100_000 rank 0 paused, and its device had nothing to do for 10_000.
    pause = {"row": "late", "cause": "host-pause", "at_ns": 100_000, "start_ns": 20_000, "time_ns": 10_000}
    rows = filled(pl.DataFrame([pause]), account.COLUMNS).with_columns(rank=pl.lit(0, pl.Int64))
    assert replayed.late(rows, visits)["rank"].to_list() == ([0] if is_own else [])


def test_what_a_host_does_begins_when_it_has_waited_for_its_device(tmp_path: Path) -> None:
    """What a checkpoint waited for was its own, so that whatever made the device late cost nothing any more."""

    events = [
        event("cuda_runtime", "cudaLaunchKernel", 0, 5, correlation=1),
        event("kernel", "gemm", 10, 5_000, correlation=1, stream=7, device=0),
        event("python_function", "torch/serialization.py(964): save", 15, 7_985),
        event("cuda_runtime", "cudaMemcpyAsync", 20, 5, correlation=2),
        event("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 5_011, 100, correlation=2, stream=7, device=0),
        event("cuda_runtime", "cudaStreamSynchronize", 30, 5_090, correlation=3),
        event("cuda_runtime", "cudaLaunchKernel", 8_000, 5, correlation=4),
        event("kernel", "gemm", 8_010, 1_000, correlation=4, stream=7, device=0),
    ]
    write_trace(tmp_path / "rank-0.json", events=events)
    (rows,) = holotrace.open(tmp_path).map(account.account, account.READS)
    began = rows.filter(pl.col("row") == account.LATE, pl.col("time_ns") > 0)["start_ns"]
    assert (began // 1_000).to_list() == [5_120]
