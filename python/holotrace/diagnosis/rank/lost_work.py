"""Work that was launched but is not on record, as recorders drop some: what devices did meanwhile is not known."""

from __future__ import annotations

import re

import polars as pl

from holotrace.core.plans import done
from holotrace.core.tables import DEVICE_EVENTS, LAUNCHES
from holotrace.core.trace import RankTrace
from holotrace.derive.steps import launched_in
from holotrace.derive.vendors import LAUNCHING
from holotrace.diagnosis.rank import rounds
from holotrace.diagnosis.rank.calls import among, host_calls, matching

_WORK = DEVICE_EVENTS.only("end_ns", "launch_ns")
_LAUNCHES = LAUNCHES.only("launch_id")
READS = (_WORK, _LAUNCHES, *rounds.READS)
# What is launched between these becomes part of a graph, which runs later.
_CAPTURING, _BEGINS = re.compile(r"Stream(Begin|End)Capture"), re.compile(r"BeginCapture")
# Where less of what a call launched is on record, its work is not recorded, or not as launched by it.
_RECORDED_RATIO = 0.5


def launches(rank: RankTrace) -> pl.Series:
    """When work was launched that is not on record, in order."""
    calls = rank.cached(host_calls)
    called = calls.filter(among(calls["name"], LAUNCHING))[:, ["event_id", "name", "start_ns"]]
    is_on_record = pl.col("event_id").is_in(pl.lit(rank[_LAUNCHES]["launch_id"].drop_nulls().unique()).implode())
    captures = calls.filter(matching(calls["name"], _CAPTURING))[:, ["name", "start_ns"]].sort("start_ns")
    begins = captures.select("start_ns", is_captured=matching(captures["name"], _BEGINS))
    is_recorded = pl.col("is_on_record").mean().over("name") >= _RECORDED_RATIO
    # Of what is launched before a recording ends devices may do as much after it, however far ahead their hosts are.
    is_later = pl.col("start_ns") > pl.col("start_ns").filter("is_on_record").max()
    lost = (
        called.lazy()
        .with_columns(is_on_record=is_on_record)
        .sort("start_ns")
        .join_asof(begins.lazy(), on="start_ns", strategy="backward", check_sortedness=False)
        .filter(~pl.col("is_captured").fill_null(value=False))
        .filter(~pl.col("is_on_record") & (is_recorded | is_later))
    )
    return done(lost.select("start_ns"))["start_ns"]


def of_steps(rank: RankTrace) -> pl.DataFrame:
    """How much of it each ``step`` has, ``count``."""
    step = launched_in(rank.cached(launches), rank.cached(rounds.steps)).alias("step")
    return step.to_frame().group_by("step").agg(count=pl.len().cast(pl.Int64))


def without_its_gaps(gaps: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """The gaps but those in which such work can have run: it was launched between what ran before and after them.

    After the last work on record none is longer than until such work was launched.
    """
    lost = rank.cached(launches)
    if lost.is_empty():
        return gaps
    work = rank[_WORK].drop_nulls("launch_ns").sort("end_ns").lazy()
    before = done(
        gaps.lazy()
        .with_row_index("gap")
        .sort("start_ns")
        .join_asof(
            work.select(start_ns="end_ns", before_ns=pl.col("launch_ns").cum_max()),
            on="start_ns",
            strategy="backward",
            check_sortedness=False,
        )
        .sort("gap")
    )
    # Before the first work nothing tells where it would have run.
    first, last = before["before_ns"].fill_null(lost[-1]), before["launch_ns"].fill_null(lost[0])
    kept = gaps.with_columns(after=lost.search_sorted(first, "right")).filter(
        pl.col("after") >= lost.search_sorted(last, "left")
    )
    next_ns = pl.when(pl.col("next_id").is_null()).then(pl.lit(lost).gather(_within(pl.col("after"), len(lost))))
    return kept.with_columns(pl.min_horizontal("end_ns", next_ns)).filter(pl.col("end_ns") > pl.col("start_ns"))[
        :, gaps.columns
    ]


def _within(place: pl.Expr, length: int) -> pl.Expr:
    """The place where it is one of so many; else null."""
    return pl.when(place < length).then(place)
