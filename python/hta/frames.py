"""HTA's frames: the one place where nanoseconds become microseconds and Polars becomes pandas."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl

import holotrace
from holotrace import tables
from holotrace.schema import Column, Unit
from hta.common.trace_symbol_table import TraceSymbolTable
from hta.utils.utils import get_kernel_type

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]

# The profiler's own bracket around a recording.
_RECORDING = "Trace"
# Waiting that shows on a stream without the correlation id that other device rows have.
_SYNC_NAMES = ("Event Sync", "Context Sync")
_NS_PER_US = 1000
_NUMBER = re.compile(r"-?\d+")


@dataclass(frozen=True)
class _Arg:
    """A column that holds an arg of the event: its key there, and what stands where it is absent."""

    name: str
    key: str
    absent: int | float | str
    # The arg is a list; the column holds it as such.
    is_list: bool = False

    @property
    def column(self) -> Column:
        unit = {int: Unit.NUMBER, float: Unit.FLOAT, str: Unit.LABEL}[type(self.absent)]
        return Column(self.name, unit, f"Arg {self.key!r}", arg=self.key)


_ARGS = (
    _Arg("stream", "stream", -1),
    _Arg("correlation", "correlation", -1),
    _Arg("bytes", "bytes", -1),
    _Arg("memory_bw_gbps", "memory bandwidth (GB/s)", 0.0),
    _Arg("wait_on_stream", "wait_on_stream", -1),
    _Arg("wait_on_cuda_event_record_corr_id", "wait_on_cuda_event_record_corr_id", -1),
    _Arg("input_dims", "Input Dims", "-1", is_list=True),
    _Arg("input_type", "Input type", "-1", is_list=True),
    _Arg("input_strides", "Input Strides", "-1", is_list=True),
    _Arg("external_id", "External id", -1),
    _Arg("python_id", "Python id", -1),
    _Arg("python_parent_id", "Python parent id", -1),
    _Arg("collective_name", "Collective name", ""),
    _Arg("in_msg_nelems", "In msg nelems", 0),
    _Arg("out_msg_nelems", "Out msg nelems", 0),
    _Arg("msg_dtype", "dtype", ""),
    _Arg("group_size", "Group size", 0),
    _Arg("process_rank", "Rank", -1),
    _Arg("in_split_size", "In split size", "[]"),
    _Arg("out_split_size", "Out split size", "[]"),
)

EVENTS = replace(tables.EVENTS, columns=(*tables.EVENTS.columns, *(arg.column for arg in _ARGS)))
STEPS = tables.STEPS.only("step", "start_ns", "end_ns")


@dataclass(frozen=True)
class Coded:
    """A column of text: its distinct values, and for each row which of them it is."""

    values: list[str]
    codes: Integers

    def take(self, values: Array) -> Array:
        """The row's entry of ``values``, which has one for each distinct value."""
        taken: Array = values[self.codes]
        return taken


@dataclass(frozen=True)
class RankEvents:
    """One rank's events: columns of HTA's frame, names and categories still as text."""

    rank: int
    metadata: Mapping[str, Any]
    columns: Mapping[str, Array]
    name: Coded
    cat: Coded

    @property
    def symbols(self) -> list[str]:
        """Names and categories, each once, in alphabetical order."""
        return sorted({*self.name.values, *self.cat.values})


def read(files: Mapping[int, str]) -> tuple[list[RankEvents], dict[int, holotrace.InputError]]:
    """The events of each rank that can be read, and why the others cannot."""
    job = holotrace.open(files)
    found = job.map(_events, [EVENTS, STEPS])
    unread: dict[int, holotrace.InputError] = {}
    for rank in set(job.ranks) - {events.rank for events in found}:
        try:
            found += job.only(rank).map(_events, [EVENTS, STEPS])
        except holotrace.InputError as error:
            unread[rank] = error
    return found, unread


