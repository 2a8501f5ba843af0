"""What hosts that had not stood still would have hidden of what they do later, while their devices wait."""

from __future__ import annotations

import re

import polars as pl

from holotrace.core.plans import columns, done, not_null, without
from holotrace.core.trace import RankTrace
from holotrace.derive import intervals
from holotrace.derive.names import distinct
from holotrace.derive.vendors import ALLOCATING
from holotrace.diagnosis.rank import computed, device_waits, host, lead, open_calls, own_time
from holotrace.diagnosis.rank.calls import among, call_names, host_calls, main_thread, standing_in, telling_nothing
from holotrace.diagnosis.words.classes import (
    ALLOCATOR,
    BY_NAME,
    COPY,
    LAUNCH,
    PAUSE,
    SLOW_HOST,
    STALLING,
    SYNCHRONIZATION,
    UNRECORDED,
    is_container,
)

# Any host takes less to go on with its next step; and no more things that hosts stand still for are looked at.
_LEAST_NS, _MOST_THINGS = 200_000, 8
# A wait returns so soon after the device has nothing to do any more.
_RETURN_NS = 60_000
# Of functions that hosts are in while their devices work, so many of the longest are looked at.
_MOST_FUNCTIONS = 512
# Launching late, also where that is laid to a wait.
LATE = (LAUNCH, SYNCHRONIZATION)
# What else a host that is further ahead hides.
STANDING = (*STALLING, PAUSE)
_NOT_PINNED = re.compile(r"^Memcpy (HtoD \(Pageable|M2D)")
_NEVER = pl.Series([], dtype=pl.Int64)
_GAP = ("cause", "responsible", "start_ns", "end_ns", "share_ns")
_SCHEMA = {
    **dict.fromkeys(("cause", "responsible"), pl.String()),
    **dict.fromkeys(("start_ns", "end_ns", "share_ns"), pl.Int64()),
    "event_id": pl.UInt32(),
}


_STOPS = {
    "event_id": pl.UInt32(),
    **dict.fromkeys(("cause", "responsible"), pl.String()),
    **dict.fromkeys(("began_ns", "returned_ns"), pl.Int64()),
}


