"""The rows of a rank that a critical path is made of, as holotrace's graph of a step takes them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl

from holotrace import GraphRules, StepGraph, step_graph
from hta import frame_tables, frames
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
    """From when to when these rows with ``annotation`` in their names last, in microseconds; None without the first.

    Of a range that goes beyond the last row, those that are there.
    """
    frame = t.get_trace(rank)
    if annotation:
        mask = t.symbol_table.mask_where(lambda symbol: annotation in symbol)[frame["name"].to_numpy()]
        frame = frame[mask].iloc[first : last + 1] if 0 <= first <= last else frame.head(0)
    if frame.empty:
        return None
    return int(frame["ts"].min()), int((frame["ts"] + frame["dur"]).max())


def step(t: Trace, rank: int, span: tuple[int, int], data_load_events: Sequence[str], has_all_launches: bool) -> Step:
    """What the host began within ``span``, and the device rows that it asked for."""
    frame, (start, end) = t.get_trace(rank), span
    is_host = frame["stream"].to_numpy() == -1
    ts, dur = frame["ts"].to_numpy(), frame["dur"].to_numpy()
    is_device = (~is_host | _named(t, frame, _SYNCS[1:3])) & (frame["index_correlation"].to_numpy() >= 0)
    # HTA leaves out waiting on no stream that took no time.
    is_device &= ~(is_host & (dur == 0))
    device = np.flatnonzero(is_device)
    caller = frames.places(frame)(frame["index_correlation"].to_numpy()[device])
    rules = GraphRules(
        waiting=BLOCKING,
        locking=LOCKING,
        recording=frozenset({"cudaEventRecord"}),
        forward="forward",
        longest_kernel_delay_ns=KERNEL_KERNEL_DELAY_THRESHOLD_US * _NS_PER_US,
        has_all_launches=has_all_launches,
    )
    graph = step_graph(
        _host(t, frame, np.flatnonzero(is_host), data_load_events),
        _device(t, rank, device, caller),
        window_ns=(start * _NS_PER_US, end * _NS_PER_US),
        rules=rules,
    )
    is_within: Mask = is_host & (ts >= start) & (ts <= end)
    is_kept = (is_within & (dur > 0)) | _named(t, frame, _SYNCS[3:])
    is_kept[device] |= ~is_host[device] & (caller >= 0) & is_within[caller]
    return Step(graph, frame.take(np.flatnonzero(is_kept)))


def _host(t: Trace, frame: pd.DataFrame, row: frames.Integers, loading: Sequence[str]) -> pl.DataFrame:
    symbols = t.symbol_table
    number, cat = frame["name"].to_numpy()[row], frame["cat"].to_numpy()[row]
    kinds = pl.Series([_KINDS.get(category, "function") for category in symbols.sym_table], dtype=pl.String)
    is_loading = symbols.mask_where(lambda name: any(text in name for text in loading))
    return frame_tables.spans(frame, row).with_columns(
        name=pl.Series(symbols.sym_table, dtype=pl.String).gather(number),
        kind=kinds.gather(cat).set(pl.Series(is_loading[number]), "op"),
        correlation=_positive(frame["correlation"], row),
    )


def _device(t: Trace, rank: int, row: frames.Integers, caller: frames.Integers) -> pl.DataFrame:
    frame, symbols = t.get_trace(rank), t.symbol_table
    is_sync = (_named(t, frame, _SYNCS) & (frame["cat"].to_numpy() == symbols.sym_index.get("cuda_sync", -1)))[row]
    name = pl.Series(symbols.sym_table, dtype=pl.String).gather(frame["name"].to_numpy()[row])
    # A config may leave the args of waiting out.
    waits = {
        column: _positive(frame[source], row) if source in frame else None
        for column, source in (
            ("wait_on_stream", "wait_on_stream"),
            ("wait_on_record", "wait_on_cuda_event_record_corr_id"),
        )
    }
    stream = pl.Series(frame["stream"].to_numpy(dtype=np.int64)[row])
    return frame_tables.spans(frame, row).with_columns(
        device=pl.lit(0),
        stream=stream.set(stream < 0, None),
        call_id=_positive(frame["index_correlation"], row),
        sync=name.set(pl.Series(~is_sync), None),
        is_prompt=pl.Series(_is_prompt(t, rank, row, caller)),
        **waits,
    )


def _is_prompt(t: Trace, rank: int, row: frames.Integers, caller: frames.Integers) -> Mask:
    """Whether work was alone in its queue from its launch to its start, as far as HTA counts queues."""
    queue = TraceCounters.get_queue_length_time_series(t, [rank]).get(rank)
    frame = t.get_trace(rank)
    # HTA counts no launches of graphs, so times alone decide.
    is_graph = t.symbol_table.mask_where(lambda symbol: "GraphLaunch" in symbol and symbol not in LAUNCHES)
    is_prompt: Mask = (caller >= 0) & is_graph[frame["name"].to_numpy()[caller]]
    if queue is not None:
        length = np.full(len(frame), -1, dtype=np.int64)
        # Of several changes by an event the last one stays.
        length[frames.places(frame)(queue.index.to_numpy())] = queue["queue_length"].to_numpy()
        is_prompt |= (caller >= 0) & (length[caller] == 1) & (length[row] == 0)
    return is_prompt


def _named(t: Trace, frame: pd.DataFrame, names: Collection[str]) -> Mask:
    mask: Mask = t.symbol_table.mask_where(names.__contains__)[frame["name"].to_numpy()]
    return mask


def _positive(column: pd.Series, row: frames.Integers) -> pl.Series:
    """The numbers of a column in these rows; null where they stand for none."""
    values = pd.to_numeric(column.iloc[row], errors="coerce").fillna(-1)
    numbers = pl.Series(values.to_numpy(dtype=np.int64))
    return numbers.set(numbers <= 0, None)
