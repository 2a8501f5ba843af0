"""How much of what the devices could compute the model got, step by step."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.analyses.hlo_ops import BEYOND_PEAK
from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Bar
from holotrace.core.plans import done
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import MODULES, STEPS, XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive import counted_work, device_steps, modelled_work, recomputation, step_windows
from holotrace.efficiency.categories import COMMUNICATION
from holotrace.efficiency.devices import Device

_RUNS = MODULES.only("device", "plane", "step", "start_ns", "end_ns")
_TERA = 1000  # operations per nanosecond are thousandths of TFLOP/s
_REASONS = 3
LOW, KNOWN = 0.3, 0.9
MUCH_AGAIN = 0.05
_NOT_COUNTED, _NO_PEAK = "no operations are counted", "the peak of the device is not known"
_SUPPOSED = "peaks are assumed"
_NO_CPU = "no trace tells what the CPU could do; give its peaks (--peaks)"
_NO_SHAPES, _NO_DEVICE, _NO_WORK = "no operator has recorded shapes", "the device is not known", "nothing ran"


@per_rank(
    columns=(
        Column("step", Unit.STEP, "Training step; null for all of them together, or a recording without steps"),
        Column(
            "step_ns",
            Unit.NS,
            "Time of the step on the device: since the work of the previous one ended; without steps, of the recording",
        ),
        Column(
            "model_flops",
            Unit.FLOAT,
            "Floating-point operations of matrix products, convolutions and attention, without recomputation",
        ),
        Column(
            "recomputed_flops",
            Unit.FLOAT,
            "Floating-point operations of recomputed activations, in addition to model_flops",
        ),
        Column("recomputed_ns", Unit.NS, "Busy time of the device in operators that recomputed activations"),
        Column("achieved_tflops", Unit.FLOAT, "model_flops / step_ns, in TFLOP/s"),
        Column("peak_tflops", Unit.FLOAT, "Dense peak of the device in the types that were computed in, in TFLOP/s"),
        Column("mfu_ratio", Unit.RATIO, "MFU: achieved_tflops / peak_tflops"),
        Column("hfu_ratio", Unit.RATIO, "HFU: the same with recomputed_flops included"),
        Column(
            "modelled_ratio",
            Unit.RATIO,
            "Share of kernel time, without communication, whose work is known: on matrix units its operations",
        ),
        Column(
            "reason",
            Unit.TEXT,
            "Why values are null, or which operator of unknown work takes most time, and in how many calls",
        ),
    ),
    reads=(
        *modelled_work.READS,
        *recomputation.READS,
        *counted_work.READS,
        *step_windows.READS,
        _RUNS,
        STEPS.only("step", "start_ns", "end_ns"),
    ),
    chart=Bar(x="rank", y=("mfu_ratio", "hfu_ratio"), title="Share of the device's peak that the model got"),
)
def efficiency(rank: RankTrace) -> pl.DataFrame:
    """How much of what the device could compute the model got: MFU and HFU by step, and of how much the work is known.

    The model's operations are those of matrix products, convolutions and attention, forward and backward, that launched
    work in the step. Each is compared with the dense peak of its own type. Work that activation checkpointing computes
    a second time counts in HFU, but not in MFU; it is recognised by forward operators within the backward pass. If not
    all work is known, the true ratios are higher: see modelled_ratio.

    For XLA programs, the operations are those that the compiler counts (TPU), or those of matrix products computed from
    the shapes in the program (GPU, CPU), on all devices of a rank. They are compared with the peaks that the profile
    declares, or else with those of the table of devices.
    """
    if rank.count(XLA_OPS):
        return _of_xla(rank, rank[STEPS].select("step", step_ns=pl.col("end_ns") - pl.col("start_ns")))
    again, no_step = rank.cached(recomputation.operators), pl.lit(None, pl.Int64()).alias("step")
    calls = (
        rank.cached(modelled_work.modelled).lazy().with_columns(is_again=pl.col("op_id").is_in(pl.lit(again).implode()))
    )
    alone = rank.cached(modelled_work.outside).lazy().with_columns(pl.col("category").cast(pl.String))
    # The whole recording is one more step, in which everything is.
    twice = [pl.concat([each.drop_nulls("step"), each.with_columns(no_step)]) for each in (calls, alone)]
    found = step_windows.lasting(rank).lazy().join(_sums(*twice), on="step", how="left", nulls_equal=True)
    unknown = _NO_CPU if rank.computes_on_host else _NO_DEVICE
    return done(_ratios(found, rank.cached(modelled_work.device_of), unknown).sort("step"))


def _of_xla(rank: RankTrace, steps: pl.DataFrame) -> pl.DataFrame:
    """The same where the compiler counts: all devices of the rank together, held against the peaks they declare."""
    span, ops = ("start_ns", "end_ns"), counted_work.executed(rank)
    spans = pl.concat([rank[STEPS].select(span), ops.select(span)])
    whole_ns = spans.select(step_ns=pl.col("end_ns").max() - pl.col("start_ns").min()).with_columns(
        step=pl.lit(None, pl.Int64())
    )
    # The host may be done with a step before the devices begin it.
    windows = device_steps.windows(rank[_RUNS]).with_columns(device_ns=pl.col("end_ns") - pl.col("start_ns"))
    on_devices = windows.group_by("step").agg(pl.col("device_ns").mean().round().cast(pl.Int64))
    steps = steps.join(on_devices, on="step", how="left", maintain_order="left")
    times = pl.concat(
        [whole_ns.select("step", "step_ns"), steps.select("step", step_ns=pl.coalesce("device_ns", "step_ns"))]
    )
    work = pl.concat([counted_work.sums(ops, by_step=by_step) for by_step in (False, True)])
    found = times.join(work, on="step", how="left", nulls_equal=True)
    peak = pl.lit(counted_work.peak_flops(rank, ops), pl.Float64())
    is_counted = pl.col("is_counted").fill_null(value=False)
    reason = pl.when(~is_counted).then(pl.lit(_NOT_COUNTED)).when(peak.is_null()).then(pl.lit(_NO_PEAK))
    rate = pl.col("model_flops") / pl.col("step_ns")
    again = (pl.col("model_flops") + pl.col("recomputed_flops")) / pl.col("step_ns")
    is_held = is_counted & (again <= peak).fill_null(value=False)
    return found.select(
        "step",
        "step_ns",
        *(pl.when(is_counted).then(name).alias(name) for name in ("model_flops", "recomputed_flops")),
        recomputed_ns=pl.lit(None, pl.Int64()),
        achieved_tflops=_finite(pl.when(is_counted).then(rate / _TERA)),
        peak_tflops=peak / _TERA,
        mfu_ratio=_finite(pl.when(is_held).then(rate / peak)),
        hfu_ratio=_finite(pl.when(is_held).then(again / peak)),
        modelled_ratio=_finite(pl.col("known_ps") / pl.col("total_ps")),
        reason=reason.when(~is_held).then(pl.lit(BEYOND_PEAK)).otherwise(pl.lit(counted_work.said(rank))),
    ).sort("step")


def _sums(calls: pl.LazyFrame, alone: pl.LazyFrame) -> pl.LazyFrame:
    """Work, the time it would take at the peak, and times of all kernels, by step."""
    counts = pl.col("is_matrix") & pl.col("flops").is_not_null()
    flops = modelled_work.summable_flops()
    known = modelled_work.is_known()
    # A compiled region may communicate, too.
    computed_ns = pl.col("work_ns") - pl.col("communication_ns")
    computing = pl.col("category").cast(pl.String) != COMMUNICATION
    sums = calls.group_by("step").agg(
        flops.filter(counts & ~pl.col("is_again")).sum().cast(pl.Float64).alias("model_flops"),
        flops.filter(counts & pl.col("is_again")).sum().cast(pl.Float64).alias("recomputed_flops"),
        pl.col("share_ns").filter("is_again").sum().alias("recomputed_ns"),
        modelled_work.at_peak_as().filter(counts).sum(),
        flops.filter(counts & pl.col("peak_flops").is_not_null()).sum().alias("held_flops"),
        computed_ns.filter(computing & known).sum().alias("known_ns"),
        computed_ns.filter(computing).sum().alias("shaped_ns"),
        pl.col("input_dims").is_not_null().any().alias("has_shapes"),
    )
    others = alone.filter(computing).group_by("step").agg(pl.col("work_ns").sum().alias("outside_ns"))
    both = sums.join(others, on="step", how="full", coalesce=True, nulls_equal=True)
    return both.join(_reasons(calls, alone), on="step", how="left", nulls_equal=True)


def _reasons(calls: pl.LazyFrame, alone: pl.LazyFrame) -> pl.LazyFrame:
    """Why work is not known, those that cost most time first, each with the number of its calls."""
    unknown = calls.filter(~modelled_work.is_known())
    parts = [
        unknown.select("step", "work_ns", text=pl.col("assumed")),
        alone.filter(pl.col("category") != COMMUNICATION).select("step", "work_ns", text=pl.lit(modelled_work.OUTSIDE)),
    ]
    said = pl.format("{} ({} times)", "text", "call_count")
    return (
        pl.concat(parts)
        .group_by("step", "text")
        .agg(pl.col("work_ns").sum(), call_count=pl.len())
        .sort("work_ns", "text", descending=[True, False])
        .group_by("step", maintain_order=True)
        .agg(unknown=said.head(_REASONS).str.join("; "))
    )


def _ratios(found: pl.LazyFrame, device: Device | None, unknown: str) -> pl.LazyFrame:
    all_flops = pl.col("model_flops") + pl.col("recomputed_flops")
    total_ns = pl.col("shaped_ns").fill_null(0) + pl.col("outside_ns").fill_null(0)
    has_shapes = pl.col("has_shapes").fill_null(value=False)
    peak = modelled_work.peak_of_sums()
    shapes = pl.when(total_ns == 0).then(pl.lit(_NO_WORK)).when(~has_shapes).then(pl.lit(_NO_SHAPES))
    no_device = shapes.when(pl.lit(device is None)).then(pl.lit(unknown))
    nothing = no_device.when(all_flops > 0, ~peak.is_finite().fill_null(value=False)).then(pl.lit(_NO_PEAK))
    supposed = pl.lit(f"{_SUPPOSED}: {device.assumed}" if device and device.assumed else None, pl.String())
    can = has_shapes & (pl.col("step_ns") > 0)
    # More than the peak is none: the device is another one, or the work is not of this time.
    is_held = can & (all_flops / pl.col("step_ns") <= peak)
    beyond = nothing.when(can & ~is_held).then(pl.lit(BEYOND_PEAK))
    return found.select(
        "step",
        "step_ns",
        model_flops=pl.when(has_shapes).then("model_flops"),
        recomputed_flops=pl.when(has_shapes).then("recomputed_flops"),
        recomputed_ns="recomputed_ns",
        achieved_tflops=pl.when(can).then(pl.col("model_flops") / pl.col("step_ns") / _TERA),
        peak_tflops=_finite(peak / _TERA),
        mfu_ratio=_finite(pl.when(is_held).then(pl.col("model_flops") / pl.col("step_ns") / peak)),
        hfu_ratio=_finite(pl.when(is_held).then(all_flops / pl.col("step_ns") / peak)),
        modelled_ratio=_finite(pl.when(total_ns > 0).then(pl.col("known_ns").fill_null(0) / total_ns)),
        reason=pl.coalesce(
            beyond, pl.concat_str(supposed, "unknown", separator="; ", ignore_nulls=True).replace("", None)
        ),
    )


def _finite(rate: pl.Expr) -> pl.Expr:
    return pl.when(rate.is_finite()).then(rate)


@efficiency.rule
def low_mfu(table: pl.DataFrame) -> Iterator[Finding]:
    """The model gets less than 30 % of what the device could compute in the step.

    The rest is idle time, waiting for other ranks, operators that the memory limits, and matrix products that run below
    the device's speed. `time_breakdown`, `work_categories` and `operator_efficiency` show how much each takes. There is
    no finding if the work is unknown for a tenth of the kernels' time or more, if no steps were recorded, or if the
    peaks are not those of a known device.

    Begin with what takes most: fill the idle time, hide the communication, fuse what the memory limits, then improve
    the products.
    """
    ranks = _whole_with_steps(table).filter(
        pl.col("modelled_ratio") >= KNOWN, pl.col("mfu_ratio").is_between(0, LOW, closed="right")
    )
    is_supposed = pl.col("reason").str.starts_with(_SUPPOSED).fill_null(value=False)
    ranks = ranks.filter(pl.col("mfu_ratio") > 0, ~is_supposed).sort("rank")
    if ranks.height:
        least, most = ranks.select(least=pl.col("mfu_ratio").min(), most=pl.col("mfu_ratio").max()).row(0)
        share = (
            "{least_ratio:percent} to {most_ratio:percent}"
            if round(least, 3) < round(most, 3)
            else "{most_ratio:percent}"
        )
        message = f"the model gets {share} of what the devices could compute (MFU)"
        values = {"least_ratio": least, "most_ratio": most}
        yield Finding("info", message, tuple(ranks["rank"]), values=values)


@efficiency.rule
def much_recomputation(table: pl.DataFrame) -> Iterator[Finding]:
    """At least a twentieth of the time goes to computing activations again.

    Activation checkpoints trade memory for time: the results that they drop are computed again in the backward pass.
    Computing the whole forward pass again is a quarter of all operations. The cost is the time of the operators that
    run again. For XLA, which does not distinguish these operators, it is the time of their operations at the average
    speed of the step.

    If memory is left, checkpoint fewer layers, or only what is cheap to compute: selective checkpoints.
    """
    again = pl.col("recomputed_flops") / (pl.col("model_flops") + pl.col("recomputed_flops"))
    cost = pl.coalesce(pl.col("recomputed_ns").cast(pl.Float64), again * pl.col("step_ns"))
    # Where nothing is known to be computed it is no number, which is above every number.
    ranks = _whole_with_steps(table).with_columns(again=again, cost=cost)
    ranks = ranks.filter(pl.col("again").is_between(0, 1), pl.col("cost") >= MUCH_AGAIN * pl.col("step_ns")).sort(
        "rank"
    )
    if ranks.height:
        share = float(ranks["again"].max() or 0)  # type: ignore[arg-type]  # a column of floats
        message = "{share_ratio:percent} of the operations compute activations again"
        yield Finding(
            "info",
            message,
            tuple(ranks["rank"]),
            int(ranks.select(pl.col("cost").max()).item()),
            values={"share_ratio": share},
        )


def _whole_with_steps(table: pl.DataFrame) -> pl.DataFrame:
    """The rows of whole recordings of ranks that have steps."""
    stepped = table.filter(pl.col("step").is_not_null()).select("rank").unique()
    return table.filter(pl.col("step").is_null()).join(stepped, on="rank", how="semi")
