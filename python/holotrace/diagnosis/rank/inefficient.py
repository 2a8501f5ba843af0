"""Computing that takes longer than it needs to: in a wide type, by kernels far from the limits, or more than needed."""

from __future__ import annotations

import polars as pl

from holotrace.core.plans import done
from holotrace.core.trace import RankTrace
from holotrace.derive import modelled_work
from holotrace.derive.names import distinct
from holotrace.diagnosis.rank import needless, unfused
from holotrace.diagnosis.words.classes import INEFFICIENT, WRONG_TYPE
from holotrace.efficiency import categories, devices
from holotrace.efficiency.devices import Device

READS = unfused.READS
# Units for fp32 do so many times less than those for narrow types, of which TF32 does half, or than those for TF32.
FP32_TIMES, TF32_TIMES = 3, 5
_OF_16_BITS, _SMALLER, _BYTES = "BFloat16|Half", "Float[48]", "char"
# What is so much faster than units for fp32 is not computed by them, whatever its kernel is called.
_BEYOND_RATIO = 1.5
# What moves no slower in 16 bits than in fp32 is half as many bytes, at as much of the memory's speed as kernels reach.
_HALF, _MEMORY_RATIO = 0.5, unfused.OPTIMIZER_RATIO
# Kernels that compute on the units for fp32, and what products reach of their limits: in fp32 0.72 to 0.80 on an H100,
# and with TF32 instead of it 0.61.
_FP32_KERNELS = r"(?i)simt|sgemm|ffma|cijk_[a-z]+_[a-z]+_sb_"
LIMITED_RATIO, MOST_RATIO, TF32_RATIO = 0.4, 1.05, 0.6
# What products in fp32 reach of the peak where sizes are unknown, and names of kernels that are products.
_FP32_RATIO, _PRODUCTS = 0.75, r"(?i)gemm|cijk_|fprop|dgrad|wgrad|conv"
# Some compute on the units for fp32 what has a narrower type.
_NARROW = r"(?i)bfloat16|bf16|f16|half"
# Healthy kernels reach most of what the device's limits allow for their shapes; one that is far from it a fifth.
FAR_RATIO, USUAL_RATIO = 0.2, 0.4
_PRODUCT = "gemm"
# Kind of the rows of ``account`` that these are.
SLOW_WORK = "slow-work"
_SCHEMA = {
    **dict.fromkeys(("step", "start_ns", "end_ns", "time_ns"), pl.Int64()),
    "cause": pl.String(),
    "event_id": pl.UInt32(),
    **dict.fromkeys(("name", "detail"), pl.String()),
}


def calls(rank: RankTrace) -> pl.DataFrame:
    """Calls of operators that compute much longer than the rank's others do for as much work.

    Returns ``step``, ``start_ns``, ``end_ns``, ``time_ns`` (what is too much), ``cause``, ``name`` (the operator, or
    the kernel if no operator launched it), ``detail`` (its shapes) and ``event_id`` (its longest kernel).
    """
    times = _times(rank, rank.cached(modelled_work.device_of))
    return pl.concat([_of_operators(rank, times), done(_of_no_operator(modelled_work.events(rank).lazy(), times))])


