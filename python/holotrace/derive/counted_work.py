"""Floating-point operations of XLA's programs by step, and what the devices could do."""

from __future__ import annotations

import polars as pl

from holotrace.core.tables import XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive import device_time, xla_peaks
from holotrace.derive.device_time import DEVICE, IS_WAIT

_OPS = XLA_OPS.only(
    *("name", "kind", "category", "device", "plane", "line", "self_ns", "device_ps", "flops", "accessed_bytes"),
    *("is_wait", "is_async", "is_container", "start_ns", "end_ns", "step", "scope", "product_type"),
)
READS = (_OPS, xla_peaks.KNOWN)
SAID = "operations as the compiler counts them"
SAID_OF_SHAPES = "operations of products, by the shapes in the programs"
# Of code from elsewhere the compiler knows what it reads and writes, and what it computes only if its author says so.
_FROM_ELSEWHERE = r"custom-call"
# The compiler names so what it computes a second time instead of keeping it, and JAX the scope of what a checkpoint
# has computed again.
_AGAIN, _CHECKPOINTED = r"\.remat\d*(\.|$)", r"(^|/)rematted_computation(/|$)"


def executed(rank: RankTrace) -> pl.DataFrame:
    """What devices computed: operations without those that contain others, wait or communicate."""
    inner = ~pl.col("is_container").fill_null(value=False)
    return rank.where(_OPS, device_time.IS_EXECUTED & inner & ~IS_WAIT & pl.col("kind").ne_missing("communication"))


def peak_flops(rank: RankTrace, ops: pl.DataFrame) -> float | None:
    """Operations per nanosecond of all devices that computed ``ops``; None where one of them is not known.

    Of GPUs it is that of the types they multiply in, each as much as it counts.
    """
    ops = xla_peaks.of(rank, ops.select(*DEVICE, "product_type", "flops"))
    devices = ops.group_by(DEVICE).agg(
        declared=pl.col("peak_flops").filter(pl.col("product_type").is_null()).first(), flops=pl.col("flops").sum()
    )
    if devices.is_empty():
        return None
    if not devices["declared"].null_count():
        return float(devices["declared"].sum()) / 1e9
    products = ops.filter(pl.col("product_type").is_not_null() & pl.col("flops").is_not_null())
    if products.is_empty() or products["peak_flops"].null_count():
        return None
    flops = pl.col("flops").cast(pl.Float64)
    of_one = products.select(flops.sum() / (flops / pl.col("peak_flops")).sum()).item()
    return None if of_one is None else float(of_one) * devices.height / 1e9


def said(rank: RankTrace) -> str:
    """How the operations were counted."""
    return SAID_OF_SHAPES if rank[_OPS.only("product_type")]["product_type"].count() else SAID


def sums(ops: pl.DataFrame, *, by_step: bool) -> pl.DataFrame:
    """By ``step``: ``model_flops``, ``recomputed_flops``, and of the time of operations ``known_ps``, ``total_ps``."""
    step = pl.col("step") if by_step else pl.lit(None, pl.Int64()).alias("step")
    own = device_time.own_ps()
    again = _having(ops["name"], _AGAIN) | _having(ops["scope"], _CHECKPOINTED)
    flops = pl.col("flops").cast(pl.Float64())
    moves_only = pl.col("accessed_bytes").is_not_null() & ~_having(ops["category"], _FROM_ELSEWHERE)
    return (
        ops.with_columns(step, own_ps=own)
        .filter(pl.col("step").is_not_null() | pl.lit(not by_step))
        .group_by("step")
        .agg(
            model_flops=flops.filter(~again).sum(),
            recomputed_flops=flops.filter(again).sum(),
            is_counted=flops.is_not_null().any(),
            known_ps=pl.col("own_ps").filter((flops > 0).fill_null(value=False) | moves_only).sum(),
            total_ps=pl.col("own_ps").sum(),
        )
    )


def _having(labels: pl.Series, pattern: str) -> pl.Expr:
    """Whether the label of a row has the pattern in it."""
    distinct = labels.drop_nulls().unique()
    found = distinct.filter(distinct.cast(pl.String()).str.contains(pattern))
    return pl.col(labels.name).is_in(pl.lit(found).implode()).fill_null(value=False)
