"""The lanes of all ranks on one clock, as the ends of collectives tell it."""

from __future__ import annotations

import polars as pl

from holotrace.analyses.lanes.rows import COLUMNS, MEETING, RANK
from holotrace.derive import arrivals

# Of so many collectives it is shown who came when: those that were waited for longest.
MOST_MEETINGS = 64
_TIMES = ("start_ns", "end_ns")


def on_one_clock(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of all ranks with times since the job began, and for the longest waits when each rank came."""
    visits = arrivals.of_ranks(rows.filter(pl.col("row") == MEETING))
    clocks = _clocks(rows, visits)
    begun_ns = clocks.select((pl.col("start_ns") - pl.col("clock_offset_ns")).min()).item()
    of_ranks = clocks.select("rank", "clock_offset_ns", uncertain="uncertain_ns")
    shown = rows.filter(pl.col("row") != MEETING).join(of_ranks, on="rank", how="left", maintain_order="left")
    is_rank = pl.col("row") == RANK
    own = shown.with_columns(
        pl.col(_TIMES) - pl.col("clock_offset_ns") - begun_ns,
        clock_offset_ns=pl.when(is_rank).then("clock_offset_ns"),
        begun_ns=pl.when(is_rank).then(pl.lit(begun_ns, pl.Int64)),
        uncertain_ns=pl.when(is_rank).then("uncertain"),
    )
    both = pl.concat([own, _meetings(visits, of_ranks, begun_ns)], how="diagonal")
    return both.select("rank", *(column.name for column in COLUMNS))


def _clocks(rows: pl.DataFrame, visits: pl.DataFrame) -> pl.DataFrame:
    """The recording of each rank (``start_ns``, ``end_ns``), how far its clock is ahead and how sure that is.

    Clocks that nothing compares are taken as they are, if the recordings overlap; else they are set so that all begin
    at once.
    """
    left = pl.col("left_ns") - pl.col("left_ns").min().over("match")
    apart = (left - left.median().over("match")).abs()
    known = (
        visits.with_columns(apart=apart)
        .group_by("rank")
        .agg(pl.col("clock_offset_ns").first(), uncertain_ns=pl.col("apart").median().round().cast(pl.Int64))
    )
    found = rows.filter(pl.col("row") == RANK).select("rank", *_TIMES).join(known, on="rank", how="left").sort("rank")
    own = pl.col(_TIMES) - pl.col("clock_offset_ns").fill_null(0)
    told = found.filter(pl.col("clock_offset_ns").is_not_null())
    reference = (told if told.height else found.head(1)).select(own)
    first, last = reference.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    overlaps = (pl.col("start_ns") < last) & (pl.col("end_ns") > first)
    guess = pl.when(overlaps).then(0).otherwise(pl.col("start_ns") - first)
    return found.with_columns(pl.coalesce("clock_offset_ns", guess))


def _meetings(visits: pl.DataFrame, of_ranks: pl.DataFrame, begun_ns: int) -> pl.DataFrame:
    waited = pl.col("lost_ns").sum().over("match")
    chosen = (
        visits.select("match", waited=waited)
        .unique("match")
        .sort("waited", "match", descending=[True, False])
        .head(MOST_MEETINGS)
    )
    return (
        visits.join(chosen, on="match", how="semi")
        .join(of_ranks.select("rank", uncertain_ns="uncertain"), on="rank", how="left")
        .sort("match", "arrival_ns", "rank")
        .select(
            "rank",
            "match",
            "uncertain_ns",
            row=pl.lit(MEETING),
            lane=pl.lit("communication"),
            name=pl.col("collective").cast(pl.String),
            start_ns=pl.col("arrival_ns") - begun_ns,
            end_ns=pl.col("left_ns") - begun_ns,
            busy_ns=pl.col("come_ns") - pl.col("arrival_ns"),
        )
    )
