"""Execution traces beside HTA's frames."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hta_traces import analysis, event

from hta.common import execution_trace
from hta.common.execution_trace import add_et_column, correlate_execution_trace, load_execution_trace
from hta.trace_analysis import TraceAnalysis
from trace_files import REAL_TRACES, needs_real_traces

ADD = {"id": 5, "name": "aten::add", "parent": 4, "rf_id": 3, "op_schema": "add(x)", "input_shapes": [[2], []]}


@pytest.fixture
def et(tmp_path: Path) -> execution_trace.ExecutionTrace:
    (tmp_path / "et.json").write_text(json.dumps({"nodes": [ADD, {"id": 6, "name": "aten::mm", "rf_id": 9}]}))
    return load_execution_trace(str(tmp_path / "et.json"))


@pytest.fixture
def a(tmp_path: Path) -> TraceAnalysis:
    calls = [event("aten::add", 0, 5, External_id=3), event("aten::mul", 6, 5, External_id=4)]
    return analysis(tmp_path / "kineto", *calls, event("aten::add", 1, 1, cat="python_function", External_id=3))


def test_nodes_are_known_by_their_number(et: execution_trace.ExecutionTrace) -> None:
    assert sorted(et.nodes) == [5, 6]
    assert et.nodes[5].name == "aten::add"
    assert et.nodes[5].input_shapes == [[2], []]


def test_operators_are_linked_to_nodes(a: TraceAnalysis, et: execution_trace.ExecutionTrace) -> None:
    correlate_execution_trace(a.t, 0, et)
    frame = a.t.get_trace(0)
    assert frame["et_node"].fillna(-1).tolist() == [5, -1, -1]
    for column in ("et_node_name", "op_schema", "input_shapes"):
        add_et_column(frame, et, column)
    assert frame.loc[0, ["et_node_name", "op_schema", "input_shapes"]].tolist() == ["aten::add", "add(x)", [[2], []]]
    assert frame["op_schema"].isna().tolist() == [False, True, True]


def test_a_column_that_cannot_be_added_is_refused(a: TraceAnalysis, et: execution_trace.ExecutionTrace) -> None:
    frame = a.t.get_trace(0)
    with pytest.raises(ValueError, match="call correlate_execution_trace first"):
        add_et_column(frame, et, "op_schema")
    with pytest.raises(ValueError, match="says nothing of 'price'; columns are et_node_name"):
        add_et_column(frame, et, "price")


def test_a_trace_of_another_run_is_said_to_be(
    tmp_path: Path, et: execution_trace.ExecutionTrace, caplog: pytest.LogCaptureFixture
) -> None:
    t = analysis(tmp_path / "other", event("aten::sub", 0, 5, External_id=3)).t
    correlate_execution_trace(t, 0, et)
    assert t.get_trace(0)["et_node"].isna().all()
    assert "must be of the same run" in caplog.text


@needs_real_traces
def test_a_recording_is_linked_by_name() -> None:
    folder = REAL_TRACES / "hta" / "tests" / "data" / "execution_trace"
    t = TraceAnalysis(trace_files={0: str(folder / "benchmark_simple_add_trace.json.gz")}).t
    et = load_execution_trace(str(folder / "benchmark_simple_add_et.json.gz"))
    correlate_execution_trace(t, 0, et)
    t.decode_symbol_ids(use_shorten_name=False)
    frame = t.get_trace(0)
    add_et_column(frame, et, "et_node_name")
    linked = frame.dropna(subset="et_node")
    assert len(linked) == 36
    assert (linked["s_name"] == linked["et_node_name"]).all()
