"""Run a function over ranks, each read when its turn comes and let go afterwards."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
)
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from holotrace.core.problems import LOST, UNREAD, problem
from holotrace.core.schema import Table
from holotrace.core.spread import cpu_count
from holotrace.core.trace import RankTrace
from holotrace.discovery import RankSource
from holotrace.engine.processes import Processes
from holotrace.errors import InputError, TraceFormatError
from holotrace.loading.rank import load, narrowed

T = TypeVar("T")
Source = RankSource | RankTrace
# Called with the number of ranks done and of all ranks.
Progress = Callable[[int, int], None]

# Polars' handler of interrupts does not end a wait, so that they are only seen between two.
_LISTENING_S = 0.2
# So many ranks have their second try one after the other.
_FEW = 16

log = logging.getLogger("holotrace")


class Defect(Exception):
    """What a task raised, on its way from a worker: any other exception of a future is the executor's own."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


@dataclass(frozen=True)
class Unread:
    """A rank that gave nothing: its file could not be read, or the worker that read it was lost."""

    source: Source
    error: InputError
    # The executor's exception, where it was the worker.
    lost: BaseException | None = None

    def as_problem(self) -> dict[str, Any]:
        what = UNREAD if self.lost is None else LOST
        path = self.source.path if isinstance(self.source, RankSource) else None
        return problem(what, rank=self.source.rank, example=str(self.error), file=path, action="rank left out")


# What is run for a rank: on any worker, and perhaps again.
SourceTask = Callable[[Source], T | Unread]


def attempt(source: Source, work: Callable[[Source], T]) -> T | Unread:
    """What ``work`` makes of a rank; what it raises is told apart from what its executor does."""
    try:
        return work(source)
    except InputError as error:
        return Unread(source, error)
    except (MemoryError, OSError):
        raise  # the worker's, not the task's
    except Exception as error:
        raise Defect(error) from error


class Load(Protocol):
    """Reads a rank as far as it is asked for."""

    def __call__(self, source: RankSource, reads: Sequence[Table], /, *, every_problem: bool = False) -> RankTrace: ...


@dataclass(frozen=True)
class RankTask(Generic[T]):
    """Reads one rank and runs a task on it; travels to any worker, and may be run again."""

    task: Callable[[RankTrace], T]
    reads: tuple[Table, ...]
    load: Load = load
    every_problem: bool = False

    def __call__(self, source: Source) -> T | Unread:
        return attempt(source, self._result)

    def _result(self, source: Source) -> T:
        started = time.perf_counter()
        trace = narrowed(source, self.reads) if isinstance(source, RankTrace) else self._loaded(source)
        read = time.perf_counter()
        result = self.task(trace)
        log.debug("rank %d: read in %.3f s, worked in %.3f s", trace.rank, read - started, time.perf_counter() - read)
        return result

    def _loaded(self, source: RankSource) -> RankTrace:
        return self.load(source, self.reads, every_problem=self.every_problem)


