"""What changes over time, as counters of a timeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from holotrace.analyses.memory_bandwidth import memory_bandwidth
from holotrace.analyses.queue_length import queue_length
from holotrace.core.analysis import Analysis
from holotrace.export.event_json import microseconds
from holotrace.export.overlay import Addition, Overlay


@dataclass(frozen=True)
class Series:
    """How the rows of an analysis over time become counters."""

    analysis: Analysis[Any]
    # What tells the counters of a device from each other, as text.
    name: pl.Expr
    # Column of the value, and what Perfetto calls it.
    value: str
    unit: str


SERIES = (
    Series(queue_length, pl.format("stream {}", "stream"), "max_count", "launches waiting"),
    Series(memory_bandwidth, pl.col("copy").fill_null("copy"), "max_gbps", "GB/s"),
)
# What a job must be asked for the tables below.
ANALYSES = tuple(series.analysis for series in SERIES)
OPTIONS = {analysis.name: {"over_time": True} for analysis in ANALYSES}


def counters(tables: Mapping[str, pl.DataFrame], ranks: Iterable[int]) -> Overlay:
    """The counters of these ranks, from the answers to ``ANALYSES`` with ``OPTIONS``, by name."""
    return Overlay(
        "counters",
        {rank: Addition(append=tuple(_of_rank(tables, rank))) for rank in ranks},
        missing="no rank launched or copied anything; record with ProfilerActivity.CUDA and .CPU",
    )


def _of_rank(tables: Mapping[str, pl.DataFrame], rank: int) -> list[str]:
    """The counters of one rank as JSON, a text for each kind that it has."""
    of_rank = ((series, tables[series.analysis.name].filter(rank=rank)) for series in SERIES)
    return [text for series, rows in of_rank if (text := _json(series, rows))]


def _json(series: Series, rows: pl.DataFrame) -> str:
    """A counter event per row that has a value, with commas between them."""
    event = pl.concat_str(
        pl.lit('{"ph":"C","pid":'),
        pl.col("device").fill_null(0),
        pl.lit(","),
        pl.struct(name=series.name).struct.json_encode().str.head(-1).str.tail(-1),
        pl.lit(',"ts":'),
        microseconds(pl.col("start_ns")),
        pl.lit(f',"args":{{"{series.unit}":'),
        series.value,
        pl.lit("}}"),
    )
    return str(rows.drop_nulls(series.value).select(event.str.join(",\n")).item())
