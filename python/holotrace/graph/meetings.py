"""Where the ranks of a job meet: in collectives and messages."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from holotrace.derive import arrivals, collectives
from holotrace.graph import messages


def met(calls: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Collectives of several ranks (rank, activity, match, moved_ns), and how far clocks are ahead: rank, offset_ns.

    Args:
        calls: As of ``collectives.calls`` of all ranks, with activity.
    """
    arrived = arrivals.of_ranks(collectives.comparable(calls))
    moved = pl.col("left_ns") - pl.col("arrival_ns").max().over("match")
    found = arrived.select("rank", "activity", "match", moved_ns=moved.clip(lower_bound=0))
    # Devices of one rank have the clock of their host.
    offsets = arrived.group_by("rank").agg(offset_ns=pl.col("clock_offset_ns").median().round().cast(pl.Int64))
    sent = messages.paired(calls, offsets, after=found["match"].max())
    found = pl.concat([found, sent.select(pl.col(name).cast(dtype) for name, dtype in found.schema.items())])
    return found.unique(["rank", "activity"], keep="first", maintain_order=True), offsets


def sets(ranks: pl.Series, crossings: pl.DataFrame) -> pl.DataFrame:
    """The lowest of the ranks that each meets, also by others: rank, first_rank.

    Args:
        ranks: All of them.
        crossings: The meetings of each: rank, crossing.
    """
    together = crossings.group_by("crossing").agg(pl.col("rank").unique().sort())["rank"].unique().to_list()
    first = {rank: rank for rank in ranks.unique().sort()}
    for each in together:
        _unite(first, each)
    known = {rank: _lowest(first, rank) for rank in first}
    schema = {"rank": ranks.dtype, "first_rank": pl.Int32()}
    return pl.DataFrame({"rank": list(known), "first_rank": list(known.values())}, schema=schema)


def _lowest(first: dict[int, int], rank: int) -> int:
    while first[rank] != rank:
        rank = first[rank]
    return rank


def _unite(first: dict[int, int], ranks: Iterable[int]) -> None:
    lowest = [_lowest(first, rank) for rank in ranks]
    for rank in lowest:
        first[rank] = min(lowest)