def to_frame(events: RankEvents, symbols: TraceSymbolTable) -> pd.DataFrame:
    """The frame of one rank, a row per event, with the numbers that ``symbols`` gives to names and categories."""

    def numbered(coded: Coded) -> Array:
        return coded.take(np.array([symbols.sym_index[value] for value in coded.values], dtype=np.int64))

    columns = {
        "index": events.columns["index"],
        "cat": numbered(events.cat),
        "name": numbered(events.name),
        **events.columns,
    }
    index = pd.Index(columns["index"], copy=True)
    # Said to be objects, columns of text are not looked through for a better type; no column is copied.
    texts = {
        name: pd.Series(values, index, object, copy=False) for name, values in columns.items() if values.dtype == object
    }
    frame: pd.DataFrame = pd.DataFrame(columns | texts, index, copy=False)
    return frame


def on_device(frame: pd.DataFrame, symbols: TraceSymbolTable) -> npt.NDArray[np.bool_]:
    """Which rows are HTA's GPU rows: those that a launch put on a stream, and waiting that has a name of its own."""
    return _on_device(
        frame["stream"].to_numpy(),
        frame["correlation"].to_numpy(),
        symbols.mask_where(_SYNC_NAMES.__contains__)[frame["name"].to_numpy()],
    )


def kernels(frame: pd.DataFrame, symbols: TraceSymbolTable) -> pl.DataFrame:
    """Every row on a stream: name, ``kernel_type`` by HTA's naming rule, start and end."""
    rows = frame[frame["stream"] != -1]
    # A rank has some hundred kernels and many more rows: the type of each is decided once.
    numbers, place = np.unique(rows["name"].to_numpy(), return_inverse=True)
    names = [symbols.sym_table[number] for number in numbers]
    start_ns = rows["ts"].to_numpy(dtype=np.int64) * _NS_PER_US
    return pl.DataFrame(
        {
            "name": pl.Series(names, dtype=pl.String).gather(place),
            "kernel_type": pl.Series([get_kernel_type(name) for name in names], dtype=pl.String).gather(place),
            "start_ns": start_ns,
            "end_ns": start_ns + rows["dur"].to_numpy(dtype=np.int64) * _NS_PER_US,
        }
    )


def to_pandas(table: pl.DataFrame) -> pd.DataFrame:
    """A table of results; numbers become int64 or float64."""
    frame: pd.DataFrame = pd.DataFrame(
        {
            column.name: column.to_list()
            if column.dtype == pl.String
            else column.cast(pl.Int64 if column.dtype.is_integer() else pl.Float64).to_numpy()
            for column in table
        },
    )
    return frame


def us(column: str) -> pl.Expr:
    """A column of nanoseconds as whole microseconds, which is what HTA's frames hold."""
    return pl.col(column) // _NS_PER_US


def _events(trace: holotrace.RankTrace) -> RankEvents:
    table = trace[EVENTS]
    cat = _coded(table["category"], _RECORDING)
    rows = np.flatnonzero(cat.take(np.array([value != _RECORDING for value in cat.values], dtype=bool)))
    cat, name = _coded(table["category"], "", rows), _coded(table["name"], "", rows)
    args = {arg.name: _arg(table[arg.name], arg, rows) for arg in _ARGS}
    ts, end = _grid(table["start_ns"].to_numpy()[rows], table["end_ns"].to_numpy()[rows])
    index = table["event_id"].to_numpy()[rows].astype(np.int64)
    stream, correlation = args["stream"], args["correlation"]
    is_sync = name.take(np.isin(name.values, _SYNC_NAMES))
    partner = _partners(correlation, _on_device(stream, correlation, is_sync))
    on_host = (stream < 0) | cat.take(np.isin(cat.values, ("cpu_op",)))
    step = _steps(ts, trace[STEPS])
    launched_in = np.where(partner >= 0, step[partner], -1)
    columns = {
        "index": index,
        "pid": _track(table["pid"], rows),
        "tid": _track(table["tid"], rows),
        "ts": ts,
        # Shorter than a microsecond, an event may end before it starts on HTA's grid.
        "dur": np.maximum(end - ts, 0),
        **args,
        # 0 is HTA's sign for a correlation id that no other row has.
        "index_correlation": np.where(partner >= 0, index[partner], np.minimum(correlation, 0)),
        "iteration": np.where(on_host, step, launched_in),
        "end": np.maximum(end, ts),
    }
    return RankEvents(trace.rank, trace.metadata, columns, name, cat)


