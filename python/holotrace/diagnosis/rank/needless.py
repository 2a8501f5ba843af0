"""Device work that the same model does without: layouts that are turned, and gradients of slices of the whole size."""

from __future__ import annotations

import re

import polars as pl

from holotrace.core.trace import RankTrace
from holotrace.derive import launched_by, modelled_work
from holotrace.diagnosis.rank.calls import matching
from holotrace.diagnosis.rank.unfused import LONG_NS, beyond, is_plausible, nothing
from holotrace.diagnosis.words.classes import CHANNELS_FIRST, SLICE_GRADIENTS

# Nodes of autograd whose gradient is as large as what was sliced, and zero but for the slice.
_SLICES = r"^autograd::engine::evaluate_function: (Select|Slice|Index|IndexSelect|Diagonal|Gather|Unfold)Backward\d+$"
_FILLS, _ADDS = ("aten::fill_", "aten::zero_"), ("aten::add_", "aten::add")
_TURNS = re.compile(r"(?i)nchwToNhwc|nhwcToNchw|nchw2nhwc|nhwc2nchw")
_NORMS = ("aten::native_batch_norm", "aten::native_batch_norm_backward", "aten::cudnn_batch_norm")
_GROUP_NORMS = ("aten::native_group_norm", "aten::group_norm")
# A batch norm of channels first leaves most of the memory's speed unused where channels are few; norms over what lies
# side by side reach 0.37 and more of it on an H100.
_FAR_RATIO, NORM_RATIO = 0.2, 0.35


def slice_gradients(rank: RankTrace, calls: pl.DataFrame) -> pl.DataFrame:
    """Calls that fill and add up gradients of slices, with what they take beyond writing each gradient once."""
    nodes = launched_by.outermost(rank, launched_by.named(rank, _SLICES))
    if nodes.is_empty():
        return nothing()
    name = pl.col("name").cast(pl.String)
    inside = calls.join(nodes, on="op_id").filter(name.is_in([*_FILLS, *_ADDS]))
    inside = inside.with_columns(_first_shape().alias("whole"), name)
    filled = inside.filter(pl.col("name").is_in(_FILLS)).select("around_id", "whole").unique()
    counted = inside.join(filled, on=["around_id", "whole"]).filter(is_plausible(), pl.col("span_ns") >= LONG_NS)
    found = []
    for (_,), ops in counted.group_by("whole", maintain_order=True):
        is_fill = pl.col("name").is_in(_FILLS)
        fills, adds = ops.filter(is_fill), ops.filter(~is_fill)
        # Each addition makes one gradient of two: so many are left, which have to be written once.
        left = max(0, fills.height - adds.height)
        needed_ns = float(fills["span_ns"].mean() or 0) * left  # type: ignore[arg-type]  # a column of numbers
        told = beyond(ops, needed_ns)
        found.append(
            told.select(
                "op_id",
                "time_ns",
                cause=pl.lit(SLICE_GRADIENTS),
                name=pl.col("around").str.replace("autograd::engine::evaluate_function: ", "", literal=True),
                detail="whole",
            )
        )
    return pl.concat([nothing(), *found])


def channels_first(rank: RankTrace, calls: pl.DataFrame) -> pl.DataFrame:
    """Convolutions that turn layouts, with the time of that, and batch norms that are far slower for their layout."""
    events = modelled_work.events(rank)
    turning = events.filter(matching(events["name"], _TURNS) & pl.col("op_id").is_not_null())
    # Group norms take longer with channels last, by more than turning layouts takes.
    if turning.is_empty() or calls["name"].cast(pl.String).is_in(_GROUP_NORMS).any():
        return nothing()
    turns = turning.group_by("op_id", maintain_order=True).agg(time_ns=pl.col("share_ns").sum())
    convolutions = calls.join(turns, on="op_id", maintain_order="left").filter(pl.col("span_ns") >= LONG_NS)
    is_norm = pl.col("name").cast(pl.String).is_in(_NORMS) & (pl.col("confidence") == "exact")
    needed_ns = pl.col("roof_ns") / NORM_RATIO
    # With channels last the last stride is the number of channels.
    is_first = pl.col("input_strides").cast(pl.String).str.contains(r"^\[\[(\d+, ?)+1\]")
    norms = calls.filter(is_norm, is_first, needed_ns >= LONG_NS, pl.col("roof_ns") < _FAR_RATIO * pl.col("span_ns"))
    norms = norms.with_columns(time_ns=(pl.col("span_ns") - needed_ns).round().cast(pl.Int64))
    return pl.concat([convolutions, norms], how="diagonal_relaxed").select(
        "op_id",
        "time_ns",
        cause=pl.lit(CHANNELS_FIRST),
        name=pl.col("name").cast(pl.String),
        detail=_first_shape(),
    )


def _first_shape() -> pl.Expr:
    return pl.col("input_dims").cast(pl.String).str.extract(r"^\[(\[[\d, ]+\])")
