"""Operations of compiled programs that take longer than needed: in a wide type, far from the limits, or copies."""

from __future__ import annotations

import polars as pl

from holotrace.core.plans import done
from holotrace.core.tables import XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive import device_time, xla_peaks
from holotrace.derive.device_time import DEVICE, ON_HOST
from holotrace.derive.kernel_kinds import COMPUTE, MEMORY
from holotrace.diagnosis.rank.inefficient import (
    FAR_RATIO,
    LIMITED_RATIO,
    MOST_RATIO,
    TF32_RATIO,
    TF32_TIMES,
    USUAL_RATIO,
)
from holotrace.diagnosis.rank.unfused import LONG_NS
from holotrace.diagnosis.rank.xla.recording import OPERATION_NS
from holotrace.diagnosis.words.classes import COPY, INEFFICIENT, WRONG_TYPE

_OF_ONE = ("name", "module", "program")
_OPS = XLA_OPS.only(
    *("name", "category", "module", "program", "kind", "device", "plane", "line", "self_ns", "scope", "source"),
    *("device_ps", "flops", "accessed_bytes", "is_wait", "is_collective", "is_async", "is_container", "product_type"),
)
_RUNS = XLA_OPS.only(
    *("event_id", "name", "module", "program", "device", "plane", "line", "start_ns", "end_ns", "step", "is_async")
)
_COPIED = XLA_OPS.only("event_id", "kind", "category")
READS = (_OPS, _RUNS, _COPIED, xla_peaks.KNOWN)
# What nobody counts the work of, and what is over as soon as it has begun.
_UNCOUNTED = r"custom-call|-start$|-done$"
_IS_COPY = (pl.col("kind") == MEMORY) & (pl.col("category").cast(pl.String) == "copy")
# Products of f32, and those of which the program forbids to leave out bits.
_SINGLE, _EXACT = "f32", "f32 highest"


def runs(rank: RankTrace) -> pl.DataFrame:
    """Runs of such operations on the rank's first device, which its others resemble; as of ``inefficient.calls``."""
    told = _told(rank)
    schema = {"step": pl.Int64, "time_ns": pl.Int64, "cause": pl.String, "event_id": pl.UInt32, "detail": pl.String}
    if told.is_empty():
        return pl.DataFrame(schema=schema | {"name": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64})
    is_named = pl.col("name").is_in(pl.lit(told["name"]).implode()) & device_time.IS_EXECUTED
    every = rank.where(_RUNS, is_named).filter(pl.col("device").eq_missing(pl.lit(told["device"][0])))
    found = every.join(told.select(*_OF_ONE, "ratio", "cause", "detail"), on=list(_OF_ONE), nulls_equal=True)
    lasted = pl.col("end_ns") - pl.col("start_ns")
    return found.select(
        *("step", "start_ns", "end_ns", "cause", "event_id", "detail"),
        pl.col("name").cast(pl.String),
        time_ns=(lasted * pl.col("ratio")).round().cast(pl.Int64),
    ).filter(pl.col("time_ns") > 0)


def copies(rank: RankTrace) -> pl.Series:
    """event_id of what programs copy within a device; ``runs`` tells of it, also by what copies it on a GPU."""
    return rank.where(_COPIED, _IS_COPY)["event_id"]


def _told(rank: RankTrace) -> pl.DataFrame:
    """The operations of the first device, each with the ``ratio`` of its time that is too much, and why, ``cause``."""
    sums = rank.summed(
        _OPS,
        device_time.IS_EXECUTED,
        (*_OF_ONE, "category", "kind", *DEVICE, "is_wait", "is_collective", "product_type", "scope", "source"),
        own_ps=device_time.own_ps().sum(),
        run_count=pl.len().cast(pl.Int64),
        flops=pl.col("flops").cast(pl.Float64).sum(),
        accessed_bytes=pl.col("accessed_bytes").cast(pl.Float64).sum(),
    )
    first = sums.filter(pl.col("device").eq_missing(pl.lit(sums["device"].min())))
    known = first.filter(~pl.col("is_wait").fill_null(False), ~pl.col("is_collective").fill_null(False))
    detail = pl.coalesce(pl.col("source").cast(pl.String), pl.col("scope").cast(pl.String))
    exact = _exact(rank, known)
    others = known.join(exact, on=list(_OF_ONE), how="anti", nulls_equal=True)
    return (
        pl.concat([exact, _far(rank, others), _copies(others)])
        .with_columns(detail=detail)
        .select("device", *_OF_ONE, "ratio", "cause", "detail")
    )


