"""Launches that wait in the device's queues."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawing import device_trace, draw
from holotrace.analyses import Analyses
from holotrace.errors import UsageError
from holotrace.job import Job

COUNTS = ["min_count", "p50_count", "p95_count", "max_count"]


def launched(launch_ns: int | None, start_ns: int, *, stream: int = 7, launch: int | None = None) -> dict[str, Any]:
    """A kernel of 10 ns with the time, and perhaps the number, of its launch."""
    times = {"start_ns": start_ns, "end_ns": start_ns + 10, "launch_ns": launch_ns}
    return {"category": "kernel", "kind": "compute", "device": 0, "stream": stream, "launch_id": launch, **times}


def job(*events: dict[str, Any]) -> Job:
    return Job.from_ranks({0: device_trace([{"event_id": 1000 + n, **e} for n, e in enumerate(events)])})


def test_a_launch_waits_until_its_work_begins() -> None:
    table = draw(
        """
        host    |A.B.......|
        compute |....AAA.BB|
        """
    ).queue_length()
    assert table.select("start_ns", "end_ns", "launch_count").row(0) == (0, 8_000, 2)
    # One waits for 2 µs, two for 2 µs, one for 4 µs.
    assert table["mean_count"].item() == pytest.approx((2 * 1 + 2 * 2 + 4 * 1) / 8)
    assert table.select(COUNTS).row(0) == (0, 1, 2, 2)


def test_each_stream_has_a_queue() -> None:
    table = draw("host |ABB...|\ncompute |.AA...|\ncopy |...B.B|").queue_length()
    assert table.select("stream", "launch_count", "max_count").rows() == [(1, 1, 1), (2, 2, 2)]


def test_over_time_every_change_is_a_row_until_the_next() -> None:
    table = job(launched(100, 200, launch=1), launched(110, 250, launch=2)).queue_length(over_time=True)
    changes = table.select("start_ns", "end_ns", "event_id", "launch_count", "max_count").rows()
    assert changes == [(100, 110, 1, 1, 1), (110, 200, 2, 1, 2), (200, 250, 1000, 0, 1), (250, 250, 1001, 0, 0)]
    assert table["mean_count"].to_list() == [1, 2, 1, 0]


def test_a_graph_waits_once_per_queue_until_its_first_kernel() -> None:
    graph = [launched(0, start, stream=stream, launch=5) for start, stream in ((30, 7), (10, 7), (20, 7), (40, 8))]
    table = job(*graph).queue_length()
    assert table.select("stream", "end_ns", "launch_count", "max_count").rows() == [(7, 10, 1, 1), (8, 40, 1, 1)]


def test_work_that_starts_when_it_is_launched_does_not_make_a_length_negative() -> None:
    table = job(launched(50, 50, launch=1)).queue_length()
    assert table["min_count"].to_list() == [0]
    assert table.select("mean_count", "full_ratio").row(0) == (None, None)


def test_clocks_that_differ_show_as_a_length_below_0() -> None:
    assert job(launched(20, 10, launch=1)).queue_length()["min_count"].to_list() == [-1]


def test_work_without_a_known_launch_is_in_no_queue() -> None:
    assert job(launched(None, 10)).queue_length().is_empty()


def test_a_queue_is_full_from_so_many_launches_on() -> None:
    text = "host |AAA.......|\ncompute |.......A..|\ncompute |....AA.AAA|"
    full = draw("host |ABC.......|\ncompute |....A.B..C|").queue_length(full_at=2)
    # Two wait from 1 to 6, three of them from 2 to 4; the device is idle but for the fifth microsecond.
    assert full.select("full_ns", "full_idle_ns", "full_ratio").row(0) == (5_000, 4_000, pytest.approx(5 / 9))
    assert draw(text).queue_length(full_at=99)["full_ns"].sum() == 0


def test_full_at_0_is_an_error_that_says_what_can_be() -> None:
    with pytest.raises(UsageError, match="any whole number from 1"):
        draw("compute |A|").queue_length(full_at=0)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(7, 8)), min_size=1, max_size=8))
def test_lengths_are_those_counted_instant_by_instant(launches: list[tuple[int, int, int]]) -> None:
    asked = job(*(launched(at, at + wait, stream=s, launch=n) for n, (at, wait, s) in enumerate(launches)))
    for row in asked.queue_length(full_at=2).iter_rows(named=True):
        own = [(at, at + wait) for at, wait, stream in launches if stream == row["stream"]]
        lengths = [sum(at <= now < end for at, end in own) for now in range(row["start_ns"], row["end_ns"])]
        assert (row["start_ns"], row["end_ns"]) == (min(at for at, _ in own), max(end for _, end in own))
        assert row["full_ns"] == sum(length >= 2 for length in lengths)
        if lengths:
            assert row["mean_count"] == pytest.approx(sum(lengths) / len(lengths))
            assert row["p50_count"] == sorted(lengths)[(len(lengths) - 1) // 2]
    series = asked.queue_length(over_time=True)
    assert series.group_by("stream").agg(pl.col("max_count").last())["max_count"].unique().to_list() == [0]


def found(text: str, *, full_at: int) -> list[tuple[str, int | None]]:
    table = draw(text).queue_length(full_at=full_at)
    return [(finding.severity, finding.cost_ns) for finding in Analyses.queue_length.findings(table)]


def test_a_host_that_waits_while_the_device_works_costs_nothing() -> None:
    text = "host |AAAA......|\ncompute |AAA.......|\ncompute |.AAAAAAAA.|"
    assert found("host |ABCD......|\ncompute |AAABBBCCCD|", full_at=1) == [("info", 0)]
    assert found(text, full_at=50) == []


def test_a_full_queue_that_keeps_the_device_idle_costs_that_time() -> None:
    # Both wait from 1 to 4, and nothing runs.
    assert found("host |AB........|\ncompute |....A...B.|", full_at=2) == [("warning", 3_000)]


def test_a_series_has_the_findings_of_its_summary() -> None:
    asked = draw("host |AB........|\ncompute |....A...B.|")
    summary, series = asked.queue_length(full_at=2), asked.queue_length(full_at=2, over_time=True)
    assert Analyses.queue_length.findings(series) == Analyses.queue_length.findings(summary)