def rows(rank: RankTrace) -> pl.DataFrame:
    """Parts of gaps that would have been hidden without what a host had stood still for before.

    For as long as it stood still while its device worked, it could have been ahead: whatever else keeps it from
    launching later would be hidden by that much, until it waits for its device again. So would launching late, if that
    is not laid to it anyway, see ``lead``.

    Returns ``cause`` and ``responsible`` of what it stood still for, its ``event_id``, ``start_ns`` and ``end_ns`` of
    the gap, and ``share_ns``, the part of that, 0 where it has none in what the host calls anyway.
    """
    standing = _standing(rank)
    # What was not recorded is no named thing: what is known to delay the host later is told by itself.
    stalls = rank.cached(host.stalls).filter(pl.col("cause") != UNRECORDED)
    known = ("cause", "responsible", "began_ns", "returned_ns", "event_id")
    # Before its device did anything it did not work.
    begun_ns = pl.lit(rank[host.WORK_EVENTS]["start_ns"].min(), pl.Int64())
    both = pl.concat([_beside_work(rank, stalls), _allocating(rank)]).lazy().filter(pl.col("returned_ns") > begun_ns)
    beside = done(both.select(known).with_columns(pl.max_horizontal("began_ns", begun_ns)))
    copying = _copying(rank)
    if standing.is_empty() and beside.is_empty():
        return _for_nothing(copying)
    waits = _waits(rank, copying)
    parts = [waits[:, [*known, "asked_by", "is_wait"]], stalls[:, known], beside]
    # What frees memory waits, too.
    stops = pl.concat(parts, how="diagonal").unique(["cause", "returned_ns"], keep="first", maintain_order=True)
    if stops.is_empty():
        return pl.DataFrame(schema=_SCHEMA)
    stops = stops.sort("returned_ns", "began_ns", descending=[False, True])
    stops = stops.hstack([_won_ns(rank, stops)])
    stood = stops.filter(pl.col("is_wait").is_null())
    own = stood.with_columns(lead.within_none_ns(stood["began_ns"], stood["won_ns"]))
    stops = pl.concat([stops.filter("is_wait"), own])
    stops = stops.join(_lost(rank, stops), on="event_id", how="left", maintain_order="left")
    # What is laid to a wait anyway uses up what the host would be ahead.
    stops = stops.with_columns(pl.col("won_ns") - pl.col("laid_ns").fill_null(0))
    # Some classes are one thing, whatever names it has.
    key = pl.when(pl.col("cause").is_in(BY_NAME)).then("responsible").alias("key")
    things = done(
        stops.lazy()
        .sort("won_ns", "responsible", descending=[True, False])
        .group_by("cause", key, maintain_order=True)
        .agg(pl.col("won_ns").sum(), pl.col("responsible").first())
        .filter(pl.col("won_ns") > _LEAST_NS)
        .top_k(_MOST_THINGS, by="won_ns")
        .sort("cause", "responsible")
    )
    # Launching late is laid to what the host stood still for in gaps, too.
    in_gaps, besides = (
        set(frame.select("cause", key).iter_rows()) for frame in (pl.concat([waits, stalls], how="diagonal"), beside)
    )
    later = standing if beside.is_empty() else pl.concat([standing, _launching(rank)], how="diagonal")
    # However early a host comes to it, it goes on when the device has nothing to do.
    freed = device_waits.frees(rank).filter(~pl.col("name").str.contains("Async"))["ended_ns"]
    found = []
    for cause, thing, name in things[:, ["cause", "key", "responsible"]].iter_rows():
        found.append(_of(str(cause), name, stops, standing if (cause, thing) in in_gaps else later, freed))
        if (cause, thing) in in_gaps & besides:
            # It is not laid to what goes on beside the device's work.
            is_beside = pl.col("event_id").is_in(pl.lit(beside["event_id"]).implode())
            alone = _of(str(cause), name, stops.filter(is_beside | (pl.col("cause") != cause)), later, freed)
            found.append(alone.filter(pl.col("kind").is_in(LATE)))
    found = [without(each, "kind") for each in found]
    return pl.concat(
        [pl.DataFrame(schema=_SCHEMA), *found, _calling(rank, standing), _for_nothing(beside), _for_nothing(copying)]
    )


def _won_ns(rank: RankTrace, stops: pl.DataFrame) -> pl.Series:
    """For how long devices worked while their host stood still, but for what goes away with what that was for.

    A copy that is not made, or an evaluation, keeps its device as much less as its host.
    """
    span = ["start_ns", "end_ns"]
    gaps = rank.cached(host.of_all_devices).found[:, span]
    spans = columns(stops, start_ns="began_ns", end_ns="returned_ns")
    won = intervals.uncovered_ns(spans, gaps)
    evaluated = rank.cached(computed.beside_the_steps)
    for cause, work in (
        (COPY, _unpinned(rank)),
        *((cause, evaluated.filter(cause=cause)) for cause in distinct(evaluated["cause"]) if cause),
    ):
        if not work.is_empty():
            free = pl.concat([gaps, work[:, span]])
            won = won.zip_with(stops["cause"] != cause, intervals.uncovered_ns(spans, free))
    return won.alias("won_ns")


def _for_nothing(stops: pl.DataFrame) -> pl.DataFrame:
    """Of the longest call for memory, or of the longest copy that is waited for, none of what is hidden.

    Others may stand still later because of theirs.
    """
    if stops.is_empty():
        return pl.DataFrame(schema=_SCHEMA)
    asked = stops.filter(pl.col("cause").is_in((ALLOCATOR, COPY)))
    longest = asked.top_k(1, by=pl.col("returned_ns") - pl.col("began_ns"))
    return longest.select(
        *("cause", "responsible", pl.col("began_ns").alias("start_ns"), pl.col("returned_ns").alias("end_ns")),
        share_ns=pl.lit(0, pl.Int64),
        event_id="event_id",
    )


