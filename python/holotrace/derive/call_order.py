"""The place of each call without a number among those of its operation, from where all ranks recorded them."""

from __future__ import annotations

import polars as pl

from holotrace.derive import call_shifts, groups, lost_calls


def placed(calls: pl.DataFrame, clocks: pl.DataFrame) -> pl.DataFrame:
    """The calls with their ``position``: those of one operation with the same are one, on whichever rank.

    Args:
        calls: Those of one rank and operation share a number, ``series``, those of one operation a ``key``.
        clocks: How far the clocks of ranks are apart by what else is known, as of ``clock_offsets``.
    """
    ordered = groups.ordered(calls.sort("rank", "start_ns", "end_ns"), ["series"])
    ordered = ordered.with_columns(pl.col("series").rle_id())
    shifts = call_shifts.of_ranks(ordered, clocks)
    ordinal = pl.int_range(pl.len(), dtype=pl.Int64()).over("series")
    counted = (
        ordered.join(shifts, on="series", how="left", maintain_order="left")
        .with_columns(position=ordinal + pl.col("shift").fill_null(0))
        .drop("shift")
    )
    return lost_calls.placed(counted)
