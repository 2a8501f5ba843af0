"""How far a host ran ahead of its device: what it loses of that, and launches too late afterwards."""

from __future__ import annotations

import polars as pl

from holotrace.core.plans import columns, done
from holotrace.derive import intervals
from holotrace.derive.steps import QUEUE_LENGTH
from holotrace.diagnosis.words.classes import (
    INPUT,
    LAUNCH,
    PAUSE,
    QUEUED,
    RECORDING,
    SYNCHRONIZATION,
    UNRECORDED,
    UPLOAD,
)

# Calls that wait for a device return sooner than this where it has nothing to do.
_SHORT_NS = 20_000
# What a host does for what comes next, and could do while its device works.
AHEAD = (LAUNCH, UPLOAD)
_NO_EVENT = pl.lit(None, pl.UInt32)
_NOBODY = pl.lit(None, pl.String)
_NOT_OF_CALLS = (QUEUED, UNRECORDED, SYNCHRONIZATION)
# What recording takes of hosts that are never ahead is told with this in place of what was around it.
TAKEN_FROM = f"{RECORDING} of {{}}"
# What goes on in gaps of which hosts make calls for so much consists of these.
_CALLING_RATIO = 0.5
_NEARLY_NOTHING = 0.05


def laid_to_recording(
    shares: pl.DataFrame, gaps: pl.DataFrame, waits: pl.DataFrame, dense: pl.DataFrame, parts: tuple[float, float]
) -> pl.DataFrame:
    """Lays what hosts do late to the recording, as far as they would be ahead without what that takes of their time.

    Where they wait for their devices they lose what they would be ahead: launching that is late only because of a wait
    is laid to that.

    Returns the shares; those that are laid to something are split off, with that as their ``cause``.

    Args:
        shares: As of ``laid_to_waits``.
        gaps: As of ``laid_to_waits``.
        waits: As of ``laid_to_waits``.
        dense: Times of which recording takes a part: ``start_ns`` and ``end_ns``, merged.
        parts: What it takes of these, and what it does at least: what hosts stand still for is hidden without it only
            if that is enough to hide the whole.
    """
    part, least = parts
    if dense.is_empty() or shares.is_empty():
        return shares
    is_launching = shares["cause"].is_in(AHEAD) | _of_calls(shares, recorded_ratio(gaps, dense), _NOT_OF_CALLS)
    late = _behind(shares.filter(is_launching | (shares["cause"] == SYNCHRONIZATION)), gaps, waits, dense, part)
    told = _recorded(late, 1 - _part("waiting_ns"))
    waited = late.filter(pl.col("stopped_ns").is_not_null(), pl.col("waiting_ns") > 0).select(
        *("window", "responsible", "event_id"),
        cause=pl.lit(SYNCHRONIZATION),
        ratio=1 - (pl.col("anyway_ns") / pl.min_horizontal("waiting_ns", "own_ns")).clip(0, 1),
    )
    recorded = _split(shares, told, is_launching)
    launched = _split(recorded, waited, recorded["cause"].is_in(AHEAD))
    standing = ~launched["cause"].is_in((*AHEAD, RECORDING, INPUT, *_NOT_OF_CALLS))
    every = _behind(shares.filter(~shares["cause"].is_in((QUEUED, UNRECORDED))), gaps, waits, dense, least)
    hidden = _recorded(every.filter(_part("waiting_ns") < _NEARLY_NOTHING), pl.lit(1.0))
    return _split(launched, hidden, standing)


def recorded_ratio(gaps: pl.DataFrame, dense: pl.DataFrame) -> pl.DataFrame:
    """By window the part of it in which hosts make calls densely, ``dense_ratio``."""
    spans = gaps.select("window", "start_ns", "end_ns")
    lasted = pl.col("end_ns") - pl.col("start_ns")
    rest = spans.with_columns(rest_ns=intervals.uncovered_ns(spans, dense))
    return rest.select("window", dense_ratio=1 - pl.col("rest_ns") / lasted)


def laid_to_recording_by_itself(shares: pl.DataFrame, ratios: pl.DataFrame, part: float) -> pl.DataFrame:
    """Lays what hosts that are never ahead do in calls to the recording, as far as that takes its time.

    Args:
        shares: As of ``laid_to_waits``, with ``where``, what was around each.
        ratios: As of ``recorded_ratio``.
        part: What recording takes of calls that are made densely.
    """
    is_launching = (shares["cause"] == LAUNCH) | _of_calls(shares, ratios, (*_NOT_OF_CALLS, PAUSE))
    known = shares.join(ratios, on="window", how="left", maintain_order="left")
    taken_ns = (pl.col("share_ns") * pl.col("dense_ratio") * part).round().cast(pl.Int64)
    known = known.with_columns(part_ns=pl.when(is_launching).then(taken_ns).fill_null(0))
    left = known.with_columns(pl.col("share_ns") - pl.col("part_ns")).filter(pl.col("share_ns") > 0)
    # What it was laid to before is told, in case somebody knows what recording takes.
    taken = known.filter(pl.col("part_ns") > 0).with_columns(
        share_ns="part_ns", cause=pl.lit(RECORDING), where=pl.format(TAKEN_FROM, "cause")
    )
    return pl.concat([left.select(shares.columns), taken.select(shares.columns)])