def _of_operators(rank: RankTrace, times: float) -> pl.DataFrame:
    every = rank.cached(modelled_work.modelled).with_columns(modelled_work.limits())
    device = rank.cached(modelled_work.device_of)
    tf32 = None if device is None else device.peak("tf32", is_matrix=True)
    long = every.lazy().filter(pl.col("roof_ns") > 0, pl.col("span_ns") >= unfused.LONG_NS)
    known = ("op_id", "time_ns", "cause", pl.col("name").cast(pl.String), pl.col("input_dims").cast(pl.String))
    slow = with_excess(long, None if tf32 is None else tf32 / 1e9).select(known)
    unknown = of_unknown_sizes(every.lazy(), modelled_work.events(rank).lazy(), times).select(known)
    slow = pl.concat([slow, unknown]).rename({"input_dims": "detail"})
    ways = (unfused.attention, unfused.optimizer, needless.slice_gradients, needless.channels_first)
    # What a call is too long for has one cause: what lets it go away before what makes it faster.
    both = pl.concat([*(way(rank, every) for way in ways), done(slow)])
    if both.is_empty():
        return pl.DataFrame(schema=_SCHEMA)
    told = both.lazy().filter(pl.col("time_ns") > 0)
    first, step_of = told.unique("op_id", keep="first", maintain_order=True), every.lazy().select("op_id", "step")
    chosen = done(first.join(step_of, on="op_id", maintain_order="left")).lazy()
    work = modelled_work.events(rank).lazy().join(chosen.select("op_id"), on="op_id", how="semi")
    spans = (
        work.sort("start_ns", "event_id")
        .group_by("op_id", maintain_order=True)
        .agg(
            pl.col("start_ns").min(),
            pl.col("end_ns").max(),
            pl.col("event_id").sort_by(pl.col("end_ns") - pl.col("start_ns"), descending=True).first(),
        )
    )
    found = chosen.join(spans, on="op_id", maintain_order="left")
    return done(found.select(*_SCHEMA))


def with_excess(calls: pl.LazyFrame, tf32: float | None) -> pl.LazyFrame:
    """The calls with how much longer each takes than it would at the rate of others, ``time_ns``, and why, ``cause``.

    Where no product is in a narrow type, those in fp32 are held against the device's peak for ``tf32``, per nanosecond.
    """
    # Step by step, since windows that several expressions share would be looked at for each of them.
    is_product, is_narrow, is_wide, is_far = (pl.col(f"_is_{what}") for what in ("product", "narrow", "wide", "far"))
    is_exact = pl.col("confidence") == "exact"
    # Autocast has 16 bits; where all other products have fewer, these tell what the device does.
    most = (pl.col("peak_flops").filter(is_product & kind).max() for kind in (pl.col("_is_16"), is_narrow))
    narrow = is_product & is_narrow & (pl.col("peak_flops") == pl.col("_most"))
    fp32, rate = pl.col("peak_flops"), pl.col("flops").sum().over("kernel") / pl.col("span_ns").sum().over("kernel")
    is_in_fp32 = rate <= _BEYOND_RATIO * fp32
    moved_ns = _HALF * pl.col("moved_bytes") / (_MEMORY_RATIO * pl.col("peak_bytes"))
    # How near to their limits the others of its kind come.
    kind = ["category", "bound_by"]
    usual = pl.col("roof_ns").filter(~is_far).sum().over(kind) / pl.col("span_ns").filter(~is_far).sum().over(kind)
    is_slow = is_far & (pl.col("_usual") > USUAL_RATIO)
    saved = (
        pl.when(is_wide)
        .then(pl.col("span_ns") - pl.max_horizontal(pl.col("flops") / pl.col("_rate"), moved_ns))
        .when(pl.col("_tf32_ns").is_not_null())
        .then(pl.col("span_ns") - pl.col("_tf32_ns"))
        .when(is_slow)
        .then(pl.col("span_ns") - pl.col("roof_ns") / pl.col("_usual"))
    )
    types = pl.col("input_types").cast(pl.String)
    is_wrong = is_wide | pl.col("_tf32_ns").is_not_null()
    return (
        calls.with_columns(
            _is_product=pl.col("category") == _PRODUCT,
            _is_16=types.str.contains(_OF_16_BITS) & ~types.str.contains(_SMALLER),
            _is_narrow=types.str.contains("|".join((_OF_16_BITS, _SMALLER, _BYTES))),
        )
        .with_columns(_most=pl.coalesce(most))
        .with_columns(_is_wide=is_product & ~is_narrow & is_in_fp32 & (fp32 * FP32_TIMES <= pl.col("_most")))
        .with_columns(
            _rate=pl.col("flops").filter(narrow).sum() / pl.col("span_ns").filter(narrow).sum(),
            _tf32_ns=_in_tf32(tf32, is_product & ~is_narrow.any() & is_exact),
            _is_far=is_exact & (pl.col("roof_ns") < FAR_RATIO * pl.col("span_ns")) & ~is_wide.fill_null(value=False),
        )
        .with_columns(_usual=usual)
        .with_columns(
            time_ns=saved.fill_nan(None).round().cast(pl.Int64),
            cause=pl.when(is_wrong).then(pl.lit(WRONG_TYPE)).otherwise(pl.lit(INEFFICIENT)),
        )
    )


