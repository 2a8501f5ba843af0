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


def not_recorded(rank: RankTrace, gaps: pl.DataFrame, waits: pl.DataFrame) -> pl.DataFrame:
    """The ``window`` of each gap that ends with the first launch, if much of what the host did before is not recorded.

    What a host is in as recording begins is not in it. ``unknown_ratio`` is how long that is, of the gap.

    Args:
        rank: The rank.
        gaps: ``window``, ``start_ns``, ``end_ns``, and ``launch_ns`` and ``launch_id`` of what ended it.
        waits: ``began_ns`` and ``returned_ns`` of its waits for devices.
    """
    first, spans = begun_before(rank, gaps, waits), rank[_SPANS]
    if first.is_empty() or spans.is_empty():
        return first.select("window", unknown_ratio=pl.lit(1.0)).clear()
    threads = host_time.stepping_threads(rank)
    if threads.is_empty():
        launched = pl.col("event_id").is_in(pl.lit(first["launch_id"].drop_nulls()).implode())
        threads = rank.where(_SPANS, launched)["tid"].cast(pl.String).unique()
    own = spans.filter(pl.col("tid").cast(pl.String).is_in(threads.implode()))
    begun = pl.concat([spans["start_ns"], xla_gaps.window(rank)["start_ns"]]).min()
    ways = first.select("window", start_ns=pl.lit(begun, pl.Int64), end_ns="launch_ns")
    steps = rank[STEPS].select("start_ns", "end_ns")
    # Steps that begin with programs tell nothing of the host.
    marked = steps.clear() if host_time.begin_with_programs(rank) else steps
    recorded = intervals.union(pl.concat([own.select("start_ns", "end_ns"), marked]))
    unknown_ns = intervals.uncovered_ns(ways, recorded)
    ratio = (unknown_ns / (first["end_ns"] - first["start_ns"])).clip(upper_bound=1.0)
    return first.select("window", unknown_ratio=ratio).filter(pl.col("unknown_ratio") > _LITTLE_RATIO)


def begun_before(rank: RankTrace, gaps: pl.DataFrame, waits: pl.DataFrame) -> pl.DataFrame:
    """The gaps that end with the first launch, if the host was on its way to that before the recording."""
    launches = rank[xla_gaps.RUNS]["launch_ns"].drop_nulls()
    returned = xla_device_waits.losing(waits)["returned_ns"].cast(launches.dtype)
    # Of a program that goes on as the recording ends only its gap tells.
    stops = pl.concat([launches, returned, gaps["launch_ns"].drop_nulls().cast(launches.dtype)])
    is_first = pl.col("launch_ns") <= pl.lit(stops.min(), pl.Int64)
    return gaps.filter(pl.col("launch_ns") > pl.col("start_ns"), is_first)


def as_unrecorded(parts: pl.DataFrame, unknown: pl.DataFrame) -> pl.DataFrame:
    """The parts of gaps, those that are unknown as nobody knows what; what is compiled in one is told there.

    A host that was late before that may be late for what it did then: of what it does next nobody knows.
    """
    told = parts.join(unknown, on="window", how="left", maintain_order="left")
    is_it = pl.col("unknown_ratio").is_not_null() & (pl.col("cause") != COMPILATION)
    unknown_ns = (pl.col("share_ns") * pl.col("unknown_ratio")).round().cast(pl.Int64)
    return told.with_columns(
        cause=pl.when(is_it).then(pl.lit(UNRECORDED)).otherwise("cause"),
        responsible=pl.when(~is_it).then("responsible"),
        share_ns=pl.when(is_it).then(unknown_ns).otherwise("share_ns"),
    ).drop("unknown_ratio")
