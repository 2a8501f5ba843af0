"""How far a host ran ahead of its device: what it loses of that, and launches too late afterwards."""

from __future__ import annotations

import polars as pl

from holotrace.derive import intervals
from holotrace.diagnosis.classes import LAUNCH, SYNCHRONIZATION

# Calls that wait for a device return sooner than this where it has nothing to do.
_SHORT_NS = 20_000


def with_stalls(waits: pl.DataFrame, stalls: pl.DataFrame) -> pl.DataFrame:
    """Waits that are within no stall, and the stalls; with ``cause``, that of waits is synchronization."""
    known = waits.with_columns(cause=pl.lit(SYNCHRONIZATION))
    if stalls.is_empty():
        return known
    spans = stalls.select(start_ns="began_ns", end_ns="returned_ns")
    outside_ns = intervals.uncovered_ns(known.select(start_ns="began_ns", end_ns="returned_ns"), spans)
    return pl.concat([known.filter(outside_ns > 0), stalls.select(known.columns)])


def laid_to_waits(shares: pl.DataFrame, gaps: pl.DataFrame, waits: pl.DataFrame) -> pl.DataFrame:
    """Lays launching too late to the waits before it, as far as the host would have been ahead without these.

    For as long as it waited for a device that worked, the host could have launched ahead: all that it launches too late
    afterwards, until that lead is used up, is what the waits cost. What is left is a host that launches too slowly. So
    it is with all that kept it from launching.

    Returns the shares; those that are laid to a wait are split off, with its ``cause``, ``responsible`` and
    ``event_id``.

    Args:
        shares: Parts of gaps: ``window``, ``cause``, ``share_ns``, ``responsible``, ``event_id`` and whatever else.
        gaps: Times in which the device had nothing to do: ``window``, ``start_ns``, ``end_ns``.
        waits: ``began_ns``, ``returned_ns``, ``cause``, ``responsible`` and ``event_id``: those of the threads that
            launch, none within another.
    """
    long = waits.filter(pl.col("returned_ns") - pl.col("began_ns") > _SHORT_NS).sort("returned_ns")
    is_late = pl.col("cause").is_in([LAUNCH, SYNCHRONIZATION])
    late = shares.filter(is_late).group_by("window").agg(late_ns=pl.col("share_ns").sum())
    if long.is_empty() or late.is_empty():
        return shares
    lost = _lost(late.join(gaps.select("window", at_ns="end_ns"), on="window"), gaps, long)
    part = (pl.col("share_ns") * pl.col("ratio")).round().cast(pl.Int64)
    known = shares.join(lost, on="window", how="left", maintain_order="left").with_columns(
        part_ns=pl.when(pl.col("cause") == LAUNCH).then(part).fill_null(0)
    )
    left = known.with_columns(pl.col("share_ns") - pl.col("part_ns")).filter(pl.col("share_ns") > 0)
    waiting = known.filter(pl.col("part_ns") > 0).with_columns(
        cause="waits_cause", share_ns="part_ns", responsible="waits_in", event_id="waits_id"
    )
    return pl.concat([left.select(shares.columns), waiting.select(shares.columns)])


def _lost(late: pl.DataFrame, gaps: pl.DataFrame, waits: pl.DataFrame) -> pl.DataFrame:
    """Of each window the part of ``late_ns`` that is lost by waiting, ``ratio``, and the last wait before its end."""
    spans = waits.select(start_ns="began_ns", end_ns="returned_ns")
    won = waits.select(at_ns="returned_ns", won_ns=intervals.uncovered_ns(spans, gaps))
    # The lead never falls below nothing: what is beyond it was late anyway.
    lead = (pl.col("won_ns").fill_null(0) - pl.col("late_ns").fill_null(0)).cum_sum()
    beyond = (-lead).cum_max().clip(lower_bound=0)
    return (
        pl.concat([won, late], how="diagonal")
        .sort("at_ns", "window", nulls_last=False)
        .with_columns(anyway_ns=beyond - beyond.shift(1).fill_null(0))
        .drop_nulls("window")
        .join_asof(
            waits.select(at_ns="returned_ns", waits_in="responsible", waits_id="event_id", waits_cause="cause"),
            on="at_ns",
            strategy="backward",
            check_sortedness=False,
        )
        .select("window", "waits_in", "waits_id", "waits_cause", ratio=1 - pl.col("anyway_ns") / pl.col("late_ns"))
    )
