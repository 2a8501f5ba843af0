"""The time before each piece of work in which its queue had nothing to do."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl


def before(work: pl.DataFrame, *, by: Sequence[str]) -> pl.DataFrame:
    """All ``work`` but the first of each group, with ``reached_ns``, where what began earlier ends, and ``gap_ns``.

    Work that begins before that time overlaps with what began earlier; its gap is 0. Of work that begins at the same
    time the lower ``event_id`` is the earlier.
    """
    return (
        work.sort("start_ns", "event_id")
        .with_columns(reached_ns=pl.col("end_ns").cum_max().shift(1).over(by))
        .drop_nulls("reached_ns")
        .with_columns(gap_ns=(pl.col("start_ns") - pl.col("reached_ns")).clip(lower_bound=0))
    )
