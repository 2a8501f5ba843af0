"""Operators: what is their own, and what those around them share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import holotrace
from drawing import draw, trace
from holotrace.analyses import Analyses
from holotrace.core.analysis import Finding
from holotrace.core.tables import CPU_OPS
from holotrace.job import Job
from holotrace.present.wording import sentence
from trace_files import REAL_TRACES, needs_real_traces, write_trace

DRAWING = """
    step    |111111112222|
    op      |AAAAAAAA.BBB|
    op      |.BB..CC.....|
    host    |..K..LM...N.|
    compute |...KK.LLL..N|
    copy    |........MMM.|
    sync    |........WWWW|
"""
# Host time of each of ten operators is 1 ms, device time 1 µs.
SLOW_HOST = f"op |{'ABCDEFGHIJ'.translate({ord(c): c * 1000 for c in 'ABCDEFGHIJ'})}|"


def by_name(job: Job, *columns: str, **options: bool) -> dict[str, tuple[object, ...]]:
    return {row[0]: row[1:] for row in job.operators(**options).select("name", *columns).iter_rows()}


def test_time_in_operators_and_in_the_runtime_is_not_its_own() -> None:
    found = by_name(draw(DRAWING), "count", "total_ns", "self_ns", "runtime_ns")
    assert found == {
        "A": (1, 8_000, 4_000, 0),
        "B": (2, 5_000, 3_000, 2_000),
        "C": (1, 2_000, 0, 2_000),
    }


def test_work_belongs_to_the_innermost_operator_and_counts_in_those_around_it() -> None:
    found = by_name(draw(DRAWING), "work_count", "work_ns", "self_work_count", "self_work_ns")
    assert found == {
        "A": (3, 8_000, 0, 0),
        "B": (2, 3_000, 2, 3_000),
        "C": (2, 6_000, 2, 6_000),
    }


def test_steps_are_told_apart_by_where_the_call_began() -> None:
    table = draw(DRAWING).operators(by_step=True)
    assert table.select("step", "name", "self_work_ns").rows() == [
        (1, "C", 6_000),
        (1, "B", 2_000),
        (1, "A", 0),
        (2, "B", 1_000),
    ]


def test_a_range_is_no_operator_and_hides_none() -> None:
    assert by_name(draw("op |AAAA|\nrange |.RR.|\nhost |.K..|\ncompute |..KK|"), "self_work_ns") == {"A": (2_000,)}


def test_an_operator_that_takes_no_longer_than_its_launch_calls_it() -> None:
    assert by_name(draw("op |.A.|\nhost |.K.|\ncompute |..K|"), "self_ns", "self_work_ns") == {"A": (0, 1_000)}


def test_waiting_in_the_runtime_is_not_its_own_time(tmp_path: Path) -> None:
    def host(name: str, category: str, ts: int, dur: int) -> dict[str, object]:
        return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur}

    events = [
        host("aten::item", "cpu_op", 0, 20),
        host("cudaStreamSynchronize", "cuda_runtime", 2, 15),
        host("cuStreamSynchronize", "cuda_driver", 3, 13),
    ]
    write_trace(tmp_path / "rank0.json", rank=0, events=events)
    assert by_name(holotrace.open(tmp_path), "self_ns", "runtime_ns") == {"aten::item": (5_000, 15_000)}


def test_work_launched_outside_of_operators_has_none() -> None:
    assert by_name(draw("op |AA..|\nhost |...K|\ncompute |....K|"), "work_ns")["A"] == (0,)


def test_operators_that_take_the_host_longer_than_the_device_are_found() -> None:
    host = "host |" + "K".ljust(1000, ".") * 10 + "|"
    tiny = "compute |" + ".K".ljust(1000, ".") * 10 + "|"
    (finding,) = Analyses.operators.findings(draw(f"{SLOW_HOST}\n{host}\n{tiny}", "op |A|").operators())
    assert finding == Finding(
        "info",
        "operators keep the host busy for longer than the devices, most of all {names:names}",
        (0,),
        9_980_000,
        rule="host-bound-operators",
        analysis="operators",
        values={"names": ["A", "B", "C"]},
        within=("idle_ns",),
    )


def test_operators_whose_work_is_longer_and_those_that_launch_nothing_are_not_found() -> None:
    host, long = "host |K|", "compute |." + "K" * 20_000 + "|"
    for drawing in (f"{SLOW_HOST}\n{host}\n{long}", SLOW_HOST):
        assert Analyses.operators.findings(draw(drawing).operators()) == []


def waiting(rank: int, **host_ns: tuple[int, int, int]) -> pl.DataFrame:
    """A table of operators: how often each ran, its own time and that in the runtime."""
    rows = [
        {"rank": rank, "name": name, "count": c, "self_ns": s, "runtime_ns": r} for name, (c, s, r) in host_ns.items()
    ]
    absent: dict[str, object] = {
        "work_count": 0,
        "work_ns": 0,
        "self_work_count": 0,
        "self_work_ns": 0,
        "total_ns": 0,
        "step": None,
    }
    absent |= {"source": "operator", "self_busy_ns": 0}
    table = pl.DataFrame([row | absent for row in rows])
    return table.select(pl.col(c.name).cast(c.unit.dtype) for c in Analyses.operators.columns)


def test_operators_that_the_runtime_holds_up_are_found() -> None:
    ms = 1_000_000
    item, mm = (10, 0, 40 * ms), (1000, 90 * ms, 9 * ms)
    table = pl.concat([waiting(0, item=item, mm=mm), waiting(2, item=item, mm=mm), waiting(3, mm=mm)])
    (finding,) = Analyses.operators.findings(table)
    assert sentence(finding) == "Calls of the runtime hold up the host in item for 40.0 ms"
    assert finding.ranks == (0, 2)
    assert finding.rule == "waiting-operators"


def test_short_waits_and_rare_ones_are_not_found() -> None:
    ms = 1_000_000
    often = waiting(0, copy=(1000, 0, 900 * ms), mm=(1, 0, 0))
    rare = waiting(0, item=(1, 0, 9 * ms), mm=(1000, 90 * ms, 0))
    assert Analyses.operators.findings(often) == Analyses.operators.findings(rare) == []


@needs_real_traces
@pytest.mark.parametrize(
    "file",
    [
        "hta/tests/data/trace_diff/control/control.json.gz",
        "tracelens/tests/traces/mi300/resnet_act_checkpoint.json.gz",
        "hta/tests/data/mtia_inference_trace/mtia_inference_rank_0.json.gz",
        "ours/cpu_gloo_ddp2_stack_memory/rank-0.pt.trace.json.gz",
    ],
)
def test_what_is_their_own_adds_up_to_what_all_launched(file: str) -> None:
    job = holotrace.open(REAL_TRACES / file)
    own = job.operators().filter(pl.col("source") != "unknown")
    sequences = job.operator_kernels()
    assert own["self_work_ns"].sum() == sequences["work_ns"].sum()
    assert own["self_work_count"].sum() == sequences["work_count"].sum()
    assert own.filter(pl.col("self_ns") + pl.col("runtime_ns") > pl.col("total_ns")).is_empty()
    assert own.filter(source="operator")["count"].sum() == job.table("cpu_ops", columns=["event_id"]).height


def test_work_launched_outside_of_operators_has_rows_by_launch_call() -> None:
    # 77 to 99 % of the kernel time of compiled models was left out.
    drawn = draw("op |AA......|\nhost |.J.KL...|\ncompute |..J.KKLL|\ncopy |.....M..|")
    table = drawn.operators()
    assert table.select("name", "source", "count", "self_work_count", "self_work_ns").rows() == [
        ("cudaLaunchKernel", "launch", 2, 2, 4_000),
        ("A", "operator", 1, 1, 1_000),
        (None, "unknown", None, 1, 1_000),
    ]
    busy_ns = drawn.table("device_events").select((pl.col("end_ns") - pl.col("start_ns")).sum()).item()
    assert table["self_work_ns"].sum() == busy_ns
    assert drawn.operator_kernels()["work_ns"].sum() == 5_000


def test_a_launch_that_returns_after_its_operator_belongs_to_it() -> None:
    # The operator ends at 1.5 µs, the launch that it began at 1 µs returns at 2 µs, within the next operator.
    rank = trace("op |AABB..|\nhost |.K....|\ncompute |...KK.|")
    ops = rank[CPU_OPS].with_columns(
        start_ns=pl.when(pl.col("start_ns") > 0).then(1_600).otherwise(0),
        end_ns=pl.when(pl.col("start_ns") > 0).then("end_ns").otherwise(1_500),
    )
    job = Job.from_ranks({0: replace(rank, tables={**rank.tables, CPU_OPS.name: ops})})
    found = by_name(job, "self_ns", "runtime_ns", "self_work_ns")
    assert found == {"A": (1_000, 500, 2_000), "B": (2_400, 0, 0)}
    assert job.operator_kernels()["operator"].to_list() == ["A"]


def test_an_operator_whose_kernels_overlap_is_busy_for_their_union() -> None:
    drawn = draw("op |AAAA....|\nhost |KL......|\ncompute |..KKKK..|\ncomm |...LLLL.|")
    assert by_name(drawn, "self_work_ns", "self_busy_ns") == {"A": (8_000, 5_000)}


@needs_real_traces
@pytest.mark.parametrize(
    "file",
    [
        "tracelens/tests/traces/inference/sglang_decode/sglang_Qwen3-8B_decode.json.gz",
        "tracelens/tests/traces/torch_compile_triton/trace.json.gz",
        "torchrec/examples/golden_training/trace/sst_long_a2a_optimizer_4",
    ],
)
def test_rows_add_up_to_all_work_of_each_rank(file: str) -> None:
    job = holotrace.open(REAL_TRACES / file)
    own = job.operators().group_by("rank").agg(pl.col("self_work_ns", "self_busy_ns").sum()).sort("rank")
    kernels = job.kernels().group_by("rank").agg(pl.col("sum_ns").sum()).sort("rank")
    assert own["self_work_ns"].to_list() == kernels["sum_ns"].to_list()
    assert own.filter(pl.col("self_busy_ns") > pl.col("self_work_ns")).is_empty()
