"""How long hosts take by themselves, and what faster devices are worth then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import holotrace
from holotrace.core.schema import filled
from holotrace.diagnosis.job import search
from holotrace.diagnosis.rank import account, own_time
from trace_files import write_trace


def event(cat: str, name: str, ts: int, dur: int, **args: int) -> dict[str, Any]:
    place = {"pid": 0, "tid": 7} if cat == "kernel" else {"pid": 1, "tid": 1}
    return {"ph": "X", "cat": cat, "name": name, **place, "ts": ts, "dur": dur, "args": args}


def test_a_host_takes_what_it_neither_waits_for_nor_stands_in_a_full_queue_for(tmp_path: Path) -> None:
    kernels = [event("kernel", "mm", 60 + 100 * i, 99, correlation=i, stream=7, device=0) for i in range(11)]
    launches = [event("cuda_runtime", "cudaLaunchKernel", 50 * i, 5, correlation=i) for i in range(10)]
    operators = [event("cpu_op", "aten::mm", 50 * i, 20) for i in range(10)]
    # Standing in a full queue, waiting for the device, and, of other ranks, for their hosts.
    waits = [
        event("cpu_op", "aten::mm", 600, 220),
        event("cuda_runtime", "cudaLaunchKernel", 610, 200, correlation=10),
        event("cuda_runtime", "cudaStreamSynchronize", 900, 300),
        event("python_function", "vllm/shm_broadcast.py(452): acquire_read", 1_500, 500),
        event("python_function", "<built-in method wait of torch._C._distributed_c10d.Work object>", 2_000, 500),
    ]
    sleeps = [
        event("python_function", "train.py(7): step", 1_205, 290),
        event("python_function", "train.py(9): pause", 1_210, 280),
    ]
    write_trace(tmp_path / "rank-0.json", events=[*launches, *kernels, *operators, *waits, *sleeps])
    (rows,) = holotrace.open(tmp_path).map(account.account, account.READS)
    assert rows.filter(pl.col("row") == account.HOST)["time_ns"].to_list() == [(10 * 20 + 20 + 280) * 1_000]


@pytest.mark.parametrize(
    ("own_ns", "cause", "cost_ns"),
    [
        (500_000, "wrong-type", 300_000),
        (900_000, "wrong-type", 100_000),
        # A fused optimizer takes fewer launches, too.
        (900_000, "unfused-optimizer", 300_000),
    ],
)
def test_faster_devices_save_no_more_than_their_hosts_leave(own_ns: int, cause: str, cost_ns: int) -> None:
    """Where a loader takes nearly as long as the device, products in fp32 were worth more than twice what they cost."""
    rows = [
        {"row": "window", "start_ns": 0, "at_ns": 1_000_000, "time_ns": 1_000_000},
        {"row": "slow-work", "start_ns": 100_000, "at_ns": 400_000, "time_ns": 300_000}
        | {"cause": cause, "name": "aten::mm"},
        {"row": "host", "time_ns": own_ns},
    ]
    own = filled(pl.DataFrame(rows, infer_schema_length=None), account.COLUMNS)
    found, joint_ns = search.of_rows(own.with_columns(rank=pl.lit(0, pl.Int64), count=1))
    assert [(one.candidate.cause, one.cost_ns, one.high_ns) for one in found] == [(cause, cost_ns, cost_ns)]
    assert joint_ns == cost_ns


def test_how_long_a_host_compiles_is_known_though_compilers_are_recorded_as_operators(tmp_path: Path) -> None:
    """Where all hosts compiled beside a stall of one it was taken for that one's, as nothing was known of others."""
    compiling = "_compile.compile_inner (dynamo_timed)"
    events = [
        event("cuda_runtime", "cudaLaunchKernel", 0, 5, correlation=1),
        event("kernel", "mm", 10, 90, correlation=1, stream=7, device=0),
        event("cpu_op", compiling, 100, 5_000),
        event("cpu_op", "aten::mm", 5_200, 400),
    ]
    write_trace(tmp_path / "rank-0.json", events=events)
    (rows,) = holotrace.open(tmp_path).map(account.account, account.READS)
    known = rows.filter(pl.col("row") == account.FUNCTION_TIME).select("name", "time_ns")
    assert known.rows() == [(compiling, 5_000_000)]


def test_what_is_nearly_all_of_a_sum_ended_before_what_came_of_it_later(tmp_path: Path) -> None:
    """Of batches that four ranks wait for 31 % were not told, as their hosts seemed to need as long without them."""
    loading = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    events = [
        event("user_annotation", "ProfilerStep#1", 0, 31_000),
        event("cpu_op", "aten::zero_", 0, 20),
        event("cuda_runtime", "cudaLaunchKernel", 5, 5, correlation=1),
        event("kernel", "zero", 12, 88, correlation=1, stream=7, device=0),
        event("user_annotation", loading, 50, 30_150),
        event("cuda_runtime", "cudaLaunchKernel", 30_000, 5, correlation=2),
        event("kernel", "pack", 30_010, 20, correlation=2, stream=7, device=0),
        event("cuda_runtime", "cudaLaunchKernel", 30_100, 5, correlation=3),
        event("kernel", "pack", 30_110, 20, correlation=3, stream=7, device=0),
    ]
    write_trace(tmp_path / "rank-0.json", events=events)
    (rows,) = holotrace.open(tmp_path).map(account.account, account.READS)
    gaps = rows.filter(pl.col("row") == account.GAP, pl.col("cause") == "input").sort("time_ns")
    assert [at % 1_000_000_000 for at in gaps.tail(1)["at_ns"]] == [30_010_000]
    assert gaps["count"].sum() > 1


@pytest.mark.parametrize(("begins_us", "ends_us", "is_told"), [(0, 400, False), (600, 1_000, False), (300, 700, True)])
def test_a_function_that_the_recording_begins_or_ends_in_may_have_called_what_is_not_on_record(
    tmp_path: Path, begins_us: int, ends_us: int, *, is_told: bool
) -> None:
    """A loop that waited for its device as the recording began was told to keep its host from launching earlier."""
    events = [
        event("python_function", "train.py(7): train", 0, 1_000),
        event("python_function", "train.py(9): step", begins_us, ends_us - begins_us),
        event("cuda_runtime", "cudaLaunchKernel", 500 if begins_us != 300 else 900, 9, correlation=1),
        event("kernel", "mm", 950, 40, correlation=1, stream=7, device=0),
    ]
    write_trace(tmp_path / "rank-0.json", events=events)
    (nothing,) = holotrace.open(tmp_path).map(own_time.calling_nothing, account.READS)
    assert ("train.py(9): step" in nothing["name"].to_list()) == is_told
