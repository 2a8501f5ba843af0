"""Which code of the program called what its host stands still in, or launches too late in."""

from __future__ import annotations

import polars as pl

from holotrace.core.plans import constant
from holotrace.core.trace import RankTrace
from holotrace.derive import intervals
from holotrace.derive.names import are_in, distinct
from holotrace.diagnosis.rank import idle_windows, open_calls
from holotrace.diagnosis.rank.calls import among, host_calls, part_within
from holotrace.diagnosis.words.classes import (
    COLLECTION,
    COPY,
    INPUT,
    LAUNCH,
    STALLING,
    STEP_RANGE,
    is_container,
    is_module,
    is_of_package,
    is_of_program,
)

# From a call of the runtime up to the program's own code there are no more than so many, as modules within others have
# three each.
_LEVELS = 48
# What hosts stand still in for so long is looked at, and so many of the longest.
_LEAST_NS, _MOST = 50_000, 512
# What is around so much of a recording, or of what is launched, is around all.
_WHOLE_RATIO = 0.9
# Of less no job is told that it is launch-bound.
_LITTLE_RATIO = 0.02
# So much of what is launched too late tells what that is in.
_NAMED_RATIO = 0.8
# Who takes the next batch of a loader needs no change.
_TOLD = frozenset(cause for cause in (*STALLING, COPY) if cause != INPUT)
# What a program calls itself; Python collects garbage anywhere by itself.
_COLLECTING = r"\bcollect\b"
_OWN, _OF_PACKAGE, _RANGE = "own", "of_package", "range"


def with_callers(parts: pl.DataFrame, rank: RankTrace, call: str = "event_id") -> pl.DataFrame:
    """The parts with the code that called what is responsible, ``called_in``; null where that is such code itself.

    Args:
        parts: ``cause``, ``responsible`` and ``share_ns``; of those that hosts stand still in.
        rank: Whose they are.
        call: The column that has what was called.
    """
    nobody = constant("called_in", None, parts.height, pl.String())
    if not _TOLD.intersection(distinct(parts["cause"])):
        return parts.hstack([nobody])
    is_told = pl.col("cause").is_in(_TOLD) & (pl.col("share_ns") >= _LEAST_NS) & pl.col(call).is_not_null()
    is_asked = (pl.col("cause") != COLLECTION) | pl.col("responsible").str.contains(_COLLECTING)
    is_asked = (is_told & is_asked).fill_null(value=False)
    asked = parts.filter(is_asked)
    if asked.is_empty():
        return parts.hstack([nobody])
    ids = distinct(asked.top_k(_MOST, by="share_ns")[call])
    known = pl.DataFrame({"called": ids, "called_in": _callers(rank.cached(host_calls), ids)})
    named = parts.join(known, left_on=call, right_on="called", how="left", maintain_order="left")
    # A function that says itself where it is has no need of it, and what else goes on in it is not what it calls.
    is_other = pl.col("called_in") != pl.col("responsible").fill_null("")
    return named.with_columns(pl.when(is_asked & is_other).then("called_in"))


def waiting(calls: pl.DataFrame, waits: pl.Series) -> pl.Series:
    """The innermost function, module or range of the program's own around each wait; null where there is none.

    Where that is around all, as the loop of a program that runs in a framework is, it is the framework's, and so it is
    if there is no more within that than a module of the framework.
    """
    asked_by = open_calls.asked_by(calls, waits)
    names = [name for name in distinct(asked_by) if name]
    lasted = pl.col("end_ns") - pl.col("start_ns")
    if not names:
        return asked_by
    lasting = calls.filter(among(calls["name"], names) & (lasted >= _WHOLE_RATIO * _recorded_ns(calls)))
    whole = {*lasting["name"].cast(pl.String)}
    asked = [name for name in names if name in whole or is_module(name)]
    ids = distinct(waits.filter(are_in(asked_by, pl.Series(asked, dtype=pl.String))))
    if ids.is_empty():
        return asked_by
    known = pl.DataFrame({"wait": ids, "caller": _callers(calls, ids)})
    of_package = [is_of_package(name or "", "python_function") for name in known["caller"]]
    known = known.filter(pl.Series(of_package, dtype=pl.Boolean))
    found = pl.DataFrame({"wait": waits, "asked_by": asked_by}).join(
        known, on="wait", how="left", maintain_order="left"
    )
    return found.select(pl.coalesce("caller", "asked_by").alias("asked_by")).to_series()


