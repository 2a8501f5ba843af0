"""When the host of an XLA profile does with a change what it did at a time: it waits for its devices, and launches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Wait:
    """A host waited for its devices; the change may do without."""

    returned_ns: int
    began_ns: int
    # When the last program before that was over: what it waited for, if it had to.
    ready_ns: int
    name: str | None = None

    def earlier(self, ns: int) -> Wait:
        """The wait on a clock that is behind."""
        return Wait(self.returned_ns - ns, self.began_ns - ns, self.ready_ns - ns, self.name)


class HostClock:
    """The host of one rank, as time goes by."""

    def __init__(self, waits: Sequence[Wait], without: Set[int], spared: Callable[[int], float]) -> None:
        """``without`` has when waits ended that it does without; ``spared`` is what it does not do before a time."""
        self._waits = sorted(waits, reverse=True)
        self._without = without
        self._spared = spared
        self._went, self._later = -sys.maxsize, 0.0

    def at(self, time_ns: int, device_ns: Callable[[int], float]) -> float:
        """When it does what it did at this time; ``device_ns`` tells that of its devices, for all times before."""
        while self._waits and self._waits[-1].returned_ns <= time_ns:
            wait = self._waits.pop()
            began_ns = max(wait.began_ns, self._went)
            now = self._own(began_ns)
            if wait.returned_ns not in self._without:
                now = max(now, device_ns(wait.ready_ns)) + wait.returned_ns - max(began_ns, wait.ready_ns)
            self._went = wait.returned_ns
            self._later = now - wait.returned_ns + self._spared(wait.returned_ns)
        return self._own(time_ns)

    def _own(self, time_ns: int) -> float:
        return time_ns + self._later - self._spared(time_ns)
