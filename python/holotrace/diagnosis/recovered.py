"""What hosts that had not stood still would have hidden of what they do later, while their devices wait."""

from __future__ import annotations

import polars as pl

from holotrace.core.plans import done
from holotrace.core.trace import RankTrace
from holotrace.derive import intervals
from holotrace.diagnosis import host, open_calls
from holotrace.diagnosis.calls import host_calls
from holotrace.diagnosis.classes import BY_NAME, PAUSE, STALLING, SYNCHRONIZATION

# Any host takes less to go on with its next step; and no more things that hosts stand still for are looked at.
_LEAST_NS, _MOST_THINGS = 200_000, 8
_SCHEMA = {
    **dict.fromkeys(("cause", "responsible"), pl.String()),
    **dict.fromkeys(("start_ns", "end_ns", "share_ns"), pl.Int64()),
    "event_id": pl.UInt32(),
}


def rows(rank: RankTrace) -> pl.DataFrame:
    """Parts of gaps that would have been hidden without what a host had stood still for before.

    For as long as it stood still while its device worked, it could have been ahead: whatever else keeps it from
    launching later would be hidden by that much, until it waits for its device again. Launching late is laid to it
    anyway, see ``lead``.

    Returns ``cause`` and ``responsible`` of what it stood still for, its ``event_id``, ``start_ns`` and ``end_ns`` of
    the gap, and ``share_ns``, the part of that.
    """
    every = rank.cached(host.of_all_devices)
    waits = rank.cached(host.of_launching_threads)
    asked_by = open_calls.asked_by(rank.cached(host_calls), waits["event_id"]).alias("asked_by")
    waits = waits.hstack([asked_by]).with_columns(cause=pl.lit(SYNCHRONIZATION))
    known = ("cause", "responsible", "began_ns", "returned_ns", "event_id")
    stops = pl.concat([waits.select(*known, "asked_by"), rank.cached(host.stalls).select(known)], how="diagonal")
    later = rank.cached(host.gaps).filter(pl.col("cause").is_in((*STALLING, PAUSE)), pl.col("share_ns") > _LEAST_NS)
    if stops.is_empty() or later.is_empty():
        return pl.DataFrame(schema=_SCHEMA)
    spans = stops.select(start_ns="began_ns", end_ns="returned_ns")
    stops = stops.with_columns(intervals.uncovered_ns(spans, every.found).alias("won_ns"))
    things = (
        stops.group_by("cause", "responsible")
        .agg(pl.col("won_ns").sum())
        .filter(pl.col("won_ns") > _LEAST_NS)
        .top_k(_MOST_THINGS, by="won_ns")
        .sort("cause", "responsible")
    )
    found = [_of(str(cause), name, stops, later) for cause, name, _ in things.iter_rows()]
    return pl.concat(found) if found else pl.DataFrame(schema=_SCHEMA)


def _of(cause: str, name: str | None, stops: pl.DataFrame, later: pl.DataFrame) -> pl.DataFrame:
    """What is hidden without all that is the same."""
    is_same = pl.col("cause") == cause
    if cause in BY_NAME:
        is_same &= pl.col("responsible").eq_missing(name)
    others = later.filter(~is_same)
    # Of waits that are called from several places most of the time may be of one; the others stay.
    asked = stops.filter(is_same).group_by("asked_by").agg(pl.col("won_ns").sum())
    most = asked.sort("won_ns", "asked_by", descending=[True, False])["asked_by"][0]
    is_own = is_same & pl.col("asked_by").eq_missing(pl.lit(most, pl.String))
    own = stops.filter(is_own)
    # Having waited for its device, which it would have to for longer then, the host is as far ahead as it was.
    again = stops.filter(~is_own, pl.col("cause") == SYNCHRONIZATION)["returned_ns"].sort()
    won = own.select("won_ns", "event_id", at_ns="returned_ns")
    needed = others.select("start_ns", "end_ns", needed_ns="share_ns", at_ns="end_ns")
    level = (pl.col("won_ns").fill_null(0) - pl.col("needed_ns").fill_null(0)).cum_sum().over("run")
    lowest = pl.min_horizontal(level.cum_min().over("run"), 0)
    anyway_ns = lowest.shift(1, fill_value=0).over("run") - lowest
    return done(
        pl.concat([won, needed], how="diagonal")
        .lazy()
        .sort("at_ns", "needed_ns", nulls_last=False)
        .with_columns(pl.col("event_id").forward_fill(), run=pl.lit(again).search_sorted(pl.col("at_ns")))
        .with_columns(share_ns=pl.col("needed_ns") - anyway_ns)
        .filter(pl.col("share_ns") > 0)
        .select(
            *(pl.lit(value, pl.String).alias(column) for column, value in (("cause", cause), ("responsible", name))),
            *("start_ns", "end_ns", "share_ns"),
            pl.col("event_id").cast(pl.UInt32),
        )
    )
