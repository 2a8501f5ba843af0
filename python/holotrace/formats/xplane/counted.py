"""What each operation computes and moves: as the profile counts it, else by the shapes in its program."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from holotrace.core.on_demand import Rows

_FLOPS, _BYTES, _TYPE = _BY_SHAPES = ("shape_flops", "shape_bytes", "product_type")


def counted(found: Rows, wanted: Collection[str]) -> Rows:
    """With those of ``flops``, ``product_type`` and ``bytes_accessed`` that are wanted.

    An instruction may be several kernels, e.g. a product in parts and their sum: what it computes and moves is that of
    the kernel that takes longest.
    """
    if not {"flops", "accessed_bytes", "product_type"} & set(wanted):
        return found
    by_shapes = _of_main_kinds(found)
    own, none = found.own, pl.lit(None, pl.Int64)
    inner = ~own["is_container"]
    if "flops" in wanted:
        shaped = by_shapes[_FLOPS].gather(own["kind"]) if _FLOPS in by_shapes.columns else none
        told = pl.coalesce("model_flops", "flops")
        own = own.with_columns(flops=pl.coalesce(told, pl.when(inner).then(shaped))).drop("model_flops")
    if "accessed_bytes" in wanted and _BYTES in by_shapes.columns:
        shaped = by_shapes[_BYTES].gather(own["kind"])
        own = own.with_columns(bytes_accessed=pl.coalesce("bytes_accessed", pl.when(inner).then(shaped)))
    kinds = found.shared["kind"]
    told_by_program = [name for name in _BY_SHAPES if name in kinds.columns]
    kept = [by_shapes[_TYPE]] if _TYPE in by_shapes.columns else []
    kinds = kinds.drop(told_by_program).with_columns(kept)
    return Rows(own, {**found.shared, "kind": kinds})


def _of_main_kinds(found: Rows) -> pl.DataFrame:
    """The counts by shapes of each kind, null but for the kind that takes longest of its instruction."""
    kinds = found.shared["kind"].with_row_index("kind")
    taken = found.own.group_by("kind").agg(taken_ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
    timed = kinds.join(taken, on="kind", how="left", maintain_order="left")
    longest = pl.col("kind").sort_by("taken_ns", "kind", descending=[True, False], nulls_last=True).first()
    is_main = pl.col("kind") == longest.over("program_id", "instruction")
    names = [name for name in _BY_SHAPES if name in kinds.columns]
    return timed.select(pl.when(is_main).then(name).alias(name) for name in names)
