"""When ranks come to collectives, and waiting that counts once."""

from __future__ import annotations

import polars as pl

from drawing import US, draw
from holotrace.analyses.stragglers import stragglers
from holotrace.derive import arrivals


def calls(*drawings: str) -> pl.DataFrame:
    """What all ranks contribute."""
    job = draw(*drawings)
    return pl.concat(job.map(lambda rank: stragglers.part(rank, {}), stragglers.reads))


def test_a_rank_waits_from_its_arrival_until_the_last_one_has_come() -> None:
    arrived = arrivals.of_ranks(calls("comm |CCCC|", "comm |..CC|")).sort("rank")
    assert arrived.select("rank", "waited_ns", "lost_ns").rows() == [(0, 2 * US, 2 * US), (1, 0, 0)]
    assert arrived["come_ns"].to_list() == [2 * US] * 2


def test_what_a_rank_computes_meanwhile_is_not_lost() -> None:
    arrived = arrivals.of_ranks(calls("compute |AA..|\ncomm |CCCC|", "comm |...C|")).sort("rank")
    assert arrived.select("waited_ns", "lost_ns").row(0) == (3 * US, US)


def test_kernels_of_different_times_are_no_collective() -> None:
    early, late = "comm |C" + "." * 300 + "|", "comm |" + "." * 300 + "C|"
    others = "comm |D|\ncomm |.E|\ncomm |..F|"
    arrived = arrivals.of_ranks(calls(f"{early}\n{others}", f"{late}\n{others}"))
    assert arrived.height == 6
    assert arrived["waited_ns"].to_list() == [0] * 6


def test_spans_that_overlap_count_once_for_each_group() -> None:
    rows = pl.DataFrame({"by": [0, 0, 0, 1], "come_ns": [10, 12, 30, 12], "ns": [10, 10, 5, 10]})
    assert arrivals.once(rows, "ns", by=["by"]).to_list() == [10, 2, 5, 10]
    assert arrivals.once(rows.reverse(), "ns", by=["by"]).to_list() == [10, 5, 2, 10]
    assert arrivals.once(rows.clear(), "ns", by=["by"]).to_list() == []