def launching(parts: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """The parts, what is launched too late laid to the program's innermost function that is around most of that.

    Not to one that is around nearly all work.

    Args:
        parts: ``cause``, ``responsible``, ``event_id`` and ``share_ns``.
        rank: Whose they are.
    """
    calls = rank.cached(host_calls)
    every = parts.filter(pl.col("cause") == LAUNCH)
    every_ns = int(every["share_ns"].sum())
    work = rank[idle_windows.WORK_EVENTS]
    first_ns, last_ns = intervals.ends(work)
    lasted_ns = (last_ns or 0) - (first_ns or 0)
    if every_ns <= _LITTLE_RATIO * lasted_ns or "python_function" not in distinct(calls["category"]):
        return parts
    known = every.filter(pl.col("responsible").is_null(), pl.col("event_id").is_not_null())
    late = known.top_k(_MOST, by="share_ns").select("event_id", "share_ns")
    levels = _levels(calls, late["event_id"]).filter(kind=_OWN).join(late.with_row_index("place"), on="place")
    first = levels.sort("place", "level").unique(["place", "name"], keep="first", maintain_order=True)
    sums = first.group_by("name").agg(pl.col("share_ns").sum(), pl.col("level").mean(), pl.col("event_id"))
    least_ns = _NAMED_RATIO * min(every_ns, int(late["share_ns"].sum()))
    most = sums.filter(pl.col("share_ns") >= least_ns).sort("level", "name")
    if most.is_empty():
        return parts
    name, ids = most.select("name", "event_id").row(0)
    launched = work["launch_ns"].drop_nulls().sort()
    # What all is launched in says nothing of some of it.
    if launched.is_empty() or part_within(launched, calls.filter(pl.col("name") == name)) >= _WHOLE_RATIO:
        return parts
    is_its = (pl.col("cause") == LAUNCH) & pl.col("responsible").is_null() & pl.col("event_id").is_in(ids)
    return parts.with_columns(responsible=pl.when(is_its).then(pl.lit(name)).otherwise("responsible"))


def _callers(calls: pl.DataFrame, ids: pl.Series) -> pl.Series:
    """The program's innermost function around each call; null if there is none.

    Where that is around all, as the loop of a program that runs in a framework is, it is the framework's; and where no
    functions were recorded, the innermost range.
    """
    known = _levels(calls, ids)
    is_whole = pl.col("lasted_ns") >= _WHOLE_RATIO * _recorded_ns(calls)
    inner = (
        known.filter(kind=kind).sort("level").unique("place", keep="first") for kind in (_OWN, _OF_PACKAGE, _RANGE)
    )
    own, of_package, ranges = (frame.select("place", pl.col("name"), is_whole=is_whole) for frame in inner)
    places = pl.DataFrame({"place": pl.int_range(len(ids), dtype=pl.UInt32, eager=True)})
    told = (
        places.join(own, on="place", how="left")
        .join(of_package.select("place", of_package="name"), on="place", how="left")
        .join(ranges.select("place", range="name"), on="place", how="left")
        .sort("place")
        .select(
            pl.coalesce(pl.when(~pl.col("is_whole")).then("name"), "of_package", "name", "range").alias("called_in")
        )
    )
    return told["called_in"]


def _recorded_ns(calls: pl.DataFrame) -> int:
    return calls.select(pl.col("end_ns").max() - pl.col("start_ns").min()).item() or 0


def _levels(calls: pl.DataFrame, ids: pl.Series) -> pl.DataFrame:
    """What is around each of the calls, and they: ``place`` among them, ``level`` from the inside, ``kind``, ``name``.

    Only what is the program's ``_OWN`` or ``_OF_PACKAGE``, or a ``_RANGE``, and ``lasted_ns``.
    """
    found = []
    at = pl.DataFrame({"place": pl.int_range(len(ids), dtype=pl.UInt32, eager=True), "id": ids})
    for level in range(_LEVELS):
        if at.is_empty():
            break
        above = open_calls.looked_up(calls, at["id"], "name", "category", "start_ns", "end_ns", "parent_id")
        row = at.select("place").hstack(above).with_columns(level=pl.lit(level))
        found.append(row.drop("parent_id"))
        at = row.select("place", id="parent_id").drop_nulls()
    if not found:
        return pl.DataFrame(schema=_SCHEMA)
    every = pl.concat(found)
    pairs = every.select(pl.col("name", "category").cast(pl.String)).unique().drop_nulls()
    kinds = pairs.with_columns(kind=pl.Series([_kind(*pair) for pair in pairs.rows()], dtype=pl.String)).drop_nulls()
    told = every.with_columns(pl.col("name", "category").cast(pl.String)).join(kinds, on=["name", "category"])
    return told.select("place", "level", "kind", "name", lasted_ns=pl.col("end_ns") - pl.col("start_ns"))


_SCHEMA = {
    "place": pl.UInt32(),
    "level": pl.Int32(),
    "kind": pl.String(),
    "name": pl.String(),
    "lasted_ns": pl.Int64(),
}


def _kind(name: str, category: str) -> str | None:
    if STEP_RANGE.search(name) or is_container(name) or is_module(name):
        return None
    if is_of_program(name, category):
        return _OWN if category == "python_function" else _RANGE
    return _OF_PACKAGE if is_of_package(name, category) else None
