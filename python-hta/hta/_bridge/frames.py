"""HTA's frames: the one place where nanoseconds become microseconds and Polars becomes pandas."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl

import holotrace
from holotrace.core import tables
from holotrace.core.schema import Column, Table, Unit
from holotrace.core.trace import COMPUTES_ON_HOST
from hta._bridge import device_ranges
from hta._bridge.event_args import EVENT_ARGS
from hta.common.trace_symbol_table import TraceSymbolTable
from hta.configs.default_values import AttributeSpec, ValueType, YamlVersion

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]

# The profiler's own bracket around a recording.
RECORDING = "Trace"
# Waiting that shows on a stream without the correlation id that other device rows have.
_SYNC_NAMES = ("Event Sync", "Context Sync")
NS_PER_US = 1000
_NUMBER = re.compile(r"-?\d+")

# The columns of every frame that are made of args, whatever else is asked for.
_REQUIRED = EVENT_ARGS.ARGS_MINIMUM
# Read to know which range of the host one on the device shows, whether it is a column or not.
_EXTERNAL = EVENT_ARGS.AVAILABLE_ARGS["index::external_id"]
# The columns of every frame that are not made of args.
_FIXED = ("index", "cat", "name", "pid", "tid", "ts", "dur", "index_correlation", "iteration", "end")
_UNITS = {ValueType.Int: Unit.NUMBER, ValueType.Float: Unit.FLOAT}
_INT8 = range(-128, 128)
# From so many nulls on, a column is made of its few values.
_SPARSE_RATIO = 0.7
# Labels per row up to which a table of all labels pays: pandas' hash table takes several times as much per row.
_SPREAD = 8
# To find a label in a run of rising ones takes as long as to put four rows into that table.
_FEW_RATIO = 0.25
# Args that PyTorch writes as text, although they are lists.
_LISTS_AS_TEXT = (
    "In split size",
    "Out split size",
    "Process Group Ranks",
    "Input Tensors start",
    "Output Tensors start",
)

STEPS = tables.STEPS.only("step", "start_ns", "end_ns")
HARDWARE_COUNTERS = tables.HARDWARE_COUNTERS.only("event_id", "counter", "value")


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
class Exact:
    """What is known of one rank's events beyond the columns of HTA's frame."""

    # For each range on the device its ``index``, and that of the host's range that it shows.
    device_ranges: tuple[Integers, Integers]
    # By ``index``, how many nanoseconds before its whole microsecond an event began.
    early_ns: npt.NDArray[np.int16]


@dataclass(frozen=True)
class RankEvents:
    """One rank's events: columns of HTA's frame, names and categories still as text."""

    rank: int
    metadata: Mapping[str, Any]
    columns: Mapping[str, Array]
    name: Coded
    cat: Coded
    exact: Exact

    @property
    def symbols(self) -> list[str]:
        """Names and categories, each once, in alphabetical order."""
        return sorted({*self.name.values, *self.cat.values})


def read(
    files: Mapping[int, str], args: Sequence[AttributeSpec] = EVENT_ARGS.ARGS_DEFAULT
) -> tuple[list[RankEvents], dict[int, holotrace.InputError]]:
    """The events of each rank that can be read, with these args as columns, and why the others cannot."""
    by_name = {arg.name: arg for arg in (*args, *_REQUIRED) if arg.name not in _FIXED}
    # The reader takes the name of a field for the field.
    kept = tuple(arg for arg in by_name.values() if arg.raw_name not in tables.EVENTS.column_names)
    reads = [_with_args(kept), STEPS, HARDWARE_COUNTERS]
    events_of = partial(_events, args=kept)
    job = holotrace.open(files, cache_bytes=0)
    found = job.map(events_of, reads)
    unread: dict[int, holotrace.InputError] = {}
    for rank in set(job.ranks) - {events.rank for events in found}:
        try:
            found += job.only(rank).map(events_of, reads)
        except holotrace.InputError as error:
            unread[rank] = error
    return found, unread


def to_frame(events: RankEvents, symbols: TraceSymbolTable) -> pd.DataFrame:
    """The frame of one rank, a row per event, with the numbers that ``symbols`` gives to names and categories."""

    def numbered(coded: Coded, dtype: type[np.signedinteger[Any]]) -> Array:
        return coded.take(np.array([symbols.sym_index[value] for value in coded.values], dtype=dtype))

    # Rows of a category are searched for again and again, and symbols are some thousand.
    narrow = np.int16 if len(symbols.sym_table) <= np.iinfo(np.int16).max else np.int64
    columns = {
        "index": events.columns["index"],
        "cat": numbered(events.cat, narrow),
        "name": numbered(events.name, np.int64),
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
        frame["name"].isin([symbols.sym_index[name] for name in _SYNC_NAMES if name in symbols.sym_index]).to_numpy(),
    )


def places(frame: pd.DataFrame) -> Callable[[Integers], Integers]:
    """What finds, for each of some labels, the place of the row that has it, -1 where none has."""
    rows = frame.index
    if not _are_dense(rows):
        return lambda labels: rows.get_indexer(pd.Index(labels))
    numbers = rows.to_numpy()

    def find(labels: Integers) -> Integers:
        if len(labels) < _FEW_RATIO * len(numbers) and (labels[1:] >= labels[:-1]).all():
            place = np.searchsorted(numbers, labels)
            return np.where(numbers.take(place, mode="clip") == labels, place, -1)
        # What a label beyond either end finds comes first and last.
        table = np.full(numbers[-1] + 3, -1, dtype=np.int32)
        table[1:][numbers] = np.arange(len(numbers), dtype=np.int32)
        return table.take(labels + 1, mode="clip").astype(np.int64)

    return find


def _are_dense(rows: pd.Index[Any]) -> bool:
    """Whether a table of all labels up to the last is smaller than the hash table that pandas would make and keep."""
    return (
        pd.api.types.is_signed_integer_dtype(rows.dtype)
        and rows.is_monotonic_increasing
        and rows.is_unique
        and not rows.empty
        and rows[0] >= 0
        and rows[-1] < min(_SPREAD * len(rows), 2**31)
    )


def as_objects(values: Array) -> Array:
    """The values as Python's; those that are the same and follow each other are one object."""
    begins = np.flatnonzero(np.append(True, values[1:] != values[:-1])[: len(values)])
    return values[begins].astype(object).repeat(np.diff(begins, append=len(values)))


