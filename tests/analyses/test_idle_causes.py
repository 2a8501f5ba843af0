"""Why devices are idle."""

from __future__ import annotations

import polars as pl
import pytest

from drawing import device_trace, draw
from holotrace import UsageError
from holotrace.analyses import Analyses
from holotrace.job import Job


def causes(job: Job, max_kernel_gap_ns: int = 3_000) -> list[tuple[str, int, int]]:
    """Cause, gaps and time of a job of one rank, where pauses are shorter than 3 µs."""
    return job.idle_causes(max_kernel_gap_ns=max_kernel_gap_ns).select("cause", "count", "idle_ns").rows()


def test_work_launched_after_the_device_had_finished_waited_for_the_host() -> None:
    assert causes(draw("host |A....B...|\ncompute |.AA...B|")) == [("host_wait", 1, 3_000)]


def test_work_launched_in_time_that_follows_soon_was_held_up_by_kernels() -> None:
    assert causes(draw("host |AB......|\ncompute |.AA..B|")) == [("kernel_wait", 1, 2_000)]


def test_work_launched_in_time_that_follows_late_has_another_cause() -> None:
    assert causes(draw("host |AB......|\ncompute |.AA...B|")) == [("other", 1, 3_000)]


def test_what_a_pause_is_can_be_said() -> None:
    job = draw("host |AB......|\ncompute |.AA..B|")
    assert causes(job, max_kernel_gap_ns=2_000) == [("other", 1, 2_000)]
    assert causes(job, max_kernel_gap_ns=2_001) == [("kernel_wait", 1, 2_000)]
    with pytest.raises(UsageError, match="max_kernel_gap_ns is -1"):
        job.idle_causes(max_kernel_gap_ns=-1)


def test_work_whose_launch_is_unknown_did_not_wait_for_the_host() -> None:
    assert causes(draw("compute |A.B....C|")) == [("kernel_wait", 1, 1_000), ("other", 1, 4_000)]


def test_a_gap_is_counted_from_the_latest_end_not_from_the_last_kernel() -> None:
    # C begins after B ended, but A went on.
    rows: list[dict[str, object]] = [
        {"event_id": number, "kind": "compute", "device": 0, "stream": 7, "start_ns": start_ns, "end_ns": end_ns}
        for number, (start_ns, end_ns) in enumerate([(0, 10_000), (1_000, 2_000), (5_000, 6_000), (11_000, 12_000)])
    ]
    table = Job.from_ranks({0: device_trace(rows)}).idle_causes(by_stream=True)
    assert table.select("cause", "count", "idle_ns", "min_ns").rows() == [("kernel_wait", 3, 1_000, 0)]


def test_a_rank_is_idle_only_where_all_its_queues_are() -> None:
    job = draw("compute |AA......AA|\ncompute |...BBB....|")
    assert causes(job) == [("kernel_wait", 2, 3_000)]
    by_stream = job.idle_causes(by_stream=True, max_kernel_gap_ns=3_000)
    # The second queue ran one kernel only.
    assert by_stream.select("stream", "cause", "idle_ns", "idle_ratio").rows() == [(0, "other", 6_000, 0.6)]


def test_waiting_is_no_work() -> None:
    assert causes(draw("compute |A....A|\nsync |.SSSS.|")) == [("other", 1, 4_000)]


def test_gaps_add_up_to_the_idle_time_of_the_breakdown() -> None:
    job = draw(
        "host |A..B....D..|\ncompute |.AA....B...D.|\ncomm |..CC..C......|\ncopy |E...........E|",
        "compute |A....A.AA..A|",
    )
    idle_ns = job.idle_causes().group_by("rank").agg(pl.col("idle_ns").sum()).sort("rank")["idle_ns"]
    assert idle_ns.to_list() == job.time_breakdown()["idle_ns"].to_list()


def test_shares_of_a_queue_add_up_to_one() -> None:
    job = draw("host |A..B....D..|\ncompute |.AA....B...D.|\ncomm |..CC..C......|")
    shares = job.idle_causes(by_stream=True).group_by("stream").agg(pl.col("share_ratio").sum())
    assert shares["share_ratio"].to_list() == [1.0, 1.0]


def test_gaps_are_described() -> None:
    (row,) = draw("compute |A.A..A...A|").idle_causes(by_stream=True).to_dicts()
    del row["rank"], row["device"], row["stream"]
    assert row == {
        "cause": "kernel_wait",
        "count": 3,
        "idle_ns": 6_000,
        "idle_ratio": 0.6,
        "share_ratio": 1.0,
        "mean_ns": 2_000,
        "std_ns": 1_000,
        "min_ns": 1_000,
        "p25_ns": 1_500,
        "p50_ns": 2_000,
        "p75_ns": 2_500,
        "max_ns": 3_000,
    }


def test_a_single_kernel_leaves_no_gap() -> None:
    assert draw("compute |.A.|").idle_causes().is_empty()


def found(job: Job) -> list[tuple[str, str, tuple[int, ...], int | None]]:
    table = job.idle_causes(max_kernel_gap_ns=2_000)
    return [(f.rule, f.severity, f.ranks, f.cost_ns) for f in Analyses.idle_causes.findings(table)]


def test_waiting_for_the_host_costs_the_time_of_these_gaps() -> None:
    late = "host |A...B.....|\ncompute |.AA..BBBBBB|"
    in_time = "host |AB........|\ncompute |.AABBBBBBB|"
    assert found(draw(in_time, late)) == [("late-host", "warning", (1,), 2_000)]
    assert found(draw("host |A.......B|\ncompute |.A.......B|")) == [("late-host", "critical", (0,), 7_000)]


def test_many_pauses_are_found() -> None:
    assert found(draw("compute |A.A.A.A|")) == [("pauses-between-kernels", "info", (0,), 3_000)]


def test_a_device_that_idles_with_work_in_its_queue_is_found() -> None:
    assert found(draw("host |AB...|\ncompute |.A...B|")) == [("held-up-device", "warning", (0,), 3_000)]


def test_gaps_of_single_queues_are_no_finding() -> None:
    job = draw("compute |AA......AA|\ncompute |..BBBBBB..|")
    assert found(job) == []
    assert Analyses.idle_causes.findings(job.idle_causes(by_stream=True)) == []
