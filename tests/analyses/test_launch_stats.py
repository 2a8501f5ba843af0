"""Launches and what they start."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from drawing import device_trace, draw
from holotrace import UsageError
from holotrace.analyses import Analyses
from holotrace.core.tables import LAUNCHES
from holotrace.core.trace import RankTrace
from holotrace.job import Job

US = 1_000


def rank_of(calls: dict[str, tuple[float, float]], work: dict[str, list[tuple[float, float]]]) -> RankTrace:
    """A rank with one call per name and the work it launched; each as start and end in µs."""
    spans = [(name, start, end) for name, launched in work.items() for start, end in launched]
    events: list[dict[str, object]] = [
        {"event_id": 100 + number, "kind": "compute", "start_ns": int(start * US), "end_ns": int(end * US)}
        for number, (_, start, end) in enumerate(spans)
    ]
    rows = [
        {
            "launch_id": list(calls).index(name),
            "device_event_id": 100 + number,
            "launch_name": name,
            "launch_start_ns": int(calls[name][0] * US),
            "launch_end_ns": int(calls[name][1] * US),
            "correlation": 7 + number,
            "pid": "1",
            "tid": "1",
        }
        for number, (name, _, _) in enumerate(spans)
    ]
    trace = device_trace(events)
    launches = pl.DataFrame(rows).select(pl.col(c.name).cast(c.unit.dtype) for c in LAUNCHES.columns)
    return replace(trace, tables={**trace.tables, LAUNCHES.name: launches})


def job_of(*ranks: RankTrace) -> Job:
    return Job.from_ranks(dict(enumerate(ranks)))


def test_each_launch_has_its_call_its_work_and_the_time_between() -> None:
    job = job_of(rank_of({"launch": (0, 5)}, {"launch": [(8, 20)]}))
    (row,) = job.launch_stats(each=True).to_dicts()
    assert row == {
        "rank": 0,
        "call": "launch",
        "launch_id": 0,
        "correlation": 7,
        "call_count": 1,
        "work_count": 1,
        "call_ns": 5_000,
        "device_ns": 12_000,
        "p50_delay_ns": 3_000,
        "max_delay_ns": 3_000,
        "short_count": 0,
        "slow_count": 0,
        "late_count": 0,
        "stalled_ns": 0,
    }


def test_work_that_begins_before_its_call_has_ended_is_not_delayed() -> None:
    job = job_of(rank_of({"launch": (0, 5)}, {"launch": [(2, 9)]}))
    assert job.launch_stats()["max_delay_ns"].to_list() == [0]


def test_calls_of_a_name_are_summed_the_longest_first() -> None:
    job = draw("host |AAB...|\ncompute |..AABB..A|")
    (row,) = job.launch_stats().to_dicts()
    assert row["call"] == "cudaLaunchKernel"
    assert (row["launch_id"], row["correlation"]) == (None, None)
    assert (row["call_count"], row["work_count"], row["call_ns"], row["device_ns"]) == (3, 3, 3_000, 5_000)
    assert (row["p50_delay_ns"], row["max_delay_ns"]) == (1_000, 6_000)
    two = job_of(rank_of({"short": (0, 1), "long": (1, 9)}, {"short": [(2, 3)], "long": [(9, 10)]}))
    assert two.launch_stats()["call"].to_list() == ["long", "short"]


def test_a_graph_is_one_call_that_launches_much() -> None:
    job = job_of(rank_of({"graph": (0, 60)}, {"graph": [(70, 80), (80, 90), (200, 210)]}))
    assert job.launch_stats().select("call_count", "work_count", "call_ns", "slow_count", "stalled_ns").rows() == [
        (1, 3, 60_000, 1, 60_000)
    ]
    assert job.launch_stats(each=True)["max_delay_ns"].to_list() == [10_000, 20_000, 140_000]


def test_short_slow_and_late_are_counted_by_the_limits_that_are_asked_for() -> None:
    calls = {"a": (0.0, 10.0), "b": (10.0, 70.0), "c": (70.0, 75.0)}
    rank = rank_of(calls, {"a": [(11, 20)], "b": [(71, 72)], "c": [(180, 190)]})
    names = ("call", "short_count", "slow_count", "late_count")
    assert job_of(rank).launch_stats(each=True).select(names).rows() == [("a", 1, 0, 0), ("b", 0, 1, 0), ("c", 0, 0, 1)]
    looser = job_of(rank).launch_stats(each=True, slow_call_ns=60_000, late_ns=105_000)
    assert looser.select(names).rows() == [("a", 1, 0, 0), ("b", 1, 0, 0), ("c", 0, 0, 0)]
    with pytest.raises(UsageError, match="late_ns is -1"):
        job_of(rank).launch_stats(late_ns=-1)


def test_a_slow_call_stalls_the_device_only_while_no_work_runs() -> None:
    # Work of the first call runs for the first 40 of the 100 µs of the second.
    rank = rank_of({"a": (0, 5), "b": (10, 110)}, {"a": [(5, 50)], "b": [(112, 120)]})
    assert job_of(rank).launch_stats(each=True)["stalled_ns"].to_list() == [0, 60_000]


def test_waiting_is_not_launched() -> None:
    assert draw("host |A.|\nsync |.A|").launch_stats().is_empty()


def test_slow_launches_that_stall_the_device_are_found() -> None:
    stuck = rank_of({"a": (0, 5), "b": (10, 3_010)}, {"a": [(5, 10)], "b": [(3_012, 3_020)]})
    busy = rank_of({"a": (0, 5), "b": (10, 3_010)}, {"a": [(5, 3_010)], "b": [(3_012, 3_020)]})
    for options in ({}, {"each": True}):
        (found,) = Analyses.launch_stats.findings(job_of(busy, stuck).launch_stats(**options))
        assert (found.rule, found.ranks, found.cost_ns) == ("slow-launches", (1,), 3_000_000)
    assert Analyses.launch_stats.findings(job_of(busy).launch_stats()) == []
