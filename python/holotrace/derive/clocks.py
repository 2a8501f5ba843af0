"""How far the clocks of ranks are apart, inferred from what ends on all of them at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from holotrace.core.schema import conform
from holotrace.core.tables import CLOCKS
from holotrace.derive import collectives

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
    """The clocks table of the ranks with these ends of collectives; see ``offsets``.

    Where ends fit too badly to be those of the same collectives they tell no clock.
    """
    left = pl.col("end_ns") - pl.col("offset_ns")
    is_known = pl.col("residual_ns") <= _TRUSTED_NS
    return (
        ends.join(offsets(ends), on="rank")
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


def offsets(ends: pl.DataFrame) -> pl.DataFrame:
    """How far each rank's clock is ahead of the median rank's: ``rank``, ``offset_ns``, ``first_rank``.

    Two ranks of a group differ by the median over their collectives, so a few that did not end together do no harm.
    Ranks that share no group are compared through those between them. Where there is nothing between them either, each
    of the sets of ranks has a median rank of its own; ``first_rank`` is the first one of the rank's set.

    Args:
        ends: ``end_ns`` of every collective on each rank's own clock: ``rank``, ``match``, ``end_ns``.
    """
    apart = _apart(ends)
    left = ends.select(pl.col("rank").unique().sort())
    rank = ends.schema["rank"]
    found = pl.DataFrame(schema={"rank": rank, "offset_ns": pl.Float64(), "first_rank": rank})
    while not left.is_empty():
        reached = (
            apart.join(found, left_on="from", right_on="rank")
            .join(left, on="rank", how="semi")
            .group_by("rank")
            .agg((pl.col("offset_ns") + pl.col("apart_ns")).median(), pl.col("first_rank").first())
        )
        if reached.is_empty():
            # The first rank of those that nothing links to the ones before.
            reached = left.head(1).with_columns(offset_ns=pl.lit(0.0), first_rank=pl.col("rank"))
        found = pl.concat([found, reached])
        left = left.join(found, on="rank", how="anti", maintain_order="left")
    # The clock of a rank, not the middle between two, so that of two ranks one is right.
    middle = pl.col("offset_ns").quantile(0.5, "lower").over("first_rank")
    offset = (pl.col("offset_ns") - middle).round().cast(pl.Int64())
    return found.select("rank", offset, "first_rank").sort("rank")


def _apart(ends: pl.DataFrame) -> pl.DataFrame:
    """How far each rank's clock is ahead of that of its groups' first ranks, and the other way round."""
    first = pl.col("rank").min().over("match")
    end_of_first = pl.col("end_ns").sort_by("rank").first().over("match")
    there = (
        # Differences are small where times since 1970 are not, which a float could not hold.
        ends.select("rank", **{"from": first}, apart_ns=pl.col("end_ns") - end_of_first)
        .filter(pl.col("rank") != pl.col("from"))
        .group_by("rank", "from")
        .agg(pl.col("apart_ns").median())
    )
    back = there.select(rank="from", **{"from": "rank"}, apart_ns=-pl.col("apart_ns"))
    return pl.concat([there, back])