def _of_calls(shares: pl.DataFrame, ratios: pl.DataFrame, but: tuple[str, ...]) -> pl.Series:
    """Which shares, ``but`` those of these causes, are of gaps that consist of calls."""
    known = shares.lazy().join(ratios.lazy(), on="window", how="left", maintain_order="left")
    of_calls = (pl.col("dense_ratio") > _CALLING_RATIO) & ~pl.col("cause").is_in(but)
    return done(known.select(of_calls)).to_series()


def _recorded(windows: pl.DataFrame, ratio: pl.Expr) -> pl.DataFrame:
    """What is laid to the recording of each window: that part of it, which nobody is responsible for."""
    return windows.select("window", cause=pl.lit(RECORDING), responsible=_NOBODY, event_id=_NO_EVENT, ratio=ratio)


def _part(late: str) -> pl.Expr:
    return (pl.col(late) / pl.col("own_ns")).clip(0, 1)


def _behind(
    shares: pl.DataFrame, gaps: pl.DataFrame, waits: pl.DataFrame, dense: pl.DataFrame, part: float
) -> pl.DataFrame:
    """By window how late hosts would be without the recording: ``anyway_ns``, and ``waiting_ns`` where they wait.

    ``own_ns`` is how late they are, but for what is laid to a wait already, which the last wait has columns of.
    """
    late = _late(shares, gaps, None).lazy().sort("at_ns")
    stops = waits.lazy().select("responsible", "event_id", stopped_ns="returned_ns", at_ns="returned_ns").sort("at_ns")
    after = late.join_asof(stops, on="at_ns", strategy="backward", check_sortedness=False)
    before = pl.col("at_ns").shift(1).fill_null(gaps["start_ns"].min())
    # Since the gap before, and since that or the wait before.
    placed = done(after.with_columns(before_ns=before, since_ns=pl.max_horizontal(before, "stopped_ns")))
    at, before_it, since = (
        intervals.covered_before_ns(dense, placed[name]) * part for name in ("at_ns", "before_ns", "since_ns")
    )
    won = placed.hstack([(at - before_it).alias("won_ns"), (at - since).alias("won_since_ns")]).lazy()
    behind = won.with_columns(
        own_ns=pl.col("late_ns") - pl.col("told_ns"),
        # As in what is lost by waiting: the lead never falls below nothing.
        anyway_ns=_beyond(pl.col("late_ns") - pl.col("won_ns"), pl.lit(0)),
        waiting_ns=_beyond(pl.col("late_ns") - pl.col("won_since_ns"), pl.col("stopped_ns")),
    )
    return done(behind.filter(pl.col("own_ns") > 0))


def _beyond(behind_ns: pl.Expr, group: pl.Expr) -> pl.Expr:
    """How much further each makes a host fall behind its device than it has been, since the last wait of the group."""
    furthest = behind_ns.cum_sum().over(group).cum_max().over(group).clip(lower_bound=0)
    return furthest - furthest.shift(1, fill_value=0).over(group)


