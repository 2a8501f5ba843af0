"""The time before each piece of work in which its queue had nothing to do."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from holotrace.derive import groups


def before(work: pl.DataFrame, *, by: Sequence[str]) -> pl.DataFrame:
    """All ``work`` with ``reached_ns``, where what began earlier in its group ends, and ``gap_ns``; null for the first.

    Work that begins before that time overlaps with what began earlier; its gap is 0. Of work that begins at the same
    time the lower ``event_id`` is the earlier.
    """
    keys, reached = groups.differing(work, by), pl.col("end_ns").cum_max().shift(1)
    return (
        work.sort("start_ns", "event_id")
        .with_columns(reached_ns=reached.over(keys) if keys else reached)
        .with_columns(gap_ns=(pl.col("start_ns") - pl.col("reached_ns")).clip(lower_bound=0))
    )
