"""How many things wait or run at the same time: levels that rise and fall, and for how long each lasts."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from holotrace.core.native import native
from holotrace.core.plans import without
from holotrace.derive import groups


def over_time(changes: pl.DataFrame, *, by: Sequence[str], levels: Sequence[str]) -> pl.DataFrame:
    """Each change as a span of ``lasted_ns`` until the next change of the same group, with the levels during it.

    Args:
        changes: ``time_ns``, the columns of ``by``, and by how much each of ``levels`` changes then; of changes at the
            same time the upper row comes first.
        by: Columns that name a group; the result is in their order, and in order of time within each.
        levels: Columns of whole numbers; sums of others would not come back to exactly 0.
    """
    grouped = changes[:, ["time_ns", *levels]].hstack([groups.numbered(changes, by)])
    spans = pl.DataFrame(native.levels(grouped, levels))
    others = [column for column in changes.columns if column not in grouped.columns]
    return changes[:, others][spans["row"]].hstack(without(spans, "row"))


def quantile(level: str, q: float) -> pl.Expr:
    """What ``level`` is at or below for a share ``q`` of ``lasted_ns``; in groups whose rows are in order of it."""
    lasted = pl.col("lasted_ns")
    return pl.col(level).filter(lasted.cum_sum() >= q * lasted.sum()).first()


def mean(level: str) -> pl.Expr:
    """The average of ``level`` over ``lasted_ns``; null where that is no time."""
    lasted = pl.col("lasted_ns")
    # As floats, since a rate of bytes times nanoseconds would leave 64 bits.
    total = (pl.col(level).cast(pl.Float64) * lasted).sum()
    return pl.when(lasted.sum() > 0).then(total / lasted.sum())
