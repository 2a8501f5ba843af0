"""Devices that are slow and have something else at once."""

from __future__ import annotations

import polars as pl
import pytest

from holotrace.core.schema import filled
from holotrace.diagnosis.job import also_slow
from holotrace.diagnosis.job.candidates import Candidate, Job
from holotrace.diagnosis.job.equal_work import is_everywhere
from holotrace.diagnosis.job.meetings import Change
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.words.classes import EVALUATION, MORE_WORK, SLOW_DEVICE

KERNELS, EQUAL_NS, EXPERTS_NS = 4, 1_000, 2_000


def kinds(times_ratio: list[float], *, shapes: str = "[[8, 8]]") -> pl.DataFrame:
    """Kernels of two ranks: equal ones, which take the second so many times as long, and one of which it has more."""
    equal = [
        {"rank": rank, "name": f"gemm_{kernel}", "detail": f"[1]|[2]|{shapes}", "operator": "aten::mm"}
        | {"time_ns": round(EQUAL_NS * (ratio if rank else 1)), "count": 8, "usual_ns": EQUAL_NS, "usual_count": 8}
        for kernel, ratio in enumerate(times_ratio)
        for rank in (0, 1)
    ]
    experts = [
        {"rank": rank, "name": "expert", "detail": f"[{rank}]|[2]|{shapes}", "operator": "aten::_grouped_mm"}
        | {"time_ns": EXPERTS_NS + 1_000 * rank, "count": 8, "usual_ns": 0, "usual_count": 0}
        for rank in (0, 1)
    ]
    return pl.DataFrame([*equal, *experts])


def told(times: pl.DataFrame) -> list[tuple[str, float]]:
    """Classes and what each takes away of a rank that computes 8 µs in two pieces, with 2 µs more than the others."""
    own = pl.DataFrame(
        [{"rank": 1, "step": 3, "at_ns": at, "start_ns": at - 4_000, "time_ns": 4_000} for at in (5_000, 10_000)]
    ).with_columns(part_ns=pl.Series([400, 1_600]), count=1, detail=None, event_id=None)
    found = Candidate(MORE_WORK, Change({1: [(5_000, 400), (10_000, 1_600)]}), (1,), evidence={"time_ratio": 1.33})
    return [
        (each.cause, round(sum(ns for _, ns in each.change.removed[1]))) for each in also_slow.apart(found, own, times)
    ]


def test_more_work_on_a_slow_device_is_two_causes() -> None:
    """All of it was more work, and the device of that rank was told to nobody."""
    assert told(kinds([1.1] * KERNELS)) == [(MORE_WORK, 1_273), (SLOW_DEVICE, 727)]


@pytest.mark.parametrize(
    "times",
    [
        pytest.param(kinds([1.01] * KERNELS), id="as fast as others"),
        pytest.param(kinds([1.0, 1.0, 1.0, 1.4]), id="one kernel"),
        pytest.param(kinds([1.1] * KERNELS, shapes=""), id="without shapes"),
    ],
)
def test_more_work_alone_makes_no_device_slow(times: pl.DataFrame) -> None:
    assert told(times) == [(MORE_WORK, 2_000)]


@pytest.mark.parametrize(
    ("lasted_ns", "others", "longer_ns"),
    [(1_100, (0, 2), 100), (1_000, (0, 2), 0), (3_000, (0, 2), 409), (1_100, (), 100)],
)
def test_a_slow_device_evaluates_as_slowly(lasted_ns: int, others: tuple[int, ...], longer_ns: int) -> None:
    """A third of what the device cost was told to be the evaluation's alone, be there others that evaluate or not."""
    rows = pl.DataFrame(
        [
            {"row": account.GAP, "rank": rank, "step": 3, "cause": EVALUATION, "at_ns": 9_000, "start_ns": 0}
            | {"time_ns": lasted_ns if rank == 1 else 1_000, "count": 1}
            for rank in (1, *others)
        ],
        schema_overrides={"rank": pl.Int32, "step": pl.Int64, "time_ns": pl.Int64},
    )
    every = filled(rows.drop("rank"), account.COLUMNS).with_columns(rows["rank"])
    job = Job(every, pl.DataFrame(), (0, 1, 2), 10)
    found = Candidate(SLOW_DEVICE, Change({1: [(5_000, 50.0)]}), (1,))
    change = also_slow.with_evaluation(found, job, 1.1).change
    assert sum(ns for _, ns in change.removed[1]) == pytest.approx(50 + longer_ns, abs=1)
    assert not change.of_hosts


def test_what_else_ranks_differ_by_shows_beside_a_slow_device() -> None:
    """One with more tokens was not told, as the slow ones had most of what is beyond the others."""
    rows = pl.DataFrame(
        [
            {"row": row, "rank": rank, "step": step, "time_ns": 1_500 if rank == 2 and step else 1_000}
            for row in (account.SEGMENT, account.GAP)
            for rank in range(3)
            for step in range(2)
        ],
        schema_overrides={"rank": pl.Int32, "step": pl.Int64, "time_ns": pl.Int64},
    )
    every = filled(rows.drop("rank"), account.COLUMNS).with_columns(rows["rank"])
    slow = Candidate(SLOW_DEVICE, Change(), (2,), (1,), evidence={"time_ratio": 1.5})
    found = also_slow.without(Job(every, pl.DataFrame(), (0, 1, 2), 10), [slow])
    assert found.of(account.SEGMENT)["time_ns"].to_list() == [1_000] * 6
    assert found.of(account.GAP)["time_ns"].max() == 1_500


@pytest.mark.parametrize(
    ("products", "updates", "told"),
    [
        pytest.param([1.4, 1.4, 1.9, 1.3], 1.0, True, id="more data for all layers"),
        pytest.param([1.0, 1.0, 1.0, 2.6], 1.0, False, id="more of one operator"),
        pytest.param([1.6, 1.5, 1.5, 1.0], 1.0, False, id="more data, and as much for its experts"),
    ],
)
def test_more_data_is_more_work_in_each_part_of_a_step(products: list[float], updates: float, *, told: bool) -> None:
    """It was laid to where others had nothing left to compute, after the reductions that it makes late."""
    operators = [
        *((f"aten::mm_{place}", ratio) for place, ratio in enumerate(products)),
        ("aten::_fused_adamw_", updates),
    ]
    own = pl.DataFrame(
        [{"operator": name, "time_ns": round(1_000 * ratio), "usual_ns": 1_000} for name, ratio in operators]
    )
    assert is_everywhere(own, 0.4) is told