def read_ranks(
    task: SourceTask[T],
    sources: Sequence[Source],
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> tuple[list[T], list[dict[str, Any]]]:
    """What ``task`` returns for each rank that can be read, in their order, and a problem for each that cannot.

    A rank whose file cannot be read or whose worker is lost gets a second try. Raises what the task raises, and the
    first rank's error where none can be read.
    """
    outcomes = _over(task, sources, executor, progress or _tell_nobody)
    # A file that is no trace will not be one the second time.
    again = {
        place: outcome
        for place, outcome in enumerate(outcomes)
        if isinstance(outcome, Unread) and not isinstance(outcome.error, TraceFormatError)
    }
    if again:
        log.debug("second try of %d ranks", len(again))
        seconds: list[T | Unread] = _second(task, list(again.values()), executor)
        outcomes = [seconds.pop(0) if place in again else outcome for place, outcome in enumerate(outcomes)]
    unread = [outcome for outcome in outcomes if isinstance(outcome, Unread)]
    if unread and len(unread) == len(outcomes):
        raise unread[0].error from unread[0].lost
    done = [outcome for outcome in outcomes if not isinstance(outcome, Unread)]
    return done, [outcome.as_problem() for outcome in unread]


def _second(task: SourceTask[T], unread: list[Unread], executor: Executor | None) -> list[T | Unread]:
    sources = [outcome.source for outcome in unread]
    if isinstance(executor, Processes) or not any(isinstance(outcome.lost, BrokenExecutor) for outcome in unread):
        # Who ends a worker ends what others have there, too; one after the other each harms only itself.
        turns = [sources] if len(sources) > _FEW else [[source] for source in sources]
        return [outcome for turn in turns for outcome in _over(task, turn, executor, _tell_nobody)]
    # The pool is gone, and nobody knows which of its ranks broke it; this process must not be the next.
    with Processes(min(len(sources), cpu_count())) as processes:
        return _over(task, sources, processes, _tell_nobody)


def _tell_nobody(done: int, total: int) -> None:
    pass


def _over(
    task: SourceTask[T], sources: Sequence[Source], executor: Executor | None, tell: Progress
) -> list[T | Unread]:
    """What ``task`` returns for each of ``sources``.

    Without an executor there are as many threads as this process has CPUs: reading releases the interpreter's lock.
    """
    workers = min(len(sources), cpu_count())
    tell(0, len(sources))
    if executor is None and workers <= 1:
        results: list[T | Unread] = []
        for source in sources:
            results.append(_outcome(_here(task, source), source))
            tell(len(results), len(sources))
        return results
    with ExitStack() as stack:
        if executor is None:
            executor = ThreadPoolExecutor(workers, thread_name_prefix="holotrace")
            stack.callback(partial(executor.shutdown, wait=False, cancel_futures=True))
        return _collect(task, sources, executor, tell)


def _here(task: SourceTask[T], source: Source) -> Future[T | Unread]:
    """Done in this thread; the main one's reader stops at once when it is interrupted."""
    future: Future[T | Unread] = Future()
    try:
        future.set_result(task(source))
    except BaseException as error:  # noqa: BLE001  # as executors do
        future.set_exception(error)
    return future


def _collect(task: SourceTask[T], sources: Sequence[Source], executor: Executor, tell: Progress) -> list[T | Unread]:
    futures: list[Future[T | Unread]] = []
    outcomes: dict[int, T | Unread] = {}
    done: SimpleQueue[tuple[int, Future[T | Unread]]] = SimpleQueue()
    try:
        for place, source in enumerate(sources):
            future = _submit(executor, task, source)
            futures.append(future)
            future.add_done_callback(partial(_put, done, place))
        while len(outcomes) < len(futures):
            try:
                place, future = done.get(timeout=_LISTENING_S)
            except Empty:
                continue
            outcomes[place] = _outcome(future, sources[place])
            tell(len(outcomes), len(sources))
    finally:
        # After an error or an interrupt nobody waits for the rest.
        for future in futures:
            future.cancel()
    return [outcomes[place] for place in range(len(sources))]


def _put(done: SimpleQueue[tuple[int, Future[T]]], place: int, future: Future[T]) -> None:
    done.put((place, future))


def _submit(executor: Executor, task: SourceTask[T], source: Source) -> Future[T | Unread]:
    try:
        return executor.submit(task, source)
    except BrokenExecutor as error:
        broken: Future[T | Unread] = Future()
        broken.set_exception(error)
        return broken


def _outcome(future: Future[T | Unread], source: Source) -> T | Unread:
    """What came of a rank; raises what its task raised."""
    error = CancelledError("its task was cancelled") if future.cancelled() else future.exception()
    if error is None:
        return future.result()
    if isinstance(error, Defect):
        # From another process the cause says where it was raised there.
        raise error.error from (None if error.__cause__ is error.error else error.__cause__)
    if not isinstance(error, Exception):
        raise error
    what = f"{type(error).__name__}: {error}".rstrip(": ").partition("\n")[0]
    is_starved = isinstance(error, MemoryError)
    how = "needs more memory than there is" if is_starved else "was lost with the worker that read it"
    said = f"rank {source.rank} {how} ({what}); give workers more memory, or use fewer"
    return Unread(source, InputError(said), lost=error)
