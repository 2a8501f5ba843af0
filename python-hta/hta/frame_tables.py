"""The rows of HTA's frames as holotrace's tables, in nanoseconds."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl

from hta.common.trace_symbol_table import TraceSymbolTable
from hta.frames import NS_PER_US, Integers, places
from hta.utils.utils import get_kernel_type, get_memory_kernel_type, is_comm_kernel, is_memory_kernel

# Categories of work on a device, as PyTorch writes them today and wrote them until 2022.
_WORK_CATEGORIES = frozenset({"kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset", "mtia_ccp_events"})
# How categories of calls into an accelerator's runtime or driver end.
_CALL_SUFFIXES = ("_runtime", "_driver")
# Device work that hardware counters were read around.
PROFILED = "cuda_profiler_range"


def events(frame: pd.DataFrame, symbols: TraceSymbolTable, rows: Integers) -> pl.DataFrame:
    """Some rows as holotrace's events: name, category, start and end."""
    texts = pl.Series(symbols.sym_table, dtype=pl.String).cast(pl.Categorical)
    start_ns = frame["ts"].to_numpy(dtype=np.int64)[rows] * NS_PER_US
    return pl.DataFrame(
        {
            "name": texts.gather(frame["name"].to_numpy()[rows]),
            "category": texts.gather(frame["cat"].to_numpy()[rows]),
            "start_ns": start_ns,
            "end_ns": start_ns + frame["dur"].to_numpy(dtype=np.int64)[rows] * NS_PER_US,
        }
    )


def kernels(frame: pd.DataFrame, symbols: TraceSymbolTable) -> pl.DataFrame:
    """Every row on a stream: name, ``kernel_type`` by HTA's naming rule, start and end."""
    row = np.flatnonzero(frame["stream"].to_numpy() != -1)
    number = frame["name"].to_numpy(dtype=np.int64)[row]
    # A rank has some hundred kernels and many more rows: the type of each is decided once.
    is_kernel = np.bincount(number, minlength=len(symbols.sym_table)) > 0
    types = [get_kernel_type(name) if used else None for name, used in zip(symbols.sym_table, is_kernel, strict=True)]
    start_ns = frame["ts"].to_numpy(dtype=np.int64)[row] * NS_PER_US
    return pl.DataFrame(
        {
            "name": pl.Series(symbols.sym_table, dtype=pl.String).gather(number),
            "kernel_type": pl.Series(types, dtype=pl.String).gather(number),
            "start_ns": start_ns,
            "end_ns": start_ns + frame["dur"].to_numpy(dtype=np.int64)[row] * NS_PER_US,
        }
    )


def work(frame: pd.DataFrame, symbols: TraceSymbolTable) -> pl.DataFrame:
    """Every kernel, copy and fill by its category, as a device event, with the start of its launch where known."""
    row = np.flatnonzero(frame["stream"].to_numpy() >= 0)
    row = row[_is_work(frame, symbols, row)]
    caller = _callers(frame, row)
    launch_ns = pl.Series("launch_ns", frame["ts"].to_numpy()[caller] * NS_PER_US)
    return _device_events(frame, row, "compute").hstack([launch_ns.scatter(np.flatnonzero(caller < 0), None)])


def launched(
    frame: pd.DataFrame, symbols: TraceSymbolTable, calls: Collection[str], start_ns: Integers
) -> pl.DataFrame:
    """Every row on a stream that one of these host calls started, as a device event.

    Args:
        frame: The rows of a rank.
        symbols: What its numbers stand for.
        calls: Names of host calls.
        start_ns: When each row began; within a microsecond the frame knows no order.
    """
    row = np.flatnonzero(frame["stream"].to_numpy() >= 0)
    caller = _callers(frame, row)
    is_called = (caller >= 0) & symbols.mask_where(calls.__contains__)[frame["name"].to_numpy()[caller]]
    row, caller = row[is_called], caller[is_called]
    launches = {"launch_id": caller, "launch_ns": start_ns[caller]}
    started = _device_events(frame, row, "compute").with_columns(start_ns=start_ns[row])
    return started.hstack(pl.DataFrame(launches))


