"""Which sends and receives of different ranks are the same message."""

from __future__ import annotations

from typing import Any

import polars as pl

from holotrace.derive.collectives import RECEIVE, SEND

# Both ends of a message are over within so much; a sender that left earlier had not waited for its receiver.
_TOLERANCE_NS = 100_000
_WAY = ["group", "source", "destination"]


def paired(calls: pl.DataFrame, offsets: pl.DataFrame, after: Any) -> pl.DataFrame:
    """Messages whose both ends are there and over at once: rank, activity, match, moved_ns.

    The n-th send of a rank to another in a group is the n-th that this receives from it, where as many were recorded of
    both; else ends with the same number of the profiler belong together.

    Args:
        calls: As of ``collectives.calls`` of all ranks, with activity.
        offsets: How far the clock of each rank is ahead: rank, offset_ns.
        after: The greatest number that a match has so far; null for none.
    """
    name = pl.col("collective").cast(pl.String)
    is_send = name == SEND
    own, peer = pl.col("rank").cast(pl.Int64), pl.col("peer_rank")
    ends = (
        calls.filter(name.is_in((SEND, RECEIVE)), peer.is_not_null(), peer != own)
        .join(offsets, on="rank", how="left", maintain_order="left")
        .with_columns(
            pl.col("start_ns", "end_ns") - pl.col("offset_ns").fill_null(0),
            pl.col("group").cast(pl.String),
            is_send=is_send,
            source=pl.when(is_send).then(own).otherwise(peer),
            destination=pl.when(is_send).then(peer).otherwise(own),
        )
        .sort("start_ns", "activity")
        .with_columns(number=pl.int_range(pl.len(), dtype=pl.Int64).over(*_WAY, "is_send"))
        .with_columns(sent=pl.col("is_send").sum().over(_WAY), received=(~pl.col("is_send")).sum().over(_WAY))
    )
    # A recording that began in the middle lacks messages of one end.
    number = pl.when(pl.col("sent") == pl.col("received")).then("number").otherwise("sequence")
    key = [*_WAY, "number"]
    arrived, left = pl.col("start_ns"), pl.col("end_ns")
    first = 0 if after is None else int(after) + 1
    return (
        ends.with_columns(number=number)
        .drop_nulls("number")
        .filter(pl.len().over(key) == 2, pl.col("is_send").sum().over(key) == 1)
        .filter(
            arrived.max().over(key) - left.min().over(key) <= _TOLERANCE_NS,
            left.max().over(key) - left.min().over(key) <= _TOLERANCE_NS,
        )
        .with_columns(
            match=pl.struct(key).rank("dense").cast(pl.Int64) - 1 + first,
            moved_ns=(left - arrived.max().over(key)).clip(lower_bound=0),
        )
        .select("rank", "activity", "match", "moved_ns")
    )
