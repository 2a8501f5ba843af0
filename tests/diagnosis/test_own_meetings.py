"""Which meetings of ranks are the same, by what each rank's profile tells of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

import holotrace
from holotrace.diagnosis.rank import account, own_meetings
from xplane_files import Event, Line, Plane, space

US = 1_000_000  # in ps


def numbers(steps: Sequence[int | None]) -> list[int | None]:
    """The steps that are told of what was launched before the recording, of meetings one after the other."""
    meetings = pl.DataFrame({"step": steps, "start_ns": range(len(steps))}, {"step": pl.Int64, "start_ns": pl.Int64})
    same = {"group": "step/all-reduce.7", "group_ranks": None, "operation": "sum", "device": None}
    meetings = meetings.with_columns(pl.lit(value).alias(name) for name, value in same.items())
    return own_meetings.before_the_first(meetings).to_list()


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ([None, None, 9, 10, 11], [7, 8]),
        # Two in each step; the recording ends after the first of the last.
        ([None, None, None, 9, 9, 10, 10, 11], [7, 8, 8]),
        # Some steps have one and others two, or none: which have the earlier ones is not known.
        ([None, None, 9, 10, 10, 11, 12], [None, None]),
        ([None, 9, 11, 13, 15], [None]),
        # What comes later is of no step.
        ([9, 10, None, 11, 12], [None]),
        ([None, None], [None, None]),
    ],
)
def test_programs_that_were_launched_before_the_recording_are_of_the_steps_before_its_first(
    steps: list[int | None], told: list[int | None]
) -> None:
    """Of a recording of 12 steps whose host is 4 ahead a third was left out, and so of what all causes are worth."""
    found = numbers(steps)
    assert [number for number, step in zip(found, steps, strict=True) if step is None] == told
    assert all(number is None for number, step in zip(found, steps, strict=True) if step is not None)


@pytest.mark.parametrize(("awaited_us", "held_us"), [(0, 0), (200, 700)])
def test_a_collective_that_is_over_as_it_is_asked_for_holds_nobody_up(
    awaited_us: int, held_us: int, tmp_path: Path
) -> None:
    """What a device waited for before that, as for a message of its stage, seemed to be for the collective, too.

    It then ended at the same time on all ranks, so that none would be faster without a slow device.
    """

    def op(name: str, category: str, start: int, length: int) -> Event:
        return Event(f"%{name} = f32[8]", start * US, length * US, {"hlo_category": category}, name)

    done = "%all-gather-done.2 = f32[8] all-gather-done((f32[8], f32[8]) %all-gather-start.2)"
    ops = [
        op("all-gather-start.2", "all-gather-start", 0, 1),
        op("fusion.1", "loop fusion", 1, 399),
        op("collective-permute.1", "collective-permute", 400, 500),
        Event(done, 900 * US, awaited_us * US, {"hlo_category": "all-gather-done"}, "all-gather-done.2"),
    ]
    span = op("all-gather-start.2", "all-gather", 0, 900 + awaited_us)
    lines = [Line("XLA Ops", ops, id=3), Line("Async XLA Ops", [span], id=4)]
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(space(Plane("/device:TPU:0", lines)))
    (rows,) = holotrace.open(path).map(account.account, account.READS)
    held = rows.filter(row=account.MEETING).filter(pl.col("collective").cast(pl.String) == "allgather")
    assert held["time_ns"].to_list() == [held_us * 1_000]
