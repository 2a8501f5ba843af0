"""Work belongs to the ranges in which it was launched, or in which it began on the device."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

import holotrace
from drawing import US, draw, trace
from holotrace import Job, sample
from holotrace.analyses.annotated_work import annotated_work
from holotrace.core.tables import ANNOTATIONS
from holotrace.present.wording import sentence


def work_of(drawing: str) -> dict[str, tuple[int, int]]:
    """Count and microseconds of the work of each range."""
    table = draw(drawing).annotated_work()
    return {name: (count, ns // US) for name, count, ns in table.select("name", "work_count", "work_ns").iter_rows()}


def test_work_belongs_to_the_range_that_launched_it_wherever_it_runs() -> None:
    assert work_of("""
            range   |RRRRSSSS......|
            host    |.A....B.......|
            compute |....AAAA..BBB.|
        """) == {"R": (1, 4), "S": (1, 3)}


def test_work_belongs_to_every_range_around_its_launch() -> None:
    assert work_of("""
            range   |RRRRRRRR....|
            range   |..SSS.......|
            host    |A..B..C.D...|
            compute |.AA.BB.CC.DD|
        """) == {"R": (3, 6), "S": (1, 2)}


def test_a_launch_belongs_to_the_range_that_starts_with_it_and_not_to_the_one_that_ends_there() -> None:
    assert work_of("range |RRSS|\nhost |..A.|\ncompute |..AA|") == {"R": (0, 0), "S": (1, 2)}


def test_waiting_on_the_device_is_no_work() -> None:
    assert work_of("range |RRRR|\nhost |A...|\nsync |.AA.|") == {"R": (0, 0)}


def test_runs_of_a_range_are_described() -> None:
    (row,) = draw("range |RR..RRRR..RRR|").annotated_work().to_dicts()
    assert row | {"name": "R", "count": 3, "sum_ns": 9 * US, "mean_ns": 3 * US, "std_ns": US} == row
    assert (row["min_ns"], row["max_ns"]) == (2 * US, 4 * US)


def test_a_launch_of_another_thread_belongs_to_no_range_of_this_one() -> None:
    rank = trace("range |RRRR|\nhost |.A..|\ncompute |..AA|")
    elsewhere = rank[ANNOTATIONS].with_columns(tid=pl.lit("2").cast(pl.Categorical()))
    job = Job.from_ranks({0: replace(rank, tables={**rank.tables, ANNOTATIONS.name: elsewhere})})
    assert job.annotated_work()["work_count"].to_list() == [0]


def test_ranges_on_the_device_hold_what_began_on_their_queue() -> None:
    rank = trace("range |RRRR..|\ncompute |A.BBBB|\ncomm |.CC...|")
    compute_queue = {"pid": pl.lit("0").cast(pl.Categorical()), "tid": pl.lit("1").cast(pl.Categorical())}
    drawn = rank[ANNOTATIONS].with_columns(on_device=True, **compute_queue)
    job = Job.from_ranks({0: replace(rank, tables={**rank.tables, ANNOTATIONS.name: drawn})})
    assert job.annotated_work(on_device=True).select("name", "work_count", "work_ns").rows() == [("R", 2, 5 * US)]
    assert job.annotated_work().is_empty()


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Job, sample.Truth]:
    folder = tmp_path_factory.mktemp("sample")
    truth = sample.write(folder, ranks=2, steps=5, compress=False)
    return holotrace.open(folder), truth


def test_the_run_that_took_ten_times_as_long_is_named(sampled: tuple[Job, sample.Truth]) -> None:
    job, truth = sampled
    (finding,) = annotated_work.findings(job.annotated_work())
    assert finding.rule == "outlying-range"
    assert "DataLoader" in sentence(finding)
    assert finding.ranks == truth.ranks
    assert finding.cost_ns == pytest.approx(truth.stall_ns, rel=0.01)


def test_work_is_what_counting_launch_by_launch_gives(sampled: tuple[Job, sample.Truth]) -> None:
    job = sampled[0].only(0)
    launches = job.table("launches").join(
        job.table("device_events"), left_on="device_event_id", right_on="event_id", suffix="_of_work"
    )
    launches = launches.filter(pl.col("kind").is_in(["compute", "communication", "memory"]))
    counted: dict[str, int] = {}
    for name, pid, tid, start_ns, end_ns in (
        job.table("annotations").filter(~pl.col("on_device")).select("name", "pid", "tid", "start_ns", "end_ns").rows()
    ):
        within = launches.filter(
            pl.col("pid") == pid, pl.col("tid") == tid, pl.col("launch_start_ns").is_between(start_ns, end_ns, "left")
        )
        counted[name] = counted.get(name, 0) + within.select((pl.col("end_ns") - pl.col("start_ns")).sum()).item()
    assert dict(job.annotated_work().select("name", "work_ns").iter_rows()) == counted


def test_few_runs_and_short_ones_are_no_outliers() -> None:
    drawing = "range |R.R.R.RRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRR|"
    assert annotated_work.findings(draw(drawing).annotated_work()) == []
