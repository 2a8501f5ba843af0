"""Which operator launched which work, and work that none launched."""

from __future__ import annotations

import polars as pl

from drawing import US, trace
from holotrace.derive import launched_by
from holotrace.loading.rank import narrowed

DRAWN = """
    op      |AAAAA.....|
    op      |.BB.......|
    host    |..K.L..M..|
    compute |...KK.L..M|
    copy    |........N.|
"""
RANK = narrowed(trace(DRAWN), launched_by.READS)


def test_work_belongs_to_the_innermost_operator() -> None:
    found = launched_by.work(RANK).sort("start_ns").select(pl.col("name", "operator").cast(pl.String), "op_start_ns")
    assert found.rows() == [("K", "B", US), ("L", "A", 0)]


def test_what_no_operator_launched_is_outside() -> None:
    found = launched_by.outside(RANK).sort("start_ns").select(pl.col("name", "launch_name").cast(pl.String), "source")
    assert found.rows() == [("N", None, "unknown"), ("M", "cudaLaunchKernel", "launch")]


def test_inside_and_outside_are_all_work() -> None:
    assert launched_by.work(RANK).height + launched_by.outside(RANK).height == 4


def test_operators_have_the_time_that_is_their_own() -> None:
    of_all = pl.concat(launched_by.operators(RANK), how="diagonal_relaxed").group_by(pl.col("name").cast(pl.String))
    found = of_all.agg(pl.col("self_ns", "runtime_ns", "self_work_ns").sum())
    assert sorted(found.rows()) == [("A", 2 * US, US, US), ("B", US, US, 2 * US)]


def test_the_time_that_kernels_cover_counts_once_in_each_group() -> None:
    spans = [(0, 0, 5), (0, 3, 8), (0, 9, 9), (1, 4, 6), (None, 0, 2)]
    work = pl.DataFrame(spans, schema={"by": pl.UInt32, "start_ns": pl.Int64, "end_ns": pl.Int64}, orient="row")
    covered = launched_by.covered_ns(work.with_row_index("event_id"), by="by").sort("by")
    assert covered.rows() == [(None, 2), (0, 8), (1, 2)]
