"""Gaps of devices of XLA for which hosts had set out before the recording: what took them so long may not be in it."""

from __future__ import annotations

import polars as pl

from holotrace.core.tables import HOST_CALLS, STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive import host_time, intervals
from holotrace.diagnosis.rank.xla import device_waits as xla_device_waits
from holotrace.diagnosis.rank.xla import gaps as xla_gaps
from holotrace.diagnosis.words.classes import COMPILATION, UNRECORDED

_SPANS = HOST_CALLS.only("event_id", "tid", "start_ns", "end_ns")
# So much of a gap may be of what is not recorded.
_LITTLE_RATIO = 0.2


def not_recorded(rank: RankTrace, gaps: pl.DataFrame, waits: pl.DataFrame) -> pl.Series:
    """The ``window`` of each gap that ends with the first launch, if much of what the host did before is not recorded.

    What a host is in as recording begins is not in it.

    Args:
        rank: The rank.
        gaps: ``window``, ``start_ns``, ``end_ns``, and ``launch_ns`` and ``launch_id`` of what ended it.
        waits: ``began_ns`` and ``returned_ns`` of its waits for devices.
    """
    launches = rank[xla_gaps.RUNS]["launch_ns"].drop_nulls()
    stops = pl.concat([launches, xla_device_waits.losing(waits)["returned_ns"].cast(launches.dtype)])
    is_first = pl.col("launch_ns") <= pl.lit(stops.min(), pl.Int64)
    is_late = pl.col("launch_ns") > pl.col("start_ns")
    first, spans = gaps.filter(is_late, is_first.fill_null(value=True)), rank[_SPANS]
    if first.is_empty() or spans.is_empty():
        return first["window"].clear()
    threads = host_time.stepping_threads(rank)
    if threads.is_empty():
        launched = pl.col("event_id").is_in(pl.lit(first["launch_id"].drop_nulls()).implode())
        threads = rank.where(_SPANS, launched)["tid"].cast(pl.String).unique()
    own = spans.filter(pl.col("tid").cast(pl.String).is_in(threads.implode()))
    begun = pl.concat([spans["start_ns"], xla_gaps.window(rank)["start_ns"]]).min()
    ways = first.select("window", start_ns=pl.lit(begun, pl.Int64), end_ns="launch_ns")
    recorded = intervals.union(pl.concat([own.select("start_ns", "end_ns"), rank[STEPS].select("start_ns", "end_ns")]))
    unknown_ns = intervals.uncovered_ns(ways, recorded)
    found: pl.Series = first["window"].filter(unknown_ns > _LITTLE_RATIO * (first["end_ns"] - first["start_ns"]))
    return found


def as_unrecorded(parts: pl.DataFrame, is_unknown: pl.Expr) -> pl.DataFrame:
    """The parts of gaps, those that are unknown as nobody knows what; what is compiled in one is told there."""
    is_it = is_unknown & (pl.col("cause") != COMPILATION)
    return parts.with_columns(
        cause=pl.when(is_it).then(pl.lit(UNRECORDED)).otherwise("cause"),
        responsible=pl.when(~is_it).then("responsible"),
    )
