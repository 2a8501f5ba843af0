"""Interval algebra on columns: every function takes frames with ``start_ns`` and ``end_ns``, half-open.

Spans may overlap and come in any order; those that end at or before their start cover nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from holotrace.core.native import native
from holotrace.core.plans import without

_SPAN = ["start_ns", "end_ns"]


def union(spans: pl.DataFrame) -> pl.DataFrame:
    """The time covered by at least one span, as sorted disjoint spans; touching ones are merged."""
    return pl.DataFrame(native.union(spans[:, _SPAN]))


def unions_by(spans: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The union of the spans of each group that ``by`` names."""
    unions = [union(group) for group in spans.partition_by(by, maintain_order=True)]
    pieces = pl.Series([found.height for found in unions], dtype=pl.UInt32)
    keys = spans[:, by].unique(maintain_order=True).select(pl.all().repeat_by(pieces).explode(empty_as_null=False))
    return keys.hstack(pl.concat([spans[:, _SPAN].clear(), *unions]))


def covered_by_ns(spans: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """How long at least one span of each group that ``by`` names is active: ``covered_ns``.

    Args:
        spans: In order of their starts.
        by: Columns.
    """
    keys = spans[:, by].unique(maintain_order=True).with_row_index("place")
    placed = spans.join(keys, on=by, how="left", nulls_equal=True, maintain_order="left")
    covered = pl.DataFrame(native.covered_at(placed[:, ["place", *_SPAN]], keys.height))
    return without(keys, "place").hstack(covered)


def unions(spans: pl.DataFrame, kinds: Sequence[Sequence[str]]) -> list[pl.DataFrame]:
    """For each set of ``kinds`` the union of the spans whose ``kind``, which is never null, is one of them."""
    named = sorted({name for names in kinds for name in names})
    number = dict(zip(named, pl.Series(named, dtype=pl.Categorical()).to_physical(), strict=True))
    sets = [[number[name] for name in names] for names in kinds]
    return [pl.DataFrame(union) for union in native.unions(spans[:, _SPAN].hstack([spans["kind"].to_physical()]), sets)]


def intersect(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    """The time covered by both ``a`` and ``b``."""
    return pl.DataFrame(native.intersect(a[:, _SPAN], b[:, _SPAN]))


def subtract(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    """The time covered by ``a`` and not by ``b``."""
    return pl.DataFrame(native.subtract(a[:, _SPAN], b[:, _SPAN]))


def ends(spans: pl.DataFrame) -> tuple[int | None, int | None]:
    """When the first span begins and when the last ends; None where there is none."""
    first: Any = spans["start_ns"].min()
    last: Any = spans["end_ns"].max()
    return first, last


def total_ns(spans: pl.DataFrame) -> int:
    """How long at least one span is active."""
    return native.total(spans[:, _SPAN])


def covered_before_ns(spans: pl.DataFrame, times: pl.Series) -> pl.Series:
    """How long at least one span is active before each of ``times``."""
    return pl.DataFrame(native.covered_before(spans[:, _SPAN], times.to_frame("time_ns"))).to_series()


def covered_between_ns(spans: pl.DataFrame, times: pl.Series) -> pl.Series:
    """How long at least one span is active between each of ``times``, which rise, and the next."""
    covered = covered_before_ns(spans, times)
    between: pl.Series = covered[1:] - covered[:-1]
    return between


def first_covered_ns(windows: pl.DataFrame, layers: Sequence[pl.DataFrame]) -> list[pl.Series]:
    """How long, in each of ``windows``, each of the ``layers`` goes on where none of those before it does."""
    return pl.DataFrame(native.first_covered(windows[:, _SPAN], [layer[:, _SPAN] for layer in layers])).get_columns()


def uncovered_ns(spans: pl.DataFrame, others: pl.DataFrame) -> pl.Series:
    """How long, of each of ``spans``, none of ``others`` is active."""
    return pl.DataFrame(native.uncovered(spans[:, _SPAN], others[:, _SPAN])).to_series()