def laid_to_stalls(
    shares: pl.DataFrame,
    gaps: pl.DataFrame,
    stalls: pl.DataFrame,
    waits: pl.DataFrame,
    launches: pl.Series | None = None,
) -> pl.DataFrame:
    """Lays launching too late to what kept the host from launching just before, as far as it used up its lead.

    For as long as the host did something else while its device worked, the device caught up with it: so much of what it
    launches too late until it waits is what that costs.

    Returns the shares; those that are laid to a stall are split off, with its ``cause``, ``responsible`` and
    ``event_id``.

    Args:
        shares: As of ``laid_to_waits``.
        gaps: As of ``laid_to_waits``.
        stalls: ``began_ns``, ``returned_ns``, ``cause``, ``responsible`` and ``event_id``.
        waits: As of ``laid_to_waits``.
        launches: As of ``laid_to_waits``.
    """
    if stalls.is_empty() or (late := _late(shares, gaps)).is_empty():
        return shares
    ended = stalls.sort("returned_ns", "began_ns", descending=[False, True])
    spans = columns(ended, start_ns="began_ns", end_ns="returned_ns")
    own = within_none_ns(ended["began_ns"], intervals.uncovered_ns(spans, gaps))
    used = _at_most(own, ended["returned_ns"], launches, "used_ns").clip(lower_bound=0)
    known = ended.select("cause", "responsible", "event_id", at_ns="returned_ns").hstack([used])
    every = pl.concat([known, late.select("window", "late_ns", "at_ns")], how="diagonal").sort(
        "at_ns", "window", nulls_last=False
    )
    # Having waited, a host is as far ahead as it was, whatever it stood still in before.
    runs = pl.Series("run", long(waits)["returned_ns"].search_sorted(every["at_ns"], side="left"))
    laid = every.hstack([runs]).with_columns(
        laid_ns=covered_ns("late_ns", "used_ns"), until_ns=pl.col("used_ns").fill_null(0).cum_sum().over("run")
    )
    # What it stood still in first is told first.
    middle_ns = pl.col("laid_ns").fill_null(0).cum_sum().over("run") - pl.col("laid_ns") / 2
    found = laid.with_columns(middle_ns=middle_ns).filter(pl.col("laid_ns") > 0).sort("middle_ns")
    stood = laid.filter(pl.col("used_ns") > 0).select(
        "run", "cause", "responsible", "event_id", middle_ns=pl.col("until_ns").cast(pl.Float64)
    )
    told = found.select("run", "window", "middle_ns", ratio=pl.col("laid_ns") / pl.col("late_ns")).join_asof(
        stood.sort("middle_ns"), on="middle_ns", by="run", strategy="forward", check_sortedness=False
    )
    return _split(shares, told.select("window", "cause", "responsible", "event_id", "ratio"))


def covered_ns(needed: str, won: str) -> pl.Expr:
    """How much of what is ``needed`` one after the other in a ``run`` is covered by what was ``won`` before it."""
    level = (pl.col(won).fill_null(0) - pl.col(needed).fill_null(0)).cum_sum().over("run")
    lowest = pl.min_horizontal(level.cum_min().over("run"), 0)
    return pl.col(needed) - (lowest.shift(1, fill_value=0).over("run") - lowest)


def within_none_ns(begun: pl.Series, lasted: pl.Series) -> pl.Series:
    """What was ``lasted`` by each of what begun then, but for that of others within it, which end before it.

    They are in order of their ends, and of those that end at once the one that began last comes first.
    """
    own: list[int] = lasted.to_list()
    whole, starts, inner = list(own), begun.to_list(), list[int]()
    for place, begun_ns in enumerate(starts):
        while inner and starts[inner[-1]] >= begun_ns:
            own[place] -= whole[inner.pop()]
        inner.append(place)
    return pl.Series(lasted.name, own, dtype=pl.Int64)


def laid_to_waits(
    shares: pl.DataFrame,
    gaps: pl.DataFrame,
    waits: pl.DataFrame,
    launches: pl.Series | None = None,
    *,
    causes: tuple[str, ...] = AHEAD,
) -> pl.DataFrame:
    """Lays launching too late to the waits before it, as far as the host would have been ahead without these.

    For as long as it waited for a device that worked, the host could have launched ahead: all that it launches too late
    afterwards, until that lead is used up, is what the waits cost. What is left is a host that launches too slowly.

    Returns the shares; those that are laid to a wait are split off, with its ``cause``, ``responsible`` and
    ``event_id``.

    Args:
        shares: Parts of gaps: ``window``, ``cause``, ``share_ns``, ``responsible``, ``event_id`` and whatever else.
        gaps: Times in which the device had nothing to do: ``window``, ``start_ns``, ``end_ns``.
        waits: ``began_ns``, ``returned_ns``, ``responsible`` and ``event_id``: those of the threads that launch, none
            within another. What they are told as, ``cause``, may be given, and ``when_ns``, for which step they are.
        launches: When the host launched, in order, if that limits how far ahead it can be.
        causes: What of the shares is launching too late.
    """
    waits = long(waits)
    if waits.is_empty() or (late := _late(shares, gaps, causes)).is_empty():
        return shares
    told = waits if "cause" in waits.columns else waits.with_columns(cause=pl.lit(SYNCHRONIZATION))
    return _split(shares, _lost(late, gaps, told, launches), shares["cause"].is_in(causes))


def long(waits: pl.DataFrame) -> pl.DataFrame:
    """Waits that last longer than those that return as the device has nothing to do, in order of their return."""
    return done(waits.lazy().filter(pl.col("returned_ns") - pl.col("began_ns") > _SHORT_NS).sort("returned_ns"))


