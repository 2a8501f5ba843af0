"""Sends and receives as meetings of two ranks: which of them belong together."""

from __future__ import annotations

import polars as pl

from holotrace.core.plans import done
from holotrace.core.tables import COLLECTIVES
from holotrace.core.trace import RankTrace

PAIR = "send/recv"
KNOWN = COLLECTIVES.only("event_id", "source_rank", "destination_rank")


def paired(calls: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """The calls of ``collectives.calls``, sends and receives whose other end is known as those of a group of two.

    Their order tells which belong together, since the numbers of a group's ends need not agree.
    """
    operation = pl.col("collective").cast(pl.String)
    known = rank[KNOWN].unique("event_id")
    own = rank.rank
    with_ends = (
        calls.lazy()
        .join(known.lazy(), on="event_id", how="left")
        .with_columns(
            source=pl.when(operation.str.contains(r"(?i)^i?send")).then(own).otherwise("source_rank"),
            destination=pl.when(operation.str.contains(r"(?i)^i?recv")).then(own).otherwise("destination_rank"),
        )
    )
    is_pair = operation.str.contains(r"(?i)^i?(send|recv)\b") & pl.col("source").ne(pl.col("destination")).fill_null(
        False
    )
    members = pl.format("[{}, {}]", "source", "destination")
    found = with_ends.with_columns(
        pl.when(is_pair).then(members).otherwise(pl.col("group_ranks").cast(pl.String)).alias("group_ranks"),
        pl.when(is_pair).then(pl.lit(2)).otherwise("group_size").alias("group_size"),
        pl.when(is_pair).then(pl.lit(PAIR)).otherwise(pl.col("operation").cast(pl.String)).alias("operation"),
        pl.when(is_pair).then(pl.lit(PAIR)).otherwise(operation).alias("collective"),
        pl.when(is_pair).then(None).otherwise("sequence").alias("sequence"),
    ).drop("source_rank", "destination_rank", "source", "destination")
    return done(found)
