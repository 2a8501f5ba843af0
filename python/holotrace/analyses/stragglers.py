"""Which ranks the others wait for, and for how long."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_job
from holotrace.core.charts import Bar
from holotrace.core.schema import Column, Unit
from holotrace.derive import arrivals, collectives
from holotrace.derive.said import listed

# Equal devices on equal work differ by 1-2%.
LOST_RATIO = 0.02
_DEVICE = pl.format("device {} of rank {}", pl.col("device"), pl.col("rank"))
# With equal shares it is not the ranks that differ but their turns.
SHARE = 1.5
# Host clocks kept by NTP differ by some hundred microseconds; those of one machine hardly.
CLOCK_NS = 100_000


@per_job(
    part=collectives.calls,
    part_columns=collectives.CALLS,
    columns=(
        Column("device", Unit.NUMBER, "Device of the rank; null where the rank communicates on one only"),
        Column("step", Unit.STEP, "Training step; null where the rank is looked at as a whole"),
        Column("collective_count", Unit.COUNT, "Collectives that were compared"),
        Column("uncompared_count", Unit.COUNT, "Collectives that could not be compared"),
        Column("last_count", Unit.COUNT, "How often the rank came last"),
        Column("late_ns", Unit.NS, "Time from when all others had come until it came, where it came last"),
        Column("lost_ns", Unit.NS, "Time the median other rank did nothing but wait for it, where it came last"),
        Column("waited_ns", Unit.NS, "Time it waited until the last rank came, summed over collectives"),
        Column("total_ns", Unit.NS, "From the end of the collective before (or the first start) to the last one's end"),
        Column("lost_ratio", Unit.RATIO, "lost_ns / total_ns; null where there is no time"),
        Column("clock_offset_ns", Unit.NS, "How far the rank's clock is ahead of the median rank's"),
    ),
    reads=collectives.READS,
    chart=Bar(x="rank", y=("late_ns", "lost_ns"), title="Time others waited for each rank"),
)
def stragglers(calls: pl.DataFrame, *, by_step: bool = False) -> pl.DataFrame:
    """Which ranks the others wait for, and for how long.

    A collective begins when its last rank comes: its kernel starts on each rank when the rank comes, waits for the
    others, and ends on all ranks at once. Kernels of different ranks are matched by process group and number where the
    trace has them, else by their order, from where all ranks have recorded them. As they end together, their ends tell
    how far clocks are apart, and starts are compared on one clock. Operations that some ranks may leave early (sends,
    broadcasts) and those that not all ranks recorded are not compared. A rank without any that could be compared has a
    count of 0 and nulls. Devices of one rank, as the cores of a TPU's host, are compared like ranks; a core comes to a
    collective when it comes to the barrier before it.

    Coming late costs nothing while the others still compute: `lost_ns` counts only what is left of their waiting when
    the time in which they computed is taken off.

    Args:
        by_step: One row per rank and step that launched collectives, instead of one per rank.
    """
    who = ["rank", "device"]
    keys = [*who, "step"] if by_step else who
    calls = collectives.comparable(calls)
    left, arrival = pl.col("left_ns"), pl.col("arrival_ns")
    arrived = arrivals.of_ranks(calls).with_columns(
        total_ns=left.diff().over(who).fill_null(left - arrival),
    )
    last = (
        arrived.sort("match", "arrival_ns", *who, descending=[False, True, False, False])
        .group_by("match", maintain_order=True)
        .agg(
            pl.col(*who, "step").first(),
            late_ns=pl.col("waited_ns").slice(1).min(),
            lost_ns=pl.col("lost_ns").slice(1).median().round(),
        )
        .group_by(keys)
        .agg(pl.col("late_ns", "lost_ns").sum(), last_count=pl.len())
    )
    compared = arrived.group_by(keys).agg(
        pl.col("waited_ns", "total_ns").sum(),
        pl.col("clock_offset_ns").first(),
        collective_count=pl.len(),
    )
    count = pl.col("collective_count")
    table = (
        calls.group_by(keys)
        .agg(call_count=pl.len())
        .join(compared, on=keys, how="left", nulls_equal=True)
        .join(last, on=keys, how="left", nulls_equal=True)
        .with_columns(
            count.fill_null(0),
            pl.col("last_count").fill_null(0),
            pl.when(count.is_not_null()).then(pl.col("late_ns", "lost_ns").fill_null(0)),
            uncompared_count=pl.col("call_count") - count.fill_null(0),
        )
        .drop("call_count")
        .with_columns(lost_ratio=pl.when(pl.col("total_ns") > 0).then(pl.col("lost_ns") / pl.col("total_ns")))
        .sort(keys)
    )
    return table.drop_nulls("step") if by_step else table.with_columns(step=pl.lit(None, pl.Int64()))


@stragglers.rule
def straggling_rank(table: pl.DataFrame) -> Iterator[Finding]:
    """Others stand still for more than a fiftieth of the time until a rank comes to collectives.

    The whole job runs at the pace of the rank that comes last. Named are ranks that cost at least half as much again
    as the average rank; where turns change, work is uneven and no rank is to blame. The cost is the time the median
    rank stood still for those named.

    Compare what the named ranks do before their collectives with what others do: more or longer inputs, a slower
    device (see slow-device), a host that launches late, a data loader that stalls.
    """
    ranks = _trusted(table).group_by("rank", "device").agg(pl.col("lost_ns", "total_ns").sum()).sort("rank", "device")
    late = ranks.filter(
        (pl.col("lost_ns") > LOST_RATIO * pl.col("total_ns")) & (pl.col("lost_ns") > SHARE * pl.col("lost_ns").mean())
    )
    if late.is_empty():
        return
    cost_ns = int(late["lost_ns"].sum())
    ratio = late.select((pl.col("lost_ns") / pl.col("total_ns")).sum()).item()
    who = "this rank comes" if late.height == 1 else "these ranks come"
    if late["device"].null_count() < late.height:
        who = f"{listed(late.select(_DEVICE).to_series().to_list())} {'comes' if late.height == 1 else 'come'}"
    message = f"others stand still for {ratio:.0%} of the time until {who}"
    yield Finding("warning", message, tuple(late["rank"].unique().sort()), cost_ns)


@stragglers.rule
def clocks_apart(table: pl.DataFrame) -> Iterator[Finding]:
    """The clocks of ranks differ by more than a tenth of a millisecond.

    Times of these ranks cannot be compared with those of others as they were written, in a merged timeline for
    instance. Here they are compared after taking off how far their collectives' ends are apart.

    Synchronise the clocks of the machines (chrony, PTP), or take off `clock_offset_ns` before comparing times.
    """
    ahead = _trusted(table).filter(pl.col("clock_offset_ns").abs() > CLOCK_NS)
    if ahead.is_empty():
        return
    most = int(ahead.select(pl.col("clock_offset_ns").abs().max()).item())
    yield Finding("info", f"clocks differ by up to {most / 1e6:.1f} ms", tuple(ahead["rank"].unique().sort()))


def _trusted(table: pl.DataFrame) -> pl.DataFrame:
    """The table, if most of what was recorded could be compared; what fits of the rest may fit by chance."""
    compared, uncompared = table.select(pl.col("collective_count", "uncompared_count").sum()).row(0)
    return table if compared > uncompared else table.clear()
