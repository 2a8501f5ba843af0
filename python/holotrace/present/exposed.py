"""Which part of the time ranks do nothing but communicate."""

from __future__ import annotations

import polars as pl

_PARTS = ("compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns")


def ratio(communication: pl.DataFrame, breakdown: pl.DataFrame, own_ns: float) -> float:
    """The part of the time of all ranks that exposed communication takes, as far as it is ``own_ns`` of it.

    Args:
        communication: The table of that analysis.
        breakdown: The table of ``time_breakdown``.
        own_ns: A part of the sum of ``exposed_ns`` in the former.
    """
    whole = breakdown.filter(pl.col("step").is_null()) if "step" in breakdown.columns else breakdown
    time_ns = float(whole.select(pl.sum_horizontal(pl.sum(*_PARTS))).item() or 0)
    every_ns = float(communication["exposed_ns"].sum())
    # Several devices of a rank, and several queues, communicate at once.
    exposed_ns = float(whole["exposed_comm_ns"].sum())
    return exposed_ns / time_ns * own_ns / every_ns if time_ns and every_ns else 0.0
