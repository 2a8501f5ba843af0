"""Operations of XLA programs summed by what stays the same from one run to the next."""

from __future__ import annotations

import polars as pl

from holotrace.core.tables import XLA_OPS
from holotrace.derive import device_time, same_operations
from holotrace.derive.scopes import paths

OPS = XLA_OPS.only(
    *("name", "category", "module", "scope", "device_ps", "self_ns", "line", "is_wait", "is_async", "is_container"),
    *("step", "run"),
)
# How often operations ran in steps, and for how long: what was launched before the recording is of none.
OWN = ("own_count", "own_ns")
PROGRAM, OPERATION, SCOPE = "program", "operation", "scope"


def totals(ops: pl.DataFrame, by: str) -> pl.DataFrame:
    """Operations, programs or scopes: ``name``, ``category``, ``module``, ``scope``, and what of each is counted.

    That is ``count``, ``total_ns`` and ``OWN``.

    Ids of programs change with every compilation, so that they do not count. Of a scope it is the time of operations in
    it but in no scope inside it; times add up.
    """
    ran = device_time.executions(ops)
    known = ran.select(
        pl.col("name", "category", "module", "scope").cast(pl.String),
        own_ps=device_time.own_ps(),
        is_of_step=pl.col("step").is_not_null(),
    )
    nothing = pl.lit(None, pl.String)
    if by == SCOPE:
        known = known.with_columns(name=paths(ran["scope"]), module=nothing)
    if by == PROGRAM:
        known = known.with_columns(name="module")
    if by != OPERATION:
        known = known.with_columns(category=pl.lit(by), scope=nothing)
    return known.group_by("name", "category", "module", "scope").agg(
        count=pl.len().cast(pl.Int64),
        total_ns=(pl.col("own_ps").sum() + 500) // 1000,
        own_count=pl.col("is_of_step").sum().cast(pl.Int64),
        own_ns=(pl.col("own_ps").filter("is_of_step").sum() + 500) // 1000,
    )


def alike(before: pl.DataFrame, after: pl.DataFrame, by: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The totals of two jobs, what is the same in both under the same ``name``."""
    if by == OPERATION:
        named = same_operations.named(before, after)
        name = pl.concat_str("module", "name", separator="/", ignore_nulls=True)
    else:
        named = same_operations.with_programs(before, after) if by == PROGRAM else (before, after)
        name = pl.col("module" if by == PROGRAM else "name")
    first, second = (
        own.group_by(name.alias("name"), "category").agg(pl.col("count", "total_ns", *OWN).sum()) for own in named
    )
    return first, second
