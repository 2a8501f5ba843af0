"""Times in which no work ran: what is known of those before the first work that was recorded."""

from __future__ import annotations

import polars as pl
import pytest

from holotrace.diagnosis import idle_windows

_NS = dict.fromkeys(("start_ns", "end_ns", "launch_ns"), pl.Int64())
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
    rows = [{"start_ns": 10_000_000, "end_ns": 30_000_000, "launch_ns": launched_ns, "event_id": 1, "launch_id": 2}]
    work = pl.DataFrame(rows, schema_overrides=_NS).with_columns(kind=pl.lit("compute"))
    found = idle_windows.idle(work, _OF_STEP, min_gap_ns=4_000)
    assert found.select("start_ns", "end_ns").rows() == gaps
