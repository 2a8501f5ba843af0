"""Worker processes that may die."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

import polars as pl

from holotrace.allocator import collect_seldom
from holotrace.core.spread import cpu_count

T = TypeVar("T")
_POLARS_THREADS = "POLARS_MAX_THREADS"
# Threads share the environment, which processes are started with.
_STARTING = threading.Lock()


class Processes(Executor):
    """So many processes, of which each that dies loses only the task it had, and is replaced.

    A ``ProcessPoolExecutor`` loses all of its tasks with the first process that dies.

    Args:
        workers: How many there are.
        cpus: How many CPUs they share; by default those that this process may use.
    """

    def __init__(self, workers: int, *, cpus: int | None = None) -> None:
        self._polars_threads = max((cpus or cpu_count()) // workers, 1)
        # Each thread looks after one process.
        self._threads = ThreadPoolExecutor(workers, "holotrace", initializer=_start_processes_uninterrupted)
        self._mine = threading.local()
        self._all: list[futures.ProcessPoolExecutor] = []
        self._ended = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        return self._threads.submit(self._run, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        with _STARTING:
            # Else one could start when all others have been stopped, and nobody would stop it.
            self._ended = cancel_futures
        for process in self._all:
            process.shutdown(wait, cancel_futures=cancel_futures)

    def _run(self, fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        process: futures.ProcessPoolExecutor | None = getattr(self._mine, "process", None)
        try:
            if process is None:
                process = self._mine.process = self._started()
            return process.submit(_beside_polars, fn, args, kwargs).result()
        except BrokenExecutor:
            self._mine.process = None
            raise

    def _started(self) -> futures.ProcessPoolExecutor:
        # A fork would copy locks that threads of Polars hold.
        process = futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_begin)
        with _STARTING, _polars_threads(self._polars_threads):
            if self._ended:
                raise BrokenExecutor("it was shut down")
            # It is started for its first task.
            process.submit(int)
            self._all.append(process)
        return process


def _beside_polars(fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
    """What a function returns that is called in a thread of Polars.

    Any other thread hands each query to one of these and waits: of small ranks that is a fifth of the CPU time.
    """
    done: Future[T] = Future()

    def called(nothing: pl.Series) -> pl.Series:
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001  # as executors do
            done.set_exception(error)
        return nothing

    # Of several expressions each is a task for these threads.
    pl.select(pl.lit(0).map_batches(called, return_dtype=pl.Int32), pl.lit(1).alias("other"))
    return done.result()


@contextmanager
def _polars_threads(count: int) -> Iterator[None]:
    """Processes that are started meanwhile have so many threads of Polars, which would else be one per CPU in each.

    With 16 threads, a rank of 50,000 entries takes a third more CPU time than with one, and a process 50 MB more.
    """
    environment = os.environ  # noqa: TID251  # Polars has no other way
    if _POLARS_THREADS in environment:
        yield
        return
    environment[_POLARS_THREADS] = str(count)
    try:
        yield
    finally:
        del environment[_POLARS_THREADS]


def _start_processes_uninterrupted() -> None:
    # What a thread blocks, the processes that it starts block too: from their start, when nobody could handle it.
    if hasattr(signal, "pthread_sigmask"):
        # Whoever starts this first would unblock them.
        import_module("multiprocessing.resource_tracker").ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _begin() -> None:
    collect_seldom()
    # A terminal interrupts all processes of a command at once, and the parent looks after the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
