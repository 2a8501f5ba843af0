"""How far the clocks of ranks are apart, inferred from what ends on all of them at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from holotrace.core.schema import conform
from holotrace.core.tables import CLOCKS
from holotrace.derive import clock_offsets, collectives

# Ends that fit worse than this are of different collectives, or of ranks that may leave before the last has come.
_TRUSTED_NS = 100_000


def of_ranks(ranks: Sequence[int], calls: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """The clocks table: a row for each rank, from the calls of all (``collectives.calls``, with a column ``rank``)."""
    of_all = pl.DataFrame({"rank": ranks}, schema={"rank": CLOCKS.empty().schema["rank"]})
    of_job = pl.concat(calls)
    matched = collectives.matched(collectives.by_member(collectives.comparable(of_job)))
    known = compared(ends(matched).filter(pl.len().over("match") > 1))
    table = of_all.join(known, on="rank", how="left").with_columns(pl.col("collective_count").fill_null(0))
    return conform(table, CLOCKS.columns, CLOCKS.name)


def ends(matched: pl.DataFrame) -> pl.DataFrame:
    """When each rank left each collective: match, rank, end_ns; of those whose members are devices (``by_member``).

    Devices of one rank have one clock. Threads of CPU devices may stand still for long before they leave: the first of
    a rank tells that all had come.
    """
    return matched.group_by("match", rank="of_rank").agg(pl.col("end_ns").min())


def compared(ends: pl.DataFrame) -> pl.DataFrame:
    """The clocks table of the ranks with these ends of collectives; see ``clock_offsets.of_ends``.

    Where ends fit too badly to be those of the same collectives they tell no clock.
    """
    left = pl.col("end_ns") - pl.col("offset_ns")
    is_known = pl.col("residual_ns") <= _TRUSTED_NS
    return (
        ends.join(clock_offsets.of_ends(ends), on="rank")
        # Times since 1970 have no exact median, which is a float.
        .with_columns(late_ns=left - left.min().over("match"))
        .with_columns(apart_ns=(pl.col("late_ns") - pl.col("late_ns").median().over("match")).abs())
        .group_by("rank")
        .agg(
            pl.col("offset_ns", "first_rank").first(),
            residual_ns=pl.col("apart_ns").median().round(),
            most_residual_ns=pl.col("apart_ns").max().round(),
            collective_count=pl.len(),
        )
        .with_columns(pl.when(is_known).then(pl.col("offset_ns", "first_rank")))
    )
