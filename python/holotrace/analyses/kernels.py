"""Which kernels and copies take the time, and how much their runs differ."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Ranking
from holotrace.core.options import check_whole
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import DEVICE_EVENTS
from holotrace.core.trace import RankTrace
from holotrace.derive.kernel_kinds import COMPUTE, WORK

# What launching a kernel costs a host without graphs; shorter kernels cannot be launched as fast as they run.
LAUNCH_NS = 5_000
# Fewer may be the odd step of a recording.
TINY_COUNT, TINY_RATIO = 1_000, 0.5
# An outlier is a run of another order of magnitude that costs more than a hundredth of all kernel time.
OUTLIER_TIMES, OUTLIER_RATIO, OUTLIER_COUNT = 10, 0.01, 10
# Equal devices on equal work differ by 1-2%; with two ranks nobody can say which is the odd one.
SLOW_RATIO, SLOW_RANKS = 0.03, 3
EVENTS = DEVICE_EVENTS.only("name", "kind", "start_ns", "end_ns", "device_ps")
NAME_LENGTH = 80  # characters of a name in a message


@per_rank(
    columns=(
        Column("name", Unit.TEXT, "Kernel or copy, as the profiler wrote it; null if it wrote no name"),
        Column("kind", Unit.TEXT, "compute, communication or memory"),
        Column("count", Unit.COUNT, "How often it ran"),
        Column("sum_ns", Unit.NS, "Time of all its runs"),
        Column("mean_ns", Unit.NS, "Time of an average run, to the nanosecond"),
        Column("min_ns", Unit.NS, "Time of its shortest run"),
        Column("max_ns", Unit.NS, "Time of its longest run"),
        Column("std_ns", Unit.NS, "Standard deviation of its runs (n - 1), to the nanosecond; null for a single run"),
        Column("share_ratio", Unit.RATIO, "sum_ns / time of all runs on this rank; null where that is 0"),
    ),
    reads=(EVENTS,),
    chart=Ranking(x="name", y=("sum_ns",), title="Kernels and copies by time", color="kind"),
)
def kernels(rank: RankTrace, *, top: int | None = None) -> pl.DataFrame:
    """Which kernels and copies take the time, and how much their runs differ.

    Runs that overlap count in full, so sums may exceed the time that passed. A run takes as long as the device's own
    clock says, where the profile has it (TPU).

    Args:
        top: Only the largest so many of each rank, by time of all runs.
    """
    if top is not None:
        check_whole(1, top=top)
    runs = rank[EVENTS].filter(pl.col("kind").is_in(WORK))
    duration = pl.col("duration_ns")
    total_ns = pl.col("sum_ns").sum()
    table = (
        runs.with_columns(duration_ns=pl.coalesce(pl.col("device_ps") / 1000, pl.col("end_ns") - pl.col("start_ns")))
        .group_by("name", "kind")
        .agg(
            count=pl.len(),
            sum_ns=duration.sum().round(),
            mean_ns=duration.mean().round(),
            min_ns=duration.min().round(),
            max_ns=duration.max().round(),
            std_ns=duration.std().round(),
        )
        .with_columns(
            pl.col("name", "kind").cast(pl.String()),
            share_ratio=pl.when(total_ns > 0).then(pl.col("sum_ns") / total_ns),
        )
        .sort("sum_ns", "name", "kind", descending=[True, False, False])
    )
    return table if top is None else table.head(top)


@kernels.rule
def tiny_kernels(table: pl.DataFrame) -> Iterator[Finding]:
    """Most compute kernels are shorter than launching them takes.

    Without a graph the host needs about 5 µs per launch, so it cannot keep the device busy with kernels shorter than
    that, however fast they are. How much time that costs shows in the idle time of the device.

    Fuse kernels (`torch.compile`, fused optimizers), or launch many at once with a CUDA graph.
    """
    counts = (
        table.filter(kind=COMPUTE)
        .group_by("rank")
        .agg(count=pl.col("count").sum(), tiny=pl.col("count").filter(pl.col("mean_ns") < LAUNCH_NS).sum())
        .filter((pl.col("tiny") >= TINY_COUNT) & (pl.col("tiny") > TINY_RATIO * pl.col("count")))
        .sort("rank")
    )
    if not counts.is_empty():
        ratio = counts.select(pl.col("tiny").sum() / pl.col("count").sum()).item()
        yield Finding("info", f"{ratio:.0%} of compute kernels last less than 5 µs on average", tuple(counts["rank"]))


@kernels.rule
def outlying_runs(table: pl.DataFrame) -> Iterator[Finding]:
    """A run of a compute kernel lasted ten times longer than usual.

    Either this run had far more to do, or something else used the device or its memory; where many kernels have such a
    run, something else it was, as on a CPU whose cores other threads want too. The cost is what the longest run of each
    took beyond its average one. Copies differ in size and communication waits for others, so they are left out.

    Find the run in the timeline, and see what ran beside it and how large its inputs were.
    """
    outliers = (
        table.with_columns(total_ns=pl.col("sum_ns").sum().over("rank"), beyond_ns=pl.col("max_ns") - pl.col("mean_ns"))
        .filter(
            (pl.col("kind") == COMPUTE)
            & (pl.col("count") >= OUTLIER_COUNT)
            & (pl.col("max_ns") >= OUTLIER_TIMES * pl.col("mean_ns"))
            & (pl.col("beyond_ns") > OUTLIER_RATIO * pl.col("total_ns"))
        )
        .with_columns(times=pl.col("max_ns") / pl.col("mean_ns"))
        .sort("beyond_ns", "name", "rank", descending=[True, False, False])
    )
    if outliers.is_empty():
        return
    names = outliers["name"].unique(maintain_order=True)
    times = outliers.select(pl.col("times").max()).item()
    by_rank = outliers.group_by("rank").agg(pl.col("beyond_ns").sum()).sort("rank")
    longest = f"a run of {_short(names[0])}"
    message = f"{longest} lasted {times:.0f} times its mean"
    if len(names) > 1:
        message = f"runs of {len(names)} kernels lasted up to {times:.0f} times their mean, above all {longest}"
    yield Finding("info", message, tuple(by_rank["rank"]), by_rank.select(pl.col("beyond_ns").max()).item())


@kernels.rule
def slow_device(table: pl.DataFrame) -> Iterator[Finding]:
    """A rank's device runs the same kernels slower than the other ranks' devices.

    Equal devices run equal work at equal speed; a slower one is throttled (heat, power cap), shared or defective, and
    the whole job runs at its pace. The cost is what its compute kernels took beyond those of the median rank.

    Compare clocks and temperatures (`nvidia-smi -q -d PERFORMANCE`, `rocm-smi`), and drain the node if they differ.
    """
    rank_count = table["rank"].n_unique()
    if rank_count < SLOW_RANKS:
        return
    # Only kernels that all ranks ran equally often did the same work.
    same = table.filter(kind=COMPUTE).filter(
        (pl.col("rank").n_unique() == rank_count).over("name"),
        (pl.col("count").n_unique() == 1).over("name"),
    )
    ranks = (
        same.with_columns(median_ns=pl.col("sum_ns").median().over("name"))
        .group_by("rank")
        .agg(pl.col("sum_ns", "median_ns").sum())
        .with_columns(
            slower=pl.col("sum_ns") / pl.col("median_ns") - 1, beyond_ns=pl.col("sum_ns") - pl.col("median_ns")
        )
        .sort("rank")
    )
    slow = ranks.filter(pl.col("slower") > SLOW_RATIO)
    if slow.is_empty():
        return
    ratio, cost_ns = slow.select(pl.col("slower", "beyond_ns").max()).row(0)
    yield Finding(
        "warning",
        f"devices run the same kernels up to {ratio:.0%} slower than the median rank's",
        tuple(slow["rank"]),
        int(cost_ns),
    )


def _short(name: str | None) -> str:
    """As much of a name as a sentence bears; template arguments make some thousands of characters long."""
    name = name or "a kernel without a name"
    return name if len(name) <= NAME_LENGTH else f"{name[: NAME_LENGTH - 1]}…"
