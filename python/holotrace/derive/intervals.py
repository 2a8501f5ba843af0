"""Interval algebra on columns: every function takes frames with ``start_ns`` and ``end_ns``, half-open.

Spans may overlap and come in any order; those that end at or before their start cover nothing.
"""

from __future__ import annotations

import polars as pl

from holotrace._native import covered_before

_START, _END = pl.col("start_ns"), pl.col("end_ns")
# Latest end before this row, once rows are in order of their starts; the first start stands for "none before".
_REACHED = _END.cum_max().shift(1).fill_null(_START.first())
_LAST = pl.Series([2**63 - 1], dtype=pl.Int64)


def union(spans: pl.DataFrame) -> pl.DataFrame:
    """The time covered by at least one span, as sorted disjoint spans; touching ones are merged."""
    ordered = _ordered(spans).with_columns(begins=_START > _REACHED, reached=_END.cum_max())
    if ordered.is_empty():
        return ordered.select("start_ns", "end_ns")
    begins = pl.col("begins") | (pl.int_range(pl.len()) == 0)
    ends = begins.shift(-1, fill_value=True)
    # Each run ends with the row before the next run's first, at the latest end reached so far.
    return pl.DataFrame(
        {
            "start_ns": ordered.select(_START.filter(begins)).to_series(),
            "end_ns": ordered.select(pl.col("reached").filter(ends)).to_series(),
        }
    )


def intersect(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    """The time covered by both ``a`` and ``b``."""
    return _sweep(a, b, active=3)


def subtract(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    """The time covered by ``a`` and not by ``b``."""
    return _sweep(a, b, active=1)


def total_ns(spans: pl.DataFrame) -> int:
    """How long at least one span is active."""
    return int(covered_before_ns(spans, _LAST).item())


def covered_before_ns(spans: pl.DataFrame, times: pl.Series) -> pl.Series:
    """How long at least one span is active before each of ``times``."""
    covered = covered_before(spans.select("start_ns", "end_ns"), times.to_frame("time_ns"))
    return pl.DataFrame(covered).to_series()


def uncovered_ns(spans: pl.DataFrame, others: pl.DataFrame) -> pl.Series:
    """How long, of each of ``spans``, none of ``others`` is active."""
    if spans.is_empty():
        return pl.Series("uncovered_ns", [], dtype=pl.Int64)
    times = pl.concat([spans["start_ns"], spans["end_ns"]])
    covered = covered_before_ns(others, times)
    inside = covered[spans.height :] - covered[: spans.height]
    uncovered: pl.Series = (spans["end_ns"] - spans["start_ns"] - inside).alias("uncovered_ns")
    return uncovered


def _ordered(spans: pl.DataFrame) -> pl.DataFrame:
    return spans.select("start_ns", "end_ns").filter(_END > _START).sort("start_ns")


def _sweep(a: pl.DataFrame, b: pl.DataFrame, *, active: int) -> pl.DataFrame:
    """Spans of the time line where the state is ``active``: 1 for a, 2 for b, 3 for both."""
    edges = [
        union(side).select(time=edge, change=pl.lit(sign * weight, pl.Int8))
        for side, weight in ((a, 1), (b, 2))
        for edge, sign in ((_START, 1), (_END, -1))
    ]
    return (
        pl.concat(edges)
        .sort("time")
        .select(
            start_ns="time",
            end_ns=pl.col("time").shift(-1),
            state=pl.col("change").cast(pl.Int64).cum_sum(),
        )
        .filter((pl.col("state") == active) & (_END > _START))
        .select("start_ns", "end_ns")
    )
