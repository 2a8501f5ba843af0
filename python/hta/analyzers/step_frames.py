"""The rows of a rank that a critical path is made of, as holotrace's graph of a step takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl

from holotrace import GraphRules, StepGraph, step_graph
from hta import frames
from hta.analyzers.trace_counters import TraceCounters
from hta.common.constants import LAUNCHES
from hta.common.trace import Trace

# The calls that HTA takes for waiting, and those that it takes to hold the runtime's lock.
BLOCKING = frozenset(
    {
        "cudaDeviceSynchronize",
        "cudaEventQuery",
        "cudaEventSynchronize",
        "cudaMemcpy",
        "cudaMemcpyAsync",
        "cudaStreamSynchronize",
    }
)
LOCKING = frozenset({"cudaHostAlloc", "cudaLaunchKernel", "cudaMemcpyAsync"})
KERNEL_KERNEL_DELAY_THRESHOLD_US = 1500
_KINDS = {
    "cpu_op": "op",
    "Operator": "op",
    "cuda_runtime": "call",
    "cuda_driver": "call",
    "mtia_runtime": "call",
    "Runtime": "call",
    "user_annotation": "range",
}
_SYNCS = ("Stream Sync", "Context Sync", "Event Sync", "Stream Wait Event")
_NS_PER_US = 1000

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Step:
    """A part of a rank's rows, and what waited for what in it."""

    graph: StepGraph
    # Rows of the rank's frame that it is made of.
    frame: pd.DataFrame


def window(t: Trace, rank: int, annotation: str, first: int, last: int) -> tuple[int, int] | None:
    """From when to when these rows with ``annotation`` in their names last, in microseconds; None without them."""
    frame = t.get_trace(rank)
    if annotation:
        mask = t.symbol_table.mask_where(lambda symbol: annotation in symbol)[frame["name"].to_numpy()]
        frame = frame[mask].iloc[first : last + 1] if 0 <= first <= last < mask.sum() else frame.head(0)
    if frame.empty:
        return None
    return int(frame["ts"].min()), int((frame["ts"] + frame["dur"]).max())


def step(t: Trace, rank: int, span: tuple[int, int], data_load_events: Sequence[str], has_all_launches: bool) -> Step:
    """What the host began within ``span``, and the device rows that it asked for."""
    frame, (start, end) = t.get_trace(rank), span
    names, stream = _texts(t, frame["name"]), frame["stream"].to_numpy()
    is_host = stream == -1
    is_sync = np.isin(names, _SYNCS) & (_texts(t, frame["cat"]) == "cuda_sync")
    ts, dur = frame["ts"].to_numpy(), frame["dur"].to_numpy()
    is_device = (~is_host | np.isin(names, _SYNCS[1:3])) & (frame["index_correlation"].to_numpy() >= 0)
    # HTA leaves out waiting on no stream that took no time.
    is_device &= ~(is_host & (dur == 0))
    host = _host(frame[is_host], names[is_host], _texts(t, frame["cat"])[is_host], data_load_events)
    device = _device(t, rank, frame[is_device], names[is_device], is_sync[is_device])
    rules = GraphRules(
        waiting=BLOCKING,
        locking=LOCKING,
        recording=frozenset({"cudaEventRecord"}),
        forward="forward",
        longest_kernel_delay_ns=KERNEL_KERNEL_DELAY_THRESHOLD_US * _NS_PER_US,
        has_all_launches=has_all_launches,
    )
    graph = step_graph(host, device, window_ns=(start * _NS_PER_US, end * _NS_PER_US), rules=rules)
    is_called: Mask = is_host & (ts >= start) & (ts <= end) & (dur > 0)
    caller = np.where(is_device & ~is_host, frame["index_correlation"].to_numpy(), -1)
    is_kept = is_called | np.isin(caller, frame["index"].to_numpy()[is_called]) | (names == _SYNCS[3])
    return Step(graph, frame.take(np.flatnonzero(is_kept)))


def _host(frame: pd.DataFrame, names: frames.Array, cats: frames.Array, loading: Sequence[str]) -> pl.DataFrame:
    name = pl.Series(names, dtype=pl.String)
    is_loading = pl.Series(np.zeros(len(names), dtype=bool))
    for text in loading:
        is_loading |= name.str.contains(text, literal=True)
    return _times(frame).with_columns(
        name=name,
        kind=pl.Series(cats, dtype=pl.String)
        .replace_strict(_KINDS, default="function")
        .set(is_loading.fill_null(False), "op"),
        pid=pl.Series(frame["pid"].astype(str).to_list(), dtype=pl.String),
        tid=pl.Series(frame["tid"].astype(str).to_list(), dtype=pl.String),
        correlation=_positive(frame["correlation"]),
    )


def _device(t: Trace, rank: int, frame: pd.DataFrame, names: frames.Array, is_sync: Mask) -> pl.DataFrame:
    name = pl.Series(names, dtype=pl.String)
    # A config may leave the args of waiting out.
    waits = {
        column: _positive(frame[source]) if source in frame else None
        for column, source in (
            ("wait_on_stream", "wait_on_stream"),
            ("wait_on_record", "wait_on_cuda_event_record_corr_id"),
        )
    }
    stream = pl.Series(frame["stream"].to_numpy(dtype=np.int64))
    return _times(frame).with_columns(
        device=pl.lit(0),
        stream=stream.set(stream < 0, None),
        call_id=_positive(frame["index_correlation"]),
        sync=name.set(pl.Series(~is_sync), None),
        is_prompt=pl.Series(_is_prompt(t, rank, frame)),
        **waits,
    )


def _is_prompt(t: Trace, rank: int, frame: pd.DataFrame) -> Mask:
    """Whether work was alone in its queue from its launch to its start, as far as HTA counts queues."""
    queue = TraceCounters.get_queue_length_time_series(t, [rank]).get(rank)
    calls = t.get_trace(rank)
    caller = frame["index_correlation"].to_numpy()
    place = frames.places(calls)(caller)
    # HTA counts no launches of graphs, so times alone decide.
    is_counted = t.symbol_table.mask_where(LAUNCHES.__contains__)[calls["name"].to_numpy()[place]]
    is_graph = t.symbol_table.mask_where(lambda symbol: "GraphLaunch" in symbol)[calls["name"].to_numpy()[place]]
    is_prompt: Mask = is_graph & ~is_counted & (place >= 0)
    if queue is not None:
        length = queue["queue_length"].groupby(level=0).last()
        at_launch = length.reindex(caller).to_numpy()
        at_start = length.reindex(frame["index"].to_numpy()).to_numpy()
        is_prompt |= (at_launch == 1) & (at_start == 0)
    return is_prompt


def _times(frame: pd.DataFrame) -> pl.DataFrame:
    start_ns = frame["ts"].to_numpy(dtype=np.int64) * _NS_PER_US
    return pl.DataFrame(
        {
            "event_id": frame["index"].to_numpy(dtype=np.int64),
            "start_ns": start_ns,
            "end_ns": start_ns + frame["dur"].to_numpy(dtype=np.int64) * _NS_PER_US,
        }
    )


def _positive(column: pd.Series) -> pl.Series:
    """The numbers of a column; null where they stand for none."""
    numbers = pl.Series(pd.to_numeric(column, errors="coerce").fillna(-1).to_numpy(dtype=np.int64))
    return numbers.set(numbers <= 0, None)


def _texts(t: Trace, numbers: pd.Series) -> frames.Array:
    texts: frames.Array = np.array([*t.symbol_table.sym_table, ""], dtype=object)[numbers.to_numpy()]
    return texts
