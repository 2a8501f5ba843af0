"""Turns that each rank counts from where its recording began are told by where ranks meet."""

from __future__ import annotations

import polars as pl
import pytest

from holotrace.core.schema import filled
from holotrace.diagnosis.job import same_turns
from holotrace.diagnosis.rank import account


def steps_of(met: list[dict[int, int | None]], row: str = account.GAP) -> list[int | None]:
    """The turns of a row of turn 5 of each of three ranks, that met so often in these turns."""
    rows = pl.DataFrame([{"row": row, "rank": rank, "step": 5} for rank in range(3)])
    come = pl.DataFrame(
        [
            {"match": match, "rank": rank, "step": step}
            for match, turns in enumerate(met)
            for rank, step in turns.items()
        ],
        schema={"match": pl.UInt32, "rank": pl.Int64, "step": pl.Int64},
    )
    every = filled(rows.drop("rank"), account.COLUMNS).with_columns(rank=rows["rank"].cast(pl.Int32))
    found, _ = same_turns.numbered(every, come)
    return found["step"].to_list()


@pytest.mark.parametrize(
    ("met", "steps"),
    [
        pytest.param([{0: 1, 1: 1, 2: 1}] * 3, [5, 5, 5], id="they began in the same turn"),
        pytest.param([{0: 1, 1: 2, 2: 1}, {0: 2, 1: 3, 2: 2}], [5, 4, 5], id="one began a turn earlier"),
        pytest.param([{0: 3, 1: 1}, {1: 4, 2: 6}], [3, 5, 3], id="through another rank"),
        pytest.param([{0: 1, 1: 2}, {0: 1, 1: 1}], [5, 5, 5], id="not of one mind"),
        pytest.param([{0: 1, 1: None, 2: 2}], [5, 5, 4], id="outside of turns"),
        pytest.param([], [5, 5, 5], id="they never meet"),
    ],
)
def test_turns_are_those_in_which_ranks_meet(met: list[dict[int, int | None]], steps: list[int]) -> None:
    """Of a checkpoint of all ranks, half of the time, nothing was said: each was alone with it in its turn."""
    assert steps_of(met) == steps


def test_marked_steps_have_numbers_that_count_for_all_ranks() -> None:
    assert steps_of([{0: 1, 1: 2, 2: 1}] * 3, account.STEP) == [5, 5, 5]
