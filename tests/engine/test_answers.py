"""A dataset keeps the answers it gave: they are read again while they are true, and never needed."""

from __future__ import annotations

import os
import pickle
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from io import BytesIO
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

import holotrace
from holotrace import InputError, Job, JobResult
from holotrace.analyses import named
from holotrace.cli import main
from holotrace.core.analysis import PerJob, per_rank
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import LAUNCHES, STEPS
from holotrace.core.trace import RankTrace, finished_with
from holotrace.discovery import survey
from holotrace.engine import program, questions
from holotrace.engine.comparable import Comparison
from holotrace.engine.session import Session
from holotrace.formats.dataset import answers as stored
from holotrace.sample import write as write_sample
from noted import Reads
from pages import page
from quick import every
from s3 import BUCKET, Store
from trace_files import EVENTS, write_trace


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    for rank in (0, 1):
        write_trace(tmp_path / "job" / f"rank{rank}.json.gz", rank=rank, world=2)
    return tmp_path / "job"


@pytest.fixture
def out(traces: Path, tmp_path: Path) -> Path:
    holotrace.convert(traces, tmp_path / "dataset")
    return tmp_path / "dataset"


@pytest.fixture
def reads() -> Reads:
    return Reads()


def test_parts_without_rows_do_not_travel_between_processes_and_change_no_answer(traces: Path) -> None:
    asked = questions.Questions(tuple((named(name), {}) for name in ("time_breakdown", "hlo_ops", "causes")))
    here = holotrace.open(traces).map(asked, asked.reads)
    there = pickle.loads(pickle.dumps(here))
    assert not set(there[0].parts).intersection(["hlo_ops"])
    usual, packed = (asked.combined(answers, [], Comparison()) for answers in (here, there))
    assert usual.keys() == packed.keys()
    for name, table in usual.items():
        assert_frame_equal(packed[name], table)


def test_answers_are_the_same_where_tables_are_let_go_as_early_as_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample job has what all analyses of PyTorch speak of, so that each asks for its tables."""
    write_sample(tmp_path, ranks=1, steps=2, seed=1)
    usual = holotrace.open(tmp_path).run().tables
    monkeypatch.setattr(questions, "_LARGE_BYTES", 0)
    early = holotrace.open(tmp_path).run().tables
    for name, table in usual.items():
        assert_frame_equal(early[name], table)


def test_answers_are_the_same_where_analyses_of_much_come_one_after_the_other(
    traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [named(name) for name in ("communication", "causes", "job_path", "replay", "stragglers")]
    usual = holotrace.open(traces).run(asked).tables
    monkeypatch.setattr(questions, "_MUCH_BYTES", -1)
    in_turn = holotrace.open(traces).run(asked).tables
    for name, table in usual.items():
        assert_frame_equal(in_turn[name], table)


def test_what_is_much_and_asked_once_comes_before_what_several_ask(
    traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph of the job stays until the last analysis of it is done, and would be there beside all else."""
    gathered: list[str] = []
    by_default = PerJob.gathered

    def noted(self: PerJob[Any], *given: Any) -> Any:
        gathered.append(self.name)
        return by_default(self, *given)

    monkeypatch.setattr(PerJob, "gathered", noted)
    monkeypatch.setattr(questions, "cpu_count", lambda: 1)
    asked = [named(name) for name in ("job_path", "replay", "causes")]
    holotrace.open(traces).run(asked)
    monkeypatch.setattr(questions, "_MUCH_BYTES", -1)
    holotrace.open(traces).run(asked)
    assert gathered == ["job_path", "causes", "causes", "job_path"]


