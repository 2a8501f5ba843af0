"""What the profiler itself takes of each step, and what causes are worth without that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from holotrace.diagnosis.job.candidates import Candidate, Job, Where, candidate
from holotrace.diagnosis.job.meetings import Change, Meetings, Removed, together
from holotrace.diagnosis.rank import account, lead
from holotrace.diagnosis.words.classes import COPY, LAUNCH, PROFILER, QUEUED, RECORDING
from holotrace.errors import UsageError

# Ranks that launch late by so much less than others do are no matter.
_MUCH_RATIO = 0.1
# Not the host's time: devices copy, and wait for each other, as fast as without a profiler.
_OF_DEVICES = (COPY, QUEUED, PROFILER)


def measured_ns(rows: pl.DataFrame) -> int | None:
    """How long a step of the median rank took while nothing was recorded; None if nobody measured it."""
    times = rows.filter(pl.col("row") == account.UNPROFILED)["time_ns"].sort()
    has_steps = (rows["row"] == account.STEP).any()
    return int(times[len(times) // 2]) if has_steps and len(times) else None


def as_launching(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows, what is laid to the recording laid to what it was taken from, or to launching, again.

    So it is where it is known what the profiler takes.
    """
    is_estimated = (pl.col("row") == account.GAP) & (pl.col("cause") == RECORDING)
    taken_from = pl.col("detail").str.extract(f"^{lead.TAKEN_FROM.format('(.+)')}$")
    is_told = is_estimated & taken_from.is_not_null()
    return rows.with_columns(
        cause=pl.when(is_estimated).then(pl.coalesce(taken_from, pl.lit(LAUNCH))).otherwise("cause"),
        detail=pl.when(~is_told).then("detail"),
    )


def alike(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows, nothing laid to the recording where that is known of some of the ranks that launch late only.

    What it takes of some would be a fault of the others.
    """
    gaps = rows.filter(pl.col("row") == account.GAP, pl.col("cause").is_in((LAUNCH, RECORDING)))
    is_told = gaps.group_by("rank").agg(pl.col("cause").eq(RECORDING).any(), time_ns=pl.col("time_ns").sum())
    untold, told = (is_told.filter(pl.col("cause") == known)["time_ns"] for known in (False, True))
    is_of_some = len(untold) and len(told) and max(untold) > _MUCH_RATIO * max(told)
    return as_launching(rows) if is_of_some else rows


def apart(
    hosts: list[Candidate], job: Job, meetings: Meetings, unprofiled_ns: int | None
) -> tuple[int | None, list[Candidate]]:
    """What the profiler takes of the job, None if that is not known, and the causes of idle devices without that.

    Args:
        hosts: The causes of idle devices.
        job: The job.
        meetings: Replays the job.
        unprofiled_ns: How long a step takes without the profiler; else it is estimated.
    """
    operations = job.of(account.RECORDED)
    if unprofiled_ns is not None and (hosts or operations.height):
        profiler_ns = total_ns(job.rows, unprofiled_ns)
        of_hosts_ns = profiler_ns - min(profiler_ns, _saved_ns(operations, meetings))
        return profiler_ns, without(hosts, meetings, of_hosts_ns) if of_hosts_ns else hosts
    estimated = pl.concat([job.of(account.GAP).filter(pl.col("cause") == RECORDING), operations])
    return (None if estimated.is_empty() else _saved_ns(estimated, meetings)), hosts


def _saved_ns(rows: pl.DataFrame, meetings: Meetings) -> int:
    """What the job would gain without the time of these rows."""
    if rows.is_empty():
        return 0
    gone = candidate(RECORDING, None, rows.with_columns(part_ns="time_ns"), Where((), ()), of_hosts=True)
    return meetings.saved_ns(gone.change)


def total_ns(rows: pl.DataFrame, unprofiled_ns: int) -> int:
    """How much longer the recorded steps of the median rank took than as many steps without the profiler.

    Args:
        rows: What ``account`` returns of all ranks.
        unprofiled_ns: How long a step takes without the profiler.
    """
    steps = rows.filter(pl.col("row") == account.STEP).group_by("rank").agg(pl.col("time_ns").sum(), pl.len())
    if steps.is_empty():
        raise UsageError("the recording has no steps to compare with; call profiler.step() at the end of each")
    beyond = sorted(took - count * unprofiled_ns for took, count in steps.select("time_ns", "len").iter_rows())
    return max(0, int(beyond[len(beyond) // 2]))


def without(candidates: list[Candidate], meetings: Meetings, profiler_ns: int) -> list[Candidate]:
    """Causes of idle devices without the time that the profiler takes.

    A profiler makes each call of a host longer, and devices take as long as without it. So what the steps took longer
    is a part of the time for which devices waited for their hosts: that part of each cause is the profiler's.
    """
    of_hosts = [each for each in candidates if each.cause not in _OF_DEVICES]
    lost_ns = meetings.saved_ns(together([each.change for each in of_hosts]))
    ratio = max(0.0, 1 - profiler_ns / lost_ns) if lost_ns else 0.0
    return [_scaled(each, ratio) if each.cause not in _OF_DEVICES else each for each in candidates]


def _scaled(candidate: Candidate, ratio: float) -> Candidate:
    change = candidate.change
    hosts, spent = _of(change.of_hosts, ratio), _of(change.spent, ratio)
    return replace(candidate, change=Change(_of(change.removed, ratio), hosts, change.transfer, spent=spent))


def _of(removed: Mapping[int, Removed], ratio: float) -> dict[int, Removed]:
    return {rank: [(at, ns * ratio) for at, ns in parts] for rank, parts in removed.items()}
