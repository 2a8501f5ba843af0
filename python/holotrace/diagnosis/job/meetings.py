"""When ranks would meet, and the job would end, if some of their time were not spent: replay from meeting to meeting.

Between two meetings a rank goes its own way. What it did there stays as long as it was recorded, but for what a change
removes. A collective ends its transfer after the last rank has come; a rank that stood still for it goes on when it
ends, and one that computed beside it does not notice. Without changes the replay gives the recorded times.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from holotrace.core.native import native
from holotrace.derive.host_messages import ON_HOSTS

# Work that hosts launched when their device had little or nothing to do, on each rank's own clock: no faster device
# begins it earlier. Since when the host did something else, for how much of that the device had nothing to do, and when
# it was launched, if the device still had something to do then.
LATE = pl.Schema(dict.fromkeys(("rank", "begun_ns", "since_ns", "gap_ns", "launched_ns"), pl.Int64()))
# When hosts waited for their devices: the last program before the end of that was over when it was ready, and the one
# before that, which they wait for if not for this, before it; with nothing before, that is the least of all times.
WAITS = pl.Schema(dict.fromkeys(("rank", "returned_ns", "began_ns", "ready_ns", "before_ns"), pl.Int64()))
NOTHING_BEFORE = -(2**63)

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
    # Waits of such hosts that are for what devices did before, instead, by when they ended.
    waits: Mapping[int, frozenset[int]] = field(default_factory=dict)
    # What one device of a rank does not do, by both, as what is removed.
    of_devices: Mapping[tuple[int, int], Removed] = field(default_factory=dict)


class Meetings:
    """All meetings of a job, which can be held again."""

    def __init__(
        self,
        visits: pl.DataFrame,
        ends: Mapping[int, int],
        offsets: Mapping[int, int],
        *,
        late: pl.DataFrame | None = None,
        waits: pl.DataFrame | None = None,
        waiting: Set[int] = frozenset(),
        devices: pl.DataFrame | None = None,
    ) -> None:
        """``visits`` are those of ``arrivals.of_ranks``; ``ends`` is when each rank ended, on its own clock.

        So is what was launched too ``late``, or at all by hosts of which all ``waits`` are known: those of the ranks
        ``waiting``, which may have none, and of those that have some. Where each of a rank's ``devices`` goes its own
        way, these are the visits of all devices.
        """
        self._ends = {rank: end - offsets.get(rank, 0) for rank, end in ends.items()}
        self.are_devices = devices is not None
        """Whether each device of a rank goes its own way."""
        self._members = Members(ends, visits, devices, offsets)
        of_members = self._members.table
        known = {
            "end_ns": [ends.get(rank) for rank in of_members["rank"]],
            "offset_ns": [offsets.get(rank, 0) for rank in of_members["rank"]],
            "is_waiting": [rank in waiting for rank in of_members["rank"]],
        }
        schema = {"end_ns": pl.Int64, "offset_ns": pl.Int64, "is_waiting": pl.Boolean}
        self._held = native.Meetings(
            _as_held(visits if devices is None else self._members.alone(devices)),
            of_members.select(rank="member").hstack(pl.DataFrame(known, schema)),
            self._members.each(pl.DataFrame(schema=LATE) if late is None else late),
            self._members.each(pl.DataFrame(schema=WAITS) if waits is None else waits),
        )
        self._groups = groups(self._ends, visits)

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
        return self._members.last(self._held.ends(self._members.changed(change)))


class Members:
    """Who goes its own way between meetings: each rank, or each of its devices."""

    def __init__(
        self, ranks: Iterable[int], visits: pl.DataFrame, devices: pl.DataFrame | None, offsets: Mapping[int, int]
    ) -> None:
        """``visits`` are those of ranks, and of their ``devices`` where these go their own way.

        ``ranks`` are also some that never meet any, ``offsets`` what their clocks are ahead.
        """
        are_devices = devices is not None
        device = pl.col("device").cast(pl.Int64) if are_devices else pl.lit(None, pl.Int64)
        of_members = visits if devices is None else devices
        met = of_members.select(pl.col("rank").cast(pl.Int64), device.alias("device")).unique()
        alone = sorted({*ranks} - {*met["rank"]})
        every = pl.concat([met, pl.DataFrame({"rank": alone}, {"rank": pl.Int64})], how="diagonal")
        every = every.sort("rank", "device")
        number = pl.int_range(pl.len(), dtype=pl.Int64) if are_devices else pl.col("rank")
        self.table = every.with_columns(number.alias("member"))
        """rank, device and member, the number that each is held by."""
        self._are_devices = are_devices
        self._arrivals = {} if devices is None else self._came(visits, devices, offsets)

    def _came(
        self, visits: pl.DataFrame, devices: pl.DataFrame, offsets: Mapping[int, int]
    ) -> dict[int, tuple[list[int], dict[int, list[int]]]]:
        """When each rank came to what it met others in, in order, and when its members did, on its own clock."""
        at = pl.col("arrival_ns").min()
        own = self.alone(devices).group_by("rank", "match").agg(at).rename({"rank": "member"})
        of_several = self.table.filter(pl.len().over("rank") > 1)
        own = own.join(of_several.select("member", of="rank"), on="member")
        whole = visits.group_by(pl.col("rank").cast(pl.Int64).alias("of"), "match").agg(come_ns=at)
        both = own.join(whole, on=["of", "match"]).sort("come_ns", "match")
        found: dict[int, tuple[list[int], dict[int, list[int]]]] = {}
        for (rank,), of_rank in both.group_by("of", maintain_order=True):
            matches = of_rank.unique("match", maintain_order=True).select("match", "come_ns")
            known = {
                member: matches.join(rows, on="match", how="left", maintain_order="left")
                .select(pl.coalesce("arrival_ns", "come_ns") + offsets.get(int(str(rank)), 0))["arrival_ns"]
                .to_list()
                for (member,), rows in of_rank.drop("come_ns").group_by("member")
            }
            come = (matches["come_ns"] + offsets.get(int(str(rank)), 0)).to_list()
            found[int(str(rank))] = (come, {int(str(member)): times for member, times in known.items()})
        return found

    def _placed(self, parts: Removed, rank: int, member: int) -> Removed:
        """What a whole rank does without, of one of its members: before this comes to what the rank then comes to.

        What hosts do for one device after the other is over for some when it still holds up the last.
        """
        if rank not in self._arrivals:
            return parts
        come, of_members = self._arrivals[rank]
        own = of_members.get(member, come)
        places = ((bisect_left(come, at), at, ns) for at, ns in parts)
        return [(min(at, own[place]) if place < len(own) else at, ns) for place, at, ns in places]

    def alone(self, visits: pl.DataFrame) -> pl.DataFrame:
        """The visits of devices, as if each was a rank."""
        placed = visits.join(
            self.table,
            left_on=["rank", pl.col("device").cast(pl.Int64)],
            right_on=["rank", "device"],
            nulls_equal=True,
            maintain_order="left",
        )
        return placed.with_columns(rank="member").drop("member", "device")

    def each(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows of ranks for each of their members."""
        if not self._are_devices:
            return rows
        both = rows.join(self.table.select("rank", "member"), on="rank", maintain_order="left_right")
        return both.with_columns(rank="member").drop("member")

    def changed(self, change: Change) -> Change:
        """The change, by member; a rank that goes its way as a whole is as late as the last of its devices."""
        members = self.table.select("rank", "member").rows()

        def every(by_rank: Mapping[int, Any]) -> dict[int, Any]:
            return {member: by_rank[rank] for rank, member in members if rank in by_rank}

        removed = {
            member: self._placed(change.removed[rank], rank, member)
            for rank, member in members
            if rank in change.removed
        }
        for (rank, device), parts in change.of_devices.items():
            those = (pl.col("rank") == rank) & (pl.col("device") == device).fill_null(value=True)
            for member in self.table.filter(those)["member"]:
                removed[member] = [*removed.get(member, ()), *parts]
        return replace(
            change,
            removed=removed,
            of_hosts=every(change.of_hosts),
            later=every(change.later),
            spent=every(change.spent),
            launched=every(change.launched),
            waits=every(change.waits),
        )

    def last(self, ends: Mapping[int, int]) -> dict[int, int]:
        """When each rank ends: with the last of its members."""
        found: dict[int, int] = {}
        for rank, member in self.table.select("rank", "member").iter_rows():
            if member in ends:
                found[rank] = max(ends[member], found.get(rank, ends[member]))
        return found