def test_tables_that_a_part_has_finished_with_go_before_it_is_made(
    traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[set[str]] = []

    @per_rank(columns=(Column("step_count", Unit.COUNT, "Steps"),), reads=(STEPS, LAUNCHES))
    def in_two_turns(rank: RankTrace) -> pl.DataFrame:
        held.append({*rank.held})
        finished_with(LAUNCHES)
        held.append({*rank.held})
        return pl.DataFrame({"step_count": [rank[STEPS].height]})

    monkeypatch.setattr(questions, "_LARGE_BYTES", 0)
    holotrace.open(traces).only(0).run([in_two_turns])
    assert [LAUNCHES.name in names for names in held] == [True, False]


@per_rank(columns=(Column("step_count", Unit.COUNT, "Steps"),), reads=(STEPS,))
def of_my_own(rank: RankTrace) -> pl.DataFrame:
    """How many steps there are."""
    return pl.DataFrame({"step_count": [rank[STEPS].height]})


# What is asked where any question would do: of single ranks, of the job, and one that others share.
FEW = (Job.time_breakdown, Job.overlap, Job.kernels, Job.stragglers)


def assert_alike(found: JobResult, expected: JobResult) -> None:
    assert found.tables.keys() == expected.tables.keys()
    for name, table in expected.tables.items():
        assert_frame_equal(found.tables[name], table, check_exact=True)
    assert (found.title, found.findings) == (expected.title, expected.findings)
    assert_frame_equal(found.info.drop("load_ns"), expected.info.drop("load_ns"))
    assert_frame_equal(found.problems, expected.problems)
    assert page(found) == page(expected)


def files(out: Path) -> list[str]:
    return sorted(path.name for path in (out / "answers").iterdir())


def test_the_second_time_no_table_is_read(traces: Path, out: Path, reads: Reads) -> None:
    expected = reads.open(traces).run()
    assert not (out / "answers").exists()
    assert_alike(reads.open(out).run(), expected)
    assert files(out) == ["rank=0.zip", "rank=1.zip"]
    reads.clear()
    assert_alike(reads.open(out).run(), expected)
    assert reads.open(out).findings() == expected.findings
    assert reads == []


def test_what_was_asked_before_is_not_asked_again(out: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    part = type(Job.overlap).of_rank

    def noted(analysis: Any, rank: RankTrace, options: Any) -> pl.DataFrame:
        asked.append(analysis.name)
        return part(analysis, rank, options)

    monkeypatch.setattr(type(Job.overlap), "of_rank", noted)
    reads.open(out).run([Job.overlap, Job.kernels])
    assert sorted(asked) == ["kernels", "kernels", "overlap", "overlap"]
    asked.clear()
    reads.open(out).run([Job.overlap, Job.gaps])
    assert asked == ["gaps", "gaps"]
    reads.clear()
    reads.open(out).run([Job.kernels, Job.gaps, Job.overlap])
    assert reads == []


def test_a_question_with_options_is_another_one(out: Path, reads: Reads) -> None:
    every = reads.open(out).run([Job.kernels]).tables["kernels"]
    for _ in range(2):
        one = reads.open(out).run([Job.kernels], {"kernels": {"top": 1}}).tables["kernels"]
        assert one["name"].to_list() == ["ampere_gemm"] * 2
    assert sorted(reads) == [0, 0, 0, 1, 1, 1]
    assert_frame_equal(reads.open(out).run([Job.kernels]).tables["kernels"], every)


def test_an_analysis_of_ones_own_is_asked_every_time(out: Path, reads: Reads) -> None:
    reads.open(out).run(FEW)
    reads.clear()
    for _ in range(2):
        assert reads.open(out).run([of_my_own, Job.overlap]).tables["of_my_own"]["step_count"].to_list() == [1, 1]
    assert sorted(reads) == [0, 0, 1, 1]


def test_nothing_isstored_of_what_is_only_told(out: Path) -> None:
    assert holotrace.open(out).info().height == 2
    assert not (out / "answers").exists()


def test_a_rank_that_is_written_again_is_asked_again(traces: Path, out: Path, reads: Reads) -> None:
    reads.open(out).run(FEW)
    write_trace(traces / "rank1.json.gz", rank=1, world=2, events=EVENTS[:3])
    holotrace.convert(reads.open(traces).only(1), out, overwrite=True)
    assert files(out) == ["rank=0.zip"]
    reads.clear()
    assert_alike(reads.open(out).run(FEW), reads.open(traces).run(FEW))
    assert reads.count(1) == 2


def test_answers_of_the_rank_that_was_there_are_not_believed(traces: Path, out: Path, reads: Reads) -> None:
    reads.open(out).run(FEW)
    before = (out / "answers/rank=0.zip").read_bytes()
    holotrace.convert(traces, out, overwrite=True)
    # As if the first had been asked for long, and told its answers last.
    (out / "answers/rank=0.zip").write_bytes(before)
    reads.clear()
    reads.open(out).run(FEW)
    assert sorted(reads) == [0, 1]


def test_a_table_that_was_changed_is_read(out: Path) -> None:
    expected = holotrace.open(out).run(FEW)
    path = out / "device_events/rank=0/part.parquet"
    pl.read_parquet(path, hive_partitioning=False).head(1).write_parquet(path)
    with pytest.raises(InputError, match="its checksum is another"):
        holotrace.open(out).only(0).run(FEW)
    path.unlink()
    with pytest.raises(InputError, match="convert rank 0 again"):
        holotrace.open(out).only(0).run(FEW)
    assert_frame_equal(
        holotrace.open(out).only(1).run(FEW).tables["overlap"], expected.tables["overlap"].filter(pl.col("rank") == 1)
    )


def test_another_program_asks_again(out: Path, reads: Reads) -> None:
    reads.open(out).run(FEW)
    reads.clear()
    for _ in range(2):
        reads.open(out, program=lambda: b"a newer one").run(FEW)
    assert sorted(reads) == [0, 1]


def test_a_program_is_what_its_files_say(tmp_path: Path) -> None:
    told: list[bytes | None] = []
    for text in ("a = 1", "a = 2", "a = 1"):
        (tmp_path / "module.py").write_text(text)
        (tmp_path / "module.pyc").write_text(f"{len(told)}")
        program.content_of.cache_clear()
        told.append(program.program_in(tmp_path, time.time_ns() + 10**9))
    assert told[0] == told[2] != told[1]
    # What runs is not what is there now.
    assert program.program_in(tmp_path, time.time_ns() - 10**9) is None


def test_a_program_that_was_edited_while_it_runs_keeps_nothing(out: Path) -> None:
    Job(Session(survey(out), program=lambda: None)).run(FEW)
    assert not (out / "answers").exists()


def rewritten(path: Path, change: Callable[[dict[str, bytes]], dict[str, bytes]], **options: Any) -> None:
    with ZipFile(path) as archive:
        known, comment = {name: archive.read(name) for name in archive.namelist()}, archive.comment
    with ZipFile(path, "w", **options) as archive:
        archive.comment = comment
        for name, content in change(known).items():
            archive.writestr(name, content)


def stream(frame: pl.DataFrame) -> bytes:
    content = BytesIO()
    frame.write_ipc_stream(content)
    return content.getvalue()


def replaced(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[500] ^= 1
    path.write_bytes(content)


DAMAGED: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "no archive": lambda path: path.write_bytes(b"PK" * 99),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-200]),
    "a bit": flipped,
    "a folder": lambda path: replaced(path, Path.mkdir),
    "a pipe": lambda path: replaced(path, os.mkfifo),
    "another rank's": lambda path: shutil.copy(path.with_name("rank=1.zip"), path),
    "other columns": lambda path: rewritten(path, lambda known: {**known, "overlap": stream(pl.DataFrame({"a": [1]}))}),
    "no table": lambda path: rewritten(path, lambda known: {**known, "overlap": b"ARROW"}),
    "no problems": lambda path: rewritten(
        path, lambda known: {name: known[name] for name in known if name != "problems"}
    ),
    "another name": lambda path: rewritten(path, lambda known: {**known, "../../overlap": known["overlap"]}),
    "packed": lambda path: rewritten(path, lambda known: known, compression=ZIP_DEFLATED),
    "too large": lambda path: os.truncate(path, stored.MOST_BYTES + 1),
}