def _lost(rank: RankTrace, stops: pl.DataFrame) -> pl.DataFrame:
    """For how long devices had nothing to do because of each wait, ``lost_ns``, and since it returned, ``laid_ns``."""
    waits = stops.lazy().filter(pl.col("cause") == SYNCHRONIZATION).select("event_id", "returned_ns").unique("event_id")
    lost = rank.cached(host.gaps).lazy().filter(pl.col("cause") == SYNCHRONIZATION).join(waits, on="event_id")
    is_later = pl.col("when_ns") >= pl.col("returned_ns")
    sums = {"lost_ns": pl.col("share_ns").sum(), "laid_ns": pl.col("share_ns").filter(is_later).sum()}
    return done(lost.group_by("event_id").agg(**sums))


def _standing(rank: RankTrace) -> pl.DataFrame:
    """What hosts stand still for in gaps, also in several of which a little work, as copies of inputs, makes a row."""
    known = rank.cached(host.gaps)
    # What waits in the same gap does so before what the host begins as it returns.
    begun = open_calls.looked_up(rank.cached(host_calls), known["event_id"], "start_ns")["start_ns"] + 1
    gaps = (
        known[:, _GAP]
        .hstack([begun.alias("begun_ns")])
        .filter(pl.col("cause").is_in(STANDING))
        .sort("start_ns", "end_ns")
    )
    worked_ns = pl.col("start_ns") - pl.col("end_ns").shift(1).fill_null(pl.col("start_ns"))
    in_a_row = gaps.with_columns(row=(worked_ns > _LEAST_NS).cum_sum())
    stood_ns = pl.col("share_ns").sum().over("cause", "responsible", "row")
    return in_a_row.filter(stood_ns > _LEAST_NS).drop("row")


def _launching(rank: RankTrace) -> pl.DataFrame:
    """What hosts launch too late in gaps, whether or not that is laid to a wait before it."""
    return rank.cached(host.gaps)[:, _GAP].filter(pl.col("cause").is_in(LATE))


def _calling(rank: RankTrace, standing: pl.DataFrame) -> pl.DataFrame:
    """Of what the host stands still for in gaps, for how long it had called operators since it waited or stood still.

    A slow host would have been so much further ahead as its calls take longer than others'.
    """
    if standing.is_empty():
        return pl.DataFrame(schema=_SCHEMA)
    waits = lead.long(rank.cached(host.of_launching_threads))
    called = intervals.subtract(
        rank.cached(own_time.calling), columns(waits, start_ns="began_ns", end_ns="returned_ns")
    )
    gaps = standing.lazy().sort("start_ns", "end_ns").unique("end_ns", keep="first", maintain_order=True)
    begun = gaps.select(_at(), "end_ns", "share_ns", "start_ns", before_ns=pl.col("end_ns").shift(1))
    after = begun.sort("since_ns").join_asof(
        waits[:, ["returned_ns"]].lazy(),
        left_on="since_ns",
        right_on="returned_ns",
        coalesce=False,
        check_sortedness=False,
    )
    from_ns = pl.max_horizontal("before_ns", "returned_ns").fill_null(0)
    since = done(after.with_columns(from_ns=from_ns).sort("start_ns"))
    took = intervals.covered_before_ns(called, since["end_ns"]) - intervals.covered_before_ns(called, since["from_ns"])
    return since.hstack([took.alias("took_ns")]).select(
        cause=pl.lit(SLOW_HOST),
        responsible=pl.lit(None, pl.String),
        start_ns="start_ns",
        end_ns="end_ns",
        share_ns=pl.min_horizontal("share_ns", "took_ns"),
        event_id=pl.lit(None, pl.UInt32),
    )


def _at() -> pl.Expr:
    """When a gap begins, for which a wait that ends with it does not count: what waits at its end does so after it."""
    return pl.min_horizontal("end_ns", pl.col("start_ns") + _RETURN_NS).alias("since_ns")