def to_pandas(table: pl.DataFrame) -> pd.DataFrame:
    """A table of results; numbers become int64 or float64."""
    frame: pd.DataFrame = pd.DataFrame(
        {
            column.name: np.array(column.to_list(), dtype=object)  # text where there is no row, too
            if column.dtype == pl.String
            else column.cast(pl.Int64 if column.dtype.is_integer() else pl.Float64).to_numpy()
            for column in table
        },
    )
    return frame


def us(column: str) -> pl.Expr:
    """A column of nanoseconds as whole microseconds, which is what HTA's frames hold."""
    return pl.col(column) // NS_PER_US


def fractional_us(column: str) -> pl.Expr:
    """A column of nanoseconds as microseconds with three decimals, as HTA gives averages."""
    return pl.col(column) / NS_PER_US


def _with_args(args: Iterable[AttributeSpec]) -> Table:
    """The events table with a column for each key of an arg, under that key."""
    columns = {
        arg.raw_name: Column(
            arg.raw_name, _UNITS.get(arg.value_type, Unit.LABEL), f"Arg {arg.raw_name!r}", arg=arg.raw_name
        )
        for arg in (_EXTERNAL, *args)
    }
    return replace(tables.EVENTS, columns=(*tables.EVENTS.columns, *columns.values()))


