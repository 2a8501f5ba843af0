"""What waited for work of a device without the profiler recording it, inferred from when they ran."""

from __future__ import annotations

import polars as pl

from holotrace.core.plans import done

# From a launch to its work pass some ten microseconds, and a few between works of a queue; what takes longer waited ...
WAITED_NS = 20_000
# ... for what had just ended: it takes a few microseconds until another queue, or the host, knows.
_JUST_ENDED_NS = 10_000

SCHEMA = pl.Schema({"held_id": pl.UInt32(), "after_id": pl.UInt32(), "ended_ns": pl.Int64(), "is_call": pl.Boolean()})


def of_work(work: pl.DataFrame) -> pl.DataFrame:
    """Work that found its queue free and was launched long before, but began when work of another queue had just ended.

    Returns SCHEMA: the work that was held up, what it waited for, and when that was over.

    Args:
        work: Device events that are work: event_id, device, stream, start_ns, end_ns, launch_ns.
    """
    queue_free = pl.col("end_ns").shift(1).cum_max().over("device", "stream")
    held = (
        work.lazy()
        .sort("start_ns", "event_id")
        .with_columns(pl.col("device").fill_null(0), free_ns=pl.max_horizontal("launch_ns", queue_free))
        .filter(pl.col("launch_ns").is_not_null(), pl.col("start_ns") - pl.col("free_ns") > WAITED_NS)
        .select("device", held_id="event_id", held_ns="start_ns")
    )
    return done(_after(held, work, by="device").with_columns(is_call=False).select(SCHEMA.names()))


def of_calls(calls: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame:
    """Calls that took long and returned when work that ran meanwhile had just ended.

    Returns SCHEMA: the call that was held up, what it waited for, and when that was over.

    Args:
        calls: Calls that can wait for a device: event_id, start_ns, end_ns.
        work: As for of_work.
    """
    held = (
        calls.lazy()
        .filter(pl.col("end_ns") - pl.col("start_ns") > WAITED_NS)
        .select(held_id="event_id", held_ns="end_ns")
        .sort("held_ns")
    )
    return done(_after(held, work).with_columns(is_call=True).select(SCHEMA.names()))


def _after(held: pl.LazyFrame, work: pl.DataFrame, by: str | None = None) -> pl.LazyFrame:
    """The work that ended last before each was no longer ``held``, if it had just ended."""
    ended = (
        work.lazy()
        .filter(pl.col("end_ns") > pl.col("start_ns"))
        .sort("end_ns", "event_id")
        .select(pl.col("device").fill_null(0), ended_ns="end_ns", after_id="event_id")
    )
    return held.join_asof(
        ended,
        left_on="held_ns",
        right_on="ended_ns",
        by=by,
        strategy="backward",
        tolerance=_JUST_ENDED_NS,
        check_sortedness=False,
    ).filter(pl.col("after_id").is_not_null())
