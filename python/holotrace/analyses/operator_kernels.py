"""Which kernels an operator launches, one after the other, and how long it takes until they begin."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Ranking
from holotrace.core.plans import done
from holotrace.core.schema import Column, Unit
from holotrace.core.trace import RankTrace
from holotrace.derive import groups, launched_by

SEPARATOR = " -> "
# A launch takes a host 3-10 µs: of shorter kernels the next one is not there yet when one ends.
SHORT_NS = 10_000
# Two or three kernels are what many an operator needs; a quarter of all kernels is no detail.
CHAIN, CHAIN_RATIO = 4, 0.25
NAMED = 3  # operators in a finding
SHOWN = 50  # kernels of a sequence; a graph launches thousands
# No kernel begins before its launch: where it seems to, the clocks of host and device are apart.
_DELAY_NS = pl.when(pl.col("start_ns") >= pl.col("launch_start_ns")).then(
    pl.col("start_ns") - pl.col("launch_start_ns")
)


@per_rank(
    columns=(
        Column("operator", Unit.TEXT, "Operator, e.g. aten::mm, or launch call; null if the profiler wrote no name"),
        Column("source", Unit.TEXT, "operator; launch: a call outside of all operators"),
        Column(
            "kernels", Unit.TEXT, f"Kernels and copies that one call launched, in order, joined by ->; {SHOWN} at most"
        ),
        Column("count", Unit.COUNT, "Calls that launched exactly these"),
        Column("mean_launch_delay_ns", Unit.NS, "Mean time from the start of a call to its first launch"),
        Column(
            "mean_work_delay_ns",
            Unit.NS,
            "Mean time from the start of that launch to the start of its kernel; null where clocks are further apart",
        ),
        Column("work_count", Unit.COUNT, "Kernels and copies of all calls"),
        Column("work_ns", Unit.NS, "Sum of the device times of this work; kernels that overlap count in full"),
    ),
    reads=launched_by.READS,
    chart=Ranking(x="operator", y=("work_ns",), title="Device time by the operator that launched it"),
    named_by=("operator", "source", "kernels"),
)
def operator_kernels(rank: RankTrace) -> pl.DataFrame:
    """Which kernels each operator launches, and how long it takes until they begin.

    A launch belongs to the innermost operator in which it began, on its thread; a launch outside of all operators is
    looked at by itself. One operator may launch different kernels from call to call, by the shape and type of its
    inputs: each sequence is a row. A long way to the first launch is the host's own work (checks, allocation, Python);
    a long way from there to the kernel is a full queue, or a device that was woken up.
    """
    order = ("launch_start_ns", "launch_id", "start_ns", "event_id")
    work = groups.ordered(done(_launched(rank)), order).lazy()
    calls = (
        work.group_by("op_id", maintain_order=True)
        .agg(
            pl.col("operator", "source").first(),
            # Numbers stand for names: some are thousands of characters long.
            sequence=pl.col("name").to_physical(),
            launch_delay_ns=(pl.col("launch_start_ns") - pl.col("op_start_ns")).first(),
            work_delay_ns=_DELAY_NS.first(),
            work_ns=(pl.col("end_ns") - pl.col("start_ns")).sum(),
        )
        .with_columns(work_count=pl.col("sequence").list.len())
    )
    alike = done(
        calls.group_by("operator", "source", "sequence").agg(
            pl.col("launch_delay_ns", "work_delay_ns").mean().round().name.prefix("mean_"),
            pl.col("work_count", "work_ns").sum(),
            count=pl.len(),
            op_id=pl.col("op_id").min(),
        )
    ).lazy()
    names = (
        work.join(alike, on="op_id", how="semi", maintain_order="left")
        .group_by("op_id")
        .agg(kernels=pl.col("name").cast(pl.String).fill_null("").head(SHOWN).str.join(SEPARATOR), all_count=pl.len())
        .with_columns(
            kernels=pl.when(pl.col("all_count") > SHOWN)
            .then(pl.format("{}{}… ({} more)", "kernels", pl.lit(SEPARATOR), pl.col("all_count") - SHOWN))
            .otherwise("kernels")
        )
        .drop("all_count")
    )
    return done(
        alike.join(names, on="op_id")
        .drop("op_id", "sequence")
        .sort("work_ns", "count", "operator", "source", "kernels", descending=[True, True, False, False, False])
    )


def _launched(rank: RankTrace) -> pl.LazyFrame:
    """Every kernel and copy with a known launch, and who made it."""
    columns = ("op_id", "operator", "source", "op_start_ns", "launch_id", "launch_start_ns", "event_id", "name")
    inside = (
        rank.cached(launched_by.work)
        .lazy()
        .with_columns(pl.col("operator").cast(pl.String), source=pl.lit(launched_by.OPERATOR))
    )
    outside = (
        launched_by.outside(rank)
        .lazy()
        .filter(source=launched_by.LAUNCH)
        .with_columns(operator=pl.col("launch_name").cast(pl.String), op_id="launch_id", op_start_ns="launch_start_ns")
    )
    return pl.concat(frame.select(*columns, "start_ns", "end_ns") for frame in (inside, outside))


@operator_kernels.rule
def chains_of_short_kernels(table: pl.DataFrame) -> Iterator[Finding]:
    """More than a quarter of all kernels come from operators that launch chains of short ones.

    A chain has at least four kernels that on average run for less than 10 µs, which is what a launch takes the host.
    Such an operator cannot keep a device busy, however fast its kernels are. A single kernel for the whole chain would
    need one launch, and would read and write its data once.

    Let `torch.compile` fuse the operators named, or use a fused implementation (attention, norms, optimizers).
    """
    count, ns = pl.col("work_count"), pl.col("work_ns")
    is_operator = pl.col("source") == launched_by.OPERATOR
    is_chain = is_operator & (count >= CHAIN * pl.col("count")) & (ns < SHORT_NS * count)
    ratio = (count.filter(is_chain).sum() / count.sum()).over("rank")
    chains = table.with_columns(ratio=ratio).filter(is_chain, pl.col("ratio") > CHAIN_RATIO)
    if chains.is_empty():
        return
    most = chains.group_by("operator").agg(count.sum()).sort("work_count", "operator", descending=[True, False])
    ranks = chains.group_by("rank").agg(pl.col("ratio").first()).sort("rank")
    message = "{ratio:percent} of kernels are in chains of short kernels, most of them launched by {names:names}"
    values = {"ratio": ranks["ratio"].sum() / ranks.height, "names": most["operator"].head(NAMED).to_list()}
    yield Finding("info", message, tuple(ranks["rank"]), values=values)
