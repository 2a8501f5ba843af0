"""Worker processes that may die."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context, resource_tracker
from typing import Any, TypeVar

T = TypeVar("T")


class Processes(Executor):
    """So many processes, of which each that dies loses only the task it had, and is replaced.

    A ``ProcessPoolExecutor`` loses all of its tasks with the first process that dies.
    """

    def __init__(self, workers: int) -> None:
        # Each thread looks after one process.
        self._threads = ThreadPoolExecutor(workers, "holotrace", initializer=_start_processes_uninterrupted)
        self._mine = threading.local()
        self._all: list[ProcessPoolExecutor] = []

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        return self._threads.submit(self._run, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        for process in self._all:
            process.shutdown(wait, cancel_futures=cancel_futures)

    def _run(self, fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        process: ProcessPoolExecutor | None = getattr(self._mine, "process", None)
        if process is None:
            # A fork would copy locks that threads of Polars hold.
            process = ProcessPoolExecutor(1, get_context("spawn"), initializer=_leave_interrupts_to_the_parent)
            self._mine.process = process
            self._all.append(process)
        try:
            return process.submit(fn, *args, **kwargs).result()
        except BrokenExecutor:
            self._mine.process = None
            raise


def _start_processes_uninterrupted() -> None:
    # What a thread blocks, the processes that it starts block too: from their start, when nobody could handle it.
    if hasattr(signal, "pthread_sigmask"):
        # Whoever starts this first would unblock them.
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _leave_interrupts_to_the_parent() -> None:
    # A terminal interrupts all processes of a command at once.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
