"""Sends and receives in the graph of a job: a stage of a pipeline waits for the one before it."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from drawing import described, trace
from holotrace.graph import Changes, JobGraph
from holotrace.job import Job

US = 1_000
FIRST = """
    step    |111.......................................|
    host    |AC........................................|
    compute |..AAAAAAAAAAAAAAAAAAAA....................|
    comm    |......................CC..................|
"""
SECOND = """
    step    |111.......................................|
    host    |CB........................................|
    comm    |..CCCCCCCCCCCCCCCCCCCCCC..................|
    compute |........................BBBBBB............|
"""
OF_TWO = {"group": "pp", "group_ranks": "[0, 1]", "group_size": 2}


def job(first: dict[str, Any], second: dict[str, Any]) -> Job:
    return Job.from_ranks({0: described(trace(FIRST), **first), 1: described(trace(SECOND, 1), **second)})


def test_receive_waits_for_its_send() -> None:
    graph = JobGraph.of(job({"collective": "send", **OF_TWO}, {"collective": "recv", **OF_TWO}))
    assert (graph.counts.met_count, graph.counts.cut_count) == (2, 0)
    work = graph.activities.filter(pl.col("name") == "C")
    assert work["own_ns"].to_list() == [2 * US, 2 * US]
    faster = graph.activities.filter(pl.col("name") == "A", pl.col("is_device")).select("activity", own_ns=10 * US)
    assert graph.step_times([Changes(own=faster)]).filter(rank=1)["replayed_ns"][0] == 20 * US


def test_path_goes_from_the_stage_that_waits_to_the_one_that_sends() -> None:
    table = job({"collective": "send", **OF_TWO}, {"collective": "recv", **OF_TWO}).job_path()
    computed = table.filter(pl.col("bound_by") == "compute").select("rank", "name").rows()
    assert sorted(computed) == [(0, "A"), (1, "B")]


def test_peers_are_those_that_were_recorded() -> None:
    of_four = {"group": "pp", "group_ranks": "[0, 1, 2, 3]", "group_size": 4}
    sent = {"collective": "send", "destination_rank": 1, **of_four}
    graph = JobGraph.of(job(sent, {"collective": "recv", "source_rank": 0, **of_four}))
    assert graph.counts.met_count == 2


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"collective": "send"}, {"collective": "send"}),
        ({"collective": "send", "group": "a"}, {"collective": "recv", "group": "b"}),
        ({"collective": "send", "destination_rank": 7}, {"collective": "recv", "source_rank": 7}),
    ],
    ids=["two sends", "other groups", "absent peer"],
)
def test_ends_that_do_not_fit_are_cut_and_counted(first: dict[str, Any], second: dict[str, Any]) -> None:
    graph = JobGraph.of(job({**OF_TWO, **first}, {**OF_TWO, **second}))
    assert (graph.counts.met_count, graph.counts.cut_count) == (0, 2)


def test_a_sender_that_left_long_before_had_not_waited() -> None:
    early = trace(f"step |111{'.' * 300}|\nhost |C.{'.' * 301}|\ncomm |..CC{'.' * 299}|")
    late = trace(f"step |111{'.' * 300}|\nhost |C.{'.' * 301}|\ncomm |..{'.' * 250}CC{'.' * 49}|", 1)
    ranks = {0: described(early, collective="send", **OF_TWO), 1: described(late, collective="recv", **OF_TWO)}
    assert JobGraph.of(Job.from_ranks(ranks)).counts.cut_count == 2
