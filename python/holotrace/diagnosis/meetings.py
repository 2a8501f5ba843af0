"""When ranks would meet, and the job would end, if some of their time were not spent: replay from meeting to meeting.

Between two meetings a rank goes its own way. What it did there stays as long as it was recorded, but for what a change
removes. A collective ends its transfer after the last rank has come; a rank that stood still for it goes on when it
ends, and one that computed beside it does not notice. Without changes the replay gives the recorded times.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import polars as pl

# What starts so soon after the work before it on its queue was waiting for that.
_QUEUED_NS = 10_000

Removed = Sequence[tuple[int, float]]


@dataclass(frozen=True)
class Change:
    """What is different in a job that is replayed."""

    # By rank, times at which something ended and how long that took, which it now does not.
    removed: Mapping[int, Removed] = field(default_factory=dict)
    # By meeting, how long its transfer takes now relative to what it took; 0 for one that is hidden.
    transfer: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Visit:
    """One rank at one meeting, on the clock of the job."""

    rank: int
    arrival_ns: int
    left_ns: int
    # How long it stood still until it left.
    held_ns: int
    # When it needed what it received; None if that is not known.
    needed_ns: int | None
    # Those of one group stand in one queue of the rank's.
    group: str


class Meetings:
    """All meetings of a job, which can be held again."""

    def __init__(self, visits: pl.DataFrame, ends: Mapping[int, int], offsets: Mapping[int, int]) -> None:
        """``visits`` are those of ``arrivals.of_ranks``; ``ends`` is when each rank ended, on its own clock."""
        self.offsets = offsets
        self._ends = {rank: end - offsets.get(rank, 0) for rank, end in ends.items()}
        self._meetings: dict[int, list[_Visit]] = {}
        for row in visits.select(
            *("match", "rank", "arrival_ns", "left_ns", "time_ns"),
            pl.col("needed_ns") - pl.col("clock_offset_ns"),
            pl.concat_str("group", "group_ranks", ignore_nulls=True),
        ).iter_rows():
            self._meetings.setdefault(row[0], []).append(_Visit(*row[1:]))
        # When the last one came to each.
        self._come = {match: max(visit.arrival_ns for visit in visits) for match, visits in self._meetings.items()}
        self._order = sorted(self._meetings, key=lambda match: self._come[match])
        self._ranks = {*self._ends, *visits["rank"]}
        self.end_ns = max(self._ends.values(), default=0)

    def saved_ns(self, change: Change) -> int:
        """How much earlier the job ends with the change."""
        return self.end_ns - max(self.ends(change).values(), default=0)

    def ends(self, change: Change) -> dict[int, int]:
        """When each rank ends with the change."""
        removals = {
            rank: _Removals([(at - self.offsets.get(rank, 0), ns) for at, ns in removed])
            for rank, removed in change.removed.items()
        }
        ranks = {rank: _Moved(removals.get(rank) or _Removals([])) for rank in self._ranks}
        # By rank and group, when the meeting before was left: as recorded, and now.
        before: dict[tuple[int, str], tuple[int, float]] = {}
        for match in self._order:
            visits = self._meetings[match]
            come = self._come[match]
            shifted = {}
            for visit in visits:
                left, leaves = before.get((visit.rank, visit.group), (visit.arrival_ns - _QUEUED_NS, 0.0))
                if 0 <= visit.arrival_ns - left < _QUEUED_NS:
                    # It stood in the queue behind the meeting before.
                    shifted[visit.rank] = leaves + visit.arrival_ns - left
                    continue
                shifted[visit.rank] = ranks[visit.rank].at(visit.arrival_ns)
            came = max(shifted.values())
            factor = change.transfer.get(match, 1.0)
            for visit in visits:
                transfer = visit.left_ns - come
                ended = came + transfer * factor
                before[visit.rank, visit.group] = visit.left_ns, ended
                moved = ranks[visit.rank]
                # What it stood still for until it came is needed at once.
                until = visit.left_ns + (_QUEUED_NS if visit.held_ns > 0 else 0)
                if visit.needed_ns is not None and visit.needed_ns > until:
                    moved.goes_on(visit.needed_ns, visit.needed_ns, ended)
                elif visit.held_ns > 0:
                    # A transfer of its own that was recorded as hidden in part stays so.
                    moved.goes_on(visit.left_ns, visit.left_ns - visit.held_ns, ended)
        return {rank: round(ranks[rank].at(end)) for rank, end in self._ends.items()}


class _Moved:
    """When one rank does with a change what it did at a time."""

    def __init__(self, removals: _Removals) -> None:
        self._removals = removals
        # From when on it is how much later than recorded, but for what is removed.
        self._since, self._later = [-sys.maxsize], [0.0]
        # Where it goes on after others, which may end in another order than they begin in.
        self._pending: list[tuple[int, int, float]] = []

    def at(self, time_ns: int) -> float:
        """When it does what it did at this time; all it waits for before is known."""
        pending = self._pending
        while pending and pending[0][0] <= time_ns:
            on, stood, there = heappop(pending)
            # What it had stood still for before, while nothing was computed, is there too.
            now = max(self._own(max(stood, self._since[-1])), there)
            self._since.append(max(on, self._since[-1]))
            self._later.append(now - on + self._removals.before(on))
        return self._own(time_ns)

    def goes_on(self, time_ns: int, stood_ns: int, there: float) -> None:
        """What it did at this time, after it had stood still since another, it does not before something is there."""
        heappush(self._pending, (time_ns, stood_ns, there))

    def _own(self, time_ns: int) -> float:
        later = self._later[bisect_right(self._since, time_ns) - 1]
        return time_ns + later - self._removals.before(time_ns)


class _Removals:
    """How much is removed before a time."""

    def __init__(self, removed: Removed) -> None:
        ordered = sorted(removed)
        self._times = [at for at, _ in ordered]
        self._sums = [0.0]
        for _, ns in ordered:
            self._sums.append(self._sums[-1] + ns)

    def before(self, time_ns: int) -> float:
        return self._sums[bisect_right(self._times, time_ns)]


def together(changes: list[Change]) -> Change:
    """All of these changes at once."""
    removed: dict[int, list[tuple[int, float]]] = {}
    transfer: dict[int, float] = {}
    for change in changes:
        for rank, parts in change.removed.items():
            removed.setdefault(rank, []).extend(parts)
        for match, factor in change.transfer.items():
            transfer[match] = min(factor, transfer.get(match, 1.0))
    return Change(removed, transfer)
