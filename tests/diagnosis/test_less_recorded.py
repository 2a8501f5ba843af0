"""Ranks of which steps and operators were recorded, beside others of which only kernels were."""

from __future__ import annotations

import polars as pl
import pytest

from holotrace.core.schema import filled
from holotrace.diagnosis.job import less_recorded
from holotrace.diagnosis.rank import account


@pytest.mark.parametrize(
    ("known", "steps", "operators", "details"),
    [
        ((True, True), [3, 3], ["aten::mm", "aten::mm"], ["[1]|[2]|[[8, 8]]"] * 2),
        ((True, False), [None, None], [None, None], ["[1]|[2]|"] * 2),
        ((False, False), [None, None], [None, None], ["[1]|[2]|"] * 2),
    ],
)
def test_what_is_known_of_some_ranks_only_does_not_tell_them_from_others(
    known: tuple[bool, bool], steps: list[int | None], operators: list[str | None], details: list[str]
) -> None:
    """A clean job had uneven work, since all that some computed was in steps and nothing that others did."""
    work = pl.DataFrame(
        [
            {
                "row": account.WORK,
                "rank": rank,
                "step": 3 if is_known else None,
                "operator": "aten::mm" if is_known else None,
                "detail": "[1]|[2]|" + ("[[8, 8]]" if is_known else ""),
            }
            for rank, is_known in enumerate(known)
        ],
        schema_overrides={"step": pl.Int64, "operator": pl.String, "rank": pl.Int32},
    )
    found = less_recorded.rows(filled(work, account.COLUMNS).with_columns(work["rank"]))
    assert found["step"].to_list() == steps
    assert found["operator"].to_list() == operators
    assert found["detail"].to_list() == details


def test_steps_that_some_ranks_have_are_counted() -> None:
    """What a cause costs in a step was what it costs in all, where the steps of one rank were not recorded."""
    rows = pl.DataFrame(
        [
            *({"row": account.STEP, "rank": 0, "step": step} for step in range(3)),
            *({"row": account.WORK, "rank": rank, "step": None if rank else 1} for rank in range(2)),
        ],
        schema_overrides={"rank": pl.Int32},
    )
    found = less_recorded.rows(filled(rows, account.COLUMNS).with_columns(rows["rank"]))
    assert found["step"].to_list() == [0, 1, 2, None, None]
