"""Hosts of which nothing was recorded, beside others of the same program that were."""

from __future__ import annotations

import polars as pl
import pytest

from holotrace.core.schema import filled
from holotrace.diagnosis.job.candidates import Job
from holotrace.diagnosis.job.not_recorded import told_by_others
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.words.classes import COMPILATION, UNRECORDED

MS = 1_000_000
VISITS = pl.DataFrame(schema={"rank": pl.Int32, "clock_offset_ns": pl.Int64})


def gap(rank: int, cause: str, *, at_ms: int, ms: int) -> dict[str, object]:
    name = None if cause == UNRECORDED else "triton compile"
    times = {"at_ns": at_ms * MS, "start_ns": (at_ms - ms) * MS, "time_ns": ms * MS}
    return {"row": account.GAP, "rank": rank, "cause": cause, "name": name, **times}


@pytest.mark.parametrize(
    ("of_others", "told"),
    [
        pytest.param([(100, 40), (104, 41)], COMPILATION, id="all do the same"),
        pytest.param([(100, 40), (200, 40)], UNRECORDED, id="at other times"),
        pytest.param([(100, 40), (104, 2)], UNRECORDED, id="not as long"),
        pytest.param([(100, 40)], UNRECORDED, id="one of them"),
    ],
)
def test_what_all_recorded_hosts_stand_still_for_is_what_the_others_do(
    of_others: list[tuple[int, int]], told: str
) -> None:
    """Either half of the ranks was told to cost nothing, since the other half stood still as long."""
    rows = pl.DataFrame(
        [
            *(gap(rank, COMPILATION, at_ms=at, ms=ms) for rank, (at, ms) in enumerate(of_others)),
            *({"row": account.HOST, "rank": rank, "time_ns": MS if rank < 2 else 0} for rank in range(4)),
            *(gap(rank, UNRECORDED, at_ms=102, ms=42) for rank in (2, 3)),
        ],
        schema_overrides={"rank": pl.Int32},
    )
    job = Job(filled(rows, account.COLUMNS).with_columns(rows["rank"]), VISITS, (0, 1, 2, 3), MS)
    found = told_by_others(job).of(account.GAP)
    assert found.filter(pl.col("rank") >= 2)["cause"].to_list() == [told] * 2
    assert found.filter(pl.col("rank") < 2)["cause"].unique().to_list() == [COMPILATION]
