"""Floating-point operations of XLA's programs by step, as the compiler counts them, and what the devices could do."""

from __future__ import annotations

import polars as pl

from holotrace.core.tables import DEVICES, XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive import device_time
from holotrace.derive.device_time import DEVICE, IS_WAIT

_OPS = XLA_OPS.only(
    *("name", "kind", "device", "plane", "line", "self_ns", "device_ps", "flops", "accessed_bytes"),
    *("is_wait", "is_async", "is_container", "start_ns", "end_ns", "step"),
)
_DEVICES = DEVICES.only("device", "plane", "peak_flops")
READS = (_OPS, _DEVICES)
SAID = "operations as the compiler counts them"
# The compiler names so what it computes a second time instead of keeping it.
_AGAIN = r"\.remat\d*(\.|$)"


def executed(rank: RankTrace) -> pl.DataFrame:
    """What devices computed: operations without those that contain others, wait or communicate."""
    ops = device_time.executions(rank[_OPS])
    inner = ~pl.col("is_container").fill_null(value=False)
    return ops.filter(inner, ~IS_WAIT, pl.col("kind").cast(pl.String()).ne_missing("communication"))


def peak_flops(rank: RankTrace) -> float | None:
    """Operations per nanosecond of all devices that computed; None where one of them declares none."""
    used = executed(rank).select(DEVICE).unique()
    peaks = used.join(rank[_DEVICES].unique(DEVICE), on=DEVICE, how="left", nulls_equal=True)["peak_flops"]
    return None if peaks.is_empty() or peaks.null_count() else float(peaks.sum()) / 1e9


def sums(rank: RankTrace, *, by_step: bool) -> pl.DataFrame:
    """By ``step``: ``model_flops``, ``recomputed_flops``, and of the time of operations ``known_ps``, ``total_ps``."""
    ops = executed(rank)
    step = pl.col("step") if by_step else pl.lit(None, pl.Int64()).alias("step")
    own = device_time.own_ps()
    again = pl.col("name").cast(pl.String()).str.contains(_AGAIN).fill_null(value=False)
    flops = pl.col("flops").cast(pl.Float64())
    return (
        ops.with_columns(step, own_ps=own)
        .filter(pl.col("step").is_not_null() | pl.lit(not by_step))
        .group_by("step")
        .agg(
            model_flops=flops.filter(~again).sum(),
            recomputed_flops=flops.filter(again).sum(),
            is_counted=flops.is_not_null().any(),
            known_ps=pl.col("own_ps").filter(flops.is_not_null() | pl.col("accessed_bytes").is_not_null()).sum(),
            total_ps=pl.col("own_ps").sum(),
        )
    )
