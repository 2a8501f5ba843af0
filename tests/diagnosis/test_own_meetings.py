"""Which meetings of ranks are the same, by what each rank's profile tells of its own."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest

from holotrace.diagnosis.rank import own_meetings


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
