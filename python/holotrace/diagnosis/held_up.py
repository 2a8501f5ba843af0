"""When programs of XLA that run on devices are held up by their hosts."""

from __future__ import annotations

import polars as pl

from holotrace.core.tables import XLA_OPS
from holotrace.core.tables.xla import PYTHON_TARGET
from holotrace.core.trace import RankTrace
from holotrace.derive import busy, intervals
from holotrace.derive.names import distinct
from holotrace.derive.steps import launched_in
from holotrace.diagnosis import host, rounds
from holotrace.diagnosis.classes import FUNCTION, INPUT

_OPS = XLA_OPS.only("event_id", "name", "category", "target", "source", "start_ns", "end_ns", "launch_ns")
READS = (_OPS, *rounds.READS, busy.EVENTS)
# What takes from the host, or gives to it, while a program runs.
_FEEDS, _INFEED = r"^(infeed|outfeed|host (send|recv)(-done)?)$", "infeed"


def by_hosts(rank: RankTrace) -> pl.LazyFrame:
    """What stood in a function in Python, or waited for its host, while nothing was computed or communicated.

    Returns step, cause, name, detail, event_id, start_ns, end_ns, and time_ns, how long.
    """
    is_python = pl.col("target").cast(pl.String).str.contains(PYTHON_TARGET).fill_null(value=False)
    categories = distinct(rank[_OPS.only("category")]["category"])
    feeding = categories.filter(categories.cast(pl.String).str.contains(_FEEDS).fill_null(value=False))
    calls = rank.where(_OPS, is_python | pl.col("category").is_in(feeding.implode()))
    calls = calls.sort("start_ns", "end_ns", "event_id")
    launched = calls.select(pl.coalesce("launch_ns", "start_ns")).to_series()
    # Of devices that are held up at once the first has the time that they share.
    reached = pl.col("end_ns").cum_max().shift(1)
    calls = calls.with_columns(pl.max_horizontal("start_ns", reached).clip(upper_bound=pl.col("end_ns")))
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
            step=launched_in(launched, rank.cached(rounds.steps)),
        )
        .filter(pl.col("time_ns") > host.MIN_GAP_NS)
    )
