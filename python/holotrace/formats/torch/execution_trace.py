"""PyTorch's execution traces: every operator that ran, with what went in and came out, but no times."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import polars as pl

from holotrace.core.schema import Column, Unit, empty
from holotrace.errors import InputError, TraceFormatError

_GZIP = b"\x1f\x8b"

COLUMNS = (
    Column("node", Unit.NUMBER, "Number of the node"),
    Column("name", Unit.TEXT, "Name of the operator or range"),
    Column("parent", Unit.NUMBER, "Node that it ran in"),
    Column("record_function", Unit.NUMBER, "Id that PyTorch gave the call; 0 for nodes that are no call"),
    Column("sequence", Unit.NUMBER, "Links forward to backward; -1 without"),
    Column("forward_node", Unit.NUMBER, "Node of the forward pass that it belongs to; 0 without"),
    Column("thread", Unit.NUMBER, "Thread, numbered from 1"),
    Column("op_schema", Unit.TEXT, "Signature of the operator"),
    Column("input_shapes", Unit.TEXT, "Shapes of the inputs, JSON"),
    Column("input_types", Unit.TEXT, "Types of the inputs, JSON"),
    Column("output_shapes", Unit.TEXT, "Shapes of the outputs, JSON"),
    Column("output_types", Unit.TEXT, "Types of the outputs, JSON"),
)
# Fields of a node that are numbers or text, by column; the first is the name up to schema 1.0, and of its attr since.
_FIELDS = {
    "node": ("id",),
    "name": ("name",),
    "parent": ("parent", "ctrl_deps"),
    "record_function": ("rf_id",),
    "sequence": ("seq_id",),
    "forward_node": ("fw_parent",),
    "thread": ("tid",),
    "op_schema": ("op_schema",),
}


def execution_trace(path: str | Path) -> pl.DataFrame:
    """The nodes of an execution trace that PyTorch's ``ExecutionTraceObserver`` wrote, in order of the file.

    Args:
        path: The file: JSON of schema 1.0 or 1.1, plain or gzip.
    """
    columns = {column.name: column.unit.dtype for column in COLUMNS}
    # Shapes nest as deep as inputs do, so they have no common type.
    rows = [_row(node) for node in _nodes(Path(path)) if isinstance(node, dict)]
    try:
        return pl.DataFrame(rows, schema=columns, orient="row") if rows else empty(COLUMNS)
    except (TypeError, OverflowError, UnicodeError, pl.exceptions.PolarsError) as error:
        raise _no_trace(Path(path), "a field of a node has another type") from error


def _nodes(path: Path) -> list[Any]:
    try:
        content = path.read_bytes()
        trace = json.loads(gzip.decompress(content) if content.startswith(_GZIP) else content)
    except (EOFError, ValueError, RecursionError, zlib.error, gzip.BadGzipFile) as error:
        raise _no_trace(path, str(error)) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}; check the file") from error
    if not isinstance(trace, dict) or not isinstance(trace.get("nodes"), list):
        raise _no_trace(path, "there is no list of nodes")
    nodes: list[Any] = trace["nodes"]
    return nodes


def _row(node: dict[str, Any]) -> tuple[Any, ...]:
    attrs = node.get("attrs")
    listed = [attr for attr in attrs if isinstance(attr, dict)] if isinstance(attrs, list) else []
    named = {attr["name"]: attr.get("value") for attr in listed if isinstance(attr.get("name"), str)}
    fields = {**named, **node}
    return (
        *(next((fields[key] for key in keys if key in fields), None) for keys in _FIELDS.values()),
        *(_of_side(node, f"{side}s", what) for side in ("input", "output") for what in ("shapes", "types")),
    )


def _of_side(node: dict[str, Any], side: str, what: str) -> str:
    """Shapes or types of the inputs or outputs."""
    value = node.get(f"{side[:-1]}_{what}")
    if value is None and isinstance(node.get(side), dict):
        value = node[side].get(what)
    return json.dumps([] if value is None else value)


def _no_trace(path: Path, reason: str) -> TraceFormatError:
    return TraceFormatError(f"{path} is not an execution trace: {reason}; give what ExecutionTraceObserver wrote")