@pytest.mark.parametrize("damage", every(4, DAMAGED.values()), ids=DAMAGED)
def test_what_is_damaged_or_not_ours_is_asked_again(out: Path, reads: Reads, damage: Callable[[Path], object]) -> None:
    expected = reads.open(out).run(FEW)
    damage(out / "answers/rank=0.zip")
    for _ in range(2):
        reads.clear()
        assert_alike(reads.open(out).run(FEW), expected)
        assert reads == [0] or not reads
    # But in a folder's place nothing is put.
    assert reads == ([0] if (out / "answers/rank=0.zip").is_dir() else [])
    assert not [name for name in files(out) if name.startswith(".")]


def test_many_answers_are_notstored(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "MOST_BYTES", 1000)
    holotrace.open(out).run(FEW)
    assert not (out / "answers").exists()


def test_where_nothing_can_be_written_nothing_isstored(traces: Path, out: Path) -> None:
    (out / "answers").write_text("in the way")
    for _ in range(2):
        assert_alike(holotrace.open(out).run(FEW), holotrace.open(traces).run(FEW))
    assert (out / "answers").read_text() == "in the way"


def test_a_link_out_of_the_folder_is_not_followed(traces: Path, out: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (out / "answers").symlink_to(tmp_path / "elsewhere")
    assert_alike(holotrace.open(out).run(FEW), holotrace.open(traces).run(FEW))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_copy_of_a_dataset_keeps_its_answers(traces: Path, out: Path, tmp_path: Path, reads: Reads) -> None:
    reads.open(out).run(FEW)
    shutil.copytree(out, tmp_path / "copy")
    reads.clear()
    assert_alike(reads.open(tmp_path / "copy").run(FEW), reads.open(traces).run(FEW))
    assert sorted(reads) == [0, 1]


@pytest.mark.slow
def test_several_may_ask_at_once(traces: Path, out: Path, reads: Reads) -> None:
    expected = reads.open(traces).run(FEW)
    with ThreadPoolExecutor(8) as askers:
        for found in askers.map(lambda _: reads.open(out).run(FEW), range(16)):
            assert_alike(found, expected)
    assert files(out) == ["rank=0.zip", "rank=1.zip"]
    reads.clear()
    assert_alike(reads.open(out).run(FEW), expected)
    assert reads == []


@pytest.mark.slow
def test_workers_of_other_processes_keep_them_too(traces: Path, out: Path, reads: Reads) -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        reads.open(out, executor=executor).run(FEW)
    assert_alike(reads.open(out).run(FEW), reads.open(traces).run(FEW))
    assert sorted(reads) == [0, 1]


@pytest.mark.parametrize("workers", every(2, [0, 1]))
def test_a_dataset_may_be_made_with_its_answers(traces: Path, tmp_path: Path, reads: Reads, workers: int) -> None:
    out = tmp_path / "answered"
    pool: Any = ProcessPoolExecutor(workers, mp_context=get_context("spawn")) if workers else nullcontext()
    with pool as executor:
        first: Executor | None = executor
        holotrace.convert(reads.open(traces).only(0), out)
        done = holotrace.convert(traces, out, answers=True, executor=first)
    assert (done.written, done.kept) == ((1,), (0,))
    assert files(out) == ["rank=0.zip", "rank=1.zip"]
    reads.clear()
    found = reads.open(out, program=program.running_program).run(FEW)
    assert reads == []
    assert_alike(found, reads.open(traces).run(FEW))


def test_the_command_makes_them_where_that_is_asked_for(traces: Path, tmp_path: Path) -> None:
    for options, there in (([], False), (["--answers"], True)):
        done = CliRunner().invoke(main, ["convert", str(traces), str(tmp_path / "told"), *options])
        assert done.exit_code == 0
        assert (tmp_path / "told/answers").is_dir() is there


@pytest.mark.slow
def test_a_store_is_read_but_only_written_to_where_that_is_asked_for(traces: Path, store: Store, reads: Reads) -> None:
    url = f"s3://{BUCKET}/kept/dataset"
    holotrace.convert(traces, url)
    for _ in range(2):
        reads.clear()
        found = reads.open(url).run(FEW)
        assert sorted(reads) == [0, 1]
    assert not [name for name in store.changed("kept/dataset") if name.startswith("answers")]
    holotrace.convert(traces, url, answers=True)
    reads.clear()
    assert_alike(reads.open(url, program=program.running_program).run(FEW), found)
    assert reads == []
    holotrace.convert(reads.open(traces).only(1), url, overwrite=True)
    assert [name for name in store.changed("kept/dataset") if name.startswith("answers")] == ["answers/rank=0.zip"]


def test_answers_travel_into_a_store(out: Path, store: Store, reads: Reads) -> None:
    expected = reads.open(out).run(FEW)
    url = store.put(out, "kept/copy")
    reads.clear()
    assert_alike(reads.open(url).run(FEW), expected)
    assert reads == []