def _times(rank: RankTrace, device: Device | None) -> float:
    """How many times as much a device does in the type that products in fp32 could have; 1 if hardly more.

    That is 16 bits where the rank's other products have them, by the names of kernels, and else TF32.
    """
    fp32 = None if device is None else device.peak("fp32", is_matrix=False)
    if device is None or fp32 is None:
        return 1.0
    names = distinct(modelled_work.events(rank)["name"]).cast(pl.String).drop_nulls()
    products = [name for name in names if categories.of_kernel(name) == categories.GEMM]
    types = {devices.computed_in(None, name) for name in products} & {"bf16", "fp16"}
    least = FP32_TIMES if types else TF32_TIMES
    times = max((device.peak(kind, is_matrix=True) or 0.0) / fp32 for kind in types or {"tf32"})
    return times if times >= least else 1.0


def of_unknown_sizes(calls: pl.LazyFrame, work: pl.LazyFrame, times: float) -> pl.LazyFrame:
    """Products in fp32 of which no size was recorded, ``time_ns`` what a narrower type would save, and ``cause``.

    The units for fp32 limit them, so that their time tells what they compute. Calls of which no sizes are known may run
    different kernels, though nothing else tells them apart.

    Args:
        calls: As of ``with_excess``.
        work: What the calls launched, as of ``modelled_work.events``.
        times: How many times as much the device does in the narrower type as on the units for fp32.
    """
    wide = _in_fp32(work, times).group_by("op_id").agg(wide_ns=pl.col("share_ns").sum())
    found = calls.filter(pl.col("input_dims").is_null()).join(wide, on="op_id", maintain_order="left")
    return found.filter(pl.col("wide_ns") >= unfused.LONG_NS).with_columns(
        time_ns=_saved_ns("wide_ns", times), cause=pl.lit(WRONG_TYPE)
    )


def _of_no_operator(work: pl.LazyFrame, times: float) -> pl.LazyFrame:
    """The same of kernels that no operator launched, such as those of a device graph."""
    wide = _in_fp32(work, times).filter(pl.col("op_id").is_null(), pl.col("share_ns") >= unfused.LONG_NS)
    told = wide.with_columns(
        pl.col("name").cast(pl.String),
        time_ns=_saved_ns("share_ns", times),
        cause=pl.lit(WRONG_TYPE),
        detail=pl.lit(None, pl.String),
    )
    return told.select(pl.col(name).cast(kind) for name, kind in _SCHEMA.items())


def _in_fp32(work: pl.LazyFrame, times: float) -> pl.LazyFrame:
    """Kernels that are products on the units for fp32, if others do so many times as much."""
    kernel = pl.col("name").cast(pl.String)
    is_wide = kernel.str.contains(_FP32_KERNELS) & kernel.str.contains(_PRODUCTS) & ~kernel.str.contains(_NARROW)
    return work.filter(pl.lit(times >= FP32_TIMES), is_wide)


def _saved_ns(wide_ns: str, times: float) -> pl.Expr:
    return ((1 - _FP32_RATIO / (TF32_RATIO * times)) * pl.col(wide_ns)).round().cast(pl.Int64)


def _in_tf32(peak: float | None, is_asked: pl.Expr) -> pl.Expr:
    """How long products would take with TF32, of those that the units for fp32 limit; null for all others."""
    if peak is None:
        return pl.lit(None, pl.Float64())
    of_peak = pl.col("flops") / pl.col("span_ns") / pl.col("peak_flops")
    is_limited = (
        pl.col("kernel").cast(pl.String).str.contains(_FP32_KERNELS)
        & of_peak.is_between(LIMITED_RATIO, MOST_RATIO)
        & (pl.col("peak_flops") * TF32_TIMES <= peak)
    )
    least = pl.max_horizontal(pl.col("flops") / peak, pl.col("moved_bytes") / pl.col("peak_bytes"))
    return pl.when(is_asked & is_limited).then(least / TF32_RATIO)
