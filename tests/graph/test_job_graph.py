"""The graph of a job: what waits for what in drawn jobs and real ones, and how well a replay reproduces them."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, quantiles

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import holotrace
from drawing import EARLY, LATE, described, draw, moved, trace
from holotrace import sample
from holotrace.errors import InputError
from holotrace.graph import Changes, JobGraph
from holotrace.graph import rank as of_rank
from holotrace.job import Job
from holotrace.loading.rank import narrowed
from trace_files import REAL_TRACES, needs_real_traces

US = 1_000


def kept(graph: JobGraph) -> None:
    """With delays all is as recorded, whatever the graph."""
    assert_frame_equal(graph.replay(has_delays=True), graph.activities.select("start_ns", "end_ns"))


def named(graph: JobGraph, name: str) -> int:
    return int(graph.activities.filter(pl.col("name") == name, pl.col("is_device"))["activity"][0])


def takes(graph: JobGraph, name: str, own_ns: int) -> Changes:
    return Changes(own=pl.DataFrame({"activity": [named(graph, name)], "own_ns": [own_ns]}))


def end_ns(graph: JobGraph, name: str, changes: Changes | None = None) -> int:
    return int(graph.replay(changes or Changes())["end_ns"][named(graph, name)])


def test_work_of_a_queue_begins_when_the_work_before_it_is_shorter() -> None:
    graph = JobGraph.of(
        draw("""
            step    |11111111111111111111|
            host    |AB..................|
            compute |..AAAAAAAAAABBBB....|
        """)
    )
    kept(graph)
    assert end_ns(graph, "B", takes(graph, "A", 3 * US)) == 9 * US


def test_work_never_begins_before_its_launch() -> None:
    graph = JobGraph.of(
        draw("""
            step    |11111111111111111111|
            host    |A.........B.........|
            compute |..AAAAAAAAAABBBB....|
        """)
    )
    kept(graph)
    assert end_ns(graph, "B", takes(graph, "A", 1 * US)) > 14 * US


def test_a_collective_begins_on_all_ranks_when_the_late_rank_is_faster() -> None:
    graph = JobGraph.of(
        Job.from_ranks({rank: described(trace(text, rank), sequence=1) for rank, text in enumerate((EARLY, LATE))})
    )
    kept(graph)
    assert graph.counts.met_count == 2
    of_late = graph.activities.filter(pl.col("rank") == 1, pl.col("name") == "A")["activity"]
    faster = Changes(own=pl.DataFrame({"activity": of_late, "own_ns": [2 * US]}))
    assert graph.step_times()["replayed_ns"].to_list() == [36 * US, 36 * US]
    assert graph.step_times([faster])["replayed_ns"].to_list() == [6 * US, 6 * US]


def test_clocks_that_are_apart_do_not_move_a_collective() -> None:
    text = """
        step    |11111111111111111111|
        host    |AC..................|
        compute |..AA................|
        comm    |....CCCCCC..........|
    """
    ranks = {0: described(trace(text), sequence=1), 1: moved(described(trace(text, 1), sequence=1), 10**9)}
    graph = JobGraph.of(Job.from_ranks(ranks))
    kept(graph)
    work = graph.activities.filter("is_device")
    assert work.filter(pl.col("name") == "C")["own_ns"].to_list() == [6 * US, 6 * US]


def test_collective_of_absent_ranks_is_cut_and_counted() -> None:
    graph = JobGraph.of(
        draw("""
            step    |11111111111111111111|
            host    |AC..................|
            comm    |....CCCCCC..........|
        """)
    )
    kept(graph)
    assert (graph.counts.met_count, graph.counts.cut_count) == (0, 1)


def test_work_without_a_launch_keeps_its_time_and_is_counted() -> None:
    graph = JobGraph.of(draw("compute |..AAAA..BB|"))
    kept(graph)
    assert graph.counts.unlaunched_count == 2


def test_rank_without_steps_is_looked_at_as_a_whole() -> None:
    graph = JobGraph.of(draw("host |A.........|\ncompute |..AAAA....|"))
    assert graph.steps.select("step", "recorded_ns").rows() == [(None, 6 * US)]


def test_a_device_busy_with_unrecorded_work_is_looked_at_from_its_first_recorded_work() -> None:
    graph = JobGraph.of(
        draw("""
            host    |A..........................B...|
            compute |.........................AAAABB|
        """)
    )
    kept(graph)
    assert graph.step_times().select("recorded_ns", "replayed_ns").rows() == [(6 * US, 6 * US)]


def test_nothing_recorded_is_an_empty_graph() -> None:
    graph = JobGraph.of(draw(""))
    assert graph.step_times().is_empty()
    assert graph.counts.met_count == 0


def test_graph_of_one_step_holds_what_its_host_launched() -> None:
    job = draw("""
        step    |1111111111222222222.|
        host    |A.........B.........|
        compute |..AAAAAAAAAAABBB....|
    """)
    graph = JobGraph.of(job, step=2)
    kept(graph)
    assert graph.activities.filter("is_device")["name"].to_list() == ["B"]
    assert graph.steps["step"].to_list() == [2]


def test_a_step_whose_work_ends_before_that_of_the_step_before_it_takes_no_negative_time() -> None:
    job = draw("""
        step    |1111222233334444|
        host    |AB..C...D...E...|
        compute |.A...C...DD..E..|
        copy    |.BBBBBBBBB......|
    """)
    replay = job.replay()
    assert replay["recorded_ns"].to_list() == [10 * US, 0, 2 * US, 4 * US]
    assert (replay["replayed_ns"] >= 0).all()


def test_steps_of_a_sample_job_replay_as_they_were_recorded(tmp_path: Path) -> None:
    sample.write(tmp_path, ranks=3, steps=4, seed=5, missing_ranks=())
    graph = JobGraph.of(holotrace.open(tmp_path))
    kept(graph)
    times = graph.step_times(has_delays=True)
    assert times["recorded_ns"].to_list() == times["replayed_ns"].to_list()


def recordings() -> list[Path]:
    """Folders of the multi-rank recordings with steps, as far as they are there."""
    torchrec = REAL_TRACES / "torchrec" / "examples" / "golden_training"
    nanogpt = sorted(REAL_TRACES.glob("modded-nanogpt/**/profiler-example-traces"))
    made_up = sorted(REAL_TRACES.parent.glob("faults/d*"))
    ours = sorted(path for path in REAL_TRACES.glob("ours/cpu_gloo*") if path.is_dir())
    return [*sorted(torchrec.glob("trace/*")), *sorted(torchrec.glob("log/*")), *nanogpt, *made_up, *ours]


@needs_real_traces
@pytest.mark.slow
def test_model_error_of_real_jobs_is_within_what_is_claimed() -> None:
    errors = []
    for folder in recordings():
        graph = JobGraph.of(holotrace.open(folder))
        kept(graph)
        times = graph.step_times().filter(pl.col("recorded_ns") > 0)
        errors += times.select((pl.col("replayed_ns") / pl.col("recorded_ns") - 1).abs()).to_series().to_list()
    assert mean(errors) <= 0.033
    assert quantiles(errors, n=10)[-1] <= 0.05


@needs_real_traces
@pytest.mark.slow
def test_model_error_of_single_ranks_is_within_what_is_claimed() -> None:
    found = (path for path in REAL_TRACES.rglob("*") if path.name.endswith((".json", ".json.gz")) and path.is_file())
    means = []
    for path in sorted(path for path in found if path.stat().st_size < 6_000_000):
        if any(folder in path.parents for folder in recordings()):
            continue
        try:
            graph = JobGraph.of(holotrace.open(path))
        except holotrace.HolotraceError:
            continue
        times = graph.step_times().filter(pl.col("recorded_ns") > 0, pl.col("step").is_not_null())
        off = times.select((pl.col("replayed_ns") / pl.col("recorded_ns") - 1).abs().mean()).item()
        means += [] if off is None else [off]
    assert len(means) > 10
    assert mean(means) <= 0.033


# Faults whose cost is time of the host or of kernels on one rank: what to make like the other ranks.
_PLANTED = {"d2_loader": ("data_loading", 1), "d3_slow_gpu": ("compute", 3)}


@needs_real_traces
@pytest.mark.parametrize("name", _PLANTED)
def test_gain_of_a_planted_fault_is_what_the_simulation_without_it_gives(name: str) -> None:
    folder = REAL_TRACES.parent / "faults"
    if not folder.is_dir():
        pytest.skip("no made-up jobs with faults")
    truth = json.loads((folder / "truth.json").read_text())[name]
    graph = JobGraph.of(holotrace.open(folder / name))
    kind, rank = _PLANTED[name]
    work = graph.activities.filter(pl.col("kind") == kind).with_columns(
        number=pl.int_range(pl.len()).over("rank", "lane", order_by="start_ns")
    )
    others = work.filter(pl.col("rank") != rank).group_by("lane", "number").agg(pl.col("own_ns").median())
    own = work.filter(pl.col("rank") == rank).drop("own_ns").join(others, on=["lane", "number"])
    before, after = _job_ns(graph, Changes()), _job_ns(graph, Changes(own=own.select("activity", "own_ns")))
    assert before - after == pytest.approx(truth["cost_ns"], rel=0.05)


def _job_ns(graph: JobGraph, changes: Changes) -> int:
    """All steps of the rank that takes longest."""
    of_ranks = graph.step_times([changes]).group_by("rank").agg(pl.col("replayed_ns").sum())
    return int(max(of_ranks["replayed_ns"].to_list()))


def test_what_was_kept_of_a_graph_and_is_damaged_is_said_so() -> None:
    rank = narrowed(described(trace(EARLY, 4), sequence=1), of_rank.READS)
    graph = of_rank.part(rank).with_columns(rank=pl.lit(4, pl.Int32))
    damaged = graph.with_columns(rows=pl.col("rows").bin.slice(0, 40))
    with pytest.raises(InputError, match="graph of rank 4 is damaged; convert its trace again"):
        JobGraph.from_parts(damaged)
    assert JobGraph.from_parts(graph).activities.height > 0
    other = graph.with_columns(row=pl.lit("edge"))
    with pytest.raises(InputError, match="graph of rank 4 is damaged"):
        JobGraph.from_parts(other)
    with pytest.raises(InputError, match="graph of rank 4 is damaged"):
        JobGraph.from_parts(graph.with_columns(row=pl.lit("nothing")))


def test_calls_that_only_ask_are_time_of_what_is_around_them_but_for_who_asks_about_them(tmp_path: Path) -> None:
    sample.write(tmp_path, ranks=1, events=4_000, steps=2)
    job = holotrace.open(tmp_path)
    without, whole = (JobGraph.of(job, has_queries=has).activities for has in (False, True))
    asks, lasted = pl.col("name") == "cudaStreamIsCapturing", pl.col("end_ns") - pl.col("start_ns")
    assert (without.filter(asks).height, whole.filter(asks).is_empty()) == (0, False)
    of_lanes = [rows.group_by("lane").agg(lasted.sum()).sort("lane") for rows in (without, whole)]
    assert_frame_equal(*of_lanes)
    assert holotrace.what_if(job, {"^cudaStreamIsCapturing$": 0}).height == 2
