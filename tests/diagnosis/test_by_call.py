"""Devices that are slow by each call of their kernels, where ranks recorded other parts of a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
import pytest

from holotrace.core.schema import filled
from holotrace.diagnosis.job import by_call
from holotrace.diagnosis.job.candidates import Job
from holotrace.diagnosis.rank import account

US = 1_000
KERNELS = ("gemm", "attention", "norm")
USUAL_US = {"gemm": 400, "attention": 300, "norm": 50, "copy": 10}


def told(calls: Sequence[Mapping[str, int]], slower: Mapping[tuple[int, str], float]) -> list[tuple[object, ...]]:
    """What is said of ranks that made so many ``calls``, some of which were ``slower``; ranks computed for 6 ms."""
    work = [
        {"row": account.WORK, "rank": rank, "name": name, "operator": name, "detail": "[8, 1, 1]", "count": count}
        | {"time_ns": int(count * USUAL_US[name] * US * slower.get((rank, name), 1.0))}
        | {"beside_ns": 0, "beside_count": 0}
        for rank, own in enumerate(calls)
        for name, count in own.items()
    ]
    segments = [
        {"row": account.SEGMENT, "rank": rank, "start_ns": 0, "at_ns": 8_000 * US, "time_ns": 6_000 * US, "count": 1}
        for rank in range(len(calls))
    ]
    frame = pl.DataFrame([*work, *segments], infer_schema_length=None, schema_overrides={"rank": pl.Int32})
    rows = frame.select("rank").hstack(filled(frame.drop("rank"), account.COLUMNS))
    told_of = by_call.causes(Job(rows, pl.DataFrame(), tuple(range(len(calls))), 10 * US))
    return [
        (each.cause, each.ranks, each.evidence["time_ratio"], round(each.evidence["time_ns"], -1)) for each in told_of
    ]


PARTS = [{"gemm": 4, "attention": 2, "norm": 3}, {"gemm": 2, "attention": 3, "norm": 6}, {"gemm": 7, "attention": 1}]
ALL = [*PARTS[:2], {**PARTS[2], "norm": 9}, PARTS[0]]


@pytest.mark.parametrize(
    ("calls", "slower", "found"),
    [
        pytest.param(ALL, {}, [], id="none is slow"),
        pytest.param(
            ALL,
            {(1, name): 1.2 for name in KERNELS},
            [("slow-device", (1,), 1.2, 1_000 * US)],
            id="one is, by one factor",
        ),
        pytest.param(ALL, {(1, "attention"): 1.5}, [], id="one kernel takes longer"),
        pytest.param(
            ALL, {(rank, name): 1.2 for rank in (1, 2) for name in KERNELS}, [], id="half are, or half are fast"
        ),
        pytest.param(ALL[:2], {(1, name): 1.2 for name in KERNELS}, [], id="of two nobody knows"),
        pytest.param(
            [*ALL[:3], {"gemm": 1, "attention": 1}],
            {(1, name): 1.2 for name in KERNELS},
            [("slow-device", (1,), 1.2, 1_000 * US)],
            id="by what all ran",
        ),
        pytest.param([*ALL[:3], {"copy": 1}], {(1, name): 1.2 for name in KERNELS}, [], id="one ran nothing of that"),
    ],
)
def test_the_device_is_slow_whose_calls_all_take_longer_by_one_factor_however_many_they_are(
    calls: Sequence[Mapping[str, int]], slower: Mapping[tuple[int, str], float], found: list[tuple[object, ...]]
) -> None:
    """Nothing was said of recordings of half a step, each of another half."""
    assert told(calls, slower) == found
