"""Whether the device of a rank is slow, or has more work than those of other ranks."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_job
from holotrace.core.charts import Stacked
from holotrace.core.plans import done
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import CPU_OPS, DEVICE_EVENTS
from holotrace.core.trace import RankTrace
from holotrace.derive import launched_by
from holotrace.derive.kernel_kinds import COMPUTE

# Equal devices on equal work differ by 1-2%; with two ranks nobody can say which is the odd one.
SLOW_RATIO, COMPARED_RANKS = 0.03, 3
# Kernels whose time depends on their data differ by more; as part of the time they are few.
COMPARED_RATIO = 0.2
# Work of even ranks differs by what padding and sampling leave.
MORE_RATIO = 0.05
ALIKE = ["name", "grid", "block", "shapes"]
EVENTS = DEVICE_EVENTS.only("event_id", "name", "kind", "start_ns", "end_ns", "grid", "block")
SHAPES = CPU_OPS.only("event_id", "input_dims")
WORK = (
    Column("name", Unit.LABEL, "Compute kernel; null if the profiler wrote no name"),
    Column("grid", Unit.LABEL, "Launch grid; null if unknown"),
    Column("block", Unit.LABEL, "Thread block; null if unknown"),
    Column("shapes", Unit.LABEL, "Shapes of the inputs of the operator that launched it; null if unknown"),
    Column("count", Unit.COUNT, "How often it ran"),
    Column("sum_ns", Unit.NS, "Time of all its runs"),
)


def compute_work(rank: RankTrace) -> pl.DataFrame:
    """Compute kernels of one rank, those that are alike in all that says how much they have to do as one row."""
    launched = rank.cached(launched_by.work)[:, ["event_id", "op_id"]].lazy()
    shapes = launched.join(rank[SHAPES].lazy(), left_on="op_id", right_on="event_id")
    return done(
        rank[EVENTS]
        .lazy()
        .filter(kind=COMPUTE)
        .join(shapes.select("event_id", shapes="input_dims"), on="event_id", how="left")
        .group_by(ALIKE)
        .agg(count=pl.len(), sum_ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
        .sort("sum_ns", *ALIKE, descending=[True, *(False for _ in ALIKE)])
    )


@per_job(
    part=compute_work,
    part_columns=WORK,
    columns=(
        Column("compute_ns", Unit.NS, "Sum of the times of all compute kernels; kernels that overlap count in full"),
        Column(
            "same_ns",
            Unit.NS,
            "Part of compute_ns in kernels that at least three ranks ran with equal grids and inputs",
        ),
        Column("usual_ns", Unit.NS, "Time that the kernels of same_ns take on the median rank"),
        Column("other_ns", Unit.NS, "The rest of compute_ns: other grids, other inputs, or other kernels"),
        Column(
            "slower_ratio",
            Unit.RATIO,
            "How much longer kernels of same_ns take than on the median rank: their median; null without any",
        ),
        Column(
            "more_work_ratio",
            Unit.RATIO,
            "(usual_ns + other_ns) / the same of the median rank, minus 1; null if that is 0",
        ),
    ),
    reads=(*launched_by.READS, EVENTS, SHAPES),
    chart=Stacked(x="rank", y=("same_ns", "other_ns"), title="Compute kernels: work that ranks share, and other work"),
)
def device_speed(work: pl.DataFrame) -> pl.DataFrame:
    """Whether the device of a rank is slow, or has more work than those of other ranks.

    Runs of a kernel have the same work if name, launch grid, thread block and the input shapes of the launching
    operator are equal; shapes count only if they were recorded (`record_shapes=True`). Only such runs show how fast a
    device is; kernels without a recorded grid are left out. A rank with longer sequences or more tokens runs kernels
    with other grids or inputs, so it has more work, not a slower device. One rank has no other to be compared with.
    """
    if work["rank"].n_unique() == 1:
        return device_speed.nothing
    ranks_alike = pl.col("rank").n_unique().over(ALIKE)
    mean_ns = pl.col("sum_ns") / pl.col("count")
    rows = work.with_columns(
        is_same=pl.col("grid").is_not_null() & (ranks_alike >= COMPARED_RANKS),
        usual_mean_ns=mean_ns.median().over(ALIKE),
        mean_ns=mean_ns,
    ).with_columns(
        same_ns=pl.when("is_same").then("sum_ns").otherwise(0),
        usual_ns=pl.when("is_same").then(pl.col("usual_mean_ns") * pl.col("count")).otherwise(0.0),
        slower=pl.when(pl.col("usual_mean_ns") > 0).then(pl.col("mean_ns") / pl.col("usual_mean_ns") - 1),
    )
    # Half of the time is at or beyond the median that is weighted by time.
    compared = rows.filter(pl.col("is_same") & (pl.col("sum_ns") > 0)).sort("slower", *ALIKE)
    weight = pl.col("sum_ns").cum_sum()
    slower = compared.group_by("rank", maintain_order=True).agg(
        slower_ratio=pl.col("slower").filter(2 * weight >= pl.col("sum_ns").sum()).first()
    )
    return (
        rows.group_by("rank")
        .agg(
            pl.col("same_ns").sum(), pl.col("usual_ns").sum().round().cast(pl.Int64), compute_ns=pl.col("sum_ns").sum()
        )
        .with_columns(other_ns=pl.col("compute_ns") - pl.col("same_ns"))
        .join(slower, on="rank", how="left")
        .with_columns(work_ns=pl.col("usual_ns") + pl.col("other_ns"))
        .with_columns(
            more_work_ratio=pl.when(pl.col("work_ns").median() > 0).then(
                pl.col("work_ns") / pl.col("work_ns").median() - 1
            )
        )
        .drop("work_ns")
        .sort("rank")
    )


@device_speed.rule
def slow_device(table: pl.DataFrame) -> Iterator[Finding]:
    """The device of a rank runs the same work slower than the devices of other ranks.

    Equal devices run equal work at equal speed; a slower one is throttled (heat, power cap), shared or defective, and
    the whole job runs at its pace. Only runs with equal grids and inputs are compared. The cost is what they took
    beyond those of the median rank.

    Compare clocks and temperatures (`nvidia-smi -q -d PERFORMANCE`, `rocm-smi`), and drain the node if they differ.
    """
    beyond_ns = pl.col("same_ns") - pl.col("usual_ns")
    slow = table.filter(
        pl.col("slower_ratio") > SLOW_RATIO,
        beyond_ns > SLOW_RATIO * pl.col("usual_ns"),
        pl.col("same_ns") > COMPARED_RATIO * pl.col("compute_ns"),
    ).sort("rank")
    if not slow.is_empty():
        ratio, cost_ns = slow.select(ratio=(beyond_ns / pl.col("usual_ns")).max(), beyond=beyond_ns.max()).row(0)
        message = "devices of these ranks run the same work up to {ratio:percent} slower than that of the median rank"
        yield Finding("warning", message, tuple(slow["rank"]), int(cost_ns), values={"ratio": ratio})


@device_speed.rule
def more_work(table: pl.DataFrame) -> Iterator[Finding]:
    """A rank has more work for its device than the median rank.

    Its kernels run more often, on larger grids or on larger inputs, as with longer sequences, more tokens for its
    experts, or a heavier stage of a pipeline. Its device is not slow. The cost is the time of that work.

    Give ranks even work: sort or pack sequences by length, balance experts, move layers between stages.
    """
    if table["rank"].n_unique() < COMPARED_RANKS:
        return
    work_ns = pl.col("usual_ns") + pl.col("other_ns")
    more = table.with_columns(beyond_ns=work_ns - work_ns.median()).filter(pl.col("more_work_ratio") > MORE_RATIO)
    if not more.is_empty():
        ratio, cost_ns = more.select(pl.col("more_work_ratio", "beyond_ns").max()).row(0)
        message = "devices of these ranks have up to {ratio:percent} more work than that of the median rank"
        yield Finding("info", message, tuple(more.sort("rank")["rank"]), int(cost_ns), values={"ratio": ratio})
