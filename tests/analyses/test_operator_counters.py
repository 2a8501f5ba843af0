"""Hardware counters and the operators they were read for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import holotrace
from drawing import draw
from holotrace.job import Job
from holotrace.present.wording import sentence
from trace_files import REAL_TRACES, needs_real_traces, write_trace

FADD, DADD, DFMA = (f"smsp__sass_thread_inst_executed_op_{kind}_pred_on.sum" for kind in ("fadd", "dadd", "dfma"))


def event(cat: str, name: str, ts: float, dur: float, tid: int = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}


def launch(ts: float, name: str = "cudaLaunchKernel", tid: int = 1) -> dict[str, Any]:
    return event("cuda_runtime", name, ts, 1, tid, correlation=int(ts))


def counted(name: str, ts: float, **counters: float) -> dict[str, Any]:
    return event("cuda_profiler_range", name, ts, 1, 7, **counters)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    write_trace(
        tmp_path / "t.json",
        rank=2,
        events=[
            event("cpu_op", "linear", 10, 20),
            event("cpu_op", "addmm", 12, 10),
            event("cpu_op", "other thread", 0, 99, tid=2),
            launch(15),
            launch(25),
            launch(50, "cuLaunchKernelEx"),
            # Launches nothing that is counted.
            launch(11, "cudaMemcpyAsync"),
            # Counted one by one, far behind their launches.
            counted("copy", 102, flops=0.5),
            counted("gemm", 100, flops=8, bytes=3),
            counted("own", 104, flops=2),
        ],
    )
    return holotrace.open(tmp_path)


def test_the_first_kernel_is_that_of_the_first_launch(job: Job) -> None:
    each = job.operator_counters(each=True)
    assert each["kernel"].to_list() == ["gemm", "gemm", "copy", "own"]
    assert each["counter"].to_list() == ["bytes", "flops", "flops", "flops"]
    assert each["value"].to_list() == [3.0, 8.0, 0.5, 2.0]
    assert each["launch_id"].to_list() == [3, 3, 4, 5]
    assert each["event_id"].to_list() == [8, 8, 7, 9]


def test_the_operators_are_those_around_the_launch_on_its_thread(job: Job) -> None:
    each = job.operator_counters(each=True).filter(pl.col("counter") == "flops")
    assert each["operator"].to_list() == ["addmm", "linear", None]
    assert each["top_operator"].to_list() == ["linear", "linear", None]
    assert [text and json.loads(text) for text in each["operators"]] == [["linear", "addmm"], ["linear"], None]


def test_kernels_of_an_operator_are_summed(job: Job) -> None:
    table = job.operator_counters().filter(pl.col("top_operator") == "linear")
    rows = table.select("rank", "counter", "operator", "kernel_count", "value").rows()
    assert rows == [(2, "bytes", "addmm", 1, 3.0), (2, "flops", "addmm", 1, 8.0), (2, "flops", "linear", 1, 0.5)]


def test_without_a_kernel_for_each_launch_operators_are_unknown(tmp_path: Path) -> None:
    events = [event("cpu_op", "mm", 0, 9), launch(1), launch(3), counted("gemm", 50, flops=1)]
    write_trace(tmp_path / "t.json", rank=0, events=events)
    table = holotrace.open(tmp_path).operator_counters(each=True)
    assert table.select("kernel", "launch_id", "operator", "value").rows() == [("gemm", None, None, 1.0)]


def test_an_operator_as_short_as_its_launch_is_around_it(tmp_path: Path) -> None:
    # The operator comes later in the file.
    events = [launch(5), event("cpu_op", "mm", 5, 1), counted("gemm", 50, flops=1)]
    write_trace(tmp_path / "t.json", rank=0, events=events)
    assert holotrace.open(tmp_path).operator_counters()["operator"].to_list() == ["mm"]


def test_names_of_operators_survive_as_json(tmp_path: Path) -> None:
    name = 'a "quoted"\\ name, [é]'
    events = [event("cpu_op", name, 0, 9), launch(1), counted("gemm", 50, flops=1)]
    write_trace(tmp_path / "t.json", rank=0, events=events)
    assert json.loads(holotrace.open(tmp_path).operator_counters(each=True)["operators"].item()) == [name]


def test_without_counters_there_is_nothing() -> None:
    assert draw("compute |AA|\nhost |A.|").operator_counters().is_empty()


def test_arithmetic_in_double_precision_is_found(tmp_path: Path) -> None:
    # A fused operation is two: 2 of 8.
    for rank, counters in enumerate(({FADD: 6, DFMA: 1}, {FADD: 999, DADD: 1}, {FADD: 1})):
        write_trace(tmp_path / f"rank-{rank}.json", rank=rank, events=[launch(1), counted("k", 5, **counters)])
    job = holotrace.open(tmp_path)
    [finding] = (finding for finding in job.findings() if finding.analysis == "operator_counters")
    assert finding.rule == "double-precision"
    assert sentence(finding) == "25% of the arithmetic is done in double precision"
    assert finding.ranks == (0,)


def test_counters_of_nothing_are_no_arithmetic(tmp_path: Path) -> None:
    write_trace(tmp_path / "t.json", rank=0, events=[launch(1), counted("k", 5, **{DADD: 0})])
    assert holotrace.open(tmp_path).findings() == ()


@needs_real_traces
def test_a_recorded_network_computes_in_its_convolutions() -> None:
    job = holotrace.open(REAL_TRACES / "hta" / "tests" / "data" / "cupti_profiler")
    each = job.operator_counters(each=True)
    assert each["event_id"].n_unique() == 77
    assert each["launch_id"].null_count() == each["operator"].null_count() == 0
    fadd = each.filter(pl.col("counter") == FADD)
    fft = fadd.filter(pl.col("kernel").str.contains("fft2d_r2c_32x32")).row(0, named=True)
    assert (fft["value"], fft["top_operator"], fft["operator"]) == (
        86114304.0,
        "aten::conv2d",
        "aten::cudnn_convolution",
    )
    assert fadd.sort("value")["top_operator"][-1] == "aten::conv2d"