def _exact(rank: RankTrace, known: pl.DataFrame) -> pl.DataFrame:
    """Products of f32 that keep all bits and are limited by that: what they take longer than with fewer bits."""
    is_long = pl.col("own_ps") >= 1_000 * LONG_NS * pl.col("run_count")
    products = known.filter(pl.col("product_type").cast(pl.String) == _EXACT, is_long)
    fewer_bits = xla_peaks.of(rank, products.with_columns(product_type=pl.lit(_SINGLE)))["peak_flops"]
    of_flops, of_bytes = pl.col("flops") / pl.col("fast_flops"), pl.col("accessed_bytes") / pl.col("peak_bandwidth")
    needed_ps = 1e12 * pl.max_horizontal(of_flops, of_bytes) / TF32_RATIO
    return (
        xla_peaks.of(rank, products)
        .with_columns(fast_flops=fewer_bits, reached=1e12 * pl.col("flops") / pl.col("peak_flops") / pl.col("own_ps"))
        .with_columns(ratio=1 - needed_ps / pl.col("own_ps"), cause=pl.lit(WRONG_TYPE))
        .filter(
            pl.col("reached").is_between(LIMITED_RATIO, MOST_RATIO),
            pl.col("peak_flops") * TF32_TIMES <= pl.col("fast_flops"),
            pl.col("ratio") > 0,
        )
        .select(*known.columns, "ratio", "cause")
    )


def _far(rank: RankTrace, known: pl.DataFrame) -> pl.DataFrame:
    """Operations that reach little of what the device allows, while others of their kind come close to it."""
    is_counted = (pl.col("kind") == COMPUTE) & ~pl.col("category").cast(pl.String).str.contains(_UNCOUNTED)
    rated = xla_peaks.of(rank, known.filter(is_counted, pl.col("own_ps") >= 1_000 * LONG_NS * pl.col("run_count")))
    of_flops, of_bytes = pl.col("flops") / pl.col("peak_flops"), pl.col("accessed_bytes") / pl.col("peak_bandwidth")
    reached = 1e12 * pl.max_horizontal(of_flops, of_bytes) / pl.col("own_ps")
    is_far, kind = pl.col("reached") < FAR_RATIO, ["category", "is_computing"]
    usual = (pl.col("reached") * pl.col("own_ps")).filter(~is_far).sum() / pl.col("own_ps").filter(~is_far).sum()
    return done(
        rated.lazy()
        .with_columns(reached=reached, is_computing=of_flops.fill_null(0.0) > of_bytes.fill_null(0.0))
        .filter(pl.col("reached") > 0, pl.col("reached") <= 1)
        # Where all of a kind are far from it nothing tells what is usual.
        .with_columns(usual=usual.over(kind).fill_nan(None))
        .filter(is_far, pl.col("usual") > USUAL_RATIO)
        .with_columns(ratio=1 - pl.col("reached") / pl.col("usual"), cause=pl.lit(INEFFICIENT))
        .select(*known.columns, "ratio", "cause")
    )


def _copies(known: pl.DataFrame) -> pl.DataFrame:
    """Copies from one buffer of a device to another, as of arguments that are kept while others take their place."""
    # Of an operation on a host that takes hardly any time writing it down is the most.
    recorded_ps = pl.when(pl.col("plane") == ON_HOST).then(1_000 * OPERATION_NS * pl.col("run_count")).otherwise(0)
    ratio = (1 - recorded_ps / pl.col("own_ps")).clip(lower_bound=0.0)
    return known.filter(_IS_COPY).with_columns(ratio=ratio, cause=pl.lit(COPY))
