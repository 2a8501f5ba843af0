"""Copies of traces with what changes over time as counters, to look at in Perfetto."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from holotrace.analyses.memory_bandwidth import memory_bandwidth
from holotrace.analyses.queue_length import queue_length
from holotrace.analysis import Analysis
from holotrace.errors import MissingDataError, UsageError
from holotrace.parse.rewrite import rewrite
from holotrace.sources import RankSource


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


def write_counters(tables: Mapping[str, pl.DataFrame], sources: Sequence[RankSource], folder: Path) -> tuple[Path, ...]:
    """Write a copy of each rank's trace with its counters into ``folder``; ranks without any are left out.

    Args:
        tables: Answers to ``ANALYSES`` with ``OPTIONS``, by name.
        sources: The ranks' files; none of them is ever written.
        folder: Made if need be. The names of copies begin with ``rank-``, and replace older ones.
    """
    found = [(source, texts) for source in sources if (texts := _counters(tables, source.rank))]
    if not found:
        raise MissingDataError("no rank launched or copied anything; record with ProfilerActivity.CUDA and .CPU")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}; name another folder") from error
    targets = [folder / f"rank-{source.rank}-with-counters{_ending(source)}" for source, _ in found]
    inputs = [source.path for source in sources if isinstance(source.path, Path)]
    for target in targets:
        if target.exists() and any(target.samefile(path) for path in inputs):
            raise UsageError(f"{target} is one of the traces that are read; name another folder")
    for (source, texts), target in zip(found, targets, strict=True):
        rewrite(source.path, target, append=texts)
    return tuple(targets)


def _ending(source: RankSource) -> str:
    packed = source.path.suffix
    return f".json{packed}" if packed in (".gz", ".zst") else ".json"


def _counters(tables: Mapping[str, pl.DataFrame], rank: int) -> list[str]:
    """The counters of one rank as JSON, a text for each kind that it has."""
    of_rank = ((series, tables[series.analysis.name].filter(rank=rank)) for series in SERIES)
    return [text for series, rows in of_rank if (text := _json(series, rows))]


def _json(series: Series, rows: pl.DataFrame) -> str:
    """A counter event per row that has a value, with commas between them."""
    # Digits keep the nanoseconds, which a floating-point number of microseconds cannot hold.
    digits = pl.col("start_ns").abs().cast(pl.String).str.zfill(4)
    event = pl.concat_str(
        pl.lit('{"ph":"C","pid":'),
        pl.col("device").fill_null(0),
        pl.lit(","),
        pl.struct(name=series.name).struct.json_encode().str.head(-1).str.tail(-1),
        pl.lit(',"ts":'),
        pl.when(pl.col("start_ns") < 0).then(pl.lit("-")).otherwise(pl.lit("")),
        digits.str.head(-3),
        pl.lit("."),
        digits.str.tail(3),
        pl.lit(f',"args":{{"{series.unit}":'),
        series.value,
        pl.lit("}}"),
    )
    return str(rows.drop_nulls(series.value).select(event.str.join(",\n")).item())
