"""What servers do in turn: nothing marks their steps, but the ranges, or graphs, that they launch in come round."""

from __future__ import annotations

import re

import polars as pl

from holotrace.core.trace import RankTrace
from holotrace.diagnosis.rank import host, rounds
from holotrace.diagnosis.rank.calls import host_calls, matching
from holotrace.diagnosis.words.classes import SYNCHRONIZATION

# A wait costs the host its lead in many gaps, and is one; those that cost next to nothing are not counted.
WAITS = pl.col("event_id").filter(pl.col("time_ns") >= 0.1 * pl.col("time_ns").max()).n_unique()
# Ranges that hold so much of all launches are what comes round, as they are called, but for their numbers.
_MOST_RATIO, _NUMBER = 0.8, r"\d+"
_RANGE, _GRAPHS = "user_annotation", re.compile(r"GraphLaunch")
# Whoever reads tokens waits for these; who waits for all of the device measures, or does not know better.
_FOR_ALL = re.compile(r"^(cuda|hip)DeviceSynchronize$")


def count(rank: RankTrace) -> int:
    """How often comes round what most work is launched in, as a server's next tokens are; 0 if that is not known.

    A host that waits for its whole device as often is no server.
    """
    calls = rank.cached(host_calls)
    for_all = matching(calls["name"], _FOR_ALL).sum()
    launched = rank[host.WORK_EVENTS]["launch_ns"].drop_nulls().sort()
    ranges = calls.filter(pl.col("category").cast(pl.String) == _RANGE)
    # Without ranges a step is what its graph launches.
    found = (_times(kind, launched) for kind in (ranges, calls.filter(matching(calls["name"], _GRAPHS))))
    return next((times for times in found if times > for_all), 0)


def _times(calls: pl.DataFrame, launched: pl.Series) -> int:
    """How often the calls come round that most is launched in; 0 if most is launched in none of a kind."""
    ranges = calls.sort("start_ns", "end_ns")
    outer = ranges.filter(pl.col("start_ns") >= pl.col("end_ns").cum_max().shift(1).fill_null(0))
    held = launched.search_sorted(outer["end_ns"]) - launched.search_sorted(outer["start_ns"])
    name = pl.col("name").cast(pl.String).str.replace_all(_NUMBER, "#")
    kinds = outer.select(name, held=held).group_by("name").agg(pl.len(), pl.col("held").sum()).sort("held", "name")
    if kinds.is_empty():
        return 0
    times, most = kinds.select("len", "held").row(-1)
    return int(times) if times >= rounds.FEWEST and most >= _MOST_RATIO * len(launched) else 0


def waits(rank: RankTrace) -> pl.DataFrame:
    """How often the host waits for its device, ``count``, by what that is in, ``name``."""
    found = rank.cached(host.gaps).filter(pl.col("cause") == SYNCHRONIZATION).rename({"share_ns": "time_ns"})
    return found.group_by(name="responsible").agg(count=WAITS.cast(pl.Int64))
