"""When optimizers updated parameters, by the ranges that PyTorch names for them."""

from __future__ import annotations

import polars as pl

from holotrace.core.plans import constant, done
from holotrace.core.tables import ANNOTATIONS, CPU_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive.names import distinct

PREFIX = "Optimizer.step#"
# A call of autograd's for each node of a backward pass.
BACKWARD = "autograd::engine::evaluate_function"
_PLACE = ("pid", "tid", "start_ns", "end_ns")
_RANGES = ANNOTATIONS.only("name", "on_device", *_PLACE)
_OPS = CPU_OPS.only("name", "start_ns", "end_ns")
READS = (_RANGES, _OPS)


def own(rank: RankTrace) -> pl.DataFrame:
    """The parts of steps of optimizers that are no part of their closures.

    A closure, which Lightning always passes, computes the forward and backward passes within the step of the optimizer,
    and first of all: what it does ends with the last backward pass that begins there.

    Returns ``name``, ``pid``, ``tid``, ``start_ns`` and ``end_ns``, by time, and ``has_closure``.
    """
    ranges = rank[_RANGES].lazy().filter(~pl.col("on_device")).with_columns(pl.col("name").cast(pl.String))
    found = done(ranges.filter(pl.col("name").str.starts_with(PREFIX)).select("name", *_PLACE).sort("start_ns"))
    if found.is_empty():
        return found.with_columns(has_closure=pl.lit(value=False))
    rows = found.with_row_index("row")
    spans = rows.lazy().select("row", "start_ns", until_ns="end_ns")
    ended = done(
        _backward(rank)
        .lazy()
        .select("start_ns", ended_ns="end_ns")
        .sort("start_ns")
        .join_asof(spans, on="start_ns", check_sortedness=False)
        .filter(pl.col("start_ns") < pl.col("until_ns"))
        .group_by("row")
        .agg(pl.col("ended_ns").max())
    )
    begun = pl.min_horizontal(pl.coalesce("ended_ns", "start_ns"), "end_ns")
    return done(
        rows.lazy()
        .join(ended.lazy(), on="row", how="left", maintain_order="left")
        .select("name", "pid", "tid", begun.alias("start_ns"), "end_ns", has_closure=pl.col("ended_ns").is_not_null())
    )


def in_closure(rank: RankTrace, names: pl.Series, at_ns: pl.Series) -> pl.Series:
    """Which of these times, within ranges of these names, are in the closure of the optimizer that the range is of."""
    found = rank.cached(own)
    if not found["has_closure"].any():
        return constant(names.name, False, len(names))
    is_range = names.str.starts_with(PREFIX).fill_null(value=False)
    latest = found["start_ns"].search_sorted(at_ns, side="right").cast(pl.Int64) - 1
    ends = found["end_ns"][latest.clip(lower_bound=0)]
    inside: pl.Series = is_range & ~((latest >= 0) & (at_ns < ends))
    return inside


def _backward(rank: RankTrace) -> pl.DataFrame:
    ops = rank[_OPS]
    names = [name for name in distinct(ops["name"]) if name and name.startswith(BACKWARD)]
    return ops.filter(pl.col("name").is_in(pl.lit(pl.Series(names, dtype=ops.schema["name"])).implode()))
