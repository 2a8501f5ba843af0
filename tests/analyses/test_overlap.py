"""Communication behind computation."""

from __future__ import annotations

from drawing import draw
from holotrace.analyses import Analyses


def test_half_of_the_allreduce_is_hidden() -> None:
    job = draw("compute |AAAA....BB|\ncomm    |..CCCC....|")
    assert job.overlap().rows() == [(0, 4_000, 2_000, 2_000, 0.5, 0.2)]


def test_communication_on_two_queues_counts_once() -> None:
    job = draw("compute |AA....|\ncomm |.BBBB.|\ncomm2 |..CCCC|")
    assert job.overlap()["comm_ns"].to_list() == [5_000]


def test_without_communication_nothing_is_a_share_of_it() -> None:
    assert draw("compute |AAAA|").overlap().rows() == [(0, 0, 0, 0, None, 0.0)]


def test_without_work_nothing_is_a_share_of_the_time() -> None:
    assert draw("sync |AAAA|").overlap().rows() == [(0, 0, 0, 0, None, None)]


def test_copies_hide_no_communication() -> None:
    assert draw("copy |AAAA|\ncomm |CCCC|").overlap()["hidden_ratio"].to_list() == [0.0]


def found(*ranks: str) -> list[tuple[str, int | None]]:
    return [(f.severity, f.cost_ns) for f in Analyses.overlap.findings(draw(*ranks).overlap())]


def test_exposed_communication_costs_what_the_rank_that_waits_least_is_exposed() -> None:
    late = "compute |AAAAAAAA..|\ncomm    |........CC|"
    early = "compute |AAAA......|\ncomm    |....CCCCCC|"
    assert found(late, early, early) == [("warning", 2_000)]
    assert found(early, early) == [("critical", 6_000)]


def test_hidden_communication_is_no_finding() -> None:
    assert found("compute |AAAA|\ncomm |.CC.|") == []


def test_a_rank_that_waits_for_nobody_clears_the_transfer() -> None:
    # The others wait for rank 0, which is not what this rule is about.
    assert found("compute |AAAA|\ncomm |...C|", "compute |A...|\ncomm |.CCC|") == []
