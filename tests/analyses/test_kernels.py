"""Time by kernel."""

from __future__ import annotations

import statistics
from dataclasses import replace

import polars as pl
import pytest

from drawing import device_trace, draw
from holotrace import UsageError
from holotrace.analyses import Analyses
from holotrace.core.kinds import KindRule
from holotrace.job import Job
from holotrace.present.wording import sentence


def test_runs_of_a_kernel_are_summed_up() -> None:
    job = draw("compute |AA.A.AAA|\ncomm |..BB....|")
    assert job.kernels().to_dicts() == [
        {
            "rank": 0,
            "name": "A",
            "kind": "compute",
            "count": 3,
            "sum_ns": 6_000,
            "mean_ns": 2_000,
            "min_ns": 1_000,
            "max_ns": 3_000,
            "std_ns": int(statistics.stdev([2_000, 1_000, 3_000])),
            "share_ratio": 0.75,
            "unnamed_comm_ns": 0,
        },
        {
            "rank": 0,
            "name": "B",
            "kind": "communication",
            "count": 1,
            "sum_ns": 2_000,
            "mean_ns": 2_000,
            "min_ns": 2_000,
            "max_ns": 2_000,
            "std_ns": None,
            "share_ratio": 0.25,
            "unnamed_comm_ns": 0,
        },
    ]


def test_waiting_is_no_kernel() -> None:
    assert draw("compute |A|\nsync |B|\nother |C|").kernels()["name"].to_list() == ["A"]


def test_top_keeps_the_largest_of_each_rank() -> None:
    job = draw("compute |A.BBB.CC|", "compute |AAAA.B|")
    assert job.kernels(top=1).select("rank", "name").rows() == [(0, "B"), (1, "A")]
    with pytest.raises(UsageError, match="from 1"):
        job.kernels(top=0)


def test_shares_are_of_all_runs_also_where_only_the_largest_are_shown() -> None:
    assert draw("compute |A.BBB|").kernels(top=1)["share_ratio"].to_list() == [0.75]


def test_kernels_without_name_or_duration_are_kept() -> None:
    rows: list[dict[str, object]] = [{"name": None, "kind": "compute", "start_ns": 5, "end_ns": 5}]
    assert Job.from_ranks({0: device_trace(rows)}).kernels().select("name", "count", "share_ratio").rows() == [
        (None, 1, None)
    ]


def rules(table: pl.DataFrame) -> list[str]:
    return [finding.rule for finding in Analyses.kernels.findings(table)]


def job_of(*ranks: list[tuple[str, int, int]]) -> pl.DataFrame:
    """Kernels of each rank: name, how often, how long."""
    traces = {}
    for rank, kernels in enumerate(ranks):
        rows: list[dict[str, object]] = [
            {"name": name, "kind": "compute", "start_ns": 0, "end_ns": duration}
            for name, count, duration in kernels
            for _ in range(count)
        ]
        traces[rank] = device_trace(rows)
    return Job.from_ranks(traces).kernels()


def test_many_tiny_kernels_are_found_once_for_all_ranks() -> None:
    tiny = [("add", 2_000, 2_000), ("gemm", 100, 50_000)]
    (found,) = Analyses.kernels.findings(job_of(tiny, tiny))
    assert (found.rule, found.ranks, found.cost_ns) == ("tiny-kernels", (0, 1), None)
    assert rules(job_of([("add", 500, 2_000)])) == []
    assert rules(job_of([("add", 2_000, 2_000), ("gemm", 4_000, 50_000)])) == []


def test_an_outlying_run_costs_what_it_took_beyond_the_mean() -> None:
    table = job_of([("gemm", 99, 1_000), ("gemm", 1, 101_000)])
    (found,) = Analyses.kernels.findings(table)
    assert (found.rule, found.cost_ns) == ("outlying-runs", 101_000 - 2_000)


def test_outlying_runs_of_many_kernels_are_one_finding() -> None:
    busy = [(name, count, ns) for name in ("a", "b", "c") for count, ns in ((99, 1_000), (1, 101_000))]
    (found,) = Analyses.kernels.findings(job_of(busy, busy))
    assert sentence(found) == "3 kernels have runs of up to 50.5 times their average, above all a"
    assert (found.ranks, found.cost_ns) == ((0, 1), 3 * 99_000)


def test_names_of_thousands_of_characters_are_cut_in_messages() -> None:
    name = "k" * 3_000
    (found,) = Analyses.kernels.findings(job_of([(name, 99, 1_000), (name, 1, 101_000)]))
    assert len(sentence(found)) < 150


def queues(grid: int, *, comm: str = "acme_dispatch", ranks: int = 2, kinds: tuple[KindRule, ...] = ()) -> Job:
    """Ranks with a matrix product on one queue and a kernel of a library on another, for a third of the time."""
    rows: list[dict[str, object]] = [
        {"name": "gemm", "stream": 7, "grid": "[512, 8, 1]", "start_ns": 0, "end_ns": 200},
        {"name": comm, "stream": 20, "grid": f"[{grid}, 1, 1]", "start_ns": 50, "end_ns": 150},
    ]
    rows = [row | {"kind": "compute", "category": "kernel", "device": 0, "event_id": n} for n, row in enumerate(rows)]
    return Job.from_ranks({n: replace(device_trace(rows, rank=n), kinds=kinds) for n in range(ranks)})


def test_kernels_that_look_like_communication_and_have_no_rule_are_pointed_at() -> None:
    # A job that spent 113 of 130 ms in dispatch and combine was 100 % compute.
    job = queues(24)
    assert job.kernels().select("name", "unnamed_comm_ns").rows() == [("gemm", 0), ("acme_dispatch", 100)] * 2
    (found,) = Analyses.kernels.findings(job.kernels())
    assert (found.rule, found.ranks, found.values) == ("unknown-communication", (0, 1), {"names": ["acme_dispatch"]})


@pytest.mark.parametrize(
    "job",
    [
        queues(132),
        queues(24, ranks=1),
        queues(24, comm="triton_poi_fused_add"),
        queues(24, kinds=(KindRule("compute", "acme"),)),
    ],
    ids=["many blocks", "one rank", "a built-in rule", "a rule of one's own"],
)
def test_kernels_with_a_rule_or_many_blocks_are_not_pointed_at(job: Job) -> None:
    assert rules(job.kernels()) == []
