"""What work operators did for each shape, and how close that came to what the device could do."""

from __future__ import annotations

import polars as pl

from holotrace.core.analysis import per_rank
from holotrace.core.charts import Roofline
from holotrace.core.schema import Column, Unit, empty
from holotrace.core.trace import RankTrace
from holotrace.derive import modelled_work
from holotrace.derive.modelled_work import OUTSIDE

# Operations per nanosecond are thousandths of TFLOP/s; bytes per nanosecond are GB/s.
_TERA = 1000
_GIVEN = ("input_dims", "input_types", "input_strides", "scalars")


@per_rank(
    columns=(
        Column("step", Unit.STEP, "Step that launched it; null where the recording is looked at as a whole"),
        Column("name", Unit.TEXT, "Operator; the kernel where no operator launched it"),
        Column("category", Unit.TEXT, "Kind of work, e.g. gemm, attention, elementwise"),
        Column("input_dims", Unit.TEXT, "Shapes of its inputs, JSON as recorded"),
        Column("input_types", Unit.TEXT, "Types of its inputs, JSON as recorded"),
        Column("input_strides", Unit.TEXT, "Strides of its inputs, JSON as recorded"),
        Column("scalars", Unit.TEXT, "Inputs that are no tensors, JSON as recorded"),
        Column("call_count", Unit.COUNT, "Calls that launched work themselves"),
        Column("work_ns", Unit.NS, "Time of their kernels and copies; those that overlap count in full"),
        Column("union_ns", Unit.NS, "Their part of the device's busy time; adds up to it over all rows of a rank"),
        Column("mean_ns", Unit.NS, "Time in which kernels of a call ran: the mean of all calls"),
        Column("std_ns", Unit.NS, "Its standard deviation; null with a single call"),
        Column("min_ns", Unit.NS, "That of the shortest call"),
        Column("p50_ns", Unit.NS, "The median of all calls"),
        Column("max_ns", Unit.NS, "That of the longest call"),
        Column("flops", Unit.NUMBER, "Floating-point operations of a call; null if unknown"),
        Column("moved_bytes", Unit.BYTES, "Bytes of a call that the device's memory reads and writes at least"),
        Column("confidence", Unit.TEXT, "exact or estimate; null where nothing is known of its work"),
        Column("assumed", Unit.TEXT, "What was taken for granted, or why nothing is known"),
        Column("tflops", Unit.FLOAT, "Operations per second achieved, in TFLOP/s"),
        Column("gbps", Unit.FLOAT, "Bytes per second achieved, in GB/s of 10^9 bytes"),
        Column("intensity", Unit.FLOAT, "Floating-point operations for each byte"),
        Column("peak_tflops", Unit.FLOAT, "What the device could do at most in the type it computes in, dense"),
        Column("peak_gbps", Unit.FLOAT, "What the device's memory could move at most"),
        Column("bound_by", Unit.TEXT, "Which of both limits its speed: compute or memory"),
        Column("roofline_ratio", Unit.RATIO, "Time that the limit allows, by the mean time; 1 if faster than it"),
        Column("above_roofline_ns", Unit.NS, "Time of all calls beyond what the limit allows"),
    ),
    reads=modelled_work.READS,
    chart=Roofline(
        x="intensity", y=("tflops",), size="work_ns", by="category", peak="peak_tflops", bandwidth="peak_gbps",
        title="Work per byte and speed by shape, below what the device could do",
    ),
)  # fmt: skip
def operator_efficiency(rank: RankTrace, *, by_operator: bool = False, by_step: bool = False) -> pl.DataFrame:
    """How much work operators did for each shape, how fast, and how close that is to the device's limits.

    Work is what the operator's definition asks for: an addition and a multiplication are two operations; each distinct
    element of inputs and outputs moves once, so that bytes are the least there can be. Of operators inside each other
    the innermost counts. Peaks are dense, in the type that is computed in.

    Args:
        by_operator: One row per operator, not one per shape: with rates of all its calls, and no work of a single one.
        by_step: One row for each step too.
    """
    calls = rank.cached(modelled_work.modelled).rename({"concrete_inputs": "scalars"}).with_columns(_limits())
    step = pl.col("step") if by_step else pl.lit(None, pl.Int64()).alias("step")
    keys = ["step", "name"] if by_operator else ["step", "signature", "assumed"]
    of_calls = calls.with_columns(step).group_by(keys).agg(
        *_texts(by_operator=by_operator), *_figures(by_operator=by_operator), *_times(), *_sums()
    )  # fmt: skip
    alone = rank.cached(modelled_work.outside).with_columns(step)
    of_others = (
        alone.group_by("step", "name").agg(pl.col("category").first(), *_times()).with_columns(assumed=pl.lit(OUTSIDE))
    )
    rows = pl.concat([_rated(of_calls), of_others.with_columns(_as_text("name"))], how="diagonal_relaxed")
    nothing = empty(operator_efficiency.columns[1:])
    known = [name for name in nothing.columns if name in rows.columns]
    return pl.concat([nothing, rows.select(known)], how="diagonal_relaxed").sort(
        "step", "work_ns", "name", *_GIVEN, descending=[False, True, *[False] * 5]
    )


