"""PyTorch's trace-event files as the tables of holotrace.core.tables."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import polars as pl

from holotrace import stores
from holotrace.core.arrow import frame
from holotrace.core.native import native
from holotrace.core.schema import Column, Table, Unit, filled
from holotrace.core.tables import (
    ANNOTATIONS,
    COLLECTIVES,
    COUNTERS,
    CPU_OPS,
    DEVICE_EVENTS,
    EVENTS,
    FLOWS,
    HARDWARE_COUNTERS,
    INSTANTS,
    LAUNCHES,
    MEMORY,
    PROBLEMS,
    PYTHON_CALLS,
    RUNTIME_CALLS,
    STEPS,
    TRACK_LABELS,
)
from holotrace.core.trace import COMPUTES_ON_HOST
from holotrace.errors import InputError
from holotrace.formats.parsed import Parsed
from holotrace.stores import Origin

# What a file can have.
TABLES = (
    EVENTS,
    DEVICE_EVENTS.without("device_ps"),
    CPU_OPS,
    LAUNCHES,
    COLLECTIVES.without("arrived_ns"),
    STEPS,
    ANNOTATIONS.without("arguments"),
    PYTHON_CALLS,
    RUNTIME_CALLS,
    INSTANTS,
    COUNTERS,
    HARDWARE_COUNTERS,
    MEMORY,
    FLOWS,
    TRACK_LABELS,
    PROBLEMS,
)
# Columns that are read only where they are asked for, and whose problems are seen only then.
EVERYTHING = [replace(table, columns=tuple(column for column in table.columns if column.arg)) for table in TABLES]
_ARG_TYPES = {
    Unit.NUMBER: "int",
    Unit.BYTES: "int",
    Unit.COUNT: "int",
    Unit.NS: "int",
    Unit.FLOAT: "float",
    Unit.LABEL: "text",
    Unit.TEXT: "text",
}
# Entries; tables of fewer are made before threads have started.
MANY = 100_000
# Those of a trace that take long.
_TABLES_AT_A_TIME = 4
# Tables that tell of a device; where a job has none but its hosts, they are made of these columns.
_OF_DEVICES = (DEVICE_EVENTS.name, LAUNCHES.name, COLLECTIVES.name)
_HOST_WORK = (
    DEVICE_EVENTS.only("event_id"),
    CPU_OPS.only("event_id", "input_dims", "input_types", "concrete_inputs"),
    ANNOTATIONS.only("event_id"),
    RUNTIME_CALLS.only("event_id"),
    PYTHON_CALLS.only("event_id"),
    COLLECTIVES.only("event_id", "collective", "in_elements", "element_type", "source_rank", "destination_rank"),
)
_LAUNCHED = ("launch_id", "launch_ns", "device_event_id")


class Unmade:
    """A table that is made when it is taken."""

    def __init__(self, trace: native.Trace, table: Table) -> None:
        self._trace = trace
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._made().__arrow_c_stream__(requested_schema)

    def select(self, columns: Sequence[str], /) -> Unmade:
        return Unmade(self._trace, self._table.only(*columns))

    def frame(self) -> pl.DataFrame:
        return filled(frame(self._made()), self._table.columns)

    def _made(self) -> native.ArrowTable:
        keys = [column.arg or column.name for column in self._table.columns]
        return self._trace.table(self._table.name, keys).renamed(self._table.column_names)


def read(path: Origin, tables: Sequence[Table], beside: Sequence[Table] = ()) -> Parsed[pl.DataFrame]:
    """The wanted tables and columns of one file; args are parsed only for columns that are wanted.

    Args:
        path: The file.
        tables: What is wanted.
        beside: Tables and columns of which only the problems are wanted.
    """
    started = time.perf_counter_ns()
    scanned = scan(path, tables, beside)
    frames = _frames(scanned)
    return Parsed(frames, scanned.metadata, scanned.counts, time.perf_counter_ns() - started)


def scan(path: Origin, tables: Sequence[Table], beside: Sequence[Table] = ()) -> Parsed[Unmade]:
    """The same, but no table is made yet."""
    started = time.perf_counter_ns()
    asked, more = (*tables, *beside), (*tables, *beside, *_HOST_WORK)
    trace = _read(path, asked)
    if any(table.name in _OF_DEVICES for table in tables):
        # Only now is it known that the operators, which need not be asked for, may be what a device did.
        lacks_rows = not trace.has_device_events and not {*_names(more)} <= {*_names(asked)}
        lacks_args = trace.computes_on_host and not {*_args(more)} <= {*_args(asked)}
        trace = _read(path, more) if lacks_rows or lacks_args else trace
    unmade = {table.name: Unmade(trace, table) for table in tables}
    metadata = {key: _value(text) for key, text in trace.metadata if key != COMPUTES_ON_HOST}
    if trace.computes_on_host:
        metadata[COMPUTES_ON_HOST] = True
    return Parsed(unmade, metadata, trace.counts, time.perf_counter_ns() - started)


def _read(path: Origin, tables: Sequence[Table]) -> native.Trace:
    try:
        return native.read_trace_event(stores.source(path), tables=_names(tables), args=_args(tables))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}; check the file") from error


def _value(text: str) -> Any:
    """The value of a top-level key; what is no JSON after all stays text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _names(tables: Sequence[Table]) -> list[str]:
    """Names of the tables that the wanted ones are made of."""
    names = [table.name for table in tables]
    return [*names, STEPS.name] if _has_steps(tables) else names


def _has_steps(tables: Sequence[Table]) -> bool:
    return any(table.name == DEVICE_EVENTS.name and "step" in table.column_names for table in tables)


def _args(tables: Sequence[Table]) -> list[tuple[str, str]]:
    """Keys of the args to keep, each with its type."""
    args = {column.arg: _type(column) for table in tables for column in table.columns if column.arg}
    # Launches are matched by correlation, whether or not that column is wanted itself; and steps by launches.
    if _has_steps(tables) or any(column.name in _LAUNCHED for table in tables for column in table.columns):
        args["correlation"] = "int"
    if {DEVICE_EVENTS.name, ANNOTATIONS.name} <= {table.name for table in tables}:
        # Where the host is the device: of exchanges that were not over when the recording ended.
        args["finished"] = "text"
    return list(args.items())


def _frames(scanned: Parsed[Unmade]) -> dict[str, pl.DataFrame]:
    tables = scanned.tables
    if len(tables) == 1 or scanned.counts["entries"] - scanned.counts["skipped"] < MANY:
        return {name: table.frame() for name, table in tables.items()}
    # The interpreter's lock is released while a table is made.
    with ThreadPoolExecutor(_TABLES_AT_A_TIME, thread_name_prefix="holotrace-table") as pool:
        return dict(zip(tables, pool.map(Unmade.frame, tables.values()), strict=True))


def _type(column: Column) -> str:
    if column.unit not in _ARG_TYPES:
        raise ValueError(f"{column.name}: a {column.unit.name} column cannot be read from an event's args")
    return _ARG_TYPES[column.unit]
