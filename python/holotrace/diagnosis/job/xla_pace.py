"""How long hosts of XLA take by themselves for what their devices do in the time of the job."""

from __future__ import annotations

import polars as pl

from holotrace.derive import intervals
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.rank.xla.hosts import SPENT, WAITED
from holotrace.diagnosis.rank.xla.saving import READING
from holotrace.diagnosis.words.classes import COMPILATION

# A host whose launches come so much closer to each other than what they launch is not held back by its devices.
_AHEAD_RATIO = 0.95
# Fewer launches tell no pace.
_FEWEST = 6


def own_ratios(rows: pl.DataFrame) -> dict[int, float]:
    """By rank, how long its host takes relative to its devices, where it is further and further ahead of these.

    A recording may begin as hosts have just waited for their devices, and be over before their queues are full. Faster
    devices would do what had been launched ahead, and then be as fast as the hosts. Of hosts that are not further and
    further ahead nobody knows whether something that is not recorded holds them back. What stops hosts in some steps,
    such as compiling, is no pace of theirs.
    """
    xla = rows.filter(pl.col("row") == account.WINDOW, pl.col("detail") == account.XLA)["rank"]
    known = rows.filter(pl.col("rank").is_in(pl.lit(xla).implode()))
    waits = known.filter(pl.col("row") == WAITED).partition_by("rank", as_dict=True)
    launches = known.filter(pl.col("row") == account.LATE).partition_by("rank", as_dict=True)
    lasted = dict(known.filter(pl.col("row") == account.WINDOW).select("rank", "time_ns").iter_rows())
    stops = known.filter(pl.col("row") == SPENT, pl.col("cause").is_in((COMPILATION, *READING)))
    stopped = dict(stops.group_by("rank").agg(pl.col("time_ns").sum()).iter_rows())
    found = {
        rank: _own_ratio(own, waits.get((rank,), known.clear()))
        for (rank,), own in launches.items()
        if stopped.get(rank, 0) <= (1 - _AHEAD_RATIO) * lasted[rank]
    }
    return {rank: ratio for rank, ratio in found.items() if ratio is not None}


def _own_ratio(launches: pl.DataFrame, waits: pl.DataFrame) -> float | None:
    if launches.height < _FEWEST:
        return None
    waiting = intervals.union(waits.select("start_ns", end_ns="at_ns"))
    waited_ns = intervals.covered_before_ns(waiting, launches["end_ns"])
    placed = launches.select("at_ns", launched_ns="end_ns", own_ns=pl.col("end_ns") - waited_ns)
    paces = (pl.cov(name, "at_ns") / pl.col("at_ns").var() for name in ("launched_ns", "own_ns"))
    launching, own = placed.select(pace.alias(str(place)) for place, pace in enumerate(paces)).row(0)
    return max(0.0, own) if launching is not None and launching < _AHEAD_RATIO else None
