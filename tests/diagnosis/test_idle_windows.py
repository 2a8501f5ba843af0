"""Times in which no work ran: what is known of those before the first work that was recorded."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from holotrace.diagnosis.rank import idle_windows

_NS = dict.fromkeys(("start_ns", "end_ns", "launch_ns"), pl.Int64())
_QUEUE = {"device": 0, "stream": 7, "kind": "compute"}
_OF_STEP = pl.DataFrame({"start_ns": [0], "end_ns": [30_000_000], "tid": [None]})


@pytest.mark.parametrize(
    ("launched_ns", "gaps"),
    [
        # As soon as it was launched: until then the device had nothing to do.
        (9_990_000, [(0, 10_000_000)]),
        # What had been launched before the recording kept the device busy.
        (2_000_000, []),
        (None, [(0, 10_000_000)]),
    ],
)
def test_work_that_waited_for_what_was_not_recorded_tells_of_a_busy_device(
    launched_ns: int | None, gaps: list[tuple[int, int]]
) -> None:
    """Of a server whose device was still busy with the tokens before, 40 % of the recording were told as a cause."""
    first = {"start_ns": 10_000_000, "end_ns": 30_000_000, "launch_ns": launched_ns, "event_id": 1, "launch_id": 2}
    assert gaps_of(first) == gaps


@pytest.mark.parametrize(
    ("before", "gaps"),
    [
        # A gather of another queue began at once; what computed went on with what was not recorded.
        ({"stream": 20, "kind": "communication"}, [(0, 100_000)]),
        # What computes waited after work of its own queue: for something else.
        ({"stream": 7}, [(0, 100_000), (500_000, 10_000_000)]),
        # Another device's work tells nothing of this one's queue.
        ({"device": 1}, [(0, 100_000)]),
    ],
)
def test_each_queue_may_still_work_on_what_was_launched_before(
    before: dict[str, Any], gaps: list[tuple[int, int]]
) -> None:
    """Of a healthy job that was recorded amid its steps, in which parameters are gathered ahead, 12 % were told."""
    gather = {"start_ns": 100_000, "end_ns": 500_000, "launch_ns": 90_000, "event_id": 1, "launch_id": 2, **before}
    first = {"start_ns": 10_000_000, "end_ns": 30_000_000, "launch_ns": 200_000, "event_id": 3, "launch_id": 4}
    assert gaps_of(gather, first) == gaps


def gaps_of(*work: dict[str, Any]) -> list[tuple[object, ...]]:
    """When no work ran of a step of 30 ms."""
    rows = pl.DataFrame([{**_QUEUE, **each} for each in work], schema_overrides=_NS)
    return idle_windows.idle(rows, _OF_STEP, min_gap_ns=4_000).select("start_ns", "end_ns").rows()
