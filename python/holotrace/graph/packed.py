"""The rows of a rank's graph as they are kept and sent: differences to the row before, which take less room."""

from __future__ import annotations

import polars as pl

_EVENTS = 2**32


def activities(frame: pl.DataFrame) -> pl.DataFrame:
    """Activities by lane and time, packed: most begin where the one before ended, and take their own time."""
    ended = pl.col("end_ns").shift(1).fill_null(0)
    lasted = pl.col("end_ns") - pl.col("start_ns")
    event = pl.col("event_id").cast(pl.Int64)
    return frame.with_columns(
        start_ns=pl.col("start_ns") - ended,
        end_ns=lasted,
        own_ns=pl.when(pl.col("own_ns") != lasted).then("own_ns"),
        event_id=(event - event.forward_fill().shift(1).fill_null(0)) % _EVENTS,
    )


def edges(frame: pl.DataFrame) -> pl.DataFrame:
    """Edges by the point they reach, packed: they leave near points."""
    to = pl.col("to_point").cast(pl.Int64)
    return frame.with_columns(
        from_point=to - pl.col("from_point").cast(pl.Int64), to_point=to - to.shift(1).fill_null(0)
    )


def unpacked_activities(rows: pl.DataFrame) -> pl.DataFrame:
    """The activities of all ranks, those of each together, as they were."""
    ended = (pl.col("start_ns") + pl.col("end_ns")).cum_sum().over("rank")
    return rows.with_columns(
        start_ns=ended - pl.col("end_ns"),
        end_ns=ended,
        own_ns=pl.coalesce("own_ns", "end_ns"),
        event_id=(pl.col("event_id").cast(pl.Int64).cum_sum().over("rank") % _EVENTS).cast(pl.UInt32),
    )


def unpacked_edges(rows: pl.DataFrame) -> pl.DataFrame:
    """The edges of all ranks, those of each together, as they were."""
    to = pl.col("to_point").cum_sum().over("rank")
    return rows.with_columns(from_point=to - pl.col("from_point"), to_point=to)
