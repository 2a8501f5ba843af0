"""What hardware counters read while the kernels of each operator ran."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Ranking
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import CPU_OPS, HARDWARE_COUNTERS, RUNTIME_CALLS
from holotrace.core.trace import RankTrace
from holotrace.derive import enclosing

_LAUNCH = r"^cu(da)?LaunchKernel"
# Instructions by the type of their operands, as CUPTI counts them; a fused one multiplies and adds.
_ARITHMETIC = r"_inst_executed_op_([hfd])(?:add|mul|(fma))_pred_on"
# What is computed once, e.g. a learning rate, does not matter.
DOUBLE_RATIO = 0.01

COLUMNS = (
    Column("operator", Unit.TEXT, "Innermost operator around the launch; null if none is known"),
    Column("top_operator", Unit.TEXT, "Outermost operator around it"),
    Column("operators", Unit.TEXT, "All operators around it from the outermost on, JSON; null in sums of kernels"),
    Column("kernel", Unit.TEXT, "The kernel; null in sums of kernels"),
    Column("event_id", Unit.EVENT, "event_id of the range around the kernel; null in sums of kernels"),
    Column("launch_id", Unit.EVENT, "event_id of the launch; null if unknown or where kernels are summed"),
    Column("counter", Unit.TEXT, "The counter, as the profiler names it"),
    Column("kernel_count", Unit.COUNT, "Kernels it was read for"),
    Column("value", Unit.FLOAT, "Sum of what it read for these kernels"),
)


@per_rank(
    columns=COLUMNS,
    reads=(
        HARDWARE_COUNTERS,
        RUNTIME_CALLS.only("event_id", "name", "pid", "tid", "start_ns", "end_ns"),
        CPU_OPS.only("event_id", "name", "pid", "tid", "start_ns", "end_ns"),
    ),
    chart=Ranking(x="operator", y=("value",), color="counter", title="What hardware counters read, by operator"),
    needs=(HARDWARE_COUNTERS,),
)
def operator_counters(rank: RankTrace, *, each: bool = False) -> pl.DataFrame:
    """What hardware counters read while the kernels of each operator ran.

    To read counters the profiler runs one kernel at a time and tells of no launch: so the first kernel is that of the
    first launch, and so on. Where there are more or fewer launches than kernels, operators are unknown.

    Args:
        each: A row per kernel and counter, in order of the kernels, instead of one per operator and counter.
    """
    kernels = _launched(rank)
    around = enclosing.operators(rank[CPU_OPS], rank[RUNTIME_CALLS].filter(_is_of(kernels)))
    read = (
        rank[HARDWARE_COUNTERS]
        .select("event_id", pl.col("counter").cast(pl.String), "value")
        .join(kernels, on="event_id")
        .join(around, left_on="launch_id", right_on="event_id", how="left")
        .sort("start_ns", "event_id", "counter", "value")
        .select(
            "event_id",
            "launch_id",
            "kernel",
            "counter",
            "value",
            operator=pl.col("operators").list.last(),
            top_operator=pl.col("operators").list.first(),
            operators=_as_json("operators"),
            kernel_count=1,
        )
    )
    return read if each else _summed(read)


def _launched(rank: RankTrace) -> pl.DataFrame:
    """Each kernel that counters were read for, and its launch."""
    order = ["start_ns", "event_id"]
    ranges = rank[HARDWARE_COUNTERS].unique("event_id").sort(order)
    launches = rank[RUNTIME_CALLS].filter(pl.col("name").cast(pl.String).str.contains(_LAUNCH)).sort(order)
    ids = launches["event_id"] if launches.height == ranges.height else pl.lit(None, pl.UInt32)
    return ranges.select("event_id", "start_ns", kernel=pl.col("name").cast(pl.String), launch_id=ids)


def _is_of(kernels: pl.DataFrame) -> pl.Expr:
    return pl.col("event_id").is_in(pl.lit(kernels["launch_id"].drop_nulls()).implode())


def _as_json(column: str) -> pl.Expr:
    named = pl.struct(column).struct.json_encode()
    text = named.str.strip_prefix(f'{{"{column}":').str.strip_suffix("}")
    return pl.when(pl.col(column).is_not_null()).then(text)


def _summed(read: pl.DataFrame) -> pl.DataFrame:
    """One row per operator and counter, those that read most first."""
    return (
        read.group_by("operator", "top_operator", "counter")
        .agg(pl.col("kernel_count", "value").sum())
        .with_columns(operators=None, kernel=None, event_id=None, launch_id=None)
        .sort("counter", "value", "operator", "top_operator", descending=[False, True, False, False])
    )


@operator_counters.rule
def double_precision(table: pl.DataFrame) -> Iterator[Finding]:
    """Some arithmetic is done in double precision.

    Most accelerators do a double-precision operation in the time of two to sixty-four others. Data of NumPy and Python
    is of that type unless it is converted, and what it is combined with becomes so too. The finding counts additions,
    multiplications and fused ones, which are two, of threads on the rank with the largest share; those of tensor cores
    are not among them.

    Look at the operators that execute such instructions, and convert their inputs, e.g. with `.float()`.
    """
    kind = pl.col("counter").str.extract(_ARITHMETIC)
    is_fused = pl.col("counter").str.extract(_ARITHMETIC, 2).is_not_null()
    counted = table.with_columns(kind=kind, operations=pl.col("value") * (1 + is_fused.cast(pl.Int64))).drop_nulls(
        "kind"
    )
    of_double = pl.col("operations").filter(pl.col("kind") == "d").sum()
    shares = counted.group_by("rank").agg(ratio=of_double / pl.col("operations").sum()).sort("rank")
    found = shares.filter(pl.col("ratio").is_finite() & (pl.col("ratio") >= DOUBLE_RATIO))
    if not found.is_empty():
        ratio = max(found["ratio"])
        message = "{ratio:percent} of the arithmetic is done in double precision"
        yield Finding("info", message, tuple(found["rank"]), values={"ratio": ratio})
