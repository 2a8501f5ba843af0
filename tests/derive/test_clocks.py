"""Clocks of ranks are compared by what ends on all of them at once."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import holotrace
from drawing import draw
from holotrace.derive.clock_offsets import of_ends
from holotrace.derive.clocks import compared
from holotrace.derive.epoch import base_ns
from trace_files import EVENTS, write_trace

EPOCH_NS = 1_712_184_698_123_456_789


def ends(*collectives: dict[int, int]) -> pl.DataFrame:
    """When each collective ended on each rank's clock."""
    rows = [
        (rank, match, EPOCH_NS + end_ns)
        for match, of_ranks in enumerate(collectives)
        for rank, end_ns in of_ranks.items()
    ]
    return pl.DataFrame(rows, schema={"rank": pl.Int32, "match": pl.UInt32, "end_ns": pl.Int64}, orient="row")


def clocks(*collectives: dict[int, int]) -> list[tuple[int | None, ...]]:
    return compared(ends(*collectives)).sort("rank").select("offset_ns", "residual_ns", "first_rank").rows()


def offset_of(*collectives: dict[int, int]) -> dict[int, int]:
    return dict(of_ends(ends(*collectives)).select("rank", "offset_ns").iter_rows())


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


def test_ends_are_as_far_apart_as_is_left_when_offsets_are_taken_off() -> None:
    usual = [{0: n, 1: n + 5_000, 2: n} for n in range(0, 5_000, 1_000)]
    [exact, ahead, late] = compared(ends(*usual, {0: 9_000, 1: 14_000, 2: 9_300})).sort("rank").iter_rows(named=True)
    assert (exact["offset_ns"], ahead["offset_ns"], late["offset_ns"]) == (0, 5_000, 0)
    assert (exact["residual_ns"], ahead["residual_ns"], late["residual_ns"]) == (0, 0, 0)
    assert (exact["most_residual_ns"], ahead["most_residual_ns"], late["most_residual_ns"]) == (0, 0, 300)
    assert {row["collective_count"] for row in (exact, ahead, late)} == {6}


def test_ranks_that_nothing_links_have_a_median_rank_for_each_set() -> None:
    assert clocks({0: 0, 1: 700}, {2: 10, 3: 0, 4: 10}) == [(0, 0, 0), (700, 0, 0), (0, 0, 2), (-10, 0, 2), (0, 0, 2)]


def test_ends_that_do_not_fit_tell_no_clock() -> None:
    apart = [{0: n * 1_000_000, 1: n * 5_000_000} for n in range(5)]
    assert [(offset, first) for offset, _, first in clocks(*apart)] == [(None, None)] * 2


def test_every_rank_has_a_row_also_without_collectives() -> None:
    job = draw("comm |CC.DD|", "comm |CC.DD|", "compute |AAAAA|")
    assert job.clocks().select("rank", "collective_count", "offset_ns").rows() == [(0, 2, 0), (1, 2, 0), (2, 0, None)]
    assert draw("compute |A|").table("clocks")["offset_ns"].to_list() == [None]


def test_clocks_that_count_from_different_moments_are_not_apart(tmp_path: Path) -> None:
    begun_ns = 1_759_300_074_000_000_000
    later = [{**event, "ts": event["ts"] + 2_000.25} for event in EVENTS]
    write_trace(tmp_path / "0.json", rank=0, baseTimeNanoseconds=begun_ns + 2_000_250)
    write_trace(tmp_path / "1.json", rank=1, events=later, baseTimeNanoseconds=begun_ns)
    job = holotrace.open(tmp_path)
    assert job.clocks()["offset_ns"].to_list() == [0, 0]
    assert job.stragglers()["clock_offset_ns"].to_list() == [0, 0]


@pytest.mark.parametrize("base", ["today", None, True, -1, 1e18, 1 << 63, [0]])
def test_a_beginning_that_cannot_be_is_none(base: object) -> None:
    assert base_ns({"baseTimeNanoseconds": base}) == 0


def test_clocks_are_a_table_to_query(tmp_path: Path) -> None:
    write_trace(tmp_path / "0.json", rank=0)
    write_trace(tmp_path / "1.json", rank=1, events=[{**event, "ts": event["ts"] + 3} for event in EVENTS])
    found = holotrace.open(tmp_path).query("SELECT rank FROM clocks WHERE offset_ns > 0")
    assert found["rank"].to_list() == [1]
