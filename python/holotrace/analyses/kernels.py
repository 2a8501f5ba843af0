"""Which kernels and copies take the time, and how much their runs differ."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Ranking
from holotrace.core.kinds import KindRule
from holotrace.core.options import check_whole
from holotrace.core.plans import constant, done
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import DEVICE_EVENTS
from holotrace.core.trace import RankTrace
from holotrace.derive.kernel_kinds import COMPUTE, IS_WORK, rule_of

# What launching a kernel costs a host without graphs; shorter kernels cannot be launched as fast as they run.
LAUNCH_NS = 5_000
# Fewer may be the odd step of a recording.
TINY_COUNT, TINY_RATIO = 1_000, 0.5
# An outlier is a run of another order of magnitude that costs more than a hundredth of all kernel time.
OUTLIER_TIMES, OUTLIER_RATIO, OUTLIER_COUNT = 10, 0.01, 10
# A library that communicates leaves most of the device to others, whose kernels have thousands of blocks.
FEW_BLOCKS, UNNAMED_RATIO = 64, 0.05
EVENTS = DEVICE_EVENTS.only(
    *("name", "category", "kind", "start_ns", "end_ns", "device_ps", "device", "stream", "grid"),
)


@per_rank(
    columns=(
        Column("name", Unit.TEXT, "Kernel or copy, as the profiler wrote it; null if it wrote no name"),
        Column("kind", Unit.TEXT, "compute, communication or memory"),
        Column("count", Unit.COUNT, "How often it ran"),
        Column("sum_ns", Unit.NS, "Time of all its runs"),
        Column("mean_ns", Unit.NS, "Mean time of a run, rounded to a nanosecond"),
        Column("min_ns", Unit.NS, "Time of its shortest run"),
        Column("max_ns", Unit.NS, "Time of its longest run"),
        Column("std_ns", Unit.NS, "Sample standard deviation of the time of its runs (n - 1); null for a single run"),
        Column("share_ratio", Unit.RATIO, "sum_ns / time of all runs on this rank; null if that is 0"),
        Column(
            "unnamed_comm_ns",
            Unit.NS,
            "Part of sum_ns in runs that look like communication although no rule for kinds matches their name",
        ),
    ),
    reads=(EVENTS,),
    chart=Ranking(x="name", y=("sum_ns",), title="Kernels and copies by time", color="kind"),
)
def kernels(rank: RankTrace, *, top: int | None = None) -> pl.DataFrame:
    """Which kernels and copies take the time, and how much their runs differ.

    Runs that overlap each count in full, so sums may exceed the time that passed. The duration of a run is that of the
    device's own clock, if the profile has it (TPU).

    Args:
        top: Only the largest so many of each rank, by time of all runs.
    """
    if top is not None:
        check_whole(1, top=top)
    runs = rank[EVENTS].filter(IS_WORK)
    duration = pl.col("duration_ns")
    total_ns = pl.col("sum_ns").sum()
    table = done(
        runs.lazy()
        .with_columns(looks=_looks_like_communication(runs, rank.kinds))
        .with_columns(duration_ns=pl.coalesce(pl.col("device_ps") / 1000, pl.col("end_ns") - pl.col("start_ns")))
        .group_by("name", "kind")
        .agg(
            count=pl.len(),
            sum_ns=duration.sum().round(),
            mean_ns=duration.mean().round(),
            min_ns=duration.min().round(),
            max_ns=duration.max().round(),
            std_ns=duration.std().round(),
            unnamed_comm_ns=duration.filter("looks").sum().round(),
        )
        .with_columns(
            pl.col("name", "kind").cast(pl.String()),
            share_ratio=pl.when(total_ns > 0).then(pl.col("sum_ns") / total_ns),
        )
        .sort("sum_ns", "name", "kind", descending=[True, False, False])
    )
    return table if top is None else table.head(top)


def _looks_like_communication(runs: pl.DataFrame, rules: tuple[KindRule, ...]) -> pl.Series:
    """Which runs count as compute by default, but have few blocks and are not on the queue that computes most."""
    nothing_looks = constant("looks", False, runs.height)
    looked_at = runs[:, ["category", "name", "kind", "grid"]].lazy()
    named = done(looked_at.filter(pl.col("grid").is_not_null(), kind=COMPUTE).unique())
    few = [
        kind == COMPUTE and grid is not None and prod(map(int, re.findall(r"\d+", grid))) <= FEW_BLOCKS
        for kind, grid in named.select(pl.col("kind", "grid").cast(pl.String)).iter_rows()
    ]
    if not any(few):
        return nothing_looks
    suspects = named.filter(pl.Series(few, dtype=pl.Boolean))
    by_default = [
        rule_of(category or "", name or "", rules) is None
        for category, name in suspects.select(pl.col("category", "name").cast(pl.String)).iter_rows()
    ]
    suspects = suspects.filter(pl.Series(by_default, dtype=pl.Boolean)).with_columns(looks=True)
    if suspects.is_empty():
        return nothing_looks
    computing = runs.filter(kind=COMPUTE)
    lasted_ns = (pl.col("end_ns") - pl.col("start_ns")).sum()
    queues = computing.lazy().group_by("device", "stream").agg(ns=lasted_ns)
    queues = queues.sort("ns", "stream", descending=[True, False])
    main = queues.group_by("device", maintain_order=True).first().select("device", "stream", is_main=True)
    keys = ["category", "name", "kind", "grid"]
    joined = (
        runs.lazy()
        .join(suspects.lazy(), on=keys, how="left", nulls_equal=True, maintain_order="left")
        .join(main, on=["device", "stream"], how="left", nulls_equal=True, maintain_order="left")
    )
    return done(joined.select(pl.col("looks").fill_null(False) & ~pl.col("is_main").fill_null(False)))["looks"]


@kernels.rule
def unknown_communication(table: pl.DataFrame) -> Iterator[Finding]:
    """Kernels that no rule names take more than a twentieth of the time of all kernels and look like communication.

    They run on all ranks, on a queue of their own, with few blocks, as kernels of a communication library do. What no
    rule names counts as compute, so that communication, overlap and lost time are wrong if they do communicate.

    If they do, name them in a file of rules (`--kinds FILE`, `holotrace.open(kinds=...)`); if not, name them as compute
    there, and this finding disappears.
    """
    rank_count = table["rank"].n_unique()
    if rank_count < 2:
        return
    of_name = pl.col("unnamed_comm_ns").sum().over("rank", "name")
    named = (
        table.with_columns(all_ns=pl.col("sum_ns").sum().over("rank"), of_name=of_name)
        .filter(pl.col("of_name") > 0)
        .filter(pl.col("rank").n_unique().over("name") == rank_count)
    )
    ranks = (
        named.group_by("rank")
        .agg(pl.col("unnamed_comm_ns").sum(), pl.col("all_ns").first())
        .filter(pl.col("unnamed_comm_ns") > UNNAMED_RATIO * pl.col("all_ns"))
        .sort("rank")
    )
    if ranks.height < rank_count:
        return
    most = named.group_by("name").agg(pl.col("unnamed_comm_ns").sum())
    names = most.sort("unnamed_comm_ns", "name", descending=[True, False])["name"].to_list()
    message = "kernels that look like communication count as compute, because no rule names them: {names:names}"
    yield Finding("warning", message, tuple(ranks["rank"]), values={"names": names})


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
        message = "{ratio:percent} of compute kernels take less than {limit:round_duration} on average"
        yield Finding("info", message, tuple(counts["rank"]), values={"ratio": ratio, "limit": LAUNCH_NS})


@kernels.rule
def outlying_runs(table: pl.DataFrame) -> Iterator[Finding]:
    """A run of a compute kernel lasted ten times longer than usual.

    Either this run had far more to do, or something else used the device or its memory; if many kernels have such a
    run, it was the latter, as on a CPU whose cores other threads use, too. The cost is what the longest run of each
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
    message = "a run of {name:name} took {times:times} times as long as its average run"
    if len(names) > 1:
        message = "{count:plural kernel} have runs of up to {times:times} times their average, above all {name:name}"
    values = {"name": names[0], "times": times, "count": len(names)}
    cost_ns = by_rank.select(pl.col("beyond_ns").max()).item()
    yield Finding("info", message, tuple(by_rank["rank"]), cost_ns, values=values)
