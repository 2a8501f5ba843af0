"""How far the clock of each rank is ahead, by when several ranks left the same collectives."""

from __future__ import annotations

import polars as pl


def of_ends(ends: pl.DataFrame) -> pl.DataFrame:
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
