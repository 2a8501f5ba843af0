"""Kernels of a rank as causes look at them: with the step, or the turn, that launched each."""

from __future__ import annotations

import polars as pl

from holotrace.core.tables import DEVICE_EVENTS
from holotrace.core.trace import RankTrace
from holotrace.derive import busy, intervals
from holotrace.derive.kernel_kinds import COMPUTE
from holotrace.derive.steps import QUEUE, is_from_before
from holotrace.diagnosis.rank import rounds
from holotrace.diagnosis.rank.xla import gaps as xla_gaps
from holotrace.diagnosis.rank.xla import whole_runs as xla_whole_runs

# What tells how a kernel was launched.
HOW = ("external", "grid", "block")
READ = DEVICE_EVENTS.only(
    *("event_id", "name", "kind", "device", "stream", "start_ns", "end_ns", "launch_id", "launch_ns", "step"), *HOW
)
# Kernels that take so much longer do so for a reason, and not as the same kernel does now and then.
APART_RATIO = 1.1


def every(rank: RankTrace) -> pl.DataFrame:
    """All events of devices, with the columns of ``READ``."""
    return rounds.of_kernels(rank[READ], rank)


def computing(rank: RankTrace, *columns: str) -> pl.DataFrame:
    """These columns of the kernels that compute: none where only programs are recorded, which may wait for others."""
    kernels = rank.cached(every)
    is_computing = (kernels["kind"] == COMPUTE) & (not xla_gaps.has_only_programs(rank))
    return pl.DataFrame([kernels[name].filter(is_computing) for name in columns])


def whole(rank: RankTrace, *columns: str) -> pl.DataFrame:
    """The same without those of programs of XLA of which each device, and each rank, has recorded another part."""
    ran = computing(rank, *{*columns, "device", "start_ns", "launch_ns", "step"})
    is_whole = xla_whole_runs.is_within(ran, rank) if xla_gaps.is_xla(rank) else pl.lit(value=True)
    return ran.filter(is_whole).select(columns)


def of_devices(rank: RankTrace, *columns: str) -> pl.DataFrame:
    """The same, and of those other programs what each device of the rank has run as often."""
    ran = computing(rank, *{*columns, "device", "name", "start_ns", "launch_ns", "step"})
    if not xla_gaps.is_xla(rank):
        return ran.select(columns)
    # What had been launched before the recording some devices have as a whole, and others a part of.
    is_known = ran["launch_ns"].is_not_null() | ran["step"].is_not_null()
    within = xla_whole_runs.is_within(ran, rank) & (is_known | (not is_known.any()))
    by_device = ran.filter(~within).group_by("name", "device").len()
    is_same = (pl.col("len").n_unique() == 1) & (pl.len() == ran["device"].n_unique())
    same = by_device.group_by("name").agg(is_same.alias("is_same")).filter("is_same")["name"]
    return ran.filter(within | pl.col("name").is_in(pl.lit(same).implode())).select(columns)


def comparable(rank: RankTrace, *columns: str) -> pl.DataFrame:
    """The same of those launched in the recorded steps or between them: of others each rank has recorded a part.

    So it has of programs of XLA that devices ran as its recording began, or ended. Steps that are told by what devices
    run begin long after the launches of hosts that are ahead.
    """
    ran = whole(rank, *{*columns, *QUEUE, "start_ns", "launch_ns", "step"})
    begin, end = (pl.lit(at, pl.Int64) for at in intervals.ends(rank.cached(rounds.steps)))
    is_between = (pl.col("launch_ns") >= begin) & (pl.col("launch_ns") < end)
    is_between |= pl.col("step").is_not_null() & pl.lit(xla_gaps.is_xla(rank))
    return ran.filter(is_between.fill_null(value=True) & ~is_from_before()).select(columns)


def beyond_others(rank: RankTrace) -> pl.LazyFrame:
    """By how much each kernel takes longer in steps on the device that it takes the longest.

    There are name, device, time_ns and count; only where that is more than equal work of healthy devices differs.
    """
    lasted = (pl.col("end_ns") - pl.col("start_ns")).sum()
    took = of_devices(rank, "device", "name", "step", "start_ns", "end_ns").lazy()
    by_device = took.group_by("device", "name", "step").agg(time_ns=lasted)
    usual = pl.col("time_ns").quantile(0.5, "lower").cast(pl.Int64)
    longest = pl.col("device").sort_by("time_ns", "device", descending=[True, False]).first()
    each = by_device.group_by("name", "step").agg(longest, pl.col("time_ns").max(), usual_ns=usual)
    apart = each.filter(pl.col("time_ns") > APART_RATIO * pl.col("usual_ns"))
    return apart.group_by("name", "device").agg(time_ns=(pl.col("time_ns") - pl.col("usual_ns")).sum(), count=pl.len())


def beside_ns(ran: pl.DataFrame, rank: RankTrace) -> pl.Series:
    """How long each of these kernels took if anything was communicated meanwhile, else 0."""
    lasted_ns = ran["end_ns"] - ran["start_ns"]
    is_alone = intervals.uncovered_ns(ran, rank.cached(busy.of).communicating) >= lasted_ns
    found: pl.Series = lasted_ns * (~is_alone).cast(pl.Int64)
    return found.alias("beside_ns")
