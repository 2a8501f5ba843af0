"""Questions in a notebook read each table once; memory for them is bounded, and nothing is left behind."""

from __future__ import annotations

import gc
import multiprocessing
import subprocess
import sys
import weakref
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import holotrace
from holotrace import Job, RankTrace
from holotrace.core.schema import Table
from holotrace.core.tables import ANNOTATIONS, DEVICE_EVENTS, EVENTS, STEPS
from holotrace.discovery import RankSource, survey
from holotrace.engine import table_cache
from holotrace.engine.session import Session
from holotrace.engine.table_cache import TableCache, write_arrow
from holotrace.loading.rank import load
from noted import Reads
from trace_files import write_trace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for rank in (0, 1, 2):
        write_trace(tmp_path / "job" / f"rank{rank}.json.gz", rank=rank, world=3)
    return tmp_path / "job"


@pytest.fixture
def reads() -> Reads:
    return Reads()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    return tmp_path / "tmp"


def test_a_question_with_other_options_reads_no_file_again(folder: Path, reads: Reads) -> None:
    job = reads.open(folder)
    for top in (1, 2, 3):
        assert job.kernels(top=top).height > 0
    job.table("device_events", columns=["name", "start_ns"])
    assert sorted(reads) == [0, 1, 2]


def test_columns_that_are_new_are_read_beside_those_that_were(folder: Path, reads: Reads) -> None:
    job = reads.open(folder).only(0)
    for columns in (["registers"], ["context"], ["registers"], ["context", "registers"]):
        assert job.table("device_events", columns=columns).columns[1:] == [
            name for name in DEVICE_EVENTS.column_names if name in columns
        ]
    assert reads == [0, 0]


def test_a_run_keeps_no_rank(folder: Path, reads: Reads) -> None:
    job = reads.open(folder)
    job.run()
    assert job._session.cache is not None
    assert job._session.cache.held_bytes == 0
    job.kernels(top=1)
    assert sorted(reads) == [0, 0, 1, 1, 2, 2]


def test_nothing_is_kept_where_that_is_asked_for(folder: Path, reads: Reads) -> None:
    job = reads.open(folder, cache_bytes=0)
    job.kernels(top=1)
    job.kernels(top=2)
    assert sorted(reads) == [0, 0, 1, 1, 2, 2]


def test_a_run_holds_no_more_ranks_than_there_are_workers(folder: Path) -> None:
    alive: weakref.WeakSet[Any] = weakref.WeakSet()
    most: list[int] = []

    def noted(source: Any, reads: Any, **_: Any) -> RankTrace:
        trace, tied = load(source, reads), _Tied()
        alive.add(tied)
        gc.collect()
        most.append(len(alive))
        return RankTrace(trace.rank, trace.tables, {"tied": tied})

    with ThreadPoolExecutor(1) as executor:
        Job(Session(survey(folder), executor=executor, load=noted)).run()
    assert most == [1, 1, 1]


class _Tied:
    """Lives as long as the rank whose metadata it is in."""


@pytest.mark.parametrize("limit", [1, 400, 10_000_000])
def test_memory_is_bounded_and_answers_stay_the_same(folder: Path, temporary: Path, limit: int) -> None:
    cache = TableCache(limit)
    sources = holotrace.open(folder).sources
    tables: tuple[Table, ...] = (DEVICE_EVENTS, EVENTS, STEPS, ANNOTATIONS)
    for _ in range(2):
        for source in sources:
            for table in tables:
                kept, read = cache.trace(source, [table]), load(source, [table])
                assert_frame_equal(kept[table], read[table])
                assert kept.metadata == read.metadata
                assert cache.held_bytes <= limit
    in_files = len(list(temporary.rglob("*.arrow")))
    assert in_files == {1: 12, 10_000_000: 0}.get(limit, in_files)
    assert limit != 400 or 0 < in_files < 12


def test_what_is_in_files_is_not_read_again(folder: Path, temporary: Path, reads: Reads) -> None:
    job = reads.open(folder, cache_bytes=1)
    first, again = job.kernels(top=1), job.kernels(top=1)
    assert_frame_equal(again, first)
    assert sorted(reads) == [0, 1, 2]
    assert list(temporary.rglob("*.arrow"))


