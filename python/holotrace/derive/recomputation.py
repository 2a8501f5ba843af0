"""Which operators compute again what the forward pass computed already: those of activation checkpoints."""

from __future__ import annotations

import polars as pl

from holotrace.core.plans import done
from holotrace.core.tables import CPU_OPS, PYTHON_CALLS
from holotrace.core.trace import RankTrace
from holotrace.derive import launched_by
from holotrace.derive.names import are_in, distinct
from holotrace.derive.optimizer_ranges import BACKWARD

_PLACE = ("pid", "tid", "start_ns", "end_ns")
_PYTHON = PYTHON_CALLS.only("name", *_PLACE)
_OPS = CPU_OPS.only("event_id", "name", "sequence", "forward_thread", *_PLACE)
READS = (_PYTHON, _OPS, *launched_by.READS)
# The frames in which torch runs a forward pass again, and the operator of those that run their backward pass inside.
_FRAMES = r"torch/utils/checkpoint\.py\(\d+\): (unpack_hook|recompute_fn|backward)$"
_OPERATOR = "CheckpointFunctionBackward"


def operators(rank: RankTrace) -> pl.Series:
    """The ``event_id`` of every operator that began while a checkpoint was computed again."""
    both: pl.Series = distinct(pl.concat([_by_names(rank), _by_numbers(rank)])).sort()
    return both


def _by_names(rank: RankTrace) -> pl.Series:
    """Those within frames of Python, or an operator, that compute a checkpoint again."""
    ops = rank[_OPS]
    text = pl.col("name").cast(pl.String)
    frames = rank[_PYTHON].filter(text.str.contains(_FRAMES).fill_null(value=False))
    again = pl.concat([part[:, _PLACE] for part in (frames, ops.filter(ops["name"] == _OPERATOR))])
    if again.is_empty():
        return ops["event_id"].clear()
    inside = _latest(ops, again, "again")
    # A checkpoint may run the backward pass of what it computed again inside of it.
    nested = _latest(inside, ops.filter(text.str.starts_with(BACKWARD)).select(_PLACE), "back")
    within = pl.col("start_ns") < pl.col("again_end_ns")
    back = (pl.col("start_ns") < pl.col("back_end_ns")) & (pl.col("back_start_ns") > pl.col("again_start_ns"))
    return nested.filter(within & ~back.fill_null(value=False))["event_id"]


def _by_numbers(rank: RankTrace) -> pl.Series:
    """Those of a forward pass, which autograd numbers, within a node of the backward pass.

    Where gradients of gradients are asked for, autograd numbers all operators of a node: then nothing is known.
    """
    ops = rank[_OPS]
    names = [name for name in distinct(ops["name"]) if name and name.startswith(BACKWARD)]
    if not names:
        return ops["event_id"].clear()
    backward = pl.Series(names, dtype=ops.schema["name"])
    is_node = are_in(ops["name"], backward)
    of_node = (pl.col("forward_thread").fill_null(0) > 0) | is_node
    is_numbered = pl.col("sequence").fill_null(-1) >= 0
    numbered = ops.lazy().filter(is_numbered, ~of_node).select("event_id")
    within = launched_by.within(rank, backward).to_frame("event_id")
    forward = done(numbered.join(within.lazy(), on="event_id", how="semi"))
    if forward.is_empty():
        return ops["event_id"].clear()
    inside = launched_by.outermost(rank, ops["event_id"].filter(is_node))
    again = inside.join(launched_by.outermost(rank, forward["event_id"]), on="op_id", how="semi")
    own = ops.lazy().filter(~of_node).join(inside.lazy(), left_on="event_id", right_on="op_id")
    own = own.join(again.lazy(), left_on="event_id", right_on="op_id", how="anti")
    found: pl.Series = done(again.lazy().join(own, on="around_id", how="semi"))["op_id"]
    return found


def _latest(ops: pl.DataFrame, spans: pl.DataFrame, name: str) -> pl.DataFrame:
    """The operators with the latest of the spans that began before them on their thread."""
    begun = spans.select("pid", "tid", "start_ns", pl.col("start_ns", "end_ns").name.prefix(f"{name}_"))
    # Frames of a checkpoint contain each other: the outermost lasts the longest.
    last = pl.col(f"{name}_end_ns").cum_max().over("pid", "tid")
    begun = begun.sort("start_ns").with_columns(last)
    return ops.sort("start_ns").join_asof(
        begun, on="start_ns", by=["pid", "tid"], strategy="backward", check_sortedness=False
    )
