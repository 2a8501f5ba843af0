"""When ranks would meet, and the job would end, if some of their time were not spent: replay from meeting to meeting.

Between two meetings a rank goes its own way. What it did there stays as long as it was recorded, but for what a change
removes. A collective ends its transfer after the last rank has come; a rank that stood still for it goes on when it
ends, and one that computed beside it does not notice. Without changes the replay gives the recorded times.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from heapq import heappop, heappush
from types import MappingProxyType

import polars as pl

from holotrace.derive.host_messages import ON_HOSTS
from holotrace.diagnosis.host_clock import HostClock, Wait

# What starts so soon after the work before it on its queue was waiting for that.
QUEUED_NS = 10_000
# So soon a device that has nothing to do begins what its host launches, unless it waits for something else, too.
_SOON_NS = 1_000_000
# What ends within this of each other ends at once.
_AT_ONCE_NS = 10_000

Removed = Sequence[tuple[int, float]]


@dataclass(frozen=True)
class Change:
    """What is different in a job that is replayed."""

    # By rank, times at which something ended and how long that took, which it now does not.
    removed: Mapping[int, Removed] = field(default_factory=dict)
    # The part of it that hosts do not spend: they launch what comes after it earlier, too.
    of_hosts: Mapping[int, Removed] = field(default_factory=dict)
    # By meeting, how long its transfer takes now relative to what it took; 0 for one that is hidden.
    transfer: Mapping[int, float] = field(default_factory=dict)
    # What others have a part in: what is hidden later since the host is further ahead, by rank as what is removed.
    later: Mapping[int, Removed] = field(default_factory=dict)
    # By rank and time, what can be removed then at most, by this and others that know of such a limit.
    limits: Mapping[int, Mapping[int, float]] = field(default_factory=dict)
    # Where that is known, all that hosts do not do, also while their devices work.
    spent: Mapping[int, Removed] = field(default_factory=dict)
    # What hosts of XLA spare, by when they launched what comes after it.
    launched: Mapping[int, Removed] = field(default_factory=dict)
    # Waits of such hosts that they do without, by when they ended.
    waits: Mapping[int, frozenset[int]] = field(default_factory=dict)


@dataclass(frozen=True, order=True)
class Late:
    """Work that a host launched when its device had little or nothing to do: no faster device begins it earlier."""

    begun_ns: int
    # Since when the host did something else, however fast its device was.
    since_ns: int
    # For how much of that the device had nothing to do.
    gap_ns: int
    # When it was launched, if the device still had something to do then.
    launched_ns: int


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
    # When it had computed what it sends, if it then stood in its queue; None if that is not known.
    ready_ns: int | None
    # Those of one group stand in one queue of the rank's, or those of several.
    queue: str
    # How many of the rank's operations of this kind it stood still for.
    held_ratio: float
    # Whether that queue is that of its only device: of several each has its own, and the last to come is told of.
    # Backends of hosts have several, too.
    is_of_one: bool = True
    # The kernel, and when it ended, if it is that of several messages.
    kernel: int | None = None
    ended_ns: int = 0


class Meetings:
    """All meetings of a job, which can be held again."""

    def __init__(
        self,
        visits: pl.DataFrame,
        ends: Mapping[int, int],
        offsets: Mapping[int, int],
        late: Mapping[int, Sequence[Late]] = MappingProxyType({}),
        waits: Mapping[int, Sequence[Wait]] = MappingProxyType({}),
    ) -> None:
        """``visits`` are those of ``arrivals.of_ranks``; ``ends`` is when each rank ended, on its own clock.

        So is what was launched too ``late``, or at all where it is known when hosts had waited for their devices.
        """
        self.offsets = offsets
        self._waits = {
            rank: [each.earlier(offset) for each in of_rank]
            for rank, of_rank in waits.items()
            for offset in [offsets.get(rank, 0)]
        }
        self._late = {
            rank: [
                Late(each.begun_ns - offset, each.since_ns - offset, each.gap_ns, each.launched_ns - offset)
                for each in of_rank
            ]
            for rank, of_rank in late.items()
            for offset in [offsets.get(rank, 0)]
        }
        self._ends = {rank: end - offsets.get(rank, 0) for rank, end in ends.items()}
        self._meetings: dict[int, list[_Visit]] = {}
        of_group = pl.concat_str("group", "group_ranks", ignore_nulls=True)
        queue = pl.coalesce(pl.col("queue").cast(pl.String), of_group)
        held_ratio = (
            (pl.col("time_ns") > 0).mean().over("rank", "collective", "group", "group_ranks").alias("held_ratio")
        )
        for row in visits.select(
            *("match", "rank", "arrival_ns", "left_ns", "time_ns"),
            pl.col("needed_ns", "ready_ns") - pl.col("clock_offset_ns"),
            queue if "queue" in visits.columns else of_group,
            held_ratio,
            _has_one_queue(visits),
            *_kernels(visits),
        ).iter_rows():
            self._meetings.setdefault(row[0], []).append(_Visit(*row[1:]))
        # When the last one came to each.
        self._come = {match: max(visit.arrival_ns for visit in visits) for match, visits in self._meetings.items()}
        self._order = sorted(self._meetings, key=lambda match: self._come[match])
        self._last = self._last_of_kernels()
        self._ranks = {*self._ends, *visits["rank"]}
        met = {frozenset(visit.rank for visit in visits) for visits in self._meetings.values()}
        self._groups = _groups(self._ends, met)

    def saved_ns(self, change: Change) -> int:
        """How much earlier the job ends with the change."""
        now = self.ends(change)
        return self.mean_ns(lambda ranks: self._end_ns(ranks) - max(now[rank] for rank in ranks))

    def lasted_ns(self, starts: Mapping[int, int]) -> int:
        """How long the job takes whose ranks begin then, on its clock."""
        return self.mean_ns(lambda ranks: self._end_ns(ranks) - min(starts[rank] for rank in ranks))

    def mean_ns(self, of_ranks: Callable[[Set[int]], float]) -> int:
        """The mean of a time of ranks that meet, over the job: of groups that never meet each rank counts as much."""
        return round(sum(of_ranks(ranks) * len(ranks) for ranks in self._groups) / max(1, len(self._ends)))

    def meet_others(self, ranks: Set[int]) -> bool:
        """Whether one of these ranks, or any if none is named, meets another that is not among them."""
        return any(group - ranks and group & ranks if ranks else len(group) > 1 for group in self._groups)

    def _end_ns(self, ranks: Set[int]) -> int:
        return max(self._ends[rank] for rank in ranks)

    def ends(self, change: Change) -> dict[int, int]:
        """When each rank ends with the change."""
        ranks = {
            rank: _Moved(
                self._removals(rank, change.removed, change.later),
                self._removals(rank, change.of_hosts, change.later),
                self._removals(rank, change.spent),
                self._late.get(rank, ()),
                self._host(rank, change),
            )
            for rank in self._ranks
        }
        # By rank and queue, when the meeting before was left: as recorded, and now.
        before: dict[tuple[int, str], tuple[int, float]] = {}
        several = _Kernels(self._last)
        for match in self._order:
            visits = self._meetings[match]
            come = self._come[match]
            shifted = {}
            for visit in visits:
                left, leaves = before.get((visit.rank, visit.queue), (visit.arrival_ns - QUEUED_NS, -sys.maxsize))
                if 0 <= visit.arrival_ns - left < QUEUED_NS:
                    # It stood in the queue behind the meeting before.
                    ready = leaves if visit.ready_ns is None else ranks[visit.rank].at(visit.ready_ns)
                    shifted[visit.rank] = max(leaves, ready) + visit.arrival_ns - left
                    continue
                own = ranks[visit.rank].at(visit.arrival_ns)
                # One queue holds its meetings one after the other, also those that did not wait for each other.
                shifted[visit.rank] = max(own, leaves) if visit.is_of_one and visit.arrival_ns >= left else own
            came = max(shifted.values())
            factor = change.transfer.get(match, 1.0)
            for visit in visits:
                transfer = visit.left_ns - come
                ended = came + transfer * factor
                left = visit.left_ns
                if visit.kernel is not None:
                    ended, left = several.ended(visit.kernel, ended), visit.ended_ns
                before[visit.rank, visit.queue] = left, ended
                if visit.kernel is not None and self._last[visit.kernel][0] != match:
                    continue
                moved = ranks[visit.rank]
                # What it stood still for until it came is needed at once.
                until = left + (QUEUED_NS if visit.held_ns > 0 else 0)
                if visit.needed_ns is not None and visit.needed_ns > until:
                    moved.goes_on(visit.needed_ns, visit.needed_ns, ended, 1.0)
                elif visit.held_ns > 0:
                    # A transfer of its own that was recorded as hidden in part stays so.
                    moved.goes_on(left, left - visit.held_ns, ended, visit.held_ratio)
        return {rank: round(ranks[rank].at(end)) for rank, end in self._ends.items()}

    def _last_of_kernels(self) -> dict[int, tuple[int, int]]:
        """Of kernels of several messages the meeting that is held last, and for how long each went on after all."""
        last: dict[int, tuple[int, int]] = {}
        for match in self._order:
            for visit in self._meetings[match]:
                if visit.kernel is not None:
                    _, after = last.get(visit.kernel, (match, visit.ended_ns))
                    last[visit.kernel] = match, min(after, visit.ended_ns - visit.left_ns)
        return last

    def _host(self, rank: int, change: Change) -> HostClock | None:
        if rank not in self._waits:
            return None
        offset = self.offsets.get(rank, 0)
        without = {at - offset for at in change.waits.get(rank, ())}
        spared = self._removals(rank, change.spent if rank in change.spent else change.launched)
        return HostClock(self._waits[rank], without, spared.before)

    def _removals(self, rank: int, *removed: Mapping[int, Removed]) -> _Removals:
        offset = self.offsets.get(rank, 0)
        return _Removals([(at - offset, ns) for each in removed for at, ns in each.get(rank, ())])


class _Kernels:
    """When kernels of several messages end: when the last of these is over."""

    def __init__(self, last: Mapping[int, tuple[int, int]]) -> None:
        self._last = last
        self._over: dict[int, float] = {}

    def ended(self, kernel: int, over: float) -> float:
        """When it ends, as far as that is known when one of its messages is ``over``."""
        self._over[kernel] = max(over, self._over.get(kernel, over))
        return self._over[kernel] + self._last[kernel][1]


def _has_one_queue(visits: pl.DataFrame) -> pl.Expr:
    """Whether what the rank meets others in stands in one queue with all else of that group."""
    of_all = pl.col("device").is_null() if "device" in visits.columns else pl.lit(value=True)
    if "operation" in visits.columns:
        of_all &= ~pl.col("operation").cast(pl.String).str.contains(rf"^{ON_HOSTS}:").fill_null(value=False)
    return of_all.alias("is_of_one")


def _kernels(visits: pl.DataFrame) -> list[pl.Expr]:
    """The kernel of each visit that is one of several of it, and when that ended; see ``pairs.apart``."""
    if "message_count" not in visits.columns:
        return []
    kernel = pl.when(pl.col("message_count") > 1).then(pl.struct("rank", "event_id").rank("dense"))
    return [kernel.alias("kernel"), pl.col("ended_ns")]


class _Moved:
    """When one rank does with a change what it did at a time."""

    def __init__(
        self,
        removals: _Removals,
        of_hosts: _Removals,
        spent: _Removals,
        late: Sequence[Late],
        host: HostClock | None = None,
    ) -> None:
        self._removals = removals
        self._of_hosts = of_hosts
        self._spent = spent
        # From when on it is how much later than recorded, but for what is removed.
        self._since, self._later = [-sys.maxsize], [0.0]
        # Where it goes on after others, which may end in another order than they begin in.
        self._pending: list[tuple[int, int, float, float]] = []
        # When it went on last for something else, and how likely it had stood still for that.
        self._went, self._likely = -sys.maxsize, 0.0
        self._late = sorted(late, reverse=True)
        self._host = host
        lags = [each.begun_ns - each.launched_ns for each in late]
        # Where all was launched long before, nobody knows how soon a device would have begun it.
        self._soonest_ns = min((lag for lag in lags if lag <= _SOON_NS), default=0)

    def at(self, time_ns: int) -> float:
        """When it does what it did at this time; all it waits for before is known."""
        pending, late = self._pending, self._late
        while True:
            until = pending[0][0] if pending and pending[0][0] <= time_ns else time_ns
            if late and late[-1].begun_ns <= until:
                launched = late.pop()
                begun = self._own(launched.begun_ns)
                now = self._launched(launched, begun) if self._host is None else self._by(self._host, launched, begun)
                if now != begun:
                    self._resumes(launched.begun_ns, now)
            elif pending and pending[0][0] <= time_ns:
                on, stood, there, likely = heappop(pending)
                if on - self._went > _AT_ONCE_NS or likely >= self._likely:
                    # What ended before that, while it stood still, did not hold it back.
                    self._resumes(on, max(self._own(stood), there))
                    self._went, self._likely = on, likely
            else:
                return self._own(time_ns)

    def goes_on(self, time_ns: int, stood_ns: int, there: float, likely: float) -> None:
        """What it did at this time, after it had stood still since another, it does not before something is there.

        Of several that end at once it waited for the one that it is most ``likely`` to wait for.
        """
        heappush(self._pending, (time_ns, stood_ns, there, likely))

    def _resumes(self, time_ns: int, now: float) -> None:
        self._since.append(max(time_ns, self._since[-1]))
        self._later.append(now - time_ns + self._removals.before(time_ns))

    def _launched(self, late: Late, begun: float) -> float:
        """When its host can have launched it."""
        spared = self._of_hosts.before(late.begun_ns) - self._of_hosts.before(late.since_ns)
        lasted = late.launched_ns - late.since_ns
        if not late.gap_ns and (spent := self._spent.before(late.launched_ns) - self._spent.before(late.since_ns)):
            # It may have been in the middle of that.
            return max(begun, self._own(late.since_ns) + lasted - max(spared, spent))
        # What does not happen takes no time at all, and not only none of that in which the device had nothing to do.
        spared = max(spared, lasted * min(1.0, spared / max(1, late.gap_ns)))
        return max(begun, self._own(late.since_ns) + lasted - spared)

    def _by(self, host: HostClock, late: Late, begun: float) -> float:
        """When the device begins what its host launched, if without that it would be ``begun``."""
        launched = host.at(late.launched_ns, self._own)
        lag_ns = late.begun_ns - late.launched_ns
        if not late.gap_ns or lag_ns > _SOON_NS:
            return max(begun, launched + min(lag_ns, self._soonest_ns))
        return max(launched + lag_ns, self._own(late.begun_ns - late.gap_ns))

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


def _groups(ranks: Iterable[int], meetings: Iterable[Set[int]]) -> list[Set[int]]:
    """The ranks in groups of those that meet, be it through others."""
    groups: list[Set[int]] = [{rank} for rank in ranks]
    for met in meetings:
        if len(groups) < 2:
            break
        apart = [group for group in groups if group & met]
        if len(apart) > 1:
            groups = [*(group for group in groups if not group & met), set().union(*apart)]
    return groups


def together(changes: list[Change]) -> Change:
    """All of these changes at once, without what others have a part in."""
    removed: dict[int, list[tuple[int, float]]] = {}
    of_hosts: dict[int, list[tuple[int, float]]] = {}
    spent: dict[int, list[tuple[int, float]]] = {}
    launched: dict[int, list[tuple[int, float]]] = {}
    waits: dict[int, frozenset[int]] = {}
    transfer: dict[int, float] = {}
    limits: dict[int, dict[int, float]] = {}
    for change in changes:
        for rank, ended in change.waits.items():
            waits[rank] = waits.get(rank, frozenset()) | ended
        for every, parts_of in (
            (removed, change.removed),
            (of_hosts, change.of_hosts),
            (spent, change.spent),
            (launched, change.launched),
        ):
            for rank, parts in parts_of.items():
                every.setdefault(rank, []).extend(parts)
        for match, factor in change.transfer.items():
            transfer[match] = min(factor, transfer.get(match, 1.0))
        for rank, most in change.limits.items():
            limits.setdefault(rank, {}).update(most)
    for rank, at, ns in _beyond_limits(changes, limits):
        removed.setdefault(rank, []).append((at, -ns))
        of_hosts.setdefault(rank, []).append((at, -ns))
    return Change(removed, of_hosts, transfer, limits=limits, spent=spent, launched=launched, waits=waits)


def _beyond_limits(
    changes: Sequence[Change], limits: Mapping[int, Mapping[int, float]]
) -> Iterator[tuple[int, int, float]]:
    """What changes that know of limits remove together beyond these: rank, time and how much."""
    for rank, most in limits.items():
        sums = dict.fromkeys(most, 0.0)
        for change in changes:
            known = change.limits.get(rank, {})
            for at, ns in change.removed.get(rank, ()) if known else ():
                if at in known:
                    sums[at] += ns
        yield from ((rank, at, ns - most[at]) for at, ns in sums.items() if ns > most[at])