def test_a_full_disk_means_to_read_again(
    folder: Path, temporary: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = type("Usage", (), {"total": 100, "free": 1})
    monkeypatch.setattr("shutil.disk_usage", lambda _: full)
    job = reads.open(folder, cache_bytes=1)
    assert_frame_equal(job.kernels(top=1), job.kernels(top=1))
    assert sorted(reads) == [0, 0, 1, 1, 2, 2]
    assert not list(temporary.rglob("*.arrow"))


def test_files_go_when_the_job_is_closed_and_it_can_still_be_asked(folder: Path, temporary: Path, reads: Reads) -> None:
    with reads.open(folder, cache_bytes=1) as job:
        job.kernels(top=1)
        assert list(temporary.iterdir())
    assert not list(temporary.iterdir())
    assert job.kernels(top=1).height == 3
    job.only(0).close()
    assert not list(temporary.iterdir())
    assert sorted(reads) == [0, 0, 1, 1, 2, 2]


def test_files_go_with_the_job(folder: Path, temporary: Path) -> None:
    job = holotrace.open(folder, cache_bytes=1)
    job.kernels(top=1)
    assert list(temporary.iterdir())
    del job
    gc.collect()
    assert not list(temporary.iterdir())


def test_files_go_when_the_interpreter_ends(folder: Path, temporary: Path) -> None:
    code = f"""
        import tempfile, holotrace
        tempfile.tempdir = {str(temporary)!r}
        job = holotrace.open({str(folder)!r}, cache_bytes=1)
        job.kernels(top=1)
        print(len(list(__import__("os").scandir(tempfile.tempdir))))
    """
    ran = subprocess.run([sys.executable, "-c", "if True:" + code], capture_output=True, text=True, check=True)
    assert ran.stdout == "1\n"
    assert not list(temporary.iterdir())


def test_workers_of_other_processes_keep_nothing_here(folder: Path, temporary: Path) -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        job = holotrace.open(folder, executor=executor, cache_bytes=1)
        assert job.kernels(top=1).height == 3
    assert not list(temporary.iterdir())


def steps_to_keep(ranks: int, tables: int) -> int:
    """Lines of the cache that are run while the tables of so many ranks are kept, a quarter of them in memory."""
    asked = [replace(STEPS, name=f"table{number}") for number in range(tables)]
    frame = pl.DataFrame({name: [1] for name in STEPS.column_names})
    size = int(frame.estimated_size())

    def made(source: Any, reads: Any, **_: Any) -> RankTrace:
        return RankTrace(source.rank, {table.name: frame for table in reads})

    cache = TableCache(ranks * tables * size // 4, load=made, write=lambda _, path: path.touch())
    lines = 0

    def counted(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return counted if frame.f_code.co_filename == table_cache.__file__ else None

    before = sys.gettrace()
    sys.settrace(counted)
    try:
        for rank in range(ranks):
            cache.trace(RankSource(rank, Path("nowhere"), "caller", "kineto"), asked)
    finally:
        sys.settrace(before)
        cache.close()
    return lines


def test_evicting_tables_takes_work_in_proportion_to_their_number() -> None:
    few, many = steps_to_keep(8, 12), steps_to_keep(64, 12)
    assert many < 9 * few


def test_nobody_waits_while_a_table_is_written(folder: Path) -> None:
    writing, may_end = Event(), Event()

    def write(frame: pl.DataFrame, path: Path) -> None:
        writing.set()
        assert may_end.wait(20)
        write_arrow(frame, path)

    first, second, _ = holotrace.open(folder).sources
    cache = TableCache(1, write=write)
    with ThreadPoolExecutor(1) as other:
        kept = other.submit(cache.trace, first, [STEPS])
        assert writing.wait(20)
        # What is being written is still there, and other tables can be asked for.
        assert_frame_equal(cache.trace(first, [STEPS])[STEPS], load(first, [STEPS])[STEPS])
        may_end.set()
        assert kept.result()[STEPS].height == 1
        assert cache.trace(second, [STEPS])[STEPS].height == 1
    cache.close()


def test_a_cache_that_is_closed_while_a_table_is_written_leaves_nothing(folder: Path, temporary: Path) -> None:
    def write(frame: pl.DataFrame, path: Path) -> None:
        cache.close()
        path.parent.mkdir(exist_ok=True)
        write_arrow(frame, path)

    cache = TableCache(1, write=write)
    cache.trace(holotrace.open(folder).sources[0], [STEPS])
    assert not list(temporary.iterdir())


def test_a_table_that_cannot_be_written_whole_leaves_no_file_and_is_read_again(folder: Path, temporary: Path) -> None:
    def write(_: pl.DataFrame, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError("no space left on device")

    reads = Reads()
    cache = TableCache(1, load=reads.load, write=write)
    for _ in range(2):
        cache.trace(holotrace.open(folder).sources[0], [STEPS])
    assert reads == [0, 0]
    assert not list(temporary.rglob("*.arrow"))
    cache.close()