def _on_device(stream: Integers, correlation: Integers, is_sync: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = ((stream >= 0) & (correlation >= 0)) | is_sync
    return mask


def _partners(correlation: Integers, device: npt.NDArray[np.bool_]) -> Integers:
    """For each row the last row of the other side with its correlation id, -1 where there is none."""
    partner = np.full(len(correlation), -1, dtype=np.int64)
    # An id of 0 stands for an event whose launch was not recorded.
    linked = np.flatnonzero(correlation > 0)
    ids, place = np.unique(correlation[linked], return_inverse=True)
    for here, there in ((device, ~device), (~device, device)):
        last = np.full(len(ids), -1, dtype=np.int64)
        # Of rows with the same id the last one stays.
        last[place[there[linked]]] = linked[there[linked]]
        partner[linked[here[linked]]] = last[place[here[linked]]]
    return partner


def _steps(ts: Integers, steps: pl.DataFrame) -> Integers:
    """The training step in which each time lies, -1 outside of all."""
    if steps.is_empty():
        return np.full(len(ts), -1, dtype=np.int64)
    steps = steps.sort("start_ns")
    starts, ends = _grid(steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy())
    latest = np.searchsorted(starts, ts, side="right") - 1
    # Between two steps the latest that began has ended already.
    return np.where((latest >= 0) & (ts < ends[latest]), steps["step"].to_numpy()[latest], -1)


def _arg(values: pl.Series, arg: _Arg, rows: Integers) -> Array:
    if values.null_count() == len(values):
        absent = np.array([arg.absent], dtype={int: np.int8, float: np.float64, str: object}[type(arg.absent)])
        return absent.repeat(len(rows))
    if isinstance(arg.absent, str):
        coded = _coded(values, arg.absent, rows)
        return coded.take(_objects(coded.values, _decoded if arg.is_list else str))
    # As HTA does, integers take as few bytes as they need; not so times, which are calculated with.
    narrow = values.shrink_dtype() if values.dtype.is_integer() else values
    column: Array = narrow.fill_null(arg.absent).to_numpy()[rows]
    return column


def _track(values: pl.Series, rows: Integers) -> Array:
    """Processes or threads: numbers where all are, else each as it is."""
    coded = _coded(values, "", rows)
    distinct = [int(value) if _NUMBER.fullmatch(value) else value for value in coded.values]
    is_narrow = all(isinstance(value, int) and abs(value) < 2**63 for value in distinct)
    return coded.take(np.array(distinct, dtype=np.int64 if is_narrow else object))


def _decoded(text: str) -> Any:
    try:
        return json.loads(text) if text.startswith("[") else text
    except ValueError:
        return text


def _objects(values: Sequence[str], of: Callable[[str], Any]) -> Array:
    objects = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        objects[place] = of(value)
    return objects


def _coded(column: pl.Series, absent: str, rows: Integers | None = None) -> Coded:
    """A categorical column, or some rows of it; nulls as ``absent``."""
    shared = column.to_physical().cast(pl.Int32).fill_null(-1).to_numpy()
    shared = shared if rows is None else shared[rows]
    # Codes are shared by all columns of this process; those of one column are few among them. Nulls get the last slot.
    row = np.full(int(shared.max(initial=-1)) + 2, -1, dtype=np.int64)
    row[shared] = np.arange(len(shared))
    used = row >= 0
    where = row[used] if rows is None else rows[row[used]]
    values = column.gather(where).cast(pl.String).fill_null(absent).to_list()
    return Coded(values, (np.cumsum(used) - 1)[shared])


def _grid(start_ns: Integers, end_ns: Integers) -> tuple[Integers, Integers]:
    """HTA's whole microseconds of starts, rounded up, and ends, rounded down.

    HTA reads times as floating-point microseconds, which step by a quarter where they count from 1970. Its figures come
    from there, so the same sums are made here; times in whole microseconds are exact.
    """
    whole, rest = np.divmod(start_ns, _NS_PER_US)
    ts = whole + rest / _NS_PER_US
    end = ts + (end_ns - start_ns) / _NS_PER_US
    return np.ceil(ts).astype(np.int64), np.floor(end).astype(np.int64)
