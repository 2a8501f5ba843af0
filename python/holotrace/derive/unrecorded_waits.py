"""What waited for work of a device without the profiler recording it, inferred from when they ran."""

from __future__ import annotations

import polars as pl

from holotrace.core.native import native
from holotrace.core.plans import constant, done

# From a launch to its work pass some ten microseconds, and a few between works of a queue; what takes longer waited ...
WAITED_NS = 20_000
# ... for what had just ended: it takes a few microseconds until another queue, or the host, knows.
_JUST_ENDED_NS = 10_000
_UNKNOWN = -(2**63)

SCHEMA = pl.Schema({"held_id": pl.UInt32(), "after_id": pl.UInt32(), "ended_ns": pl.Int64(), "is_call": pl.Boolean()})


def of_work(work: pl.DataFrame) -> pl.DataFrame:
    """Work that found its queue free and was launched long before, but began when work of another queue had just ended.

    Returns SCHEMA: the work that was held up, what it waited for, and when that was over.

    Args:
        work: Device events that are work: event_id, device, stream, start_ns, end_ns, launch_ns.
    """
    unknown = pl.col("device", "stream", "launch_ns").fill_null(_UNKNOWN)
    told = work.select("event_id", unknown, "start_ns", "end_ns")
    found = pl.DataFrame(native.held_up(told, WAITED_NS, _JUST_ENDED_NS))
    return found.hstack([constant("is_call", False, found.height)])


def of_calls(calls: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame:
    """Calls that took long and returned when work that ran meanwhile had just ended.

    Returns SCHEMA: the call that was held up, what it waited for, and when that was over.

    Args:
        calls: Calls that can wait for a device: event_id, start_ns, end_ns.
        work: As for of_work.
    """
    held = done(
        calls.lazy()
        .filter(pl.col("end_ns") - pl.col("start_ns") > WAITED_NS)
        .select(held_id="event_id", held_ns="end_ns")
        .sort("held_ns")
    )
    if held.is_empty():
        return pl.DataFrame(schema=SCHEMA)
    ended = (
        work.lazy()
        .filter(pl.col("end_ns") > pl.col("start_ns"))
        .sort("end_ns", "event_id")
        .select(ended_ns="end_ns", after_id="event_id")
    )
    found = held.lazy().join_asof(
        ended,
        left_on="held_ns",
        right_on="ended_ns",
        strategy="backward",
        tolerance=_JUST_ENDED_NS,
        check_sortedness=False,
    )
    return done(found.filter(pl.col("after_id").is_not_null()).with_columns(is_call=True).select(SCHEMA.names()))
