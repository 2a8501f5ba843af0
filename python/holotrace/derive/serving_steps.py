"""Lengths of the sequences that a serving step works on, as vLLM and SGLang write them into the names of ranges."""

from __future__ import annotations

from functools import lru_cache

import polars as pl

from holotrace.core.tables import ANNOTATIONS, CPU_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive import launched_by
from holotrace.efficiency import element_types
from holotrace.efficiency.arguments import listed
from holotrace.efficiency.categories import ATTENTION
from holotrace.efficiency.unknown import Unknown

_RANGES = ANNOTATIONS.only("name", "pid", "tid", "start_ns", "end_ns", "on_device")
_OPS = CPU_OPS.only("event_id", "pid", "tid", "start_ns", "input_dims", "input_types")
READS = (_RANGES, _OPS)
SAID = "keys and values in pages are of the type of the new ones"
_PAGED = r"^(vllm|sglang)::unified_attention(_with_output)?$"
# Of new tokens (sq) and all tokens (sk) of each request the sums, those of squares and of products.
_SUMS = r"\(sq(\d{1,12})sk(\d{1,12})sqsq(\d{1,18})sqsk(\d{1,18})\)"
_STEP = rf"context_\d+{_SUMS}_generation_\d+{_SUMS}"
_NAMES = tuple(f"{of}_{name}" for of in ("context", "generation") for name in ("q", "k", "qq", "qk"))
_MOST = float(2**62)
_HEADS = ("query_heads", "key_heads", "key_width", "value_width", "query_bytes", "key_bytes")


def with_attention(rank: RankTrace, calls: pl.DataFrame) -> pl.DataFrame:
    """The calls, of which those of attention over pages have their work where the range around them tells lengths.

    Calls of different steps are given the same, but do not do the same: their ``signature`` is changed to tell that.
    """
    engines = launched_by.named(rank, _PAGED)
    steps = _steps(rank) if len(engines) else pl.DataFrame()
    if steps.is_empty():
        return calls
    paged = _attending(calls, launched_by.outermost(rank, engines))
    ops = rank[_OPS].rename({"event_id": "around_id"})
    at = paged.join(ops, on="around_id").sort("start_ns")
    inside = at.join_asof(steps, on="start_ns", by=["pid", "tid"], check_sortedness=False)
    inside = inside.filter(pl.col("start_ns") < pl.col("end_ns"))
    told = inside.with_columns(_heads(inside))
    work = told.drop_nulls([*_HEADS, *_NAMES]).select(
        "op_id", "serving", told_flops=_flops(), told_bytes=_bytes(), held=pl.lit(value=True)
    )
    work = work.filter(pl.col("told_flops") < _MOST, pl.col("told_bytes") < _MOST)
    of_steps = (pl.col("serving") + 1) * (calls["signature"].max() + 1)  # type: ignore[operator]  # a column of numbers
    known = pl.col("held").fill_null(value=False)
    return calls.join(work, on="op_id", how="left", maintain_order="left").select(
        *(name for name in calls.columns if name not in _CHANGED),
        pl.when(known).then(pl.col("signature") + of_steps).otherwise("signature").alias("signature"),
        pl.when(known).then(pl.col("told_flops").cast(pl.Int64())).otherwise("flops").alias("flops"),
        pl.when(known).then(pl.col("told_bytes").cast(pl.Int64())).otherwise("moved_bytes").alias("moved_bytes"),
        pl.when(known).then(pl.lit("estimate")).otherwise("confidence").alias("confidence"),
        pl.when(known).then(pl.lit(SAID)).otherwise("assumed").alias("assumed"),
        pl.when(known).then(pl.lit(value=False)).otherwise("is_partial").alias("is_partial"),
    )


def _attending(calls: pl.DataFrame, inside: pl.DataFrame) -> pl.DataFrame:
    """The ``op_id`` of the calls that do the attention of an operator of the engine, ``around_id``.

    That may be itself, or one call of a library in it. Which of several did what, their arguments do not tell.
    """
    attending = calls.filter(pl.col("category").cast(pl.String) == ATTENTION, pl.col("flops").is_null())
    found = attending.select("op_id").join(inside.select("op_id", "around_id"), on="op_id")
    within = found.filter(pl.col("op_id") != pl.col("around_id"))
    alone = within.filter(pl.len().over("around_id") == 1)
    return pl.concat([alone, found.join(within, on="around_id", how="anti").select(alone.columns)])


_CHANGED = ("signature", "flops", "moved_bytes", "confidence", "assumed", "is_partial")


def _steps(rank: RankTrace) -> pl.DataFrame:
    """Ranges that tell the lengths, ``serving`` by number, with the sums."""
    ranges = rank[_RANGES].filter(~pl.col("on_device"))
    parts = pl.col("name").cast(pl.String).str.extract_groups(_STEP)
    found = ranges.select("pid", "tid", "start_ns", "end_ns", parts=parts).with_columns(
        pl.col("parts").struct.field(str(at + 1)).cast(pl.Float64(), strict=False).alias(name)
        for at, name in enumerate(_NAMES)
    )
    return found.drop("parts").drop_nulls(_NAMES).sort("start_ns").with_row_index("serving")


def _flops() -> pl.Expr:
    """Two for each pair of tokens that sees each other, and each element of keys and values."""
    wide = pl.col("query_heads") * (pl.col("key_width") + pl.col("value_width"))
    pairs = 2 * pl.col("context_qk") - pl.col("context_qq") + 2 * pl.col("generation_qk")
    return wide * pairs


def _bytes() -> pl.Expr:
    new, kept = (pl.col(f"context_{one}") + pl.col(f"generation_{one}") for one in ("q", "k"))
    rows = new * pl.col("query_heads") * (
        pl.col("key_width") * pl.col("query_bytes") + pl.col("value_width") * pl.col("key_bytes")
    )  # fmt: skip
    return rows + kept * pl.col("key_heads") * (pl.col("key_width") + pl.col("value_width")) * pl.col("key_bytes")


def _heads(paged: pl.DataFrame) -> list[pl.Series]:
    texts = paged.select(pl.col("input_dims", "input_types").cast(pl.String)).rows()
    rows = [_heads_of(dims or "", types or "") for dims, types in texts]
    return [pl.Series(name, [row and row[at] for row in rows], dtype=pl.Float64()) for at, name in enumerate(_HEADS)]


@lru_cache(maxsize=1 << 10)
def _heads_of(dims: str, types: str) -> tuple[int, ...] | None:
    """Heads of queries and keys, widths of keys and values, and bytes of their elements; None where not recorded."""
    try:
        shapes, kinds = listed(dims), listed(types)
        (_, heads, width), (_, key_heads, key_width), (_, value_heads, value_width) = shapes[:3]
        sizes = element_types.size(kinds[0]), element_types.size(kinds[1])
    except (ValueError, TypeError, LookupError, Unknown):
        return None
    found = (heads, key_heads, key_width, value_width)
    if any(type(one) is not int or not 0 < one < 1 << 20 for one in found) or heads % key_heads:
        return None
    return (*found, *sizes) if (width, value_heads) == (key_width, key_heads) else None
