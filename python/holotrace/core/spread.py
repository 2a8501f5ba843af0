"""Work on one rank by several threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")


def cpu_count() -> int:
    """CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def spread(work: Callable[[S], T], items: Iterable[S], workers: int) -> list[T]:
    """What ``work`` returns for each of ``items``, in their order, by so many threads; this one is among them.

    Raises what ``work`` raises first; what nobody has begun by then is left.
    """
    waiting = list(enumerate(items))[::-1]
    done: dict[int, T] = {}
    errors: list[BaseException] = []

    def take() -> None:
        while not errors:
            try:
                # Lists hand out each of their items once, whichever thread asks.
                place, item = waiting.pop()
            except IndexError:
                return
            try:
                done[place] = work(item)
            except BaseException as error:  # noqa: BLE001  # another thread raises it
                errors.append(error)

    others = [threading.Thread(target=take, name="holotrace") for _ in range(min(workers, len(waiting)) - 1)]
    for thread in others:
        thread.start()
    take()
    for thread in others:
        thread.join()
    if errors:
        raise errors[0]
    return [done[place] for place in range(len(done))]
