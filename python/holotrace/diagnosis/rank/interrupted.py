"""Calls in which a host stands still by chance, as for garbage collection or while another process has its core."""

from __future__ import annotations

import re

import polars as pl

from holotrace.core.plans import constant, done
from holotrace.core.tables import STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive.names import distinct
from holotrace.diagnosis.rank import open_calls, own_time
from holotrace.diagnosis.rank.calls import among, host_calls, matching
from holotrace.diagnosis.words.classes import FULL_QUEUE, FUNCTION, LAUNCH, OF_EXCHANGES, OPERATOR, PAUSE, PYTHON

# What is called so often, and in so few of these calls lasts so many times as long as usual, does nothing else then.
_OFTEN, _SELDOM, _TIMES = 64, 32, 50
# Python functions, and those of its own that do hardly anything.
_BRIEF = re.compile(
    r"\.py\(\d+\): |^<built-in (function (callable|getattr|hasattr|id|isinstance|issubclass|iter|len|setattr)>"
    r"|method \w+ of (dict|list|set|str|tuple|type) object)"
)
_LAUNCHING = (LAUNCH, PYTHON)
# PyTorch's wait for an exchange, and the operator that waits in what is compiled or sharded, whatever in Python carries
# it out.
_OF_EXCHANGES, _WAITING_OPERATOR = re.compile(OF_EXCHANGES), "_c10d_functional::wait_tensor"


def stopped(rank: RankTrace, shares: pl.DataFrame, where: pl.Series) -> pl.Series:
    """Which of the parts of gaps are calls that do nothing for as long as they last.

    Args:
        rank: Whose gaps they are.
        shares: As of ``open_calls.Found``.
        where: What was open around each.
    """
    calls = rank.cached(host_calls)
    # In a gap no queue is full, so a launch that lasts stands still, but for one of a graph of many kernels.
    launched = open_calls.looked_up(calls, shares["inner_id"], "work_count")["work_count"]
    is_launch = (shares["cause"] == FULL_QUEUE) & (shares["share_ns"] >= open_calls.LONG_NS)
    found: pl.Series = is_launch & (launched.fill_null(0) <= 1) | by_chance(shares, calls, len(rank[STEPS]))
    if not rank.computes_on_host:
        return found
    # Operators that do anything are work there; the others make views, and take no time by themselves, and what waits
    # for an exchange that is over waits for its thread to get a processor.
    asked = open_calls.looked_up(calls, shares["event_id"], "category", "name")
    takes_nothing = matching(asked["category"], OPERATOR) | matching(asked["name"], _OF_EXCHANGES)
    takes_nothing |= where.str.contains(_WAITING_OPERATOR, literal=True).fill_null(value=False)
    return found | ((shares["cause"] == FUNCTION) & takes_nothing)


def begun_before(shares: pl.DataFrame, gaps: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """The shares of gaps, the end of a pause told as the pause that it is: it had begun while the device worked.

    Args:
        shares: As in ``open_calls.Found.shares``, by the ``window`` of gaps.
        gaps: ``window``, ``start_ns`` and ``end_ns``.
        rank: Whose they are.
    """
    pauses = rank.cached(own_time.pauses).lazy().select(began_ns="start_ns", until_ns="end_ns")
    ended = (
        gaps.lazy()
        .sort("start_ns")
        .join_asof(pauses, left_on="start_ns", right_on="began_ns", strategy="backward", check_sortedness=False)
        .drop_nulls("until_ns")
        .select("window", paused_ns=pl.min_horizontal("until_ns", "end_ns") - pl.col("start_ns"))
    )
    # What goes on is told by the longest of it: before it launches again, the host does little.
    is_pause = pl.col("cause").is_in(_LAUNCHING) & (2 * pl.col("paused_ns") > pl.col("share_ns"))
    told = shares.lazy().join(ended, on="window", how="left", maintain_order="left")
    return done(
        told.with_columns(cause=pl.when(is_pause).then(pl.lit(PAUSE)).otherwise("cause")).select(shares.columns)
    )


def by_chance(shares: pl.DataFrame, calls: pl.DataFrame, steps: int) -> pl.Series:
    """Which of the parts of gaps are calls of functions that are called all the time and hardly ever last.

    A function that does more now and then does so in what it calls, or at each step.

    Args:
        shares: ``cause``, ``inner_id`` and ``share_ns``.
        calls: As of ``calls.host_calls``.
        steps: How many were recorded.
    """
    is_long = (pl.col("cause") == FUNCTION) & (pl.col("share_ns") >= open_calls.LONG_NS)
    asked = shares.select(pl.when(is_long).then("inner_id")).to_series()
    nothing = constant("", False, shares.height)
    if not asked.count():
        return nothing
    inner = open_calls.looked_up(calls, asked, "name", "start_ns", "end_ns")
    names = [name for name in distinct(inner["name"]) if name and _BRIEF.search(name)]
    if not names:
        return nothing
    lasted = pl.col("end_ns") - pl.col("start_ns")
    usual_ns = pl.col("lasted_ns").median()
    usual = (
        calls.filter(among(calls["name"], names))
        .lazy()
        .select("name", lasted_ns=lasted)
        .group_by("name")
        .agg(count=pl.len(), usual_ns=usual_ns, long_count=(pl.col("lasted_ns") > _TIMES * usual_ns).sum())
        .filter(pl.col("count") >= _OFTEN, _SELDOM * pl.col("long_count") <= pl.col("count"))
        .filter(2 * pl.col("long_count") <= max(2, steps))
    )
    known = inner.lazy().join(usual, on="name", how="left", maintain_order="left")
    return done(known.select((lasted > _TIMES * pl.col("usual_ns")).fill_null(value=False))).to_series()
