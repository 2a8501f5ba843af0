"""Each number in docs/differences-from-hta.md is what HTA 0.6.1 and hta return on a recorded trace."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from test_golden import GOLDEN

import holotrace
from hta.trace_analysis import TraceAnalysis
from trace_files import REAL_TRACES

PAGE = " ".join((Path(__file__).parents[2] / "docs" / "differences-from-hta.md").read_text().split())

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (GOLDEN.is_dir() and REAL_TRACES.is_dir()), reason="no real traces: point HOLOTRACE_REAL_TRACES at them"
    ),
]


def files(case: str) -> list[str]:
    named = json.loads((REAL_TRACES.parent / "cases.json").read_text())[case]
    return [str(REAL_TRACES / file) for file in named]


# Any: tables of pandas, whose figures are of many types.
@cache
def ours(case: str) -> Any:
    return TraceAnalysis(trace_files=files(case))


def theirs(case: str, method: str) -> Any:
    """What HTA returned; a table as its rows."""
    value = json.loads((GOLDEN / f"{case}.json").read_text())[method]["value"]
    return value["data"] if isinstance(value, dict) and "data" in value else value


def row(bug: str) -> str:
    """The row of the page on a defect."""
    found = re.search(rf"\| {bug} \|.*?(?= \| BUG-|\Z)", PAGE)
    assert found
    return found[0]


def number(value: float) -> str:
    return f"{value:,.0f}"


@pytest.mark.parametrize("case", ["lightllm_decode_a_8xh200", "hta_mtia_inference"])
def test_each_event_within_one_microsecond_takes_one_off_a_sum(case: str) -> None:
    # Columns of all durations by name and rank: name, sum, …
    of_hta = sum(line[1] for line in theirs(case, "get_gpu_kernel_breakdown")[1]["data"])
    table = ours(case).get_gpu_kernel_breakdown(visualize=False, num_kernels=100_000)[1]
    lost = table["sum (us)"].sum() - of_hta
    frames = ours(case).t.get_all_traces().values()
    assert f"{number(lost)} of {number(sum(int((frame['stream'] >= 0).sum()) for frame in frames))}" in row("BUG-1")


def test_rounding_makes_idle_time_too_long() -> None:
    case = "lightllm_decode_a_8xh200"
    of_hta = sum(line[1] for line in theirs(case, "get_temporal_breakdown"))
    rounded = ours(case).get_temporal_breakdown(visualize=False)["idle_time(us)"].sum()
    exact = holotrace.open(files(case)).time_breakdown().select(pl.col("idle_ns").sum() // 1000).item()
    assert f"{number(of_hta)} µs of idle time in HTA and {number(rounded)} here, where {number(exact)} are" in row(
        "BUG-1"
    )


def test_where_a_device_hardly_rests_rounding_is_most_of_its_idle_time() -> None:
    case = "tracelens_mi300_resnet"
    frame = ours(case).t.get_trace(0)
    kernels = frame[frame["stream"] >= 0]
    rounded = int(ours(case).get_temporal_breakdown(visualize=False)["idle_time(us)"].sum())
    of_hta = pl.DataFrame({"event_id": kernels["index"].to_numpy()}, schema={"event_id": pl.UInt32})
    spans = holotrace.open(files(case)).table("device_events", columns=["event_id", "start_ns", "end_ns"])
    spans = spans.join(of_hta, on="event_id").sort("start_ns")
    pauses = spans.select((pl.col("start_ns") - pl.col("end_ns").cum_max().shift(1)).clip(lower_bound=0).sum())
    assert f"{number(rounded)} µs instead of {number(pauses.item() // 1000)}" in row("BUG-1")


def test_remains_of_rounding_are_half_of_the_samples() -> None:
    (of_hta,) = (line for line in theirs("hta_diff_test", "get_memory_bw_summary") if line[1] == "Memcpy DtoD")
    found = ours("hta_diff_test").get_memory_bw_summary([1]).loc[(1, "Memcpy DtoD"), "memory_bw_gbps"]
    count, mean = found["count"], found["mean"]
    said = f"{number(of_hta[2])} samples with a mean of {of_hta[3]:.1f} GB/s for {number(count)} with {mean:.1f}"
    assert said in row("BUG-24")


def test_queue_lengths_differ_by_the_order_within_a_microsecond() -> None:
    (of_hta,) = (line for line in theirs("hta_diff_control", "get_queue_length_summary") if line[1] == 7)
    mean = ours("hta_diff_control").get_queue_length_summary([3]).loc[(3, 7), ("queue_length", "mean")]
    assert f"a mean of {mean:.2f} for {of_hta[3]:.2f}" in PAGE


def test_launches_that_hta_does_not_know_are_listed() -> None:
    of_hta = json.loads((GOLDEN / "hta_diff_test.json").read_text())["get_cuda_kernel_launch_stats"]["value"]["1"]
    found = len(ours("hta_diff_test").get_cuda_kernel_launch_stats([1], visualize=False)[1])
    assert f"{number(found)} rows for {number(of_hta['rows'])}" in row("BUG-15")


def test_ranges_of_kept_steps_are_kept() -> None:
    case = "hta_ns_resolution"
    lost = len(ours(case).t.get_trace(0)) - theirs(case, "rows")["0"]
    a = ours(case)
    is_range = a.t.get_trace(0)["cat"] == a.t.symbol_table.sym_index["gpu_user_annotation"]
    assert f"loses {lost} of {int(is_range.sum())} rows" in row("BUG-26")


@pytest.mark.parametrize(
    ("bug", "case"),
    [("BUG-20", "hta_diff_test"), ("BUG-27", "torchrec_442_4xv100"), ("BUG-27", "torchrec_sleep_4xv100")],
)
def test_critical_paths_differ_as_much_as_is_said(bug: str, case: str) -> None:
    a = ours(case)
    path_us, span_us = _path(a, a.t.get_ranks()[0])
    assert path_us <= span_us
    of_hta = theirs(case, "critical_path_analysis")["path_us"]
    assert f"{number(of_hta)} µs for {number(path_us)}" in row(bug)


def test_the_largest_difference_of_critical_paths_is_within_the_graph() -> None:
    path_us, span_us = _path(ours("torchrec_442_4xv100"), 3)
    assert path_us <= span_us
    # HTA was run on this rank and step for the page; the golden files are of first ranks.
    assert f"45,042 for {number(path_us)}" in row("BUG-27")


def test_calls_of_old_categories_are_in_the_graph() -> None:
    golden = json.loads((GOLDEN / "kineto_resnet50_old.json").read_text())["critical_path_analysis"]
    assert golden["error"].startswith("AssertionError")
    path_us, span_us = _path(ours("kineto_resnet50_old"), 0)
    assert 0 < path_us <= span_us


def _path(a: Any, rank: int) -> tuple[float, float]:
    """How long the path of the second step is, and how long its graph."""
    found = a.critical_path_analysis(rank, "ProfilerStep", 1)
    assert found is not None
    breakdown = found[0].get_critical_path_breakdown()
    assert breakdown is not None
    times = [node.ts for node in found[0].node_list]
    return float(breakdown["duration"].sum()), max(times) - min(times)
