"""How many things wait or run at the same time: levels that rise and fall, and for how long each lasts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import polars as pl

Order = Literal["rise", "fall"]


def over_time(changes: pl.DataFrame, *, by: Sequence[str], levels: Sequence[str], first: Order) -> pl.DataFrame:
    """Each change as a span of ``lasted_ns`` until the next change of the same group, with the levels during it.

    Args:
        changes: ``time_ns``, the columns of ``by``, ``event_id``, and by how much each of ``levels`` changes then.
        by: Columns that name a group; the result is in their order, and in order of time within each.
        levels: Columns of whole numbers; sums of others would not come back to exactly 0.
        first: Of changes at the same time, those in which the first level rises or those in which it falls.
    """
    order = ["time_ns", levels[0], "event_id"]
    # Sorting group by group takes half the time of sorting by all keys at once.
    parts = changes.partition_by(by, maintain_order=True)
    names = pl.concat([changes.head(0), *(part.head(1) for part in parts)]).with_row_index("part")
    groups: list[pl.DataFrame] = [
        parts[part]
        .sort(order, descending=[False, first == "rise", False])
        .with_columns(pl.col(*levels).cum_sum(), end_ns=pl.col("time_ns").shift(-1).fill_null(pl.col("time_ns")))
        for part in names.sort(by)["part"]
    ]
    spans = pl.concat([changes.head(0).with_columns(end_ns="time_ns"), *groups]).rename({"time_ns": "start_ns"})
    return spans.with_columns(lasted_ns=pl.col("end_ns") - pl.col("start_ns"))


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
