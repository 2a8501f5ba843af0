"""Functions in which a host stands still by chance, as for garbage collection or while another process has its core."""

from __future__ import annotations

import re

import polars as pl

from holotrace.core.plans import done
from holotrace.derive.names import distinct
from holotrace.diagnosis import open_calls
from holotrace.diagnosis.calls import among
from holotrace.diagnosis.classes import FUNCTION

# What is called so often, and in so few of these calls lasts so many times as long as usual, does nothing else then.
_OFTEN, _SELDOM, _TIMES = 64, 32, 50
# Python functions, and those of its own that do hardly anything.
_BRIEF = re.compile(
    r"\.py\(\d+\): |^<built-in (function (callable|getattr|hasattr|id|isinstance|issubclass|iter|len|setattr)>"
    r"|method \w+ of (dict|list|set|str|tuple|type) object)"
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
    inner = open_calls.looked_up(calls, asked, "name", "start_ns", "end_ns")
    names = [name for name in distinct(inner["name"]) if name and _BRIEF.search(name)]
    if not names:
        nothing: pl.Series = pl.Series([False]).new_from_index(0, shares.height)
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
