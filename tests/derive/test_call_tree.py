"""Who called whom: definitions on drawings, properties on made-up calls, sums on recorded traces."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import holotrace
from drawing import draw
from holotrace.core.tables import CALLS
from holotrace.core.trace import RankTrace
from holotrace.derive import call_tree
from holotrace.job import Job
from trace_files import REAL_TRACES, needs_real_traces, write_trace

DRAWING = """
    op      |AAAAAAAA.DDD|
    op      |.BB..CC.....|
    host    |..K..LM...N.|
    compute |...KK.LLL..N|
    copy    |........MMM.|
"""
SPANS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9), st.sampled_from("ab")), max_size=30)
NO_WORK = pl.DataFrame(schema={"launch_id": pl.UInt32, "start_ns": pl.Int64, "end_ns": pl.Int64})


def calls_of(job: Job) -> dict[str, dict[str, object]]:
    """Each call by its name, its caller by name too."""
    table = job.table("calls")
    names = table.select(parent_id="event_id", parent="name")
    named = table.join(names, on="parent_id", how="left").with_columns(pl.col("name", "parent").cast(pl.String))
    return {row["name"]: row for row in named.iter_rows(named=True) if not row["on_device"]}


def frame(spans: list[tuple[int, int, str]]) -> pl.DataFrame:
    rows = [(number, "1", thread, start, start + lasts) for number, (start, lasts, thread) in enumerate(spans)]
    schema = {name: CALLS.empty().schema[name] for name in ("event_id", "pid", "tid", "start_ns", "end_ns")}
    return pl.DataFrame(rows, schema=schema, orient="row")


def test_calls_are_under_their_callers() -> None:
    calls = calls_of(draw(DRAWING))
    assert {name: calls[name]["parent"] for name in "ABCD"} == {"A": None, "B": "A", "C": "A", "D": None}
    assert {name: calls[name]["depth"] for name in "ABCD"} == {"A": 0, "B": 1, "C": 1, "D": 0}
    assert {name: calls[name]["self_ns"] for name in "ABCD"} == {"A": 4_000, "B": 1_000, "C": 0, "D": 2_000}


def test_work_is_summed_over_all_that_a_call_launched() -> None:
    calls = calls_of(draw(DRAWING))
    work = {name: [calls[name][f"{c}_ns"] for c in ("work", "first_work", "last_work")] for name in "ABCD"}
    assert work == {
        "A": [8_000, 3_000, 11_000],
        "B": [2_000, 3_000, 5_000],
        "C": [6_000, 6_000, 11_000],
        "D": [1_000, 11_000, 12_000],
    }
    assert {name: calls[name]["work_count"] for name in "ABCD"} == {"A": 3, "B": 1, "C": 2, "D": 1}


def test_device_events_are_under_the_call_that_launched_them() -> None:
    table = draw(DRAWING).table("calls")
    launched = table.filter("on_device").join(table, left_on="parent_id", right_on="event_id")
    assert launched["name_right"].cast(pl.String).unique().to_list() == ["cudaLaunchKernel"]
    assert (launched["depth"] == launched["depth_right"] + 1).all()
    assert launched["name"].cast(pl.String).sort().to_list() == ["K", "L", "M", "N"]


def test_waiting_on_a_device_is_no_work_but_has_its_caller() -> None:
    table = draw("op |AA..|\nhost |W...|\nsync |.WWW|").table("calls")
    waiting = table.filter("on_device")
    assert waiting.select("work_count", "work_ns", "first_work_ns").rows() == [(0, 0, None)]
    assert waiting["parent_id"].null_count() == 0
    assert table["work_count"].sum() == 0


def test_a_range_around_operators_is_their_caller() -> None:
    calls = calls_of(draw("range |RRRRRR|\nop |.AA...|\nop |...BBB|"))
    assert calls["A"]["parent"] == calls["B"]["parent"] == "R"


def test_a_rank_without_events_has_no_calls() -> None:
    assert Job.from_ranks({0: RankTrace(0, {})}).table("calls").schema["parent_id"] == pl.UInt32


def test_a_backward_operator_continues_the_innermost_forward_one(tmp_path: Path) -> None:
    def op(name: str, ts: int, dur: int, *, tid: int = 1, sequence: int, forward: int = 0) -> dict[str, object]:
        args = {"Sequence number": sequence, "Fwd thread id": forward}
        return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}

    write_trace(
        tmp_path / "rank0.json",
        rank=0,
        events=[
            op("AddmmBackward0", 51, 5, tid=2, sequence=7, forward=1),
            op("evaluate_function: AddmmBackward0", 50, 9, tid=2, sequence=7, forward=1),
            op("ReluBackward0", 70, 9, tid=2, sequence=8, forward=1),
            op("linear", 0, 20, sequence=7),
            op("addmm", 5, 10, sequence=7),
            op("addmm after", 90, 10, sequence=8),
        ],
    )
    calls = calls_of(holotrace.open(tmp_path))
    addmm = calls["addmm"]["event_id"]
    assert calls["AddmmBackward0"]["continues_id"] == addmm
    assert calls["evaluate_function: AddmmBackward0"]["continues_id"] == addmm
    assert calls["AddmmBackward0"]["parent"] == "evaluate_function: AddmmBackward0"
    # What begins later is not continued.
    assert calls["ReluBackward0"]["continues_id"] is None
    assert calls["linear"]["continues_id"] is None


@given(spans=SPANS, seed=st.integers(0, 9))
def test_the_order_of_arrival_changes_nothing(spans: list[tuple[int, int, str]], seed: int) -> None:
    calls = frame(spans)
    nested = call_tree.nested(calls, NO_WORK)
    shuffled = call_tree.nested(calls.sample(fraction=1, shuffle=True, seed=seed), NO_WORK)
    assert_frame_equal(nested, shuffled.sort("event_id"))


@given(spans=SPANS)
def test_a_caller_spans_what_it_calls_on_its_thread(spans: list[tuple[int, int, str]]) -> None:
    nested = call_tree.nested(frame(spans), NO_WORK)
    pairs = nested.join(nested, left_on="parent_id", right_on="event_id", suffix="_of_caller")
    assert (pairs["tid"] == pairs["tid_of_caller"]).all()
    assert (pairs["start_ns"] >= pairs["start_ns_of_caller"]).all()
    assert (pairs["end_ns"] <= pairs["end_ns_of_caller"]).all()
    assert (pairs["depth"] == pairs["depth_of_caller"] + 1).all()
    assert (nested.filter(pl.col("parent_id").is_null())["depth"] == 0).all()


@given(spans=SPANS, launches=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=20))
def test_what_nothing_encloses_has_all_the_work(
    spans: list[tuple[int, int, str]], launches: list[tuple[int, int]]
) -> None:
    rows = [(launch, start, start + 3) for launch, start in launches]
    work = pl.DataFrame(rows, schema=NO_WORK.schema, orient="row")
    nested = call_tree.nested(frame(spans), work)
    known = work.join(nested, left_on="launch_id", right_on="event_id", how="semi")
    outermost = nested.filter(pl.col("parent_id").is_null())
    assert outermost["work_count"].sum() == known.height
    assert outermost["work_ns"].sum() == (known["end_ns"] - known["start_ns"]).sum()
    assert outermost["last_work_ns"].max() == known["end_ns"].max()


@needs_real_traces
@pytest.mark.parametrize(
    "file",
    [
        "hta/tests/data/trace_diff/control/control.json.gz",
        "hta/tests/data/mtia_inference_trace/mtia_inference_rank_0.json.gz",
        "hta/tests/data/call_stack/backward_thread.json",
        "tracelens/tests/traces/mi300/resnet_act_checkpoint.json.gz",
        "tracelens/tests/traces/b200/eager_trace.json.gz",
        "ours/cpu_gloo_ddp2_stack_memory/rank-0.pt.trace.json.gz",
    ],
)
def test_every_recorded_call_has_its_place(file: str) -> None:
    job = holotrace.open(REAL_TRACES / file)
    calls = job.table("calls")
    host, device = calls.filter(~pl.col("on_device")), calls.filter("on_device")
    pairs = calls.join(host, left_on="parent_id", right_on="event_id", suffix="_of_caller")
    assert pairs.height == calls["parent_id"].drop_nulls().len()
    assert (pairs["depth"] == pairs["depth_of_caller"] + 1).all()
    assert device["parent_id"].null_count() == 0
    assert (calls["self_ns"] >= 0).all()
    outermost = host.filter(pl.col("parent_id").is_null())
    assert outermost["work_ns"].sum() == device["work_ns"].sum()
    assert host["self_ns"].sum() >= (outermost["end_ns"] - outermost["start_ns"]).sum()


@needs_real_traces
def test_sequence_numbers_link_what_the_profiler_links() -> None:
    job = holotrace.open(REAL_TRACES / "tracelens/tests/traces/mi300/resnet_act_checkpoint.json.gz")
    arrows = job.table("flows").filter(pl.col("category") == "fwdbwd")
    continued = arrows.join(job.table("calls"), left_on="to_id", right_on="event_id")
    assert continued.height == 213
    assert (continued["continues_id"] == continued["from_id"]).all()


@needs_real_traces
def test_modules_of_recorded_stacks_enclose_their_operators() -> None:
    job = holotrace.open(REAL_TRACES / "ours/cpu_gloo_ddp2_stack_memory/rank-0.pt.trace.json.gz")
    calls = job.table("calls").select("event_id", "parent_id", pl.col("name").cast(pl.String))
    linear = calls.filter(name="aten::linear")
    found, around = [], linear.select("event_id", "parent_id")
    while not around.is_empty():
        around = around.join(calls, left_on="parent_id", right_on="event_id").rename({"parent_id_right": "above"})
        found.append(around.filter(pl.col("name").str.starts_with("nn.Module: ")))
        around = around.select("event_id", parent_id="above")
    assert linear.height > 0
    assert pl.concat(found)["event_id"].n_unique() == linear.height


def test_the_outermost_chosen_call_is_found_in_whatever_order_calls_come() -> None:
    calls = pl.DataFrame(
        {"event_id": [9, 4, 6, 2], "parent_id": [6, 2, 4, None], "depth": [3, 1, 2, 0]},
        schema_overrides={"event_id": pl.UInt32, "parent_id": pl.UInt32},
    )
    chosen = pl.Series([True, True, False, False])
    assert call_tree.outermost(calls, chosen).to_list() == [4, 4, 4, None]
    assert call_tree.outermost(calls.head(0), chosen.head(0)).is_empty()
