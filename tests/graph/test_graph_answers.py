"""What the graph of a job answers: why ranks wait, what is slow, what a change would gain."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal
from test_job_graph import recordings

import holotrace
import holotrace.analyses
from drawing import described, draw, trace
from holotrace import Within
from holotrace.cli import main
from holotrace.graph import JobGraph, packed
from holotrace.graph.waits import causes
from holotrace.job import Job
from trace_files import REAL_TRACES, needs_real_traces, write_trace
from xplane_files import capture

US = 1_000
EARLY = """
    step    |111.......................................|
    host    |AC........................................|
    compute |..AA......................................|
    comm    |....CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC......|
"""
LATE = """
    step    |111.......................................|
    host    |AC........................................|
    compute |..AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA........|
    comm    |..................................CC......|
"""


def test_answers_about_a_graph_were_kept_and_made_once_for_each_analysis() -> None:
    asked = [Job.replay, Job.waits, Job.factors, Job.slowdown]
    assert len({analysis.part_name for analysis in asked}) == 1
    assert len({analysis.shares for analysis in asked}) == 1
    made = holotrace.analyses.ALL  # every other part has a name of its own
    assert len({(analysis.part_name, analysis.part_columns) for analysis in made}) == len(
        {analysis.part_name for analysis in made}
    )


def test_packed_rows_of_a_graph_are_what_they_were() -> None:
    activities = pl.DataFrame(
        {"rank": [0, 0, 0], "start_ns": [10, 14, 5], "end_ns": [14, 20, 30], "own_ns": [4, 2, 25]}
    ).with_columns(event_id=pl.Series([7, None, 3], dtype=pl.UInt32))
    edges = pl.DataFrame({"rank": [0, 0, 0], "from_point": [9, 1, 2], "to_point": [2, 4, 4]})
    edges = edges.cast({"from_point": pl.UInt32, "to_point": pl.UInt32})
    assert_frame_equal(packed.activities(activities).with_columns(packed.unpacked_activities()), activities)
    assert_frame_equal(packed.edges(edges).with_columns(packed.unpacked_edges()), edges)


def job() -> Job:
    """Rank 0 waits 30 µs for rank 1, which computes so much longer."""
    return Job.from_ranks({rank: described(trace(text, rank), sequence=1) for rank, text in enumerate((EARLY, LATE))})


def test_wait_is_the_difference_of_what_both_ranks_did() -> None:
    (compute,) = job().waits().filter(pl.col("kind") == "compute").to_dicts()
    assert (compute["rank"], compute["waiting_rank"], compute["signature"]) == (1, 0, "A")
    assert (compute["excess_ns"], compute["waited_ns"]) == (32 * US, 30 * US)


def test_slow_rank_is_the_one_that_makes_the_job_slow() -> None:
    table = job().slowdown()
    of_rank = {row["rank"]: row for row in table.filter(pl.col("of") == "rank").to_dicts()}
    assert of_rank[1]["slowdown_ratio"] > of_rank[0]["slowdown_ratio"]
    assert table.filter(pl.col("of") == "job")["slowdown_ratio"].item() == of_rank[1]["slowdown_ratio"]


def test_what_goes_of_a_slowdown_is_a_share_of_it_and_of_none_is_unknown() -> None:
    """A rank that is faster than the mean of all made a job slower by three times what the job had lost."""
    shares = job().slowdown()["recovered_ratio"]
    assert shares.null_count() == 0
    assert shares.is_between(0, 1).all()
    even = Job.from_ranks({rank: described(trace(EARLY, rank), sequence=1) for rank in range(2)})
    assert even.slowdown()["recovered_ratio"].null_count() == even.slowdown().height > 0


def test_factors_are_closed() -> None:
    table = job().factors()
    factors = ("host_ratio", "balance_ratio", "copy_ratio", "communication_ratio")
    product = table.select(pl.fold(pl.lit(1.0), lambda whole, factor: whole * factor, factors)).to_series()
    computed = table["compute_ns"].mean()
    assert isinstance(computed, float)
    assert product.to_list() == pytest.approx([computed / table["job_ns"][0]] * 2)
    assert table["efficiency_ratio"].to_list() == pytest.approx(product.to_list())


def test_ranks_that_never_meet_have_no_factors_of_a_job() -> None:
    alone = {rank: trace(text.partition("    comm ")[0], rank) for rank, text in enumerate((EARLY, LATE))}
    assert Job.from_ranks(alone).factors()["balance_ratio"].to_list() == [None, None]
    assert Job.from_ranks({0: alone[0]}).factors()["balance_ratio"].to_list() == [1.0]


@pytest.mark.parametrize(("last", "is_known"), [(60, True), (58, True), (50, False)])
def test_ranks_that_were_recorded_at_other_times_have_no_factors(last: int, *, is_known: bool) -> None:
    """Of recordings of some milliseconds that did not begin and end together 6 to 13% was lost to unequal work."""
    lanes = [
        f"""
        host    |ABC{"." * 57}|
        compute |.AAA...{"C" * (until - 7)}{"." * (60 - until)}|
        comm    |....BBB{"." * 53}|
        """
        for until in (60, last)
    ]
    ranks = {rank: described(trace(text, rank), sequence=1) for rank, text in enumerate(lanes)}
    assert (Job.from_ranks(ranks).factors()["balance_ratio"].null_count() == 0) == is_known


def test_communication_with_ranks_that_were_not_recorded_is_not_laid_to_the_host() -> None:
    alone = draw("""
        step    |1111........................................................|
        host    |ABC.........................................................|
        compute |.AAAAAAAAAAAAAAAAAAAA.............................CCCCCCCCCC|
        comm    |.....................BBBBBBBBBBBBBBBBBBBBBBBBBBBBB..........|
    """)
    row = alone.factors().row(0, named=True)
    assert row["communication_ratio"] < 0.7 and row["host_ratio"] > 0.8


def test_what_hosts_do_before_the_first_work_is_no_factor_of_a_job_without_steps() -> None:
    """Devices seemed to wait for their host most of the time, of which no cause tells."""
    late = draw("""
        host    |........................................A..B.................|
        compute |..........................................AAAA.BBBBBBBBBBBBBB|
        range   |RRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRR.....................|
    """)
    row = late.factors().row(0, named=True)
    assert (row["job_ns"], row["host_ratio"]) == (19 * US, pytest.approx(18 / 19))
    assert late.causes().is_empty()


def test_job_gains_when_its_late_rank_is_like_the_other() -> None:
    table = holotrace.what_if(job(), {"compute": 0.5}, within=Within(ranks=(1,)))
    assert table["rank"].to_list() == [None, 0, 1]
    assert table["saved_ns"].to_list() == [16 * US] * 3
    other = holotrace.what_if(job(), {"compute": 0.5}, within=Within(ranks=(0,)))
    assert other["saved_ns"].to_list() == [0] * 3


def test_faster_links_shorten_the_transfer_only() -> None:
    assert holotrace.what_if(job(), bandwidth=2)["saved_ns"].to_list() == [1 * US] * 3


def test_ranks_like_the_median_are_alike() -> None:
    three = {rank: described(trace(text, rank), sequence=1) for rank, text in enumerate((EARLY, LATE, EARLY))}
    table = holotrace.what_if(Job.from_ranks(three), like="median")
    assert table["saved_ns"][0] == 30 * US


@pytest.mark.parametrize(
    "options", [{"scale": {"host": -1.0}}, {"scale": {"(": 0.5}}, {"like": "mean"}, {"bandwidth": 0.0}]
)
def test_what_cannot_be_changed_is_said(options: dict[str, object]) -> None:
    with pytest.raises(holotrace.UsageError, match="it can be"):
        holotrace.what_if(job(), **options)  # type: ignore[arg-type]  # wrong on purpose


def test_step_or_name_that_is_not_there_is_said() -> None:
    with pytest.raises(holotrace.MissingDataError, match="no rank has step 9"):
        holotrace.what_if(job(), step=9)
    with pytest.raises(holotrace.MissingDataError, match="has a name with 'nowhere'"):
        holotrace.what_if(job(), {"nowhere": 0})


def test_nothing_is_claimed_of_a_rank_whose_replay_is_far_off() -> None:
    # B starts long after all that is known of it: something else held it up.
    far = draw(f"step |11{'.' * 60}|\nhost |AB{'.' * 60}|\ncompute |..AA{'.' * 50}BBBB....|")
    table = holotrace.what_if(far, {"compute": 0.5})
    assert table["error_ratio"][0] < -0.05
    assert table["saved_ns"].to_list() == [None, None]


def test_whole_job_is_a_command(tmp_path: Path) -> None:
    file = write_trace(tmp_path / "rank-0.json", rank=0)
    said = CliRunner().invoke(main, ["what-if", str(file), "--like-median", "--format", "json"])
    assert said.exit_code == 0, said.output
    assert '"new_ns"' in said.output
    nothing = CliRunner().invoke(main, ["what-if", str(file)])
    assert nothing.exit_code == 2


@needs_real_traces
@pytest.mark.slow
def test_waits_of_real_jobs_are_closed_to_the_nanosecond() -> None:
    for folder in recordings():
        terms = causes(JobGraph.of(holotrace.open(folder)))
        sums = terms.group_by("activity").agg(pl.col("ns").sum(), pl.col("waited_ns").first())
        assert sums.filter(pl.col("ns") != pl.col("waited_ns")).is_empty()


@needs_real_traces
@pytest.mark.parametrize(("name", "rank", "kind"), [("d2_loader", 1, "data_loading"), ("d3_slow_gpu", 3, "compute")])
def test_planted_fault_is_what_others_wait_for(name: str, rank: int, kind: str) -> None:
    folder = REAL_TRACES.parent / "faults"
    if not folder.is_dir():
        pytest.skip("no made-up jobs with faults")
    with_fault = holotrace.open(folder / name)
    most = with_fault.waits().sort("excess_ns", descending=True).head(1)
    assert most.select("rank", "kind").rows() == [(rank, kind)]
    truth = json.loads((folder / "truth.json").read_text())[name]
    gain = holotrace.what_if(with_fault, like="median", within=Within(ranks=(rank,)))["saved_ns"][0]
    assert gain == pytest.approx(truth["cost_ns"], rel=0.05)


def test_work_that_was_launched_before_the_first_step_counts_where_it_runs_in_it() -> None:
    """Of a healthy job whose host runs a step ahead, devices were said to compute 83 % of the time, and not 97 %."""
    job = draw("""
        step    |....1111111111112222222222222|
        host    |A...B..........C.............|
        compute |.AAAAAAAAAAABBBBBBBBBCCCCCCCC|
        op      |O...OOOOOOOOOOOOOOOOOOOOOOOOO|
    """)
    (found,) = job.factors().to_dicts()
    assert found["host_ratio"] == pytest.approx(1)
    assert found["compute_ns"] == found["job_ns"] == 25 * US


def test_a_rank_of_four_devices_computes_for_no_longer_than_the_busiest_of_them(tmp_path: Path) -> None:
    """All devices' time was one device's: a job at 18% of work was said to compute for 48% of the time."""
    job = holotrace.open(capture("jax_cpu_gaps", tmp_path))
    (found,) = job.factors().to_dicts()
    assert found["compute_ns"] <= job.duty_cycle()["work_ns"].max()
    assert found["efficiency_ratio"] == pytest.approx(found["compute_ns"] / found["job_ns"])
    assert job.waits().filter(pl.col("excess_ns") != 0).is_empty()


def test_a_device_that_copies_waits_for_no_host() -> None:
    """A TPU that waited for its own copies for 97% of the time was said to wait for the host."""
    job = draw("""
        step    |1111111111111111|
        host    |AM..............|
        compute |.AAAA...........|
        copy    |...MMMMMMMMMMMMM|
        op      |OO..............|
    """)
    (found,) = job.factors().to_dicts()
    assert found["copy_ratio"] == pytest.approx(4 / 15)
    assert found["host_ratio"] > 0.9
