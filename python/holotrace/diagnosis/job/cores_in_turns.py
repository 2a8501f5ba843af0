"""Devices that take turns at having the most work, also those of one host: all others wait for the one that has it."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.derive.totals import total
from holotrace.diagnosis.job import cores
from holotrace.diagnosis.job.candidates import Candidate, Job, when
from holotrace.diagnosis.job.meetings import Change
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.words.classes import UNEVEN_WORK

# More than half, beyond doubt.
_MOSTLY_RATIO = 0.6
# The kernels of those that come last take longer by so much of the time that they are late, which counts more than once
# where several collectives are under way at once.
_EXPLAINED_RATIO = 0.25
# Most steps.
_OFTEN_RATIO = 0.5
# Fewer times are no turns.
_FEWEST_TURNS = 3


def causes(job: Job, come: pl.DataFrame) -> Iterator[Candidate]:
    """Devices that come last in turns to what devices do together, since now this and now that computes longer.

    Args:
        job: What all ranks contribute.
        come: When each device came to each collective, as of ``arrivals.of_ranks``.
    """
    longer = _often(job)
    by_name = longer.group_by("name").agg(pl.col("time_ns").sum()).sort("time_ns", "name", descending=[True, False])
    if by_name.is_empty() or come["device"].null_count():
        return
    own = pl.struct("rank", "device").rank("dense").cast(pl.Int32).alias("own")
    ranks = dict(come.select(own, "rank").unique("own").iter_rows())
    late = cores.late(come.with_columns(rank=pl.lit(0, pl.Int32), device=own)).filter(pl.col("time_ns") > 0)
    by_device = late.group_by("device").agg(pl.col("time_ns").sum())["time_ns"]
    late_ns, most_ns, longer_ns = total(by_device), max(by_device, default=0), total(by_name["time_ns"])
    if late.height < _FEWEST_TURNS or late_ns <= job.floor_ns or most_ns > _MOSTLY_RATIO * late_ns:
        return
    if longer_ns < _EXPLAINED_RATIO * late_ns or _is_of_one(longer, job):
        return
    # What they are late by chance comes on top of it.
    share = min(1.0, longer_ns / late_ns)
    removed: dict[int, list[tuple[int, float]]] = {}
    own_clock = late.select("device", pl.col("done_ns") + pl.col("clock_offset_ns"), "time_ns")
    for device, at, ns in own_clock.iter_rows():
        removed.setdefault(ranks[device], []).append((at, share * ns))
    worst = late.sort("time_ns", "come_ns", descending=[True, False]).row(0, named=True)
    kernel = str(by_name["name"][0])
    evidence = {"time_ns": int(share * late_ns), "count": late.height, "kernel": kernel}
    yield Candidate(
        UNEVEN_WORK,
        Change(removed=removed),
        (),
        when(late, "time_ns"),
        kernel,
        event_rank=ranks[worst["device"]],
        event_id=worst["event_id"],
        start_ns=worst["come_ns"] + worst["clock_offset_ns"] - worst["time_ns"],
        evidence={**evidence, cores.DEVICES: len(by_device)},
    )


def _often(job: Job) -> pl.DataFrame:
    """How much longer kernels take that do so on some device in most steps: any takes longer now and then by chance."""
    longer = job.of(account.CORES_BEYOND)
    steps = job.of(account.STEP)["step"].n_unique()
    is_often = pl.col("count").sum().over("name") >= _OFTEN_RATIO * steps
    return longer.filter(is_often) if steps else longer


def _is_of_one(longer: pl.DataFrame, job: Job) -> bool:
    """Whether kernels take longer on one device in most steps: those that wait for it make others late in turn.

    Where no steps are known it is told by most kernels: a single one may take longer in sum by its turns.
    """
    if job.of(account.STEP).is_empty() and longer["name"].n_unique() < _FEWEST_TURNS:
        return False
    by_device = longer.drop_nulls("device").group_by("rank", "device").agg(pl.col("time_ns").sum())["time_ns"]
    return max(by_device, default=0) > _MOSTLY_RATIO * total(by_device)