def _events(trace: holotrace.RankTrace, args: Sequence[AttributeSpec]) -> RankEvents:
    table = _without_recording(trace[_with_args(args)])
    cat, name = _coded(table["category"]), _coded(table["name"])
    values = {arg.name: _arg(table[arg.raw_name], arg) for arg in args}
    values |= _counters(trace[HARDWARE_COUNTERS], table["event_id"], known=values)
    start_ns = table["start_ns"].to_numpy()
    ts, end = _grid(start_ns, table["end_ns"].to_numpy())
    index = table["event_id"].to_numpy().astype(np.int64)
    stream, correlation = values["stream"], values["correlation"]
    is_sync = name.take(np.isin(name.values, _SYNC_NAMES))
    partner = _partners(correlation, _on_device(stream, correlation, is_sync))
    on_host = (stream < 0) | cat.take(np.isin(cat.values, ("cpu_op",)))
    shown = _host_ranges(table[_EXTERNAL.raw_name], name, cat)
    # A range on the device is in the step of the host's range that it shows.
    step = _steps(ts, trace[STEPS])
    step = np.where(shown >= 0, step[shown], step)
    launched_in = np.where(partner >= 0, step[partner], -1)
    columns = {
        "index": index,
        "pid": _track(table["pid"]),
        "tid": _track(table["tid"]),
        "ts": ts,
        # Shorter than a microsecond, an event may end before it starts on HTA's grid.
        "dur": np.maximum(end - ts, 0),
        **values,
        "index_correlation": _linked(index, correlation, partner),
        "iteration": np.where(on_host, step, launched_in),
        "end": np.maximum(end, ts),
    }
    ranges = np.flatnonzero(shown >= 0)
    early_ns = np.zeros(index.max(initial=-1) + 1, dtype=np.int16)
    early_ns[index] = ts * NS_PER_US - start_ns
    exact = Exact((index[ranges], index[shown[ranges]]), early_ns)
    metadata = {key: value for key, value in trace.metadata.items() if key != COMPUTES_ON_HOST}
    return RankEvents(trace.rank, metadata, columns, name, cat, exact)


def _host_ranges(external: pl.Series, name: Coded, cat: Coded) -> Integers:
    on_device, on_host = (
        cat.take(np.array([value == kind for value in cat.values], dtype=np.bool_))
        for kind in (device_ranges.ON_DEVICE, device_ranges.ON_HOST)
    )
    ids = external.cast(pl.Int64, strict=False).fill_null(0)
    return device_ranges.host_ranges(on_device, on_host, ids.to_numpy(), name.codes)


def _without_recording(table: pl.DataFrame) -> pl.DataFrame:
    """The events without the profiler's own; those without a category are none of HTA's either."""
    rows = (table["category"] != RECORDING).fill_null(value=False).arg_true()
    if rows.is_empty() or rows[-1] - rows[0] + 1 > len(rows):
        return table[rows]
    # Those left out stand at either end, as they nearly always do: this copies nothing.
    return table.slice(rows[0], len(rows))


def _counters(read: pl.DataFrame, ids: pl.Series, known: Mapping[str, Array]) -> dict[str, Array]:
    """A column of each hardware counter, -1 for rows it was not read for."""
    by_counter = read.with_columns(pl.col("counter").cast(pl.String)).partition_by("counter", as_dict=True)
    columns = {}
    for (counter,), values in by_counter.items():
        if counter in known or counter in _FIXED:
            continue
        column = ids.to_frame().join(values, on="event_id", how="left", maintain_order="left")["value"]
        whole = column.cast(pl.Int64, strict=False)
        spec = AttributeSpec(counter, counter, ValueType.Int, -1, YamlVersion(1, 0, 0))
        columns[counter] = _arg(whole if (whole == column).all() else column, spec)
    return columns


