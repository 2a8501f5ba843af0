"""What each operation computes and moves: as the profile counts it, else by the shapes in its program."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from holotrace.core.on_demand import Rows

_FLOPS, _BYTES, _TYPE = _BY_SHAPES = ("shape_flops", "shape_bytes", "product_type")
# What is counted: the columns in which a profile tells it, the first that does, and that of shapes.
_COUNTS = {"flops": (("model_flops", "flops"), _FLOPS), "bytes_accessed": (("bytes_accessed",), _BYTES)}


def counted(found: Rows, wanted: Collection[str]) -> Rows:
    """With those of ``flops``, ``product_type`` and ``bytes_accessed`` that are wanted.

    An instruction may be several kernels, e.g. a product in parts and their sum: what it computes and moves is that of
    the kernel that takes longest.
    """
    if not {"flops", "accessed_bytes", "product_type"} & set(wanted):
        return found
    by_shapes = _of_main_kinds(found)
    own, kinds = found.own, found.shared["kind"]
    kept = [by_shapes[_TYPE]] if _TYPE in by_shapes.columns else []
    for name, (columns, shape) in _COUNTS.items():
        if name not in own.columns:
            continue
        told = own.select(pl.coalesce(columns).alias(name)).to_series()
        own = own.drop(columns)
        if shape not in by_shapes.columns:
            own = own.with_columns(told)
        elif told.count() or by_shapes[shape].filter(kinds["may_contain"]).count():
            # What contains others does nothing itself.
            inner = pl.when(~pl.col("is_container")).then(by_shapes[shape][own["kind"]])
            own = own.with_columns(pl.coalesce(told, inner).alias(name))
        else:
            kept.append(by_shapes[shape].alias(name))
    told_by_program = [name for name in _BY_SHAPES if name in kinds.columns]
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