def _copying(rank: RankTrace) -> pl.DataFrame:
    """Waits for copies from memory that is not pinned, be it in the call that copies, that nobody asks for."""
    copies = _unpinned(rank)
    if copies.is_empty():
        return pl.DataFrame(schema=_STOPS)
    calls = rank.cached(host_calls)
    sent = copies.select(event_id="launch_id", responsible=pl.col("name").cast(pl.String))
    launches = sent.hstack(open_calls.looked_up(calls, copies["launch_id"], "parent_id", "start_ns", "end_ns"))
    blocked = launches.drop_nulls("start_ns").select(
        "event_id", "responsible", began_ns="start_ns", returned_ns="end_ns"
    )
    by = launches.drop_nulls("parent_id").unique("parent_id").select("parent_id", "responsible")
    waits = rank.cached(host.of_launching_threads).drop("responsible")
    within = waits.hstack(open_calls.looked_up(calls, waits["event_id"], "parent_id"))
    found = within.join(by, on="parent_id", maintain_order="left").select(blocked.columns)
    every = pl.concat([found, blocked]).filter(pl.col("returned_ns") - pl.col("began_ns") > _LEAST_NS)
    return every.with_columns(cause=pl.lit(COPY)).select(*_STOPS)


def _unpinned(rank: RankTrace) -> pl.DataFrame:
    """Copies from memory that is not pinned."""
    work = rank[host.WORK_EVENTS]
    return work.filter(
        among(work["name"], [name for name in distinct(work["name"]) if name and _NOT_PINNED.search(name)])
    )


def _waits(rank: RankTrace, copying: pl.DataFrame) -> pl.DataFrame:
    """Waits for the device, with what asked for them: within a checkpoint, for example, they are a part of that.

    Those for ``copying`` are a part of that.
    """
    waits = rank.cached(host.of_launching_threads)
    asked_by = open_calls.asked_by(rank.cached(host_calls), waits["event_id"]).alias("asked_by")
    told = waits.hstack([asked_by, *standing_in(rank, waits["event_id"])])
    beside = copying.join(waits, on="event_id", how="anti").drop("cause", "responsible")
    told = pl.concat([told, beside], how="diagonal")
    copies = columns(copying, "event_id", copying="cause", copy="responsible")
    return told.join(copies, on="event_id", how="left", maintain_order="left").with_columns(
        cause=pl.coalesce("cause", "copying", pl.lit(SYNCHRONIZATION)),
        responsible=pl.coalesce("name", "copy", "responsible"),
        is_wait=pl.lit(value=True),
    )


def _allocating(rank: RankTrace) -> pl.DataFrame:
    """Calls that get or free memory of the device, which they may wait for, on threads that launch work."""
    calls = rank.cached(host_calls)
    names = [name for name in rank.cached(call_names) if name.startswith(ALLOCATING)]
    if not names:
        return pl.DataFrame(schema=_STOPS)
    threads = not_null(distinct(rank.cached(host.of_all_devices).found["tid"]))
    long = calls.filter(among(calls["name"], names), pl.col("end_ns") - pl.col("start_ns") > _LEAST_NS)
    return long.filter(pl.col("tid").is_in(pl.lit(threads).implode())).select(
        "event_id",
        cause=pl.lit(ALLOCATOR),
        responsible=pl.col("name").cast(pl.String),
        began_ns="start_ns",
        returned_ns="end_ns",
    )


