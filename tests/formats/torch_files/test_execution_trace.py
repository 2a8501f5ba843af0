"""Execution traces."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from holotrace import InputError, TraceFormatError, execution_trace
from trace_files import REAL_TRACES, needs_real_traces

OLD = {
    "name": "aten::add",
    "id": 5,
    "rf_id": 3,
    "parent": 4,
    "fw_parent": 0,
    "seq_id": -1,
    "tid": 1,
    "op_schema": "add(Tensor)",
    "input_shapes": [[2, 3], []],
    "input_types": ["Tensor(float)", "Int"],
    "output_shapes": [[2, 3]],
    "output_types": ["Tensor(float)"],
}
NEW = {
    "name": "aten::add",
    "id": 5,
    "ctrl_deps": 4,
    "inputs": {"values": [1], "shapes": [[2, 3], []], "types": ["Tensor(float)", "Int"]},
    "outputs": {"values": [], "shapes": [[2, 3]], "types": ["Tensor(float)"]},
    "attrs": [
        {"name": name, "type": "", "value": OLD[name]} for name in ("rf_id", "fw_parent", "seq_id", "tid", "op_schema")
    ],
}


def written(folder: Path, *nodes: Any, packed: bool = False) -> Path:
    path = folder / "et.json"
    text = json.dumps({"schema": "1.0.1", "nodes": nodes}).encode()
    path.write_bytes(gzip.compress(text) if packed else text)
    return path


@pytest.mark.parametrize("node", [OLD, NEW], ids=["schema 1.0", "schema 1.1"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_node_says_what_went_in_and_came_out(tmp_path: Path, node: dict[str, Any], packed: bool) -> None:
    row = execution_trace(written(tmp_path, node, packed=packed)).row(0, named=True)
    assert row == {
        "node": 5,
        "name": "aten::add",
        "parent": 4,
        "record_function": 3,
        "sequence": -1,
        "forward_node": 0,
        "thread": 1,
        "op_schema": "add(Tensor)",
        "input_shapes": "[[2, 3], []]",
        "input_types": '["Tensor(float)", "Int"]',
        "output_shapes": "[[2, 3]]",
        "output_types": '["Tensor(float)"]',
    }


def test_what_a_node_does_not_say_is_null(tmp_path: Path) -> None:
    row = execution_trace(written(tmp_path, {"id": 1})).row(0, named=True)
    assert row["name"] is row["parent"] is None
    assert row["input_shapes"] == "[]"


def test_a_trace_may_have_no_nodes(tmp_path: Path) -> None:
    assert execution_trace(written(tmp_path)).columns == execution_trace(written(tmp_path, OLD)).columns


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b"[]",
        b'{"traceEvents": []}',
        b"\x1f\x8b\x08",
        b"[" * 200_000,
        rb'{"nodes": [{"id": 1, "name": "\ud800"}]}',
        b"\xff",
        b'{"nodes": [{"id": "five"}]}',
        b'{"nodes": [{"id": 99999999999999999999}]}',
    ],
)
def test_what_is_no_execution_trace_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "et.json").write_bytes(text)
    with pytest.raises(
        TraceFormatError, match=r"is not an execution trace: .*; give what ExecutionTraceObserver wrote"
    ):
        execution_trace(tmp_path / "et.json")


@pytest.mark.parametrize("attrs", [5, "text", [5], [{"name": ["rf_id"], "value": 1}], [{"name": None}], {"name": 1}])
def test_attributes_of_another_kind_are_read_as_missing(tmp_path: Path, attrs: object) -> None:
    (tmp_path / "et.json").write_text(json.dumps({"nodes": [{"id": 1, "name": "a", "attrs": attrs}]}))
    assert execution_trace(tmp_path / "et.json").select("node", "name", "record_function").rows() == [(1, "a", None)]


def test_an_absent_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        execution_trace(tmp_path / "absent.json")


@needs_real_traces
@pytest.mark.parametrize("name", ["linear_et.json.gz", "resnet_et.json.gz"])
def test_recorded_execution_traces_of_both_schemas_are_read(name: str) -> None:
    table = execution_trace(REAL_TRACES / "param" / "et_replay" / "tests" / "inputs" / name)
    assert table["node"].is_unique().all()
    assert table.select("name", "parent", "record_function", "op_schema").null_count().row(0) == (0, 0, 0, 0)