def _as_held(visits: pl.DataFrame) -> pl.DataFrame:
    """What the core needs of visits to hold the meetings again."""
    of_group = pl.concat_str("group", "group_ranks", ignore_nulls=True)
    queue = pl.coalesce(pl.col("queue").cast(pl.String), of_group) if "queue" in visits.columns else of_group
    is_held = pl.col("time_ns") > 0
    return visits.select(
        pl.col("match", "rank", "arrival_ns", "left_ns").cast(pl.Int64),
        pl.col("time_ns").cast(pl.Int64).alias("held_ns"),
        (pl.col("needed_ns", "ready_ns") - pl.col("clock_offset_ns")).cast(pl.Int64),
        (pl.struct("rank", queue).rank("dense") - 1).cast(pl.UInt32).alias("queue"),
        is_held.mean().over("rank", "collective", "group", "group_ranks").cast(pl.Float64).alias("held_ratio"),
        _has_one_queue(visits),
        *_kernels(visits),
    )


def _has_one_queue(visits: pl.DataFrame) -> pl.Expr:
    """Whether what the rank meets others in stands in one queue with all else of that group."""
    of_all = pl.col("device").is_null() if "device" in visits.columns else pl.lit(value=True)
    if "operation" in visits.columns:
        of_all &= ~pl.col("operation").cast(pl.String).str.contains(rf"^{ON_HOSTS}:").fill_null(value=False)
    return of_all.alias("is_of_one")


