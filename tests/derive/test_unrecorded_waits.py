"""Work that begins, and calls that return, just as other work ends have waited for it."""

from __future__ import annotations

from random import Random
from typing import Any

import polars as pl

from drawing import US, device_trace
from holotrace.core.tables import DEVICE_EVENTS
from holotrace.derive.unrecorded_waits import of_calls, of_work


def work(*rows: dict[str, Any]) -> pl.DataFrame:
    """Device events, times in microseconds: by default on stream 7, launched at 0."""
    events = [
        {
            "event_id": number,
            "device": row.get("device", 0),
            "stream": row.get("stream", 7),
            "start_ns": row["at"][0] * US,
            "end_ns": row["at"][1] * US,
            "launch_ns": None if row.get("launch", 0) is None else row.get("launch", 0) * US,
            "launch_id": None,
        }
        for number, row in enumerate(rows)
    ]
    return device_trace(events)[DEVICE_EVENTS]


def pairs(found: pl.DataFrame) -> list[tuple[int, int]]:
    return found.select("held_id", "after_id").rows()


def test_work_waits_for_that_of_another_queue_which_had_just_ended() -> None:
    found = of_work(work({"at": (10, 100), "stream": 20}, {"at": (104, 150)}))
    assert found.rows() == [(1, 0, 100 * US, False)]


def test_work_does_not_wait_for_what_ended_long_before() -> None:
    assert pairs(of_work(work({"at": (10, 100), "stream": 20}, {"at": (111, 150)}))) == []


def test_work_that_was_just_launched_waited_for_its_launch() -> None:
    assert pairs(of_work(work({"at": (10, 100), "stream": 20}, {"at": (104, 150), "launch": 90}))) == []


def test_work_whose_queue_was_just_free_waited_for_its_queue() -> None:
    assert pairs(of_work(work({"at": (10, 100), "stream": 20}, {"at": (50, 101)}, {"at": (104, 150)}))) == []


def test_work_without_a_launch_is_not_judged() -> None:
    assert pairs(of_work(work({"at": (10, 100), "stream": 20}, {"at": (104, 150), "launch": None}))) == []


def test_other_devices_hold_nothing_up() -> None:
    assert pairs(of_work(work({"at": (10, 100), "stream": 20, "device": 1}, {"at": (104, 150)}))) == []


def test_of_what_just_ended_the_last_held_it_up() -> None:
    rows = ({"at": (10, 98), "stream": 20}, {"at": (10, 100), "stream": 21}, {"at": (10, 99), "stream": 22})
    assert pairs(of_work(work(*rows, {"at": (104, 150)}))) == [(3, 1)]


def test_a_call_that_returns_as_work_ends_waited_for_it() -> None:
    device = work({"at": (10, 100)}, {"at": (110, 200)})
    calls = pl.DataFrame(
        {"event_id": [7, 8, 9], "start_ns": [5 * US, 95 * US, 120 * US], "end_ns": [103 * US, 104 * US, 190 * US]},
        schema_overrides={"event_id": pl.UInt32},
    )
    # The second did not take long, and nothing ended when the third returned.
    assert of_calls(calls, device).rows() == [(7, 0, 100 * US, True)]


def test_nothing_waits_for_itself_or_for_what_comes_later() -> None:
    random = Random(1)
    rows = []
    for _ in range(500):
        start = random.randrange(0, 20_000)
        rows.append({"at": (start, start + random.choice([0, 1, 50, 300])), "stream": random.randrange(4)})
    device = work(*rows)
    found = of_work(device)
    assert found.height > 10
    held, after = (device[found[which].to_list()] for which in ("held_id", "after_id"))
    assert (after["end_ns"] <= held["start_ns"]).all()
    assert (after["stream"] != held["stream"]).all()
