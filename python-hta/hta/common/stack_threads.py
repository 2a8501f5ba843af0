"""The threads of a rank's frame, and which of them goes on with the work of another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from hta.common.stack_columns import NOWHERE, Integers, Mask, StackColumns, in_order
from hta.common.trace_symbol_table import TraceSymbolTable

MAIN, BACKWARD, EMPTY = "main", "bwd", "empty"
_STEP, _AUTOGRAD, _BACKWARD_RANGE = "ProfilerStep#", "autograd::", "## backward ##"
# Later than any time.
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Thread:
    """One thread's rows, by their places in the frame, in order of time."""

    pid: Any
    tid: Any
    # "main" with training steps, "bwd" with operators of autograd, else the name of the first event.
    label: str
    rows: Integers


def where(frame: pd.DataFrame, symbols: TraceSymbolTable, column: str, wanted: Callable[[str], bool]) -> Mask:
    """The rows whose name or category is ``wanted``; without symbols the frame's decoded columns are looked at."""
    if not symbols.is_empty():
        mask: Mask = symbols.mask_where(wanted)[frame[column].to_numpy()]
        return mask
    decoded = f"s_{column}" if f"s_{column}" in frame else column
    codes, distinct = pd.factorize(frame[decoded].astype(str).to_numpy())
    return np.array([wanted(text) for text in distinct], dtype=bool)[codes]


def threads(frame: pd.DataFrame, symbols: TraceSymbolTable, on_host: Mask) -> list[Thread]:
    """The threads that these rows are of, by process and thread."""
    is_step = where(frame, symbols, "name", lambda name: name.startswith(_STEP))
    is_autograd = where(frame, symbols, "name", lambda name: _AUTOGRAD in name)
    order = in_order(frame)
    order = order[on_host[order]]
    groups = frame[["pid", "tid"]].iloc[order].groupby(["pid", "tid"], sort=False).indices
    found = []
    # Numbers and texts cannot be compared with each other.
    for pid, tid in sorted(groups, key=lambda track: [(isinstance(part, str), part) for part in track]):
        rows = order[np.sort(groups[pid, tid])]
        label = MAIN if is_step[rows].any() else BACKWARD if is_autograd[rows].any() else _name(frame, symbols, rows[0])
        found.append(Thread(pid, tid, label, rows))
    return found


def _name(frame: pd.DataFrame, symbols: TraceSymbolTable, row: int) -> str:
    if symbols.is_empty():
        return str(frame["s_name" if "s_name" in frame else "name"].iloc[row]) or EMPTY
    return symbols.sym_table[frame["name"].iloc[row]] or EMPTY


def continued(
    frame: pd.DataFrame, symbols: TraceSymbolTable, threads: Sequence[Thread], columns: StackColumns
) -> tuple[Integers, Integers]:
    """Places of events of the backward thread that nothing called there, and of the ranges of the main one around them.

    There are none unless one thread is the main one and one other the backward one.
    """
    main, backward = ([thread for thread in threads if thread.label == label] for label in (MAIN, BACKWARD))
    nothing = np.empty(0, dtype=np.int64)
    if len(main) != 1 or len(backward) != 1:
        return nothing, nothing
    rows = main[0].rows
    ranges = rows[where(frame, symbols, "name", _BACKWARD_RANGE.__eq__)[rows]]
    if not len(ranges):
        ranges = rows[where(frame, symbols, "name", lambda name: name.startswith(_STEP))[rows]]
    start = frame["ts"].to_numpy(dtype=np.int64)
    end = start + frame["dur"].to_numpy(dtype=np.int64)
    outermost = backward[0].rows[columns.caller[backward[0].rows] == NOWHERE]
    latest = np.searchsorted(start[ranges], start[outermost], side="right") - 1
    is_inside = (latest >= 0) & (end[outermost] <= end[ranges[latest]])
    return outermost[is_inside], ranges[latest[is_inside]]


def with_continued(columns: StackColumns, thread: Thread, calls: Integers, callers: Integers) -> StackColumns:
    """The columns, once events of ``thread`` that nothing called there have callers on another thread."""
    caller, depth = columns.caller.copy(), columns.depth.copy()
    caller[calls] = callers
    # In order of time an event that nothing called is followed by all below it.
    is_outermost = columns.caller[thread.rows] == NOWHERE
    deeper_by = np.zeros(len(depth), dtype=np.int64)
    deeper_by[calls] = depth[callers] + 1
    outermost = thread.rows[is_outermost]
    deeper = np.zeros(len(depth), dtype=np.int64)
    deeper[thread.rows] = deeper_by[outermost][np.cumsum(is_outermost) - 1]
    launched = np.flatnonzero((columns.height == 0) & (caller != NOWHERE))
    deeper[launched] = deeper[caller[launched]]
    return _summed_above(replace(columns, caller=caller, depth=depth + deeper), calls)


def _summed_above(columns: StackColumns, calls: Integers) -> StackColumns:
    """The columns, once all above these events have what was launched below them."""
    caller = columns.caller
    height, last = columns.height.copy(), columns.last_kernel_end.copy()
    first = np.where(columns.first_kernel_start < 0, _NEVER, columns.first_kernel_start)
    more_kernels, more_time = np.zeros_like(caller), np.zeros_like(caller)
    more_kernels[calls], more_time[calls] = columns.num_kernels[calls], columns.kernel_dur_sum[calls]
    for rows in (calls, *_above(columns, calls)):
        to = caller[rows]
        np.add.at(more_kernels, to, more_kernels[rows])
        np.add.at(more_time, to, more_time[rows])
        np.minimum.at(first, to, first[rows])
        np.maximum.at(last, to, last[rows])
        np.maximum.at(height, to, height[rows] + 1)
    more_kernels[calls] = more_time[calls] = 0
    return replace(
        columns,
        height=height,
        num_kernels=columns.num_kernels + more_kernels,
        kernel_dur_sum=columns.kernel_dur_sum + more_time,
        first_kernel_start=np.where(first == _NEVER, -1, first),
        last_kernel_end=last,
    )


def _above(columns: StackColumns, calls: Integers) -> list[Integers]:
    """All that have callers above these events, deepest first, by depth."""
    reached = [np.unique(columns.caller[calls])]
    while len(reached[-1]):
        above = np.unique(columns.caller[reached[-1]])
        reached.append(above[above != NOWHERE])
    rows = np.unique(np.concatenate(reached))
    rows = rows[columns.caller[rows] != NOWHERE]
    rows = rows[np.argsort(-columns.depth[rows], kind="stable")]
    return np.split(rows, np.flatnonzero(np.diff(columns.depth[rows])) + 1)
