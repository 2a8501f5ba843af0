"""Clocks of ranks are compared by what ends on all of them at once."""

from __future__ import annotations

import polars as pl
import pytest

from holotrace.derive.clocks import offsets

EPOCH_NS = 1_712_184_698_123_456_789


def ends(*collectives: dict[int, int]) -> pl.DataFrame:
    """When each collective ended on each rank's clock."""
    rows = [
        (rank, match, EPOCH_NS + end_ns)
        for match, of_ranks in enumerate(collectives)
        for rank, end_ns in of_ranks.items()
    ]
    return pl.DataFrame(rows, schema={"rank": pl.Int32, "match": pl.UInt32, "end_ns": pl.Int64}, orient="row")


def offset_of(*collectives: dict[int, int]) -> dict[int, int]:
    return dict(offsets(ends(*collectives)).select("rank", "offset_ns").iter_rows())


def test_the_clock_that_runs_ahead_of_all_others_is_found_to_the_nanosecond() -> None:
    assert offset_of({0: 100, 1: 1_734_351, 2: 100}, {0: 900, 1: 1_735_151, 2: 900}) == {0: 0, 1: 1_734_251, 2: 0}


def test_of_two_ranks_one_is_right() -> None:
    assert offset_of({0: 5_100, 1: 100}, {0: 5_300, 1: 300}) == {0: 5_000, 1: 0}


def test_collectives_that_did_not_end_together_do_no_harm() -> None:
    usual = [{0: n, 1: n + 70, 2: n} for n in range(0, 5_000, 1_000)]
    assert offset_of(*usual, {0: 9_000_000, 1: 6_000, 2: 6_000}) == {0: 0, 1: 70, 2: 0}


def test_ranks_that_share_no_group_are_compared_through_those_between_them() -> None:
    found = offset_of({0: 0, 1: 0}, {1: 100, 2: 40_100}, {2: 40_300, 3: 40_300})
    assert found[3] - found[0] == pytest.approx(40_000, abs=100)
    assert found[2] - found[1] == pytest.approx(40_000, abs=100)


def test_nothing_that_ended_together_tells_no_clock() -> None:
    assert offset_of() == {}
