"""Device work belongs to the step that launched it."""

from __future__ import annotations

import polars as pl

from drawing import draw
from holotrace.derive.steps import is_from_before, launched_in


def steps_of(text: str) -> list[int | None]:
    found = draw(text).table("device_events", columns=["name", "step"])
    return [step for _, step in sorted(found.select("name", "step").iter_rows())]


def test_work_that_runs_in_the_next_step_belongs_to_the_step_that_launched_it() -> None:
    assert steps_of("""
            step    |1111222233|
            host    |A...B.....|
            compute |..AAAA.BBB|
        """) == [1, 2]


def test_work_without_a_known_launch_belongs_to_no_step() -> None:
    assert steps_of("""
            step    |1111|
            compute |.AA.|
        """) == [None]


def test_work_launched_between_steps_belongs_to_none() -> None:
    assert steps_of("""
            step    |11.22|
            host    |..A..|
            compute |...AA|
        """) == [None]


def test_a_step_begins_with_its_first_instant_and_ends_before_its_last() -> None:
    steps = pl.DataFrame({"step": [7, 8], "event_id": [0, 1], "start_ns": [10, 20], "end_ns": [20, 30]})
    launches = pl.Series([9, 10, 19, 20, 29, 30, None])
    assert launched_in(launches, steps).to_list() == [None, 7, 7, 8, 8, None, None]


def test_without_steps_all_work_belongs_to_none() -> None:
    assert steps_of("host |A.|\ncompute |.A|") == [None]


def test_what_ran_before_all_that_was_launched_was_launched_before_also_in_a_queue_without_launches() -> None:
    """The reductions of the step before counted for the first one that was recorded."""
    rows = [(7, 0, None), (20, 5, None), (7, 10, 2), (7, 20, None), (20, 25, None)]
    work = pl.DataFrame(rows, schema=["stream", "start_ns", "launch_ns"], orient="row").with_columns(device=0)
    assert work.select(is_from_before()).to_series().to_list() == [True, True, False, False, False]
