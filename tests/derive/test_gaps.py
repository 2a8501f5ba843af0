"""Time before work in which its queue had nothing to do."""

from __future__ import annotations

import polars as pl
import pytest

from holotrace.derive import gaps

SCHEMA = {
    "event_id": pl.UInt32(),
    "stream": pl.Int64(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "launch_ns": pl.Int64(),
}
Work = tuple[int, int, int, int, int | None]


def causes_of(*work: Work) -> list[tuple[int, str, int, int, int]]:
    """Stream, cause, gaps, their time and that of the stream; from event, stream, start, end and launch."""
    frame = pl.DataFrame(work, schema=SCHEMA, orient="row")
    found = gaps.by_cause(frame, by=["stream"], max_kernel_gap_ns=5)
    return found.select("stream", "cause", "count", "idle_ns", "whole_ns").rows()


def test_a_gap_is_between_the_latest_end_and_the_next_start() -> None:
    work = (0, 7, 0, 10, None), (1, 7, 2, 4, None), (2, 7, 15, 16, None)
    assert causes_of(*work) == [(7, "kernel_wait", 1, 0, 16), (7, "other", 1, 5, 16)]


def test_each_queue_has_its_own_gaps_in_order_of_queues() -> None:
    work = (0, 8, 20, 30, None), (1, 7, 0, 10, None), (2, 8, 40, 41, None), (3, 7, 12, 13, None)
    assert causes_of(*work) == [(7, "kernel_wait", 1, 2, 13), (8, "other", 1, 10, 21)]


def test_of_work_that_begins_at_once_the_lower_event_is_the_earlier() -> None:
    assert causes_of((5, 7, 3, 9, 7), (4, 7, 3, 6, 7)) == [(7, "host_wait", 1, 0, 6)]


@pytest.mark.parametrize(("launch_ns", "cause"), [(10, "other"), (11, "host_wait"), (None, "other")])
def test_the_host_is_late_where_it_launches_after_all_work_has_ended(launch_ns: int | None, cause: str) -> None:
    assert causes_of((0, 7, 0, 10, 0), (1, 7, 20, 30, launch_ns)) == [(7, cause, 1, 10, 30)]


def test_without_work_there_are_no_gaps() -> None:
    assert causes_of() == []
