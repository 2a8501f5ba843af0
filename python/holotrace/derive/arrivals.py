"""When each rank came to each collective, and what it did until the last had come."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import polars as pl

from holotrace.derive import clock_offsets, clocks, collectives, untold_groups
from holotrace.derive.host_messages import IS_MESSAGE, IS_SENT, ON_HOSTS

# Kernels of one collective run at the same time and end on all ranks within some ten microseconds, long ones within a
# part of their length, and exchanges as each has what it waits for, though all are there for so much of the shortest
# one; what does not was matched in error, or its ranks can leave before the last has come.
_TOLERANCE_NS, _TOLERANCE_RATIO, _TOGETHER_RATIO = 100_000, 0.5, 0.5
_OPERATION = pl.col("operation").cast(pl.String)
# Threads of hosts leave an exchange that all have come to as each gets a processor.
_ON_HOSTS = IS_MESSAGE | _OPERATION.str.contains(rf"^{ON_HOSTS}:_?(all|barrier|reduce_scatter)").fill_null(value=False)
# Between two operators a host computes nothing for less than this, whether it waits or not, nor did it wait for what
# was there for far longer than it stood still.
_WAITED_NS, _WAITED_RATIO = 250_000, 0.1
# Kernels of several messages go on for those to others.
_IN_GROUPS = (_OPERATION == collectives.GROUPED).fill_null(value=False)
# So few of those that leave early are matched in error.
_EARLY_RATIO = 0.1
# What slices of TPUs exchange, by the instruction that sends it.
_EXCHANGED = r"\(send(\.\d+)?\)$"
_IS_BARRIER = pl.col("collective").cast(pl.String) == collectives.BARRIER
# What a program begins with: so is what its cores leave a barrier for.
IS_FIRST = _IS_BARRIER | (pl.col("group_description").cast(pl.String) == collectives.OF_BARRIER).fill_null(value=False)
# Whether a device of the rank stood still at its end.
_IS_HELD = (pl.col("time_ns") > 0).any().over("match", "of_rank")


class Compared:
    """The calls of all ranks, with ``call``, their number, and when each rank came to those that can be compared."""

    def __init__(self, calls: pl.DataFrame) -> None:
        self.calls = calls.with_row_index("call")

    @cached_property
    def arrived(self) -> pl.DataFrame:
        """As of ``of_ranks``, but for messages; several analyses ask for it."""
        return self._met.filter(~untold_groups.MAY_BE_MESSAGE)

    @cached_property
    def messages(self) -> pl.DataFrame:
        """The numbers of calls that were compared and are no collectives: call."""
        return self._met.filter(untold_groups.MAY_BE_MESSAGE).select("call")

    @cached_property
    def _met(self) -> pl.DataFrame:
        return of_ranks(self.calls)


def of_ranks(calls: pl.DataFrame, *, are_awaited_later: bool = False, with_broadcasts: bool = False) -> pl.DataFrame:
    """When each rank came to each collective, on one clock, how long it then waited and how much of that it idled.

    ``calls`` are those of all ranks; those that cannot be compared are left out. Of a rank with several devices each
    comes by itself, by the clock that they share. ``come_ns`` is when the last one came.

    Args:
        calls: The calls.
        are_awaited_later: Whether calls last until their rank waits for them, as programs of XLA do at any time after
            they are over: those whose rank did not stand still at their end, ``time_ns``, do not tell when that was.
        with_broadcasts: Whether broadcasts count that all left together, after the one that sends had come.
    """
    known = (
        collectives.comparable(calls, collectives.BUT_BROADCASTS) if with_broadcasts else collectives.comparable(calls)
    )
    found = _matched(known) if are_awaited_later else collectives.matched(collectives.by_member(known))
    telling = _awaited(_telling(found)) if are_awaited_later else _telling(found)
    offsets = _offsets(telling, tell_little=are_awaited_later and not _are_waited_for(telling))
    arrival, left, freed = pl.col("arrival_ns"), pl.col("left_ns"), pl.col("freed_ns")
    come, first_left = arrival.max().over("match"), left.filter(~IS_SENT).min().over("match")
    shortest = (left - arrival).min().over("match")
    tolerance = pl.max_horizontal(_TOLERANCE_NS, _TOLERANCE_RATIO * shortest)
    are_together = first_left - come >= _TOGETHER_RATIO * shortest
    ends_at_once = freed.max().over("match") - first_left <= tolerance
    placed = found.join(offsets, on="of_rank").with_columns(
        arrival_ns=pl.col("start_ns") - pl.col("clock_offset_ns"),
        left_ns=pl.col("end_ns") - pl.col("clock_offset_ns"),
    )
    placed = _with_messages(placed)
    if are_awaited_later:
        over = pl.max_horizontal(first_left, come)
        placed = placed.with_columns(left_ns=pl.when(_IS_HELD).then(left).otherwise(over))
    return (
        placed.with_columns(freed_ns=left.min().over("match", "of_rank"))
        .filter(come - first_left <= _TOLERANCE_NS, ends_at_once | are_together | _ON_HOSTS | _IN_GROUPS)
        .sort("left_ns", "arrival_ns", "match")
        .with_columns(
            come_ns=come,
            waited_ns=come - arrival,
            # A rank that has to wait first computes on; when it stops it stands still until the data has been moved.
            lost_ns=(pl.col("exposed_ns") - (left - come).clip(lower_bound=0)).clip(lower_bound=0),
            rank="of_rank",
        )
        .drop("of_rank", "freed_ns")
    )


def _with_messages(placed: pl.DataFrame) -> pl.DataFrame:
    """The calls, those messages of hosts that no rank waited for over as soon as both had come to them.

    Until their ranks ask for them nobody knows whether they are there.
    """
    if not placed.select(IS_MESSAGE.any()).item():
        return placed
    come = pl.col("arrival_ns").max().over("match")
    waited_ns = pl.max_horizontal(_WAITED_NS, _WAITED_RATIO * (pl.col("left_ns") - come))
    is_over = IS_MESSAGE & ((pl.col("time_ns") <= waited_ns) | (IS_SENT & (pl.col("left_ns") < come)))
    return placed.with_columns(
        left_ns=pl.when(is_over).then(come).otherwise("left_ns"),
        time_ns=pl.when(is_over).then(0).otherwise("time_ns"),
    )


def _telling(matched: pl.DataFrame) -> pl.DataFrame:
    """Those that tell clocks by their ends; messages of groups only where there is nothing else."""
    telling = collectives.comparable(matched)
    return matched.filter(_IN_GROUPS) if telling.is_empty() else telling


def _offsets(telling: pl.DataFrame, *, tell_little: bool) -> pl.DataFrame:
    """How far the clock of each rank is ahead, by calls that tell it: of_rank, clock_offset_ns.

    Of hosts whose threads leave late, of messages in groups, and of what ranks are done with whenever they get to its
    end, the ends ``tell_little``. Their clocks are taken to agree, unless by that a rank left what another had not come
    to.
    """
    found = clock_offsets.of_ends(clocks.ends(telling)).select(of_rank="rank", clock_offset_ns="offset_ns")
    if telling.is_empty() or not (tell_little or telling.select((_ON_HOSTS | _IN_GROUPS).all()).item()):
        return found
    same = found.with_columns(clock_offset_ns=pl.lit(0, pl.Int64))

    def met(offsets: pl.DataFrame) -> int:
        """The number of those that all had come to before the first left, on these clocks."""
        placed = telling.join(offsets, on="of_rank").group_by("match")
        come, left = ((pl.col(column) - pl.col("clock_offset_ns")) for column in ("start_ns", "end_ns"))
        return (
            placed.agg(apart_ns=come.max() - left.filter(~IS_SENT).min())
            .filter(pl.col("apart_ns") <= _TOLERANCE_NS)
            .height
        )

    return same if met(same) >= met(found) else found


def _matched(calls: pl.DataFrame) -> pl.DataFrame:
    """The calls that belong together; barriers those of all ranks, or of each where its devices leave by themselves.

    Cores of one slice meet, and not those of several, which exchange data through their hosts.
    """
    found = collectives.matched(collectives.by_member(calls))
    if (slices := _slices(found)) is not None:
        of_slice = pl.when(IS_FIRST).then(pl.col("rank").replace_strict(slices, default=None).cast(pl.String))
        placed = calls.with_columns(group_ranks=pl.coalesce(of_slice, pl.col("group_ranks").cast(pl.String)))
        found = collectives.matched(collectives.by_member(placed))
    if _are_of_all(found):
        return found
    own = pl.when(_IS_BARRIER).then(pl.col("rank").cast(pl.String)).otherwise(pl.col("group_ranks").cast(pl.String))
    return collectives.matched(collectives.by_member(calls.with_columns(group_ranks=own)))


def _slices(matched: pl.DataFrame) -> dict[int, str] | None:
    """By rank, those that meet in more than exchanges between slices, in words; null where nothing is exchanged."""
    is_exchange = _OPERATION.str.contains(_EXCHANGED).fill_null(value=False)
    if not matched.select(is_exchange.any()).item():
        return None
    met = matched.filter(~IS_FIRST, ~is_exchange).group_by("match").agg(pl.col("of_rank").unique().sort())
    found = {rank: {rank} for rank in matched["of_rank"].unique()}
    for ranks in met["of_rank"].unique():
        whole = set().union(*(found[rank] for rank in ranks))
        found |= dict.fromkeys(whole, whole)
    return {rank: str(sorted(slice_)) for rank, slice_ in found.items()}


def _are_of_all(matched: pl.DataFrame) -> bool:
    """Whether ranks leave their barriers at once, on clocks by which nobody leaves a collective of the same early."""
    met = clocks.ends(matched.filter(_IS_BARRIER)).filter(pl.len().over("match") > 1)
    if clocks.compared(met)["offset_ns"].null_count():
        return False
    offsets = clock_offsets.of_ends(met).select("first_rank", of_rank="rank", apart_ns="offset_ns")
    left = pl.col("end_ns") - pl.col("apart_ns")
    # What a rank stands still for is over when it goes on, and not before for any other.
    over = left.filter(pl.col("time_ns") > 0).max().over("match")
    found = matched.filter(~_IS_BARRIER, ~_IN_GROUPS).join(offsets, on="of_rank")
    found = found.filter(pl.col("first_rank").n_unique().over("match") == 1)
    early = found.filter(pl.col("time_ns").max().over("match") > 0).select((left < over - _TOLERANCE_NS).mean()).item()
    return early is None or bool(early < _EARLY_RATIO)


def _are_waited_for(telling: pl.DataFrame) -> bool:
    """Whether ranks leave all of these together: barriers, and what they stand still for."""
    return bool(telling.select((_IS_BARRIER | _IS_HELD).all()).item())


def _awaited(matched: pl.DataFrame) -> pl.DataFrame:
    """Those that tell when they were over: barriers, if they link all ranks, else what several ranks stood still for.

    All of them, where these do not link all ranks.
    """
    barriers, others = matched.filter(_IS_BARRIER), matched.filter(~_IS_BARRIER)
    several = pl.col("of_rank").n_unique().over("match") > 1
    held = pl.col("of_rank").filter(pl.col("time_ns") > 0).n_unique().over("match")
    for telling in (barriers.filter(several), others.filter(held > 1, _IS_HELD)):
        linked = clock_offsets.of_ends(clocks.ends(telling))
        if linked.height == matched["of_rank"].n_unique() and linked["first_rank"].n_unique() == 1:
            return telling
    return others


def of_one_rank(calls: pl.DataFrame, job_size: int) -> pl.DataFrame:
    """The same of the only rank that was recorded of a job of this size: when it came to what it met others in.

    Nothing tells when they came, so that none of its time is ``lost_ns``.
    """
    is_met = pl.coalesce(pl.col("group_size").cast(pl.Int64, strict=False), pl.lit(job_size)) > 1
    return (
        collectives.comparable(calls)
        .filter(is_met)
        .sort("start_ns", "end_ns", "event_id")
        .with_row_index("match")
        .with_columns(
            arrival_ns="start_ns",
            left_ns="end_ns",
            come_ns="start_ns",
            waited_ns=pl.lit(0, pl.Int64),
            lost_ns=pl.lit(0, pl.Int64),
            clock_offset_ns=pl.lit(0, pl.Int64),
            first_rank="rank",
        )
    )


def once(rows: pl.DataFrame, length: str, by: Sequence[str]) -> pl.Series:
    """How much of each row's span, which ends at ``come_ns`` and has this length, is in no earlier span of its group.

    So the sum over a group is the time that its spans cover, however many of them overlap.
    """
    come = pl.col("come_ns")
    covered_until = come.cum_max().shift(1).over(by)
    ordered = rows.with_row_index("row").sort("come_ns", "row")
    added = ordered.select("row", once=come - pl.max_horizontal(come - pl.col(length), covered_until))
    covered: pl.Series = added.sort("row")["once"].clip(lower_bound=0)
    return covered
