"""Ranks are read by any executor, and survive the workers that read them."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

import holotrace
from holotrace import InputError
from holotrace.cli import main
from holotrace.cli.executors import chosen_executor
from holotrace.core.tables import STEPS
from holotrace.core.trace import RankTrace
from holotrace.engine.map_ranks import RankTask, read_ranks
from holotrace.engine.processes import Processes
from quick import every
from trace_files import write_trace

if TYPE_CHECKING:
    from distributed import LocalCluster


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for rank in range(4):
        write_trace(tmp_path / "job" / f"rank{rank}.json.gz", rank=rank, world=4)
    return tmp_path / "job"


def name(trace: RankTrace) -> int:
    return trace.rank


def die(trace: RankTrace, *, at: int, until: Path | None = None) -> int:
    """The rank; but at one of them the process ends, until a file is there."""
    if trace.rank == at and not (until and until.exists()):
        if until:
            until.touch()
        os._exit(9)
    return trace.rank


def fail(trace: RankTrace) -> int:
    return {0: 0}[trace.rank]


def visited(task: Any, folder: Path, executor: Executor | None) -> tuple[list[int], list[dict[str, Any]]]:
    return read_ranks(RankTask(task, (STEPS,)), holotrace.open(folder).found.sources, executor=executor)


def pool(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"))


def test_our_own_processes_seldom_search_for_garbage_and_that_of_the_user_as_often_as_before() -> None:
    """It took a sixth of the time of a report."""
    before = gc.get_threshold()
    with Processes(1) as executor:
        assert executor.submit(gc.get_threshold).result()[0] == 50_000
        assert executor.submit(gc.get_freeze_count).result() > 10_000
    assert gc.get_threshold() == before
    assert before[0] < 5_000


@pytest.mark.parametrize("start", every(2, [Processes, pool]), ids=["own", "pool"])
def test_a_rank_whose_worker_was_killed_is_read_again(folder: Path, tmp_path: Path, start: Any) -> None:
    with start(2) as executor:
        assert visited(partial(die, at=1, until=tmp_path / "died"), folder, executor) == ([0, 1, 2, 3], [])


@pytest.mark.parametrize("start", every(2, [Processes, pool]), ids=["own", "pool"])
@pytest.mark.slow
def test_a_rank_that_kills_each_worker_is_a_problem_and_the_others_are_read(folder: Path, start: Any) -> None:
    with start(2) as executor:
        ranks, (problem,) = visited(partial(die, at=1), folder, executor)
    assert ranks == [0, 2, 3]
    assert (problem["problem"], problem["rank"], problem["action"]) == ("worker lost", 1, "rank left out")
    assert "rank 1 was lost with the worker that read it (BrokenProcessPool" in problem["example"]
    assert problem["file"].endswith("rank1.json.gz")


@pytest.mark.slow
def test_a_rank_that_killed_a_pool_is_not_tried_here(folder: Path) -> None:
    with pool(1) as executor:
        ranks, (problem,) = visited(partial(die, at=0), folder, executor)
    assert ranks == [1, 2, 3]
    assert (problem["problem"], problem["rank"]) == ("worker lost", 0)


@pytest.mark.slow
def test_processes_share_the_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POLARS_MAX_THREADS", raising=False)
    with Processes(2, cpus=6) as two, Processes(20, cpus=6) as many:
        assert [executor.submit(pl.thread_pool_size).result() for executor in (two, many)] == [3, 1]
    assert "POLARS_MAX_THREADS" not in os.environ


@pytest.mark.slow
def test_where_every_worker_dies_that_is_the_error(folder: Path) -> None:
    with pool(1) as executor, pytest.raises(InputError, match="give workers more memory, or use fewer"):
        visited(partial(die, at=1), folder / "rank1.json.gz", executor)


@pytest.mark.parametrize("start", every(3, [lambda: None, lambda: ThreadPoolExecutor(2), lambda: Processes(2)]))
def test_a_defect_of_a_task_is_raised_as_it_is(folder: Path, start: Any) -> None:
    executor = start()
    with pytest.raises(KeyError) as caught:
        visited(fail, folder, executor)
    assert caught.value.args[0] in (1, 2, 3)
    if executor:
        executor.shutdown()


def test_a_file_that_is_there_the_second_time_is_read(folder: Path) -> None:
    class Away(ThreadPoolExecutor):
        """Rank 2's file is not there while its task runs for the first time."""

        tasks = 0

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            self.tasks += 1
            path = folder / "rank2.json.gz"
            if self.tasks != 3:
                return super().submit(fn, *args, **kwargs)
            path.rename(folder / "away")
            future = super().submit(fn, *args, **kwargs)
            future.exception()
            (folder / "away").rename(path)
            return future

    with Away(1) as executor:
        assert visited(name, folder, executor) == ([0, 1, 2, 3], [])
        assert executor.tasks == 5


def test_without_memory_a_rank_is_left_out(folder: Path) -> None:
    def starve(trace: RankTrace) -> int:
        if trace.rank == 3:
            raise MemoryError
        return trace.rank

    for executor in (None, ThreadPoolExecutor(1)):
        ranks, (problem,) = visited(starve, folder, executor)
        assert ranks == [0, 1, 2]
        assert "rank 3 needs more memory than there is (MemoryError)" in problem["example"]