def _beside_work(rank: RankTrace, stalls: pl.DataFrame) -> pl.DataFrame:
    """Functions that hosts stand still in while their devices work, as ``host.stalls`` has those in gaps."""
    calls = rank.cached(host_calls)
    every = rank.cached(own_time.calling_nothing)
    lasted = pl.col("end_ns") - pl.col("start_ns")
    long = every.filter(lasted > _LEAST_NS)
    named = among(long["name"], [name for name in distinct(long["name"]) if name and not is_container(name)])
    long = done(long.lazy().filter(pl.lit(named)).top_k(_MOST_FUNCTIONS, by=lasted).sort("start_ns", "end_ns"))
    if long.is_empty():
        return pl.DataFrame(schema=_STOPS)
    # What others launch meanwhile it waits for, as for the thread of autograd.
    launched = not_null(rank[host.WORK_EVENTS]["launch_ns"]).sort()
    is_alone = launched.search_sorted(long["start_ns"]) == launched.search_sorted(long["end_ns"])
    others = columns(stalls, start_ns="began_ns", end_ns="returned_ns")
    is_apart = intervals.uncovered_ns(long, others) == long["end_ns"] - long["start_ns"]
    if not (is_alone & is_apart).any():
        return pl.DataFrame(schema=_STOPS)
    apart = long.filter(is_alone & is_apart)
    # No window begins before the one before it has ended.
    windows = apart.filter(pl.col("start_ns") >= pl.col("end_ns").cum_max().shift(1).fill_null(pl.col("start_ns")))
    told = open_calls.of(calls, windows, fallback=rank.cached(main_thread), ignored=rank.cached(telling_nothing)).shares
    ordered = told.sort("share_ns", "cause", "responsible", descending=[True, False, False])
    most = ordered.unique("window", keep="first", maintain_order=True).filter(pl.col("cause").is_in(STALLING))
    at = windows.with_row_index("window").with_columns(pl.col("window").cast(told.schema["window"]))
    return most.join(at, on="window", maintain_order="left").select(
        "event_id", "cause", "responsible", began_ns="start_ns", returned_ns="end_ns"
    )


def _of(
    cause: str, name: str | None, stops: pl.DataFrame, later: pl.DataFrame, freed: pl.Series = _NEVER
) -> pl.DataFrame:
    """What is hidden without all that is the same, of each ``kind``; what ``freed`` memory had waited, too."""
    is_same = pl.col("cause") == cause
    if cause in BY_NAME:
        is_same &= pl.col("responsible").eq_missing(name)
    others = later.filter(~is_same)
    is_own = is_same
    if cause == SYNCHRONIZATION:
        # Of waits that are called from several places those of the one that costs most are told; the others stay.
        asked = stops.filter(is_same).group_by("asked_by").agg(pl.col("lost_ns", "won_ns").sum())
        most = asked.sort("lost_ns", "won_ns", "asked_by", descending=[True, True, False])["asked_by"][0]
        is_own &= pl.col("asked_by").eq_missing(pl.lit(most, pl.String))
    own = stops.filter(is_own)
    # Having waited for its device, which it would have to for longer then, the host is as far ahead as it was.
    again = stops.filter(~is_own, "is_wait")["returned_ns"]
    again = (again if cause == ALLOCATOR else pl.concat([again, freed])).sort()
    return hidden(own, others, again).select(
        *(pl.lit(value, pl.String).alias(column) for column, value in (("cause", cause), ("responsible", name))),
        *("start_ns", "end_ns", "share_ns", "event_id", "kind"),
    )


def hidden(own: pl.DataFrame, others: pl.DataFrame, again: pl.Series) -> pl.DataFrame:
    """The parts of gaps that hosts would have hidden had they been further ahead, each with the ``kind`` of its gap.

    Args:
        own: How much further ahead they would have been, ``won_ns``, since ``returned_ns``, for which ``event_id``.
        others: Parts of gaps: ``cause``, ``start_ns``, ``end_ns``, ``share_ns`` and, if known, when the host began with
            it, ``begun_ns``.
        again: When they had waited for their devices, in order, so that they are as far ahead as they were.
    """
    won = own.select("won_ns", "event_id", at_ns="returned_ns", since_ns="returned_ns")
    since = pl.max_horizontal(_at(), "begun_ns") if "begun_ns" in others.columns else _at()
    needed = others.select("start_ns", "end_ns", since, needed_ns="share_ns", at_ns="end_ns", kind="cause")
    return done(
        pl.concat([won, needed], how="diagonal")
        .lazy()
        .sort("at_ns", "needed_ns", nulls_last=False)
        .with_columns(pl.col("event_id").forward_fill(), run=pl.lit(again).search_sorted(pl.col("since_ns")))
        .with_columns(share_ns=lead.covered_ns("needed_ns", "won_ns"))
        .filter(pl.col("share_ns") > 0)
        .select("start_ns", "end_ns", "share_ns", pl.col("event_id").cast(pl.UInt32), "kind")
    )
