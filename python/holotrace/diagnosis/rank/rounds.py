"""What comes round in a recording without marked steps, so that ranks can be compared turn by turn."""

from __future__ import annotations

import polars as pl

from holotrace.core.tables import CALLS, STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive import call_tree
from holotrace.derive.steps import launched_in

_CALLS = CALLS.only("name", "start_ns", "end_ns", "on_device").where_launched_singly()
READS = (_CALLS, STEPS)
# Ranges that libraries leave once in each step, the surest first.
_MARKS = (r"^Optimizer\.step#", r"^enumerate\(DataLoader\)#", r"dataloader\.py\(\d+\): __next__")
# What comes fewer times does not come round.
FEWEST = 3


def steps(rank: RankTrace) -> pl.DataFrame:
    """The rank's steps; where none was marked, turns from one mark of a library to the next, numbered from zero."""
    marked = rank[STEPS]
    if not marked.is_empty():
        return marked
    calls = call_tree.on_host(rank[_CALLS]).with_columns(pl.col("name").cast(pl.String))
    for mark in _MARKS:
        found = calls.filter(pl.col("name").str.contains(mark)).sort("start_ns")
        # What is called within itself, or by a range of the same kind, is one.
        found = found.filter(pl.col("start_ns") >= pl.col("end_ns").cum_max().shift(1).fill_null(0))
        if found.height >= FEWEST:
            # A step ends with its optimizer; it begins with its input.
            at = found["end_ns"] if mark == _MARKS[0] else found["start_ns"]
            ends = at if mark == _MARKS[0] else at.shift(-1)
            starts = at.shift(1) if mark == _MARKS[0] else at
            last = calls["end_ns"].max()
            return pl.DataFrame(
                {
                    "step": pl.Series(range(found.height), dtype=pl.Int64),
                    "start_ns": starts.fill_null(calls["start_ns"].min()),
                    "end_ns": ends.fill_null(last),
                }
            )
    return marked


def of_kernels(kernels: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """Kernels with the step or turn that launched them."""
    if not rank[STEPS].is_empty():
        return kernels
    return kernels.with_columns(step=launched_in(kernels["launch_ns"], rank.cached(steps)))
