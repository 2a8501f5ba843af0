"""Time before each piece of work in which its queue had nothing to do."""

from __future__ import annotations

import polars as pl

from holotrace.derive import gaps

SCHEMA = {"event_id": pl.UInt32(), "stream": pl.Int64(), "start_ns": pl.Int64(), "end_ns": pl.Int64()}


def gaps_of(*work: tuple[int, int, int, int]) -> list[tuple[int, int | None, int | None]]:
    """Event, end of what began earlier, and gap; from event, stream, start and end."""
    frame = pl.DataFrame(work, schema=SCHEMA, orient="row")
    return gaps.before(frame, by=["stream"]).select("event_id", "reached_ns", "gap_ns").rows()


def test_a_gap_is_between_the_latest_end_and_the_next_start() -> None:
    assert gaps_of((0, 7, 0, 10), (1, 7, 2, 4), (2, 7, 15, 16)) == [(0, None, None), (1, 10, 0), (2, 10, 5)]


def test_each_queue_has_its_own_gaps() -> None:
    found = gaps_of((0, 7, 0, 10), (1, 8, 20, 30), (2, 7, 12, 13), (3, 8, 40, 41))
    assert found == [(0, None, None), (1, None, None), (2, 10, 2), (3, 30, 10)]


def test_of_work_that_begins_at_once_the_lower_event_is_the_earlier() -> None:
    assert gaps_of((5, 7, 3, 9), (4, 7, 3, 6)) == [(5, 6, 0), (4, None, None)]


def test_without_work_there_are_no_gaps() -> None:
    assert gaps.before(pl.DataFrame(schema=SCHEMA), by=["stream"]).is_empty()