def _kernels(visits: pl.DataFrame) -> tuple[pl.Expr, pl.Expr]:
    """The kernel of each visit that is one of several of it, and when that ended; see ``pairs.apart``."""
    if "message_count" not in visits.columns:
        return pl.lit(None, pl.UInt32).alias("kernel"), pl.lit(0, pl.Int64).alias("ended_ns")
    kernel = pl.when(pl.col("message_count") > 1).then(pl.struct("rank", "event_id").rank("dense") - 1)
    return kernel.cast(pl.UInt32).alias("kernel"), pl.col("ended_ns").cast(pl.Int64)


def groups(ranks: Iterable[int], visits: pl.DataFrame) -> list[Set[int]]:
    """The ranks in groups of those that meet, be it through others."""
    found: list[Set[int]] = [{rank} for rank in ranks]
    for met in {frozenset(ranks) for ranks in visits.group_by("match").agg("rank")["rank"].to_list()}:
        if len(found) < 2:
            break
        apart = [group for group in found if group & met]
        if len(apart) > 1:
            found = [*(group for group in found if not group & met), set().union(*apart)]
    return found


def together(changes: list[Change]) -> Change:
    """All of these changes at once, without what others have a part in."""
    removed: dict[int, list[tuple[int, float]]] = {}
    of_hosts: dict[int, list[tuple[int, float]]] = {}
    spent: dict[int, list[tuple[int, float]]] = {}
    launched: dict[int, list[tuple[int, float]]] = {}
    waits: dict[int, frozenset[int]] = {}
    transfer: dict[int, float] = {}
    of_devices: dict[tuple[int, int], list[tuple[int, float]]] = {}
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
        for device, parts in change.of_devices.items():
            of_devices.setdefault(device, []).extend(parts)
        for match, factor in change.transfer.items():
            transfer[match] = min(factor, transfer.get(match, 1.0))
        for rank, most in change.limits.items():
            limits.setdefault(rank, {}).update(most)
    for rank, at, ns in _beyond_limits(changes, limits):
        removed.setdefault(rank, []).append((at, -ns))
        of_hosts.setdefault(rank, []).append((at, -ns))
    return Change(
        removed,
        of_hosts,
        transfer,
        limits=limits,
        spent=spent,
        launched=launched,
        waits=waits,
        of_devices=of_devices,
    )


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
