"""A job reads each rank once, survives what cannot be read, and says so."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import holotrace
from drawing import draw
from holotrace import InputError, TraceFormatError, UsageError
from holotrace.analyses import ALL
from holotrace.analyses.overlap import overlap
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import DEVICE_EVENTS
from noted import Reads
from trace_files import REAL_TRACES, needs_real_traces, write_trace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for rank in (0, 1, 2):
        write_trace(tmp_path / f"rank{rank}.json.gz", rank=rank, world=3)
    return tmp_path


@pytest.fixture
def reads() -> Reads:
    return Reads()


def test_a_file_becomes_answers(folder: Path) -> None:
    job = holotrace.open(folder)
    assert job.ranks == (0, 1, 2)
    assert job.overlap().select("comm_ns", "hidden_ns").unique().rows() == [(20_000, 10_000)]
    assert job.table("steps", rank=1).select("rank", "step", "start_ns", "end_ns").rows() == [(1, 3, 100_000, 150_000)]
    assert job.table("device-events", columns=["kind", "step"]).filter(rank=2).rows() == [
        (2, "compute", 3),
        (2, "communication", None),
    ]


def test_opening_reads_no_trace_and_a_report_reads_each_once(folder: Path, reads: Reads) -> None:
    job = reads.open(folder)
    assert reads == []
    job.run()
    assert sorted(reads) == [0, 1, 2]


def test_results_with_default_options_are_kept(folder: Path, reads: Reads) -> None:
    job = reads.open(folder)
    result = job.run()
    assert_frame_equal(job.kernels(), result.tables["kernels"])
    assert job.findings() == result.findings
    assert job.problems() is result.problems
    assert job.info() is result.info
    assert sorted(reads) == [0, 1, 2]
    assert job.kernels(top=1).height == 3
    assert sorted(reads) == [0, 0, 1, 1, 2, 2]
    assert_frame_equal(job.kernels(), result.tables["kernels"])
    assert sorted(reads) == [0, 0, 1, 1, 2, 2]


def test_analyses_are_asked_for_by_name(folder: Path) -> None:
    assert list(holotrace.open(folder).run(["overlap", "step-times"]).tables) == ["overlap", "step_times"]
    with pytest.raises(UsageError, match="no analysis 'overlaps'"):
        holotrace.open(folder).run(["overlaps"])


def test_options_reach_the_analysis_they_are_for(folder: Path) -> None:
    result = holotrace.open(folder).run(options={"kernels": {"top": 1}, "time_breakdown": {"by_step": True}})
    assert result.tables["kernels"].height == 3
    assert result.tables["time_breakdown"]["step"].to_list() == [3, 3, 3]


def test_info_says_what_is_there(folder: Path) -> None:
    (row, *_) = holotrace.open(folder).info().to_dicts()
    assert (row["rank"], row["rank_from"], row["world_count"], row["backend"]) == (0, "trace", 3, "nccl")
    assert (row["event_count"], row["device_event_count"], row["step_count"]) == (4, 2, 1)
    assert row["file_bytes"] == (folder / "rank0.json.gz").stat().st_size
    assert row["load_ns"] > 0


def test_a_rank_that_cannot_be_read_is_a_problem_where_others_can(folder: Path) -> None:
    (folder / "rank1.json.gz").write_bytes(b"\x1f\x8b no gzip at all")
    (folder / "rank7.json").write_text('["ph", "and no event"]')
    job = holotrace.open(folder)
    assert job.kernels()["rank"].unique().to_list() == [0, 2]
    said = job.problems().filter(pl.col("problem").is_in(["file not read", "file left out"]))
    assert sorted(Path(file).name for file in said["file"]) == ["rank1.json.gz", "rank7.json"]


def test_where_no_rank_can_be_read_its_error_is_raised(tmp_path: Path) -> None:
    path = tmp_path / "et.json"
    path.write_text('{"schema": "1.0", "nodes": []}')
    with pytest.raises(TraceFormatError, match=r"et\.json"):
        holotrace.open(path).run()


def test_a_file_that_goes_away_is_an_input_error(folder: Path) -> None:
    job = holotrace.open(folder / "rank0.json.gz")
    (folder / "rank0.json.gz").unlink()
    with pytest.raises(InputError, match="cannot be read"):
        job.run()


def test_damage_and_missing_ranks_are_problems(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "rank1.json", rank=1, world=4)
    path.write_text(path.read_text()[:-300])
    problems = holotrace.open(path).problems()
    assert problems.filter(problem="ranks missing").select("rank", "count", "example").rows() == [
        (None, 3, "3 of 4: ranks 0, 2-3")
    ]
    assert problems.filter(rank=1)["file"].drop_nulls().unique().to_list() == [str(path)]
    assert problems.filter(rank=1).height > 0


@pytest.mark.parametrize(
    "start",
    [
        lambda: ThreadPoolExecutor(2),
        pytest.param(
            lambda: ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")), marks=pytest.mark.slow
        ),
    ],
    ids=["threads", "processes"],
)
def test_any_executor_gives_the_same(folder: Path, start: Callable[[], Executor]) -> None:
    here = holotrace.open(folder).run()
    with start() as executor:
        there = holotrace.open(folder, executor=executor).run()
    for name, table in here.tables.items():
        assert_frame_equal(there.tables[name], table)
    assert there.findings == here.findings
    assert_frame_equal(there.info.drop("load_ns"), here.info.drop("load_ns"))


def test_an_interrupt_cancels_what_has_not_begun(folder: Path) -> None:
    submitted: list[Future[Any]] = []

    class Interrupted(Executor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[Any] = Future()
            if not submitted:
                future.set_exception(KeyboardInterrupt())
            submitted.append(future)
            return future

    with pytest.raises(KeyboardInterrupt):
        holotrace.open(folder, executor=Interrupted()).run()
    assert [future.cancelled() for future in submitted] == [False, True, True]


def test_an_error_of_an_analysis_is_no_unreadable_rank(folder: Path) -> None:
    with pytest.raises(UsageError, match="top"):
        holotrace.open(folder).kernels(top=-1)


def test_progress_counts_ranks(folder: Path) -> None:
    seen: list[tuple[int, int]] = []
    holotrace.open(folder).run(progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, 3)
    assert seen[-1] == (3, 3)


def test_only_some_ranks(folder: Path, reads: Reads) -> None:
    job = reads.open(folder).only(2, 0)
    assert job.overlap()["rank"].to_list() == [0, 2]
    assert sorted(reads) == [0, 2]
    with pytest.raises(InputError, match=r"rank 5 does not exist; the job has ranks 0, 2"):
        job.only(5)


def test_an_arg_that_no_table_declares_can_be_asked_for(tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 0, "ts": 1, "dur": 1, "args": {"my counter": 42}}
    job = holotrace.open(write_trace(tmp_path / "a.json", events=[event]))
    mine = Column("my_counter", Unit.NUMBER, "A counter of mine", arg="my counter")
    table = type(DEVICE_EVENTS)(DEVICE_EVENTS.name, DEVICE_EVENTS.meaning, (*DEVICE_EVENTS.columns, mine))
    assert job.table(table, columns=["my_counter"]).rows() == [(0, 42)]


def test_a_table_that_is_not_there_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="there are events, device_events"):
        draw("compute |A|").table("kernel_events")


def test_a_drawn_job_describes_itself() -> None:
    job = draw("step |1122|\nhost |A...|\ncompute |.A.B|")
    assert job.info().select("rank", "file", "step_count", "device_event_count", "span_ns").rows() == [
        (0, None, 2, 2, 4_000)
    ]
    assert job.problems().is_empty()
    assert repr(job) == "Job('drawn', ranks 0)"


def test_a_job_without_ranks_answers_with_empty_tables() -> None:
    result = holotrace.Job.from_ranks({}).run()
    assert set(result.tables) == {analysis.name for analysis in ALL}
    assert all(table.is_empty() for table in result.tables.values())
    assert result.findings == ()


@needs_real_traces
def test_the_rank_that_slept_is_named_as_the_one_others_wait_for() -> None:
    job = holotrace.open(REAL_TRACES / "torchrec/examples/golden_training/trace/sst_sleep_pl_dense_after_backward_2")
    first = job.findings()[0]
    assert (first.rule, first.ranks) == ("host-pause", (2,))
    assert "running sparse arch" in first.message
    # It slept for three seconds.
    assert 2_900_000_000 < (first.cost_ns or 0) < 3_000_000_000


@needs_real_traces
@pytest.mark.slow
def test_every_real_trace_is_read_or_refused_in_one_sentence() -> None:
    refused = []
    for path in sorted(REAL_TRACES.rglob("*")):
        if path.name.endswith((".json", ".gz")) and path.is_file():
            try:
                table = holotrace.open(path).time_breakdown()
            except InputError as error:
                refused.append(str(error))
            else:
                assert (
                    table["total_ns"] == table.select(pl.sum_horizontal("^(compute|exposed|idle).*_ns$")).to_series()
                ).all()
    assert all("\n" not in message and ";" in message for message in refused)


def test_a_result_draws_the_chart_of_an_analysis() -> None:
    result = draw("compute |AAAA....BB|\ncomm    |..CCCC....|").run([overlap])
    assert [(bar.name, list(bar.y)) for bar in result.figure(overlap).data] == [("Hidden", [2.0]), ("Exposed", [2.0])]


def test_a_file_whose_name_is_no_text_and_devices_with_half_a_character_are_reported(tmp_path: Path) -> None:
    path = Path(os.fsdecode(bytes(tmp_path) + b"/caf\xe9/rank0.json"))
    try:
        path.parent.mkdir()
    except OSError:
        pytest.skip("no such file names here")
    write_trace(path, rank=0, deviceProperties=[{"id": 0, "name": "half \ud800"}])
    (path.parent / "rank1.json").write_text("no trace")
    job = holotrace.open(path.parent)
    assert job.info().select("file", "device").row(0) == (str(tmp_path / "caf?" / "rank0.json"), "half ?")
    assert job.run().title == "caf?"
    holotrace.convert(job, tmp_path / "dataset")
    assert holotrace.open(tmp_path / "dataset").kernels().equals(job.kernels())


def test_columns_that_a_table_has_not_are_refused() -> None:
    job = draw("compute |A|")
    with pytest.raises(UsageError, match="steps has no column 'nope'; it has step, event_id"):
        job.table("steps", columns=["nope", "step"])
    with pytest.raises(UsageError, match="no column of steps was asked for; it has step, event_id"):
        job.table("steps", columns=["rank"])
    assert job.table("device_events", columns=["rank", "kind"]).columns == ["rank", "kind"]