def _on_device(stream: Integers, correlation: Integers, is_sync: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = ((stream >= 0) & (correlation >= 0)) | is_sync
    return mask


def linked(frame: pd.DataFrame, on_device: npt.NDArray[np.bool_]) -> Integers:
    """For each row of a frame the ``index`` of the row on the other side with its ``correlation``."""
    correlation = frame["correlation"].to_numpy()
    return _linked(frame["index"].to_numpy(), correlation, _partners(correlation, on_device))


def _linked(index: Integers, correlation: Integers, partner: Integers) -> Integers:
    # 0 is HTA's sign for a correlation id that no other row has.
    return np.where(partner >= 0, index[partner], np.minimum(correlation, 0))


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
    return within(ts, *_grid(steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()), steps["step"].to_numpy())


def within(ts: Integers, starts: Integers, ends: Integers, numbers: Integers) -> Integers:
    """The number of the span that began last before each time and has not ended, -1 outside of all."""
    if not len(starts):
        return np.full(len(ts), -1, dtype=np.int64)
    order = np.argsort(starts, kind="stable")
    latest = np.searchsorted(starts[order], ts, side="right") - 1
    # Between two spans the latest that began has ended already.
    return np.where((latest >= 0) & (ts < ends[order][latest]), numbers[order][latest], -1)


def _arg(values: pl.Series, arg: AttributeSpec) -> Array:
    """The column of an arg."""
    if values.null_count() <= _SPARSE_RATIO * len(values):
        return _dense_arg(values, arg)
    present = values.is_not_null().arg_true()
    if present.is_empty():
        return _repeated(arg.default_value, len(values))
    found = _dense_arg(values.gather(present), arg)
    absent = _repeated(arg.default_value, len(values))
    column = absent.astype(np.promote_types(absent.dtype, found.dtype), copy=False)
    column[present.to_numpy()] = found
    return column


def _dense_arg(values: pl.Series, arg: AttributeSpec) -> Array:
    absent = arg.default_value
    if not values.dtype.is_numeric():
        is_text = arg.value_type is ValueType.String or arg.raw_name in _LISTS_AS_TEXT
        texts, codes = _distinct(values)
        return _objects([absent if text is None else text if is_text else _decoded(text) for text in texts])[codes]
    if not isinstance(absent, (int, float)):
        mixed = values.fill_null(0).to_numpy().astype(object)
        missing = values.is_null().to_numpy()
        mixed[missing] = _repeated(absent, missing.sum())
        return mixed
    # As HTA does, integers take as few bytes as they need; not so times, which are calculated with.
    narrow = values.shrink_dtype() if values.dtype.is_integer() and absent in _INT8 else values
    column: Array = narrow.fill_null(absent).to_numpy(writable=True)
    return column


def _repeated(value: Any, count: int) -> Array:
    if isinstance(value, (int, float)):
        dtype = np.float64 if isinstance(value, float) else np.int8 if value in _INT8 else np.int64
        return np.full(count, value, dtype=dtype)
    return _objects([value]).repeat(count)


def _track(values: pl.Series) -> Array:
    """Processes or threads: numbers where all are, else each as it is."""
    coded = _coded(values)
    distinct = [int(value) if _NUMBER.fullmatch(value) else value for value in coded.values]
    is_narrow = all(isinstance(value, int) and abs(value) < 2**63 for value in distinct)
    return coded.take(np.array(distinct, dtype=np.int64 if is_narrow else object))


def _decoded(text: str) -> Any:
    """The list, object, number or truth value that a text is; else the text."""
    try:
        return json.loads(text) if text[:1] in "[{-0123456789" or text in ("true", "false") else text
    except ValueError:
        return text


def _objects(values: Sequence[Any]) -> Array:
    """An array of these, none of them taken apart."""
    objects = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        objects[place] = value
    return objects


def _coded(column: pl.Series) -> Coded:
    """A categorical column; nulls as ""."""
    values, codes = _distinct(column)
    return Coded(["" if value is None else value for value in values], codes)


def _distinct(column: pl.Series) -> tuple[list[str | None], Integers]:
    """The distinct values of a categorical column, and which of them each row is."""
    physical = column.to_physical()
    nulls = physical.null_count() > 0
    shared = (physical.cast(pl.Int32).fill_null(-1) if nulls else physical).to_numpy()
    # Codes are shared by all columns of this process; those of one column are few among them. Nulls get the last slot.
    row = np.full(int(shared.max(initial=0)) + 2, -1, dtype=np.int64)
    row[shared] = np.arange(len(shared), dtype=np.int32)
    used = row >= 0
    return column.gather(row[used]).cast(pl.String).to_list(), (np.cumsum(used) - 1)[shared]


def _grid(start_ns: Integers, end_ns: Integers) -> tuple[Integers, Integers]:
    """HTA's whole microseconds of starts, rounded up, and ends, rounded down.

    HTA reads times as floating-point microseconds, which step by a quarter where they count from 1970. Its figures come
    from there, so the same sums are made here; times in whole microseconds are exact.
    """
    whole, rest = np.divmod(start_ns, NS_PER_US)
    ts = whole + rest / NS_PER_US
    end = ts + (end_ns - start_ns) / NS_PER_US
    return np.ceil(ts).astype(np.int64), np.floor(end).astype(np.int64)
