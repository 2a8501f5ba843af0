"""Computing that takes longer than it needs to: products in a wide type, and kernels far from the limits."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.plans import done
from holotrace.core.trace import RankTrace
from holotrace.derive import modelled_work
from holotrace.diagnosis.candidates import Candidate, Job, Where, candidate, when
from holotrace.diagnosis.classes import INEFFICIENT, WRONG_TYPE

READS = modelled_work.READS
# Calls shorter than these are mostly start and end of a kernel.
_LONG_NS = 20_000
# Units for fp32 do so many times less than those for narrow types, where these are used at all.
_FP32_TIMES = 5
_NARROW = "BFloat16|Half|Float8|char"
# Healthy kernels reach most of what the device's limits allow for their shapes; one that is far from it a fifth.
_FAR_RATIO, _USUAL_RATIO = 0.2, 0.4
_PRODUCT = "gemm"
# Kind of the rows of ``account`` that these are.
SLOW_WORK = "slow-work"


def calls(rank: RankTrace) -> pl.DataFrame:
    """Calls of operators that compute much longer than the rank's others do for as much work.

    Returns ``step``, ``start_ns``, ``end_ns``, ``time_ns`` (what is too much), ``cause``, ``name`` (the operator),
    ``detail`` (its shapes) and ``event_id`` (its longest kernel).
    """
    every = rank.cached(modelled_work.modelled).lazy().with_columns(modelled_work.limits())
    known = done(every.filter(pl.col("roof_ns") > 0, pl.col("span_ns") >= _LONG_NS)).lazy()
    chosen = done(known.with_columns(excess()).filter(pl.col("time_ns") > 0)).lazy()
    work = rank.cached(modelled_work.events).lazy().join(chosen.select("op_id"), on="op_id", how="semi")
    spans = (
        work.sort("start_ns", "event_id")
        .group_by("op_id", maintain_order=True)
        .agg(
            pl.col("start_ns").min(),
            pl.col("end_ns").max(),
            pl.col("event_id").sort_by(pl.col("end_ns") - pl.col("start_ns"), descending=True).first(),
        )
    )
    rows = chosen.join(spans, on="op_id", maintain_order="left").select(
        *("step", "start_ns", "end_ns", "time_ns", "cause", "event_id"),
        name=pl.col("name").cast(pl.String),
        detail=pl.col("input_dims").cast(pl.String),
    )
    return done(rows)


def excess() -> list[pl.Expr]:
    """Of each call how much longer it takes than it would at the rate of others, ``time_ns``, and why, ``cause``."""
    is_product = pl.col("category") == _PRODUCT
    is_narrow = pl.col("input_types").cast(pl.String).str.contains(_NARROW)
    most = pl.col("peak_flops").filter(is_product & is_narrow).max()
    is_wide = is_product & ~is_narrow & (pl.col("peak_flops") * _FP32_TIMES <= most)
    narrow = is_product & is_narrow & (pl.col("peak_flops") == most)
    rate = pl.col("flops").filter(narrow).sum() / pl.col("span_ns").filter(narrow).sum()
    # How near to their limits the others of its kind come.
    kind = ["category", "bound_by"]
    is_exact = pl.col("confidence") == "exact"
    is_far = is_exact & (pl.col("roof_ns") < _FAR_RATIO * pl.col("span_ns")) & ~is_wide.fill_null(value=False)
    usual = pl.col("roof_ns").filter(~is_far).sum().over(kind) / pl.col("span_ns").filter(~is_far).sum().over(kind)
    is_far &= usual > _USUAL_RATIO
    saved = (
        pl.when(is_wide)
        .then(pl.col("span_ns") - pl.col("flops") / rate)
        .when(is_far)
        .then(pl.col("span_ns") - pl.col("roof_ns") / usual)
    )
    return [
        saved.fill_nan(None).round().cast(pl.Int64).alias("time_ns"),
        pl.when(is_wide).then(pl.lit(WRONG_TYPE)).otherwise(pl.lit(INEFFICIENT)).alias("cause"),
    ]


def causes(job: Job) -> Iterator[Candidate]:
    """Operators that most ranks compute with too slowly; what one rank alone does is told by comparing ranks."""
    found = job.of(SLOW_WORK)
    for (cause,), rows in found.group_by("cause", maintain_order=True):
        if rows["rank"].n_unique() > len(job.ranks) / 2:
            names = rows.group_by("name").agg(pl.col("time_ns").sum()).sort("time_ns", "name", descending=[True, False])
            where = Where(job.ranks if len(job.ranks) == 1 else (), when(rows, "time_ns"))
            parts = rows.with_columns(part_ns="time_ns")
            yield candidate(str(cause), str(names["name"][0]), parts, where)
