"""Run a function over ranks, each read when its turn comes and let go afterwards."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from holotrace.derive.rank import load, narrowed
from holotrace.errors import InputError
from holotrace.schema import Table
from holotrace.sources import RankSource
from holotrace.sources.problems import UNREAD, problem
from holotrace.trace import RankTrace

T = TypeVar("T")
# Called with the number of ranks done and of all ranks.
Progress = Callable[[int, int], None]

log = logging.getLogger("holotrace")


@dataclass(frozen=True)
class Unread:
    """A rank whose file could not be read."""

    source: RankSource
    error: InputError


@dataclass(frozen=True)
class Visit(Generic[T]):
    """Reads one rank and runs a task on it; travels to any worker."""

    task: Callable[[RankTrace], T]
    reads: tuple[Table, ...]

    def __call__(self, source: RankSource | RankTrace) -> T | Unread:
        started = time.perf_counter()
        if isinstance(source, RankTrace):
            trace = narrowed(source, self.reads)
        else:
            try:
                trace = load(source, self.reads)
            except InputError as error:
                return Unread(source, error)
        read = time.perf_counter()
        result = self.task(trace)
        log.debug("rank %d: read in %.3f s, worked in %.3f s", trace.rank, read - started, time.perf_counter() - read)
        return result


def read_ranks(
    visit: Callable[[RankSource | RankTrace], T | Unread],
    sources: Sequence[RankSource | RankTrace],
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> tuple[list[T], list[dict[str, Any]]]:
    """What ``visit`` returns for each rank that can be read, in their order, and a problem for each that cannot.

    Raises the first rank's error where none can be read.
    """
    outcomes = _over(visit, sources, executor, progress or (lambda done, total: None))
    unread = [outcome for outcome in outcomes if isinstance(outcome, Unread)]
    if unread and len(unread) == len(outcomes):
        raise unread[0].error
    problems = [
        problem(UNREAD, rank=o.source.rank, example=str(o.error), file=o.source.path, action="rank left out")
        for o in unread
    ]
    return [outcome for outcome in outcomes if not isinstance(outcome, Unread)], problems


def _over(
    visit: Callable[[RankSource | RankTrace], T | Unread],
    sources: Sequence[RankSource | RankTrace],
    executor: Executor | None,
    tell: Progress,
) -> list[T | Unread]:
    """What ``visit`` returns for each of ``sources``.

    Without an executor there are as many threads as this process has CPUs: reading releases the interpreter's lock.
    """
    workers = min(len(sources), cpu_count())
    tell(0, len(sources))
    if executor is None and workers <= 1:
        # In the main thread an interrupt stops the reader at once.
        results: list[T | Unread] = []
        for source in sources:
            results.append(visit(source))
            tell(len(results), len(sources))
        return results
    with ExitStack() as stack:
        if executor is None:
            executor = ThreadPoolExecutor(workers, thread_name_prefix="holotrace")
            stack.callback(partial(executor.shutdown, wait=False, cancel_futures=True))
        return _collect([executor.submit(visit, source) for source in sources], tell)


def _collect(futures: list[Future[T | Unread]], tell: Progress) -> list[T | Unread]:
    pending: set[Future[T | Unread]] = set(futures)
    try:
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()  # a task's error ends it all
            tell(len(futures) - len(pending), len(futures))
    finally:
        # After an error or an interrupt nobody waits for the rest.
        for future in pending:
            future.cancel()
    return [future.result() for future in futures]


def cpu_count() -> int:
    """CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1
