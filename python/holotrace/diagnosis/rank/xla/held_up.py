"""When programs of XLA that run on devices are held up by their hosts, or by messages from elsewhere."""

from __future__ import annotations

import polars as pl

from holotrace.core.tables import XLA_OPS
from holotrace.core.tables.xla import PYTHON_TARGET
from holotrace.core.trace import RankTrace
from holotrace.derive import busy, collectives, intervals
from holotrace.derive.epoch import base_ns
from holotrace.derive.names import distinct
from holotrace.diagnosis.rank import host
from holotrace.diagnosis.words.classes import EXPOSED, FUNCTION, INPUT

_OPS = XLA_OPS.only("event_id", "name", "category", "target", "source", "start_ns", "end_ns", "step")
# Beside what is read of every rank.
READS = (_OPS,)
# What takes from the host, or gives to it, while a program runs.
_FEEDS, _INFEED = r"^(infeed|outfeed|host (send|recv)(-done)?)$", "infeed"


def by_hosts(rank: RankTrace) -> pl.LazyFrame:
    """What stood in a function in Python, or waited for its host, while nothing was computed or communicated.

    Returns step, cause, name, detail, event_id, start_ns, end_ns, and time_ns, how long.
    """
    is_python = pl.col("target").cast(pl.String).str.contains(PYTHON_TARGET).fill_null(value=False)
    categories = distinct(rank[_OPS.only("category")]["category"])
    feeding = categories.filter(categories.cast(pl.String).str.contains(_FEEDS).fill_null(value=False))
    calls = rank.where(_OPS, is_python | pl.col("category").is_in(pl.lit(feeding).implode()))
    calls = calls.sort("start_ns", "end_ns", "event_id")
    calls = _once(calls)
    alone = intervals.uncovered_ns(calls, rank.cached(busy.of).computing_or_communicating)
    text, line = pl.col("name").cast(pl.String), pl.col("source").cast(pl.String)
    is_input = (pl.col("category").cast(pl.String) == _INFEED).fill_null(value=False)
    return (
        calls.lazy()
        .with_columns(
            time_ns=alone,
            cause=pl.when(is_input).then(pl.lit(INPUT)).otherwise(pl.lit(FUNCTION)),
            name=pl.coalesce(pl.format("{} ({})", text, line), text),
            detail=pl.lit(None, pl.String),
        )
        .filter(pl.col("time_ns") > host.MIN_GAP_NS)
    )


def by_messages(rank: RankTrace) -> pl.LazyFrame:
    """Messages between slices or hosts during which nothing was computed, where nothing tells who is at the other end.

    Returns the same.
    """
    calls = rank.cached(collectives.calls)
    name = pl.col("collective").cast(pl.String)
    is_unmatched = name.is_in((collectives.SEND, collectives.RECEIVE)) & pl.col("group_ranks").is_null()
    messages = calls.filter(is_unmatched & pl.lit(rank.count(_OPS) > 0)).sort("start_ns", "end_ns", "event_id")
    messages = _once(messages.with_columns(pl.col("start_ns", "end_ns") - base_ns(rank.metadata)))
    named = rank.where(_OPS.only("event_id", "name"), pl.col("event_id").is_in(pl.lit(messages["event_id"]).implode()))
    return (
        messages.lazy()
        .join(named.lazy(), on="event_id", how="left", maintain_order="left")
        .select(
            *("step", "event_id", "start_ns", "end_ns"),
            cause=pl.lit(EXPOSED),
            name=pl.col("name").cast(pl.String),
            detail=pl.lit(None, pl.String),
            time_ns=intervals.uncovered_ns(messages, rank.cached(busy.of).computing),
        )
        .filter(pl.col("time_ns") > host.MIN_GAP_NS)
    )


def _once(calls: pl.DataFrame) -> pl.DataFrame:
    """The calls, ordered by their start: of devices that are held up at once the first has the time that they share."""
    reached = pl.col("end_ns").cum_max().shift(1)
    return calls.with_columns(pl.max_horizontal("start_ns", reached).clip(upper_bound=pl.col("end_ns")))
