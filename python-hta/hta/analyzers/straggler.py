"""Which ranks start a communication kernel later than others: HTA's way to tell stragglers."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hta import figures
from hta.common.event_links import profiler_steps
from hta.common.trace import Trace
from hta.common.trace_symbol_table import TraceSymbolTable
from hta.utils.utils import is_comm_kernel

# Columns of the frame that are looked at.
COLUMNS = ("rank", "iteration", "stream", "name", "ts", "dur", "end")
_KERNEL = ["stream", "name"]
# Shorter kernels, as a share of an average iteration, say little.
_MIN_DURATION = 0.01


def extract_iteration_info(trace: Trace) -> pd.DataFrame:
    """The training steps of all ranks: when each was, its number ``iter``, and ``profiler_step``, its symbol."""
    columns = ["profiler_step", "ts", "dur", "iter", "end", "rank"]
    steps: list[pd.DataFrame] = []
    for rank, frame in trace.get_all_traces().items():
        found = profiler_steps(frame, trace.symbol_table).rename(columns={"name": "profiler_step", "iteration": "iter"})
        steps.append(found.assign(end=found["ts"] + found["dur"], rank=rank)[columns])
    return pd.concat(steps) if steps else pd.DataFrame(columns=columns)


def find_stragglers_with_late_start_comm_kernels(
    df: pd.DataFrame, symbol_table: TraceSymbolTable, n_stragglers: int = 2, visualize: bool = False
) -> pd.Series:
    """In how many iterations each rank was among the ``n_stragglers`` that started a kernel last, by rank.

    The kernel is the communication kernel whose duration differs most between ranks: those that come early wait in it.
    Empty where no such kernel ran on several ranks.

    Args:
        df: The rows of all ranks and of the iterations in question.
        symbol_table: What the numbers in ``name`` stand for.
        n_stragglers: How many ranks of an iteration count as late.
        visualize: Show when each rank started the kernel.
    """
    kernels = _longer_kernels(df, symbol_table)
    spread = kernels.groupby(["iteration", *_KERNEL])["duration"].std().groupby(level=_KERNEL).mean().dropna()
    if spread.empty:
        return pd.Series(dtype=np.int64, index=pd.Index([], dtype=np.int64, name="rank"))
    most = spread.idxmax()
    starts = kernels[pd.MultiIndex.from_frame(kernels[_KERNEL]) == most]
    if visualize:
        figures.late_starts(starts, symbol_table.sym_table[starts["name"].iloc[0]]).show()
    later_ranks = starts.groupby("iteration")["start"].rank(method="min", ascending=False) - 1
    is_late = (later_ranks < n_stragglers).astype(np.int64)
    counts: pd.Series = is_late.groupby(starts["rank"]).sum()
    return counts


def _longer_kernels(df: pd.DataFrame, symbol_table: TraceSymbolTable) -> pd.DataFrame:
    """The last run of each communication kernel per rank and iteration; times as shares of an average iteration."""
    on_device = (df["stream"] >= 0) & (df["iteration"] >= 0)
    rows: pd.DataFrame = df[on_device & symbol_table.mask_where(is_comm_kernel)[df["name"].to_numpy()]]
    if not rows.empty:
        first = int(df["ts"].min())
        iteration_us = (int(df["end"].max()) - first) / df["iteration"].nunique()
        rows = rows[rows["dur"] >= _MIN_DURATION * iteration_us]
        rows = rows.drop_duplicates(["rank", "iteration", *_KERNEL], keep="last")
        rows = rows.assign(start=(rows["ts"] - first) / iteration_us, duration=rows["dur"] / iteration_us)
    else:
        rows = rows.assign(start=0.0, duration=0.0)
    return rows