def shown(*args: object) -> Any:
    done = CliRunner().invoke(main, [str(arg) for arg in args], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["data"]


def test_processes_of_the_command_line_give_the_same(folder: Path) -> None:
    show = ("show", "time-breakdown", folder, "--format", "json")
    assert shown(*show, "--workers", 2) == shown(*show)


@pytest.mark.parametrize(("ranks", "cpus", "started"), [(9, 2, [2]), (8, 2, []), (9, 1, []), (0, 2, [])])
def test_processes_are_started_where_all_analyses_run_on_many_ranks(ranks: int, cpus: int, started: list[int]) -> None:
    asked: list[int] = []

    def start(workers: int) -> Processes:
        asked.append(workers)
        return Processes(workers)

    with click.Context(main):
        executor = chosen_executor(ranks, start=start, cpus=cpus)
    assert asked == started
    assert (executor is not None) == bool(started)


@pytest.mark.slow
def test_workers_and_a_cluster_are_one_too_many(folder: Path, cluster: LocalCluster) -> None:
    done = CliRunner().invoke(main, ["info", str(folder), "--workers", "2", "--dask", cluster.scheduler_address])
    assert done.exit_code == 2
    assert "choose one" in done.stderr


@pytest.mark.slow
def test_a_cluster_of_two_processes_gives_the_same(folder: Path, cluster: LocalCluster) -> None:
    from distributed import Client

    here = holotrace.open(folder).run()
    with Client(cluster) as client:
        there = holotrace.open(folder, executor=client.get_executor(pure=False)).run()
    for name, table in here.tables.items():
        assert_frame_equal(there.tables[name], table)
    assert there.findings == here.findings
    show = ("show", "overlap", folder, "--format", "json")
    assert shown(*show, "--dask", cluster.scheduler_address) == shown(*show)


@pytest.mark.slow
def test_a_cluster_that_loses_workers_goes_on(folder: Path, tmp_path: Path, cluster: LocalCluster) -> None:
    from distributed import Client

    with Client(cluster) as client:
        executor = client.get_executor(pure=False)
        assert visited(partial(die, at=1, until=tmp_path / "died"), folder, executor) == ([0, 1, 2, 3], [])
        ranks, (problem,) = visited(partial(die, at=2), folder, executor)
    assert ranks == [0, 1, 3]
    assert "(KilledWorker" in problem["example"]


@pytest.mark.slow
def test_no_scheduler_at_the_address_is_one_sentence(folder: Path) -> None:
    done = CliRunner().invoke(main, ["info", str(folder), "--dask", "tcp://127.0.0.1:1"])
    assert done.exit_code == 3
    assert "no Dask scheduler answers at tcp://127.0.0.1:1" in done.stderr


@pytest.mark.parametrize("address", every(3, ["localhost", "scheduler:port", "http://127.0.0.1:1"]))
@pytest.mark.slow
def test_what_is_no_address_is_one_sentence_and_no_wait(folder: Path, address: str) -> None:
    code = f"from holotrace.cli import main; main(['info', {str(folder)!r}, '--dask', {address!r}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    said = f"Error: no Dask scheduler answers at {address}; give what dask-scheduler prints as its address\n"
    assert (done.returncode, done.stderr) == (3, said)


def opened_by_a_reader(fifo: str) -> int:
    """The end to write to, as soon as somebody reads at the other."""
    for _ in range(600):
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(f"nobody reads {fifo}")


@pytest.mark.parametrize(
    ("ranks", "options", "begun"),
    [(4, [], 1), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((4, ["--workers", "2"], 2), (9, [], 1)))],
    ids=["threads", "processes", "many"],
)
def test_an_interrupt_ends_it_at_once_and_leaves_nothing(
    tmp_path: Path, ranks: int, options: list[str], begun: int
) -> None:
    # Nobody writes to these files, so reading them takes for ever.
    named = [str(tmp_path / f"rank{number}.json") for number in range(ranks)]
    for path in named:
        os.mkfifo(path)
    code = (
        # As a terminal's shell leaves it; a background one ignores interrupts.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from holotrace.discovery import RankSource, Survey;"
        "from pathlib import Path; import holotrace.cli.options as options;"
        "options.survey = lambda paths, **_: "
        "Survey(tuple(RankSource(n, Path(p), 'caller', 'kineto') for n, p in enumerate(paths)));"
        "from holotrace.cli import main; main()"
    )
    out = tmp_path / "out"
    out.mkdir()
    command = [sys.executable, "-c", code, "report", *named, "-o", str(out / "report.html"), *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        writers = [opened_by_a_reader(path) for path in named[:begun]]
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=20)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    for writer in writers:
        os.close(writer)
    assert process.returncode == 130
    assert said == "Interrupted.\n"
    assert list(out.iterdir()) == []


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="signals cannot be blocked here")
@pytest.mark.slow
def test_a_process_leaves_interrupts_to_its_parent_before_it_can_handle_them() -> None:
    with Processes(1) as executor:
        blocked = executor.submit(signal.pthread_sigmask, signal.SIG_BLOCK, ()).result()
    assert signal.SIGINT in blocked