def launches(
    frame: pd.DataFrame, symbols: TraceSymbolTable, calls: Collection[str]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Device events that these calls started, and work by its category that any call did; and the launches of both."""
    row = np.flatnonzero(frame["stream"].to_numpy() >= 0)
    caller = _callers(frame, row)
    call = frame["name"].to_numpy()[caller]
    is_wanted = symbols.mask_where(calls.__contains__)[call] | _is_work(frame, symbols, row)
    is_wanted &= caller >= 0
    row, caller, call = row[is_wanted], caller[is_wanted], call[is_wanted]
    start_ns = frame["ts"].to_numpy()[caller] * NS_PER_US
    numbers, place = np.unique(call, return_inverse=True)
    started = pl.DataFrame(
        {
            "launch_id": caller,
            "device_event_id": row,
            "launch_name": pl.Series([symbols.sym_table[n] for n in numbers], dtype=pl.String).gather(place),
            "launch_start_ns": start_ns,
            "launch_end_ns": start_ns + frame["dur"].to_numpy()[caller] * NS_PER_US,
            "correlation": frame["correlation"].to_numpy()[row],
        }
    )
    return _device_events(frame, row, "compute"), started


def launched_under(
    frame: pd.DataFrame, symbols: TraceSymbolTable, is_op: Callable[[str], bool], is_call: Callable[[str], bool]
) -> dict[str, pl.DataFrame]:
    """Operators and host calls of these names, and the rows on streams that the calls started, as tables."""
    number = frame["name"].to_numpy()
    names = pl.Series(symbols.sym_table, dtype=pl.String).cast(pl.Categorical)
    on_host = frame["stream"].to_numpy() < 0
    op = np.flatnonzero(on_host & symbols.mask_where(is_op)[number])
    row = np.flatnonzero(~on_host)
    caller = _callers(frame, row)
    is_started = (caller >= 0) & symbols.mask_where(is_call)[number[caller]]
    row, caller = row[is_started], caller[is_started]
    calls = spans(frame, caller)
    return {
        "cpu_ops": spans(frame, op).with_columns(name=names.gather(number[op])),
        "runtime_calls": calls.unique("event_id"),
        "launches": calls.select(device_event_id=row, launch_id="event_id", launch_start_ns="start_ns"),
        "device_events": _device_events(frame, row, "compute").with_columns(name=names.gather(number[row])),
    }


def call_tables(
    frame: pd.DataFrame, number: Integers, on_host: npt.NDArray[np.bool_], on_device: npt.NDArray[np.bool_]
) -> dict[str, pl.DataFrame]:
    """These rows of the host, and those of the device that they launched, as tables; ``number`` is each row's id."""
    host, device = np.flatnonzero(on_host), np.flatnonzero(on_device)
    launch = _callers(frame, device)
    is_launched = (launch >= 0) & on_host[launch]
    device, launch = device[is_launched], launch[is_launched]
    row = np.concatenate([host, device])
    events = spans(frame, row).with_columns(event_id=number[row])
    return {
        "events": events,
        "device_events": events[len(host) :].select("event_id", "start_ns", "end_ns", kind=pl.lit("compute")),
        "launches": pl.DataFrame({"launch_id": number[launch], "device_event_id": number[device]}),
    }


def copies(frame: pd.DataFrame, symbols: TraceSymbolTable) -> pl.DataFrame:
    """Every copy and fill by HTA's naming rule, as a device event named by what it moves; they last at least 1 µs."""
    number = frame["name"].to_numpy()
    is_copy = symbols.mask_where(lambda name: is_memory_kernel(name) and not is_comm_kernel(name))[number]
    row = np.flatnonzero(is_copy & (frame["stream"].to_numpy() >= 0))
    numbers, place = np.unique(number[row], return_inverse=True)
    names = [get_memory_kernel_type(symbols.sym_table[number]) for number in numbers]
    return _device_events(frame, row, "memory").with_columns(
        name=pl.Series(names, dtype=pl.String).gather(place),
        end_ns=pl.max_horizontal("end_ns", pl.col("start_ns") + NS_PER_US),
        # A config may leave the arg out, as AMD's profiler does.
        bandwidth_gbps=frame["memory_bw_gbps"].to_numpy()[row] if "memory_bw_gbps" in frame else np.zeros(len(row)),
    )


def counted(frame: pd.DataFrame, symbols: TraceSymbolTable) -> dict[str, pl.DataFrame]:
    """What operators of the hardware's counters are told from: the ranges that were profiled, calls and operators."""
    category = frame["cat"].to_numpy()
    is_call = symbols.mask_where(lambda category: category.endswith(_CALL_SUFFIXES))[category]
    ranges, ops = (
        _named_spans(frame, np.flatnonzero(category == symbols.sym_index.get(name, -1)), symbols)
        for name in (PROFILED, "cpu_op")
    )
    return {
        # That a range was profiled is all that matters here; what was read is in the frame.
        "hardware_counters": ranges.with_columns(counter=pl.lit("", pl.Categorical), value=0.0),
        "runtime_calls": _named_spans(frame, np.flatnonzero(is_call), symbols),
        "cpu_ops": ops,
    }


def _named_spans(frame: pd.DataFrame, row: Integers, symbols: TraceSymbolTable) -> pl.DataFrame:
    names = pl.Series(symbols.sym_table, dtype=pl.String).cast(pl.Categorical)
    return spans(frame, row).with_columns(name=names.gather(frame["name"].to_numpy(dtype=np.int64)[row]))


def spans(frame: pd.DataFrame, row: Integers) -> pl.DataFrame:
    """Some rows as holotrace's events, without names."""
    start_ns = frame["ts"].to_numpy(dtype=np.int64)[row] * NS_PER_US
    tracks = {}
    for column in ("pid", "tid"):
        codes, distinct = pd.factorize(frame[column].to_numpy()[row])
        texts = pl.Series([str(value) for value in distinct], dtype=pl.String)
        tracks[column] = texts.cast(pl.Categorical).gather(codes)
    return pl.DataFrame(
        {
            "event_id": frame["index"].to_numpy()[row],
            **tracks,
            "start_ns": start_ns,
            "end_ns": start_ns + frame["dur"].to_numpy(dtype=np.int64)[row] * NS_PER_US,
        }
    )


def _device_events(frame: pd.DataFrame, row: Integers, kind: str) -> pl.DataFrame:
    """Some rows as holotrace's device events, whose ids are the places of the rows."""
    start_ns = frame["ts"].to_numpy()[row] * NS_PER_US
    return pl.DataFrame(
        {
            "event_id": row.astype(np.uint32),
            "kind": pl.Series([kind], dtype=pl.Categorical()).new_from_index(0, len(row)),
            "device": np.zeros(len(row), dtype=np.int64),
            "stream": frame["stream"].to_numpy()[row].astype(np.int64),
            "start_ns": start_ns,
            "end_ns": start_ns + frame["dur"].to_numpy()[row] * NS_PER_US,
        }
    )


def _is_work(frame: pd.DataFrame, symbols: TraceSymbolTable, row: Integers) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = symbols.mask_where(_WORK_CATEGORIES.__contains__)[frame["cat"].to_numpy()[row]]
    return mask


def _callers(frame: pd.DataFrame, row: Integers) -> Integers:
    """For each of these rows the place of the row that launched it, -1 where it is not there."""
    # 0 and below stand for launches that were not recorded.
    linked = frame["index_correlation"].to_numpy()[row]
    place: Integers = np.where(linked > 0, places(frame)(linked), -1)
    return place
