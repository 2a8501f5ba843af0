"""PyTorch's execution traces beside HTA's frames: which row is which node."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

import holotrace
from holotrace.core import tables
from holotrace.core.schema import Column, Table, Unit
from hta.common.trace import Trace

log = logging.getLogger("hta")

# HTA needs another package to read them.
IMPORT_EXECUTION_TRACE_SUCCESSFULLY = True
EXECUTION_TRACE_SUPPORTED_EVENTS = ["cpu_op", "user_annotation"]

_CALLS = Table(
    tables.EVENTS.name,
    tables.EVENTS.meaning,
    (
        *tables.EVENTS.only("event_id", "category", "name").columns,
        Column("record_function", Unit.NUMBER, "Record function id", arg="Record function id"),
        Column("external", Unit.NUMBER, "External id", arg="External id"),
    ),
)
_JSON = ("input_shapes", "input_types", "output_shapes", "output_types")
# What columns of nodes are called here.
_COLUMNS = {"et_node_name": "name", "op_schema": "op_schema", **{column: column for column in _JSON}}


@dataclass(frozen=True)
class Node:
    """One operator or range of an execution trace."""

    id: int
    name: str
    parent_id: int
    rf_id: int
    seq_id: int
    fw_parent: int
    tid: int
    op_schema: str
    input_shapes: list[Any]
    input_types: list[Any]
    output_shapes: list[Any]
    output_types: list[Any]


class ExecutionTrace:
    """The nodes of an execution trace, as the table ``holotrace.execution_trace`` returns and by their number."""

    def __init__(self, table: pl.DataFrame) -> None:
        self.table = table
        decoded = table.with_columns(pl.col(_JSON).map_elements(json.loads, return_dtype=pl.Object))
        self.nodes: dict[int, Node] = {row[0]: Node(*row) for row in decoded.iter_rows()}


def load_execution_trace(et_file: str) -> ExecutionTrace:
    """The execution trace in a file."""
    return ExecutionTrace(holotrace.execution_trace(et_file))


def correlate_execution_trace(trace: Trace, rank: int, et: ExecutionTrace) -> None:
    """Add ``et_node`` to a rank's frame: the number of the node that an operator or range is, NaN where it is none."""
    frame = trace.get_trace(rank)
    calls = holotrace.open({rank: trace.trace_files[rank]}).table(_CALLS)
    calls = calls.filter(pl.col("category").cast(pl.String).is_in(EXECUTION_TRACE_SUPPORTED_EVENTS))
    found = holotrace.execution_nodes(calls, et.table)
    if found.is_empty():
        log.warning("no operator of rank %d is a node of the execution trace; both must be of the same run", rank)
    nodes: pd.Series[float] = pd.Series(found["node"].to_numpy(), found["event_id"].to_numpy(), dtype=np.float64)
    frame["et_node"] = frame["index"].map(nodes)


def add_et_column(trace_df: pd.DataFrame, et: ExecutionTrace, column: str) -> None:
    """Add what the execution trace says of each row, after ``correlate_execution_trace``; None where nothing.

    Args:
        trace_df: The frame.
        et: The execution trace.
        column: One of et_node_name, op_schema, input_shapes, input_types, output_shapes and output_types.
    """
    if column not in _COLUMNS:
        raise ValueError(f"an execution trace says nothing of {column!r}; columns are {', '.join(_COLUMNS)}")
    if "et_node" not in trace_df:
        raise ValueError("the frame has no column et_node; call correlate_execution_trace first")
    values = {number: getattr(node, _COLUMNS[column]) for number, node in et.nodes.items()}
    trace_df[column] = pd.Series([values.get(number) for number in trace_df["et_node"]], trace_df.index, dtype=object)
