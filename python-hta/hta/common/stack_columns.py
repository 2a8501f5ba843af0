"""Who called whom among the rows of HTA's frames, from holotrace's calls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl

from holotrace import Job, RankTrace
from hta import frame_tables, frames

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
# Stands for "no row" among places of rows.
NOWHERE = -1


@dataclass(frozen=True)
class StackColumns:
    """For each row of a frame its caller and what was launched below it; times in microseconds.

    Rows on a device are called by their launch. Rows that are neither calls nor launched have a depth of -1.
    """

    # Place of the caller's row, or -1.
    caller: Integers
    depth: Integers
    # 0 for rows on a device, 1 for calls that called nothing but launched rows.
    height: Integers
    num_kernels: Integers
    kernel_dur_sum: Integers
    # -1 where nothing was launched.
    first_kernel_start: Integers
    last_kernel_end: Integers


def stack_columns(frame: pd.DataFrame, on_host: Mask, on_device: Mask) -> StackColumns:
    """The callers of these rows of the host, and what launched those of the device.

    Of rows that span the same time, the one with the lower ``index`` called the other.
    """
    count = len(frame)
    # Numbered by their index, so that it decides and not their order in the frame.
    row_of = np.argsort(frame["index"].to_numpy(), kind="stable")
    number = np.empty(count, dtype=np.int64)
    number[row_of] = np.arange(count)
    rank = RankTrace(0, frame_tables.call_tables(frame, number, on_host, on_device))
    calls = Job.from_ranks({0: rank}).table("calls").drop("category", "name", "pid", "tid")
    row = row_of[calls["event_id"].to_numpy()]
    is_called = calls["parent_id"].is_not_null().to_numpy()

    def column(values: pl.Series, absent: int) -> Integers:
        whole = np.full(count, absent, dtype=np.int64)
        whole[row] = values.cast(pl.Int64).fill_null(absent).to_numpy()
        return whole

    caller = column(calls["parent_id"], NOWHERE)
    caller[row[is_called]] = row_of[caller[row[is_called]]]
    times = calls.select(frames.us("work_ns"), frames.us("first_work_ns"), frames.us("last_work_ns"))
    return StackColumns(
        caller,
        column(calls["depth"], -1),
        column(calls["height"] + ~calls["on_device"], 0),
        column(calls["work_count"], 0),
        column(times["work_ns"], 0),
        column(times["first_work_ns"], -1),
        column(times["last_work_ns"], -1),
    )


def of_thread(frame: pd.DataFrame, pid: int, tid: int) -> pd.DataFrame:
    """The rows as those of one thread, also where the frame does not say whose they are."""
    rows: pd.DataFrame = frame.assign(pid=pid, tid=tid)
    return rows


def in_order(frame: pd.DataFrame) -> Integers:
    """The places of a frame's rows, callers before what they called, by start."""
    start, dur = frame["ts"].to_numpy(), frame["dur"].to_numpy()
    return np.lexsort((frame["index"].to_numpy(), -dur, start))
