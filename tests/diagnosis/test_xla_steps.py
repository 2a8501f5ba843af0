"""How many steps the devices of a job ran, to which what causes cost is divided."""

from __future__ import annotations

import polars as pl
import pytest

from holotrace.diagnosis import account, xla_steps
from holotrace.diagnosis.meetings import Change


@pytest.mark.parametrize(
    ("kind", "met", "count"),
    [
        # Hosts marked four steps, of which devices ran two, after two that had been launched before.
        (account.XLA, [(None, 3), (None, 4), (5, 5), (6, 6)], 4),
        (account.XLA, [(None, 1), (None, 2), (None, 3), (None, 4), (5, 5), (6, 6), (7, 7), (8, 8)], 8),
        # Nothing is known of steps before the first.
        (account.XLA, [(5, 5), (6, 6)], 4),
        (account.XLA, [], 4),
        # Numbers of collectives of PyTorch are none of steps.
        (None, [(None, 100), (5, 205)], 4),
    ],
)
def test_steps_are_those_that_devices_ran(kind: str | None, met: list[tuple[int | None, int]], count: int) -> None:
    """A slow link was worth half as much again in each step as it cost, where hosts were four of twelve ahead."""
    marked = [{"row": account.STEP, "rank": 0, "step": step} for step in (5, 6, 7, 8)]
    meetings = [{"row": account.MEETING, "rank": 0, "step": step, "sequence": number} for step, number in met]
    window = {"row": account.WINDOW, "rank": 0, "detail": kind, "sequence": None}
    schema = {"row": pl.String, "rank": pl.Int32, "step": pl.Int64, "sequence": pl.Int64, "detail": pl.String}
    rows = pl.DataFrame([window, *marked, *meetings], schema)
    steps = xla_steps.of_changes(rows)
    assert (steps(Change(of_hosts={0: [(5, 1.0)]})), steps(Change(transfer={0: 0.5}))) == (4, count)
