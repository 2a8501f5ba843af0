"""Operations of XLA programs summed by what stays the same from one run to the next."""

from __future__ import annotations

import polars as pl

from holotrace.core.tables import XLA_OPS
from holotrace.derive import device_time
from holotrace.derive.names import NUMBERED
from holotrace.derive.scopes import paths

OPS = XLA_OPS.only(
    *("name", "category", "module", "scope", "device_ps", "self_ns", "line", "is_wait", "is_async", "is_container"),
    *("step", "run"),
)
PROGRAM, OPERATION, SCOPE = "program", "operation", "scope"


def totals(ops: pl.DataFrame, by: str) -> pl.DataFrame:
    """``name``, ``category``, ``count`` and ``total_ns`` by program, operation or scope.

    Numbers of operations and ids of programs change with every compilation, so that neither counts. Of a scope it is
    the time of operations in it but in no scope inside it; times add up.
    """
    ran = device_time.executions(ops)
    known = ran.select(
        pl.col("name", "category", "module").cast(pl.String),
        own_ps=device_time.own_ps(),
    ).with_columns(scope=paths(ran["scope"]))
    plain = pl.col("name").str.replace(NUMBERED, "")
    keys = {
        PROGRAM: (pl.col("module"), pl.lit(PROGRAM)),
        OPERATION: (pl.concat_str("module", plain, separator="/", ignore_nulls=True), pl.col("category")),
        SCOPE: (pl.col("scope"), pl.lit(SCOPE)),
    }
    name, category = keys[by]
    return known.group_by(name=name, category=category).agg(
        count=pl.len().cast(pl.Int64), total_ns=(pl.col("own_ps").sum() + 500) // 1000
    )