def _as_text(name: str) -> pl.Expr:
    return pl.col(name).cast(pl.String)


def _limits() -> list[pl.Expr]:
    """Of each call the time that the device's limits allow, and its work as far as rates follow from it."""
    is_known = ~pl.col("is_partial") & pl.col("confidence").is_not_null()
    computing, moving = pl.col("flops") / pl.col("peak_flops"), pl.col("moved_bytes") / pl.col("peak_bytes")
    # What runs on matrix units is not held against the memory alone.
    is_told = is_known & moving.is_not_null() & (computing.is_not_null() | ~pl.col("is_matrix"))
    by = pl.when(computing.fill_null(0) > moving).then(pl.lit("compute")).otherwise(pl.lit("memory"))
    return [
        pl.when(is_told).then(pl.max_horizontal(computing, moving)).alias("roof_ns"),
        pl.when(is_told).then(by).alias("bound_by"),
        pl.when(is_known).then(pl.col("flops").cast(pl.Float64)).alias("counted_flops"),
        pl.when(is_known).then(pl.col("moved_bytes").cast(pl.Float64)).alias("counted_bytes"),
    ]


def _texts(*, by_operator: bool) -> list[pl.Expr]:
    names = [] if by_operator else list(_GIVEN)
    name = [] if by_operator else [_as_text("name").first()]
    return [*name, pl.col("category").mode().sort().first(), *(_as_text(column).first() for column in names)]


def _figures(*, by_operator: bool) -> list[pl.Expr]:
    """Figures of a single call; calls of an operator with several shapes have none in common."""
    if by_operator:
        return [pl.when(pl.col("bound_by").n_unique() == 1).then(pl.col("bound_by").first()).alias("bound_by")]
    return [pl.col("flops", "moved_bytes", "confidence", "bound_by").first()]


def _times() -> list[pl.Expr]:
    calls = pl.col("span_ns")
    return [
        pl.len().alias("call_count"),
        pl.col("work_ns").sum(),
        pl.col("share_ns").sum().alias("union_ns"),
        calls.mean().round().cast(pl.Int64).alias("mean_ns"),
        calls.std().round().cast(pl.Int64).alias("std_ns"),
        calls.min().alias("min_ns"),
        calls.median().round().cast(pl.Int64).alias("p50_ns"),
        calls.max().alias("max_ns"),
    ]


def _sums() -> list[pl.Expr]:
    """Work and limits of all calls, each with the time of those calls of which it is known."""
    both = pl.col("counted_flops").is_not_null() & pl.col("counted_bytes").is_not_null()
    return [
        *(
            part
            for name in ("counted_flops", "counted_bytes", "roof_ns")
            for part in (
                pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum()),
                pl.col("span_ns").filter(pl.col(name).is_not_null()).sum().alias(f"{name}_in"),
            )
        ),
        (pl.col("counted_flops").filter(both).sum() / pl.col("counted_bytes").filter(both).sum()).alias("intensity"),
        (pl.col("peak_flops").max() / _TERA).alias("peak_tflops"),
        pl.col("peak_bytes").max().alias("peak_gbps"),
    ]


def _rated(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(
        _as_text("name"),
        tflops=_finite(pl.col("counted_flops") / pl.col("counted_flops_in") / _TERA),
        gbps=_finite(pl.col("counted_bytes") / pl.col("counted_bytes_in")),
        intensity=_finite(pl.col("intensity")),
        roofline_ratio=_finite(pl.col("roof_ns") / pl.col("roof_ns_in")).clip(upper_bound=1),
        above_roofline_ns=(pl.col("roof_ns_in") - pl.col("roof_ns")).clip(lower_bound=0).round().cast(pl.Int64),
    )


def _finite(rate: pl.Expr) -> pl.Expr:
    return pl.when(rate.is_finite()).then(rate)
