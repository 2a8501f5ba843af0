"""Calls of an operation without numbers on ranks that lost some: their order no longer tells which belong together."""

from __future__ import annotations

import polars as pl

from holotrace.derive.host_messages import IS_MESSAGE

# Ends of one collective differ by less; clocks are told by how far most are apart, within this.
_TOLERANCE_NS, _SLOT_NS = 100_000, 20_000
# If so many of a rank's calls do not end when those that they are taken for do, it lost some: no more than so many.
_UNFIT_RATIO, _MOST_LOST = 0.1, 64
# So many calls tell the clock of a rank, and so many ranks are looked at together, which bounds the memory.
_COMPARED, _AT_ONCE = 200, 64
_APART_NS = pl.col("end_ns") - pl.col("whole_ns")


def placed(calls: pl.DataFrame) -> pl.DataFrame:
    """The calls, those of ranks that have fewer than others where that one is which ended when they did.

    That is so where nearly all of a rank's calls ended with such ones and did not with those that they were taken for;
    the few others are left out.

    Args:
        calls: Those of one rank and operation share a number, ``series``, those of one operation a ``key``; each has
            its ``position`` in the order of that, as of a rank that lost none.
    """
    counts = calls.group_by("key", "series").agg(pl.len())
    lacking = counts.filter(pl.col("len") < pl.col("len").max().over("key"))
    if lacking.is_empty():
        return calls
    most = counts.sort("len", "series", descending=[True, False]).unique("key", keep="first").select("series")
    whole = calls.join(most, on="series", how="semi").select("key", "position", whole_ns="end_ns")
    fewer = calls.filter(~IS_MESSAGE).join(lacking, on="series", how="semi")
    fewer = fewer.select("key", "series", "position", "end_ns")
    pairs = fewer.join(whole, on=["key", "position"]).with_columns(apart_ns=_APART_NS)
    is_unfit = (pl.col("apart_ns") - pl.col("apart_ns").median().over("series")).abs() > _TOLERANCE_NS
    unfit = pairs.group_by("series").agg(ratio=is_unfit.mean()).filter(pl.col("ratio") > _UNFIT_RATIO)
    if unfit.is_empty():
        return calls
    clocks = _clocks(fewer.join(unfit, on="series", how="semi"), whole)
    ended = (
        calls.join(clocks, on="series")
        .with_columns(ended_ns=pl.col("end_ns") - pl.col("apart_ns"))
        .drop("position", "apart_ns")
        .sort("ended_ns")
        .join_asof(
            whole.sort("whole_ns"),
            left_on="ended_ns",
            right_on="whole_ns",
            by="key",
            strategy="nearest",
            tolerance=_TOLERANCE_NS,
            check_sortedness=False,
        )
        .drop_nulls("position")
        .unique(["series", "position"], keep="first", maintain_order=True)
    )
    # What ends at other times than with the others whichever it is taken for tells nothing.
    fit = ended.group_by("series").agg(fit=pl.len()).join(lacking, on="series")
    told = fit.filter(pl.col("fit") >= (1 - _UNFIT_RATIO) * pl.col("len"))
    by_time = ended.join(told, on="series", how="semi").select(calls.columns)
    return pl.concat([calls.join(told, on="series", how="anti"), by_time])


def _clocks(calls: pl.DataFrame, whole: pl.DataFrame) -> pl.DataFrame:
    """By how much most calls of each series end later than one of those around the same place: ``apart_ns``."""
    every = pl.int_range(pl.len()).over("series") % (pl.len().over("series") // _COMPARED + 1) == 0
    compared = calls.filter(every)
    series = compared["series"].unique().sort()
    told = [
        _clocks_of(compared.filter(pl.col("series").is_in(pl.lit(some).implode())), whole)
        for some in (series[first : first + _AT_ONCE] for first in range(0, len(series), _AT_ONCE))
    ]
    return pl.concat(told)


def _clocks_of(calls: pl.DataFrame, whole: pl.DataFrame) -> pl.DataFrame:
    near = pl.DataFrame({"by": range(-_MOST_LOST, _MOST_LOST + 1)}, schema={"by": pl.Int64})
    pairs = calls.join(near, how="cross").with_columns(pl.col("position") + pl.col("by"))
    slot = (_APART_NS / _SLOT_NS).round()
    pairs = pairs.join(whole, on=["key", "position"]).select("series", apart_ns=_APART_NS, slot=slot)
    slots = pairs.group_by("series", "slot").agg(pl.len())
    usual = slots.sort("len", pl.col("slot").abs(), descending=[True, False]).unique("series", keep="first")
    own = pairs.join(usual.select("series", usual="slot"), on="series").filter(
        (pl.col("slot") - pl.col("usual")).abs() <= 1
    )
    return own.group_by("series").agg(pl.col("apart_ns").median().round().cast(pl.Int64))