def _late(shares: pl.DataFrame, gaps: pl.DataFrame, causes: tuple[str, ...] | None = AHEAD) -> pl.DataFrame:
    """The windows in which the host launched too late: for how long, ``late_ns``, and when each ended, ``at_ns``.

    ``told_ns`` is the part of that which is laid to a wait already. Without ``causes`` all that it did counts.
    """
    is_told = pl.col("cause") == SYNCHRONIZATION
    share = pl.col("share_ns")
    counted = shares.lazy() if causes is None else shares.lazy().filter(pl.col("cause").is_in(causes) | is_told)
    late = counted.group_by("window").agg(late_ns=share.sum(), told_ns=share.filter(is_told).sum())
    ends = gaps.lazy().select("window", at_ns="end_ns")
    return done(late.filter(pl.col("late_ns") > 0).join(ends, on="window"))


def _split(shares: pl.DataFrame, laid: pl.DataFrame, which: pl.Series | None = None) -> pl.DataFrame:
    """The shares, the part ``ratio`` of launching, or of ``which``, in each window ``laid`` to something else."""
    if laid.is_empty():
        return shares.filter(pl.col("share_ns") > 0)
    part = (pl.col("share_ns") * pl.col("ratio")).round().cast(pl.Int64)
    is_asked = pl.col("cause").is_in(AHEAD) if which is None else pl.lit(which)
    placed = shares.lazy().join(laid.lazy(), on="window", how="left", maintain_order="left", suffix="_laid")
    known = done(placed.with_columns(part_ns=pl.when(is_asked).then(part).fill_null(0))).lazy()
    left = known.with_columns(pl.col("share_ns") - pl.col("part_ns")).filter(pl.col("share_ns") > 0)
    taken = known.filter(pl.col("part_ns") > 0).with_columns(
        share_ns="part_ns", **{name: f"{name}_laid" for name in ("cause", "responsible", "event_id")}
    )
    if "when_ns" in laid.columns:
        taken = taken.with_columns(pl.coalesce("when_ns_laid", "when_ns").alias("when_ns"))
    return done(pl.concat([left.select(shares.columns), taken.select(shares.columns)]))


def _at_most(won: pl.Series, returned: pl.Series, launches: pl.Series | None, name: str) -> pl.Series:
    """How far ahead the host would have been: no more than it takes to launch as much as the queue holds."""
    if launches is None or launches.is_empty():
        return won.alias(name)
    # No host is further ahead than its device's queue is long: launches block from then on.
    last = pl.lit(launches).search_sorted(pl.col("returned_ns")) + (QUEUE_LENGTH - 1)
    # Null where so many are never launched.
    until = pl.lit(launches).gather(last, null_on_oob=True)
    limited = pl.DataFrame([won.alias(name), returned.alias("returned_ns")])
    return limited.select(pl.min_horizontal(name, until - pl.col("returned_ns")).alias(name)).to_series()


def _lost(late: pl.DataFrame, gaps: pl.DataFrame, waits: pl.DataFrame, launches: pl.Series | None) -> pl.DataFrame:
    """Of each window the part of ``late_ns`` lost by waiting, ``ratio``, and the last wait that lost some of it.

    What is read when the device has nothing to do any more loses nothing.
    """
    spans = columns(waits, start_ns="began_ns", end_ns="returned_ns")
    won_ns = _at_most(intervals.uncovered_ns(spans, gaps), waits["returned_ns"], launches, "won_ns")
    won = columns(waits, at_ns="returned_ns").hstack([won_ns])
    losing = waits.filter(won_ns > 0)
    # The lead never falls below nothing: what is beyond it was late anyway.
    lead = (pl.col("won_ns").fill_null(0) - pl.col("late_ns").fill_null(0)).cum_sum()
    beyond = (-lead).cum_max().clip(lower_bound=0)
    return done(
        pl.concat([won, late], how="diagonal")
        .lazy()
        .sort("at_ns", "window", nulls_last=False)
        .with_columns(anyway_ns=beyond - beyond.shift(1).fill_null(0))
        .drop_nulls("window")
        .join_asof(
            losing.lazy().select("cause", "responsible", "event_id", "^when_ns$", at_ns="returned_ns"),
            on="at_ns",
            strategy="backward",
            check_sortedness=False,
        )
        .with_columns(launch_ns=pl.col("late_ns") - pl.col("told_ns"))
        .filter(pl.col("launch_ns") > 0)
        .select(
            *("window", "cause", "responsible", "event_id", "^when_ns$"),
            ratio=1 - (pl.col("anyway_ns") / pl.col("launch_ns")).clip(0, 1),
        )
    )
