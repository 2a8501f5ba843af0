"""Kernels of one collective are found on all ranks, whenever their recordings began and whatever their clocks say."""

from __future__ import annotations

from random import Random

import polars as pl
import pytest

from holotrace.core.schema import empty
from holotrace.core.tables import RANK
from holotrace.derive.collectives import CALLS, matched


@pytest.mark.parametrize("seed", range(25))
def test_calls_without_numbers_are_matched_from_where_all_ranks_recorded_them(seed: int) -> None:
    random = Random(seed)
    ranks, count = random.choice([2, 3, 8]), random.randint(12, 40)
    first, last = ({rank: random.choice([0, 0, 1, 2]) for rank in range(ranks)} for _ in "ab")
    ahead_ns = {rank: random.choice([0, 0, 1_700_000, -4_000_000]) for rank in range(ranks)}
    rows, end_ns = [], 10**18
    for number in range(count):
        end_ns += random.randint(400_000, 600_000)
        for rank in range(ranks):
            if first[rank] <= number < count - last[rank]:
                ends = end_ns + ahead_ns[rank] + random.randint(0, 5_000)
                # The step stands for the number that the trace does not tell.
                rows.append(
                    {"rank": rank, "operation": "k", "step": number, "start_ns": ends - 100_000, "end_ns": ends}
                )
    calls = pl.concat(
        [empty((RANK, *CALLS)), pl.DataFrame(rows).cast({"rank": pl.Int32, "operation": pl.Categorical})],
        how="diagonal",
    )
    found = matched(calls.sample(fraction=1, shuffle=True, seed=seed))
    together = found.group_by("match").agg(pl.col("step").n_unique(), ranks=pl.col("rank").n_unique())
    assert together["step"].unique().to_list() == [1]
    assert together["ranks"].unique().to_list() == [ranks]
    assert together.height == count - max(first.values()) - max(last.values())
