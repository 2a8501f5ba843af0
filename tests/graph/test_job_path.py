"""The critical path of a job: every moment of its steps is owned by one rank, and waiting by none."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from test_graph_answers import EARLY, LATE
from test_job_graph import recordings

import holotrace
from drawing import described, draw, trace
from holotrace import sample
from holotrace.analyses.job_path import job_path
from holotrace.graph import JobGraph, path
from holotrace.job import Job
from holotrace.present.format import since_first_event
from quick import every
from trace_files import needs_real_traces

US = 1_000


def job_of(*texts: str) -> Job:
    return Job.from_ranks({rank: described(trace(text, rank), sequence=1) for rank, text in enumerate(texts)})


def owned(table: pl.DataFrame) -> dict[tuple[int, str, str | None], int]:
    """Whole microseconds by rank, what they are bound by, and name."""
    rows = table.select("rank", "bound_by", "name", "duration_ns").iter_rows()
    return {(rank, bound_by, name): ns // US for rank, bound_by, name, ns in rows if ns >= US}


def closed(parts: pl.DataFrame) -> None:
    """The parts of each step follow each other without a gap, and are the whole step."""
    gaps = (pl.col("start_ns") - pl.col("end_ns").shift(1)).over("first_rank", "step")
    assert parts.select(gaps.fill_null(0).abs().sum()).item() == 0
    lasted = (pl.col("end_ns") - pl.col("start_ns")).sum()
    sums = parts.group_by("first_rank", "step").agg(pl.col("step_ns").first(), lasted=lasted)
    assert sums["lasted"].to_list() == sums["step_ns"].to_list()


def test_waiting_rank_is_not_on_the_path() -> None:
    found = owned(job_of(EARLY, LATE).job_path())
    assert found[1, "compute", "A"] == 32
    assert sum(us for (rank, *_), us in found.items() if rank == 0) <= 2
    assert sum(found.values()) == 36


def test_collective_on_the_path_takes_the_time_of_moving_data_only() -> None:
    table = job_of(EARLY, LATE).job_path().filter(pl.col("bound_by") == "communication")
    assert table["duration_ns"].sum() == 2 * US


def test_path_changes_ranks_at_each_collective() -> None:
    one = """
        step    |111...............................................................................|
        host    |ACBD..............................................................................|
        compute |..AA....................................BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB....|
        comm    |....CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC......................................DD..|
    """
    two = """
        step    |111...............................................................................|
        host    |ACBD..............................................................................|
        compute |..AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA..BB........................................|
        comm    |......................................CC..DDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDD..|
    """
    table = job_of(one, two).job_path(by_segment=True)
    work = table.filter(pl.col("bound_by") == "compute").select("name", "rank").rows()
    assert work == [("A", 1), ("B", 0)]


def test_collective_without_its_other_ranks_may_be_waiting() -> None:
    text = """
        step    |11..................|
        host    |AC..................|
        comm    |....CCCCCC..........|
    """
    bounds = draw(text).job_path()["bound_by"]
    assert "communication_or_wait" in bounds
    assert "communication" not in bounds


def test_ranks_that_never_meet_have_paths_of_their_own() -> None:
    alone = """
        step    |11111111|
        host    |A.......|
        compute |..AAAA..|
    """
    table = Job.from_ranks({rank: trace(alone, rank) for rank in (0, 1)}).job_path()
    assert table["first_rank"].unique().sort().to_list() == [0, 1]
    assert table.filter(pl.col("first_rank") != pl.col("rank")).is_empty()


def test_rank_without_steps_has_one_path() -> None:
    table = draw("compute |..AAAA..BB|").job_path()
    assert table["step"].to_list() == [None] * table.height
    assert table["duration_ns"].sum() == table["step_ns"][0]


def test_options_of_the_path() -> None:
    job = job_of(EARLY, LATE)
    assert job.job_path(of_step=1).equals(job.job_path())
    assert job.job_path(of_step=7).is_empty()
    parts = job.job_path(by_segment=True)
    assert parts["duration_ns"].sum() == job.job_path()["duration_ns"].sum()
    assert parts["from_ns"].is_sorted()


def test_steps_of_a_made_up_job_are_whole(tmp_path: Path) -> None:
    sample.write(tmp_path, ranks=4, steps=3)
    parts = path.of(JobGraph.of(holotrace.open(tmp_path))).select(*path.COLUMNS)
    assert parts["step"].n_unique() == 3
    closed(parts)


@pytest.mark.parametrize("backward", ["140", "90"])
def test_a_thread_that_slept_until_it_was_handed_work_waited_for_the_one_that_handed_it_over(
    tmp_path: Path, backward: str
) -> None:
    """Whose number comes first is chance; all before the backward pass was unexplained where that of its thread did."""
    events: list[dict[str, object]] = []

    def span(category: str, name: str, tid: str, since: int, until: int, **args: object) -> None:
        place = {"pid": 1, "tid": tid} if category != "kernel" else {"pid": 0, "tid": 7}
        span = {"ph": "X", "cat": category, "name": name, "ts": since, "dur": until - since, "args": args}
        events.append(span | place)

    for step in range(3):
        at = 1_000 * step
        span("user_annotation", f"ProfilerStep#{step}", "76", at, at + 1_000)
        for tid, begun, until, name in (("76", 0, 400, "forward"), (backward, 410, 800, "backward")):
            span("cpu_op", name, tid, at + begun, at + until)
            correlation = 10 * step + begun + 1
            span("cuda_runtime", "cudaLaunchKernel", tid, at + until - 20, at + until - 10, correlation=correlation)
            of_device = {"correlation": correlation, "device": 0, "stream": 7}
            span("kernel", f"{name}_kernel", "", at + until - 5, at + until, **of_device)
        span("cpu_op", "optimizer", "76", at + 810, at + 990)
    (tmp_path / "rank0.json").write_text(json.dumps({"traceEvents": events}))
    found = holotrace.open(tmp_path).job_path()
    assert "unexplained" not in set(found["bound_by"])
    of_step = found.filter(pl.col("step") == 1)
    spent = dict(of_step.filter(name="forward").select("name", pl.col("duration_ns").sum()).iter_rows())
    assert spent == {"forward": 390 * US}


@needs_real_traces
@pytest.mark.parametrize("folder", every(6, recordings()), ids=lambda folder: folder.name)
def test_steps_of_real_jobs_are_whole(folder: Path) -> None:
    closed(path.of(JobGraph.of(holotrace.open(folder))).select(*path.COLUMNS))


def test_times_of_the_path_are_those_of_the_recording(tmp_path: Path) -> None:
    sample.write(tmp_path, ranks=2, steps=2)
    table = holotrace.open(tmp_path).job_path()
    span_ns = holotrace.open(tmp_path).info()["span_ns"].max()
    assert table["from_ns"].min() >= 0 and table["to_ns"].max() <= span_ns + 2_000_000  # type: ignore[operator]  # times
    # They are counted from the job's beginning, so a reader is shown them as they are.
    _, columns = since_first_event(table, job_path.columns, 10**15)
    assert [column.name for column in columns] == [column.name for column in job_path.columns]
