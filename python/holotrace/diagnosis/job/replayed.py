"""The job as it can be replayed: when its ranks met, what held each up before, and what that was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from holotrace.derive import arrivals
from holotrace.diagnosis.job import floors, not_recorded, same_turns
from holotrace.diagnosis.job.candidates import Job
from holotrace.diagnosis.job.meetings import NOTHING_BEFORE, Meetings
from holotrace.diagnosis.rank import account, pairs
from holotrace.diagnosis.rank.xla.hosts import SPENT, WAITED


@dataclass(frozen=True)
class Replayed:
    """A job of which each rank takes its own time, and waits where it meets others."""

    job: Job
    come: pl.DataFrame
    """When each device came to where it meets others: see ``derive.arrivals``."""
    meetings: Meetings
    begun_ns: int
    """When the job began, on its clock."""
    lasted_ns: int
    offsets: Mapping[int, int]
    """What clocks of ranks are ahead of that of the job, as far as that is known."""


def of_rows(rows: pl.DataFrame, windows: pl.DataFrame, least_ratio: float = floors.FLOOR_RATIO) -> Replayed:
    """The job by what ``account`` returns of all ranks, and of these the rows of whole recordings.

    What costs no more than ``least_ratio`` of it is not looked for.
    """
    rows, come = same_turns.numbered(rows, _arrived(rows, windows))
    visits, devices = pairs.apart(_visits(come)), _devices(come, windows)
    offsets = dict(visits.select("rank", "clock_offset_ns").unique("rank").iter_rows())
    ranks = tuple(windows["rank"].unique().sort())
    ends = dict(windows.select("rank", "at_ns").iter_rows())
    starts = {rank: start - offsets.get(rank, 0) for rank, start in windows.select("rank", "start_ns").iter_rows()}
    waiting = {*rows.filter(pl.col("row") == SPENT)["rank"]}
    meetings = Meetings(
        visits, ends, offsets, late=late(rows, visits), waits=_waits(rows), waiting=waiting, devices=devices
    )
    lasted_ns = meetings.lasted_ns(starts)
    job = not_recorded.told_by_others(Job(rows, visits, ranks, int(least_ratio * lasted_ns)))
    return Replayed(job, come, meetings, min(starts.values()), lasted_ns, offsets)


def _devices(come: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame | None:
    """The visits of all devices, where ranks have several that go their own way: cores of TPUs."""
    is_xla = windows["detail"].eq_missing(account.XLA) & windows["name"].ne_missing(account.ON_HOST)
    if not is_xla.all() or not come["device"].count():
        return None
    # A host begins a program on its devices one after the other.
    last_ns = pl.col("arrival_ns").max().over("match", "rank")
    placed = come.with_columns(arrival_ns=pl.when(arrivals.IS_FIRST).then(last_ns).otherwise("arrival_ns"))
    held_ns = pl.min_horizontal(pl.coalesce("device_ns", "time_ns"), pl.col("left_ns") - pl.col("arrival_ns"))
    device = pl.struct("rank", "device").rank("dense")
    numbered = placed.with_columns(time_ns=held_ns.clip(lower_bound=0), of_rank="rank", rank=device)
    return pairs.apart(numbered).with_columns(rank="of_rank").drop("of_rank")


def _arrived(rows: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    """When ranks came to where they meet; what is recorded of one of several tells of the others."""
    calls = rows.filter(pl.col("row") == account.MEETING).drop("row")
    # Devices of one XLA rank meet each other.
    if windows["rank"].n_unique() == 1 and account.XLA not in windows["detail"]:
        return arrivals.of_one_rank(calls, max(windows["count"].drop_nulls().to_list(), default=1))
    # Threads of a host execute what they wait for themselves.
    is_program = windows["detail"].eq_missing(account.XLA) & windows["name"].ne_missing(account.ON_HOST)
    return arrivals.of_ranks(calls, are_awaited_later=bool(is_program.any()), with_broadcasts=True)


def _visits(come: pl.DataFrame) -> pl.DataFrame:
    # A rank comes with the last of its devices and leaves with the first, which has stood still until then: what its
    # devices wait for each other is its own affair.
    of_rank = ["match", "rank"]
    ranks = pl.col("rank").n_unique().cast(pl.Int64)
    others = pl.len() - pl.col("rank").n_unique()
    left = pl.col("left_ns").min()
    # One that comes earlier and leaves later than others may be held for longer than the rank is there.
    held = pl.min_horizontal(pl.col("time_ns").max(), left - pl.col("arrival_ns").max()).clip(lower_bound=0)
    together = come.with_columns(
        left.over(of_rank),
        held.over(of_rank).alias("time_ns"),
        pl.col("exposed_ns").max().over(of_rank),
        # Devices are the members of groups of XLA, and those of one rank are one visit; small groups meet at once.
        (pl.col("group_size") - others.over("match").cast(pl.Int64)).clip(lower_bound=ranks.over("match")),
    )
    return together.sort("arrival_ns").unique(of_rank, keep="last", maintain_order=True)


def late(rows: pl.DataFrame, visits: pl.DataFrame) -> pl.DataFrame:
    """What each rank's host launched too late."""
    found = rows.filter(pl.col("row") == account.LATE)
    found = pl.concat([found.filter(pl.col("cause").is_null()), _awaited(found.drop_nulls("cause"), visits)])
    launched = pl.coalesce("end_ns", "at_ns")
    return found.select(
        pl.col("rank").cast(pl.Int64), begun_ns="at_ns", since_ns="start_ns", gap_ns="time_ns", launched_ns=launched
    )


def _awaited(pauses: pl.DataFrame, visits: pl.DataFrame) -> pl.DataFrame:
    """The pauses that others waited for at the next meeting, so that they were no waits for these."""
    if pauses.is_empty() or visits.is_empty():
        return pauses.clear()
    second = visits.group_by("match").agg(second_ns=pl.when(pl.len() > 1).then(pl.col("arrival_ns").top_k(2).min()))
    met = (
        visits.join(second, on="match")
        .select(
            "rank",
            at_ns=pl.col("arrival_ns") + pl.col("clock_offset_ns"),
            last_ns=pl.col("arrival_ns") - pl.col("second_ns"),
        )
        .sort("at_ns")
    )
    known = pauses.sort("at_ns").join_asof(met, on="at_ns", by="rank", strategy="forward", check_sortedness=False)
    return known.filter(pl.col("last_ns") > floors.MOSTLY_RATIO * pl.col("time_ns")).select(pauses.columns)


def _waits(rows: pl.DataFrame) -> pl.DataFrame:
    """When hosts that launch whole programs had waited for their devices."""
    found = rows.filter(pl.col("row") == WAITED)
    before_ns = (pl.col("end_ns") - pl.col("time_ns")).fill_null(NOTHING_BEFORE)
    rank = pl.col("rank").cast(pl.Int64)
    return found.select(rank, returned_ns="at_ns", began_ns="start_ns", ready_ns="end_ns", before_ns=before_ns)
