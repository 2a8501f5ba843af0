"""Levels that rise and fall over time: launches that wait in a queue, and the bandwidth of copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from holotrace import Job, RankTrace
from hta import frame_tables, frames
from hta.analyzers.device_job import asked, job_of
from hta.common.constants import LAUNCHES
from hta.common.trace import Trace

_BLOCKED = ("duration_at_max_queue_length", "relative_duration_at_max_queue_length")
# HTA asks for the time on a full queue afterwards, with a length of its own.
_NEVER = 2**62
# What pandas' describe says of numbers in order.
_STATISTICS: dict[str, Callable[[pl.Series], Any]] = {
    "count": pl.Series.len,
    "mean": pl.Series.mean,
    "std": pl.Series.std,
    "min": pl.Series.min,
    "25%": lambda values: values.quantile(0.25, "linear"),
    "50%": lambda values: values.quantile(0.5, "linear"),
    "75%": lambda values: values.quantile(0.75, "linear"),
    "max": pl.Series.max,
}


class TraceCounters:
    """Questions about what changes while a job runs."""

    @classmethod
    def get_queue_length_time_series(cls, t: Trace, ranks: Sequence[int] | None = None) -> dict[int, pd.DataFrame]:
        """The length of each stream's queue after every change, for each rank that launched work.

        A row's index is that of the event that changed the length: the launch, or the work that started.
        """
        return {rank: _queue_lengths(t.get_trace(rank), changes) for rank, changes in _changes_of_queues(t, ranks)}

    @classmethod
    def get_queue_length_summary_from_time_series(
        cls, queue_length_dict: Mapping[int, pd.DataFrame]
    ) -> pd.DataFrame | None:
        """What describes the samples of each rank and stream; None without samples."""
        samples = {rank: _samples(frame, "stream", "queue_length") for rank, frame in queue_length_dict.items()}
        return _described(samples, "stream", "queue_length")

    @classmethod
    def get_queue_length_summary(cls, t: Trace, ranks: Sequence[int] | None = None) -> pd.DataFrame | None:
        """What describes the queue lengths of each rank and stream; None where nothing was launched."""
        samples = {
            rank: changes.select("stream", queue_length="max_count") for rank, changes in _changes_of_queues(t, ranks)
        }
        return _described(samples, "stream", "queue_length")

    @classmethod
    def get_time_spent_blocked_on_full_queue(
        cls, t: Trace, queue_length_dict: Mapping[int, pd.DataFrame], max_queue_length: int
    ) -> pd.DataFrame:
        """How long the queue of each rank and stream was that long, as far as it ever was, in time and as a share."""
        lasted, share = _BLOCKED
        rows = [
            (rank, duration, *blocked)
            for rank, samples in queue_length_dict.items()
            for duration in [t.get_trace_duration(rank)]
            for blocked in _full(samples, max_queue_length)
        ]
        full = pl.DataFrame(rows, dict.fromkeys(("rank", "duration", "stream", lasted), pl.Int64), orient="row")
        shares = (full[lasted] / full["duration"]).alias(share)
        return frames.to_pandas(full[["rank", "stream", lasted]].hstack([shares]))

    @classmethod
    def get_memory_bw_time_series(cls, t: Trace, ranks: Sequence[int] | None = None) -> dict[int, pd.DataFrame]:
        """The bandwidth of each kind of copy after every start and end of one, for each rank that copied."""
        return {rank: _bandwidths(t.get_trace(rank), changes) for rank, changes in _changes_of_copies(t, ranks)}

    @classmethod
    def get_memory_bw_summary(cls, t: Trace, ranks: Sequence[int] | None = None) -> pd.DataFrame | None:
        """What describes the bandwidth of each rank and kind of copy while there is any; None without copies."""
        samples = {
            rank: changes.select(name="copy", memory_bw_gbps="max_gbps").filter(pl.col("memory_bw_gbps") > 0)
            for rank, changes in _changes_of_copies(t, ranks)
        }
        return _described(samples, "name", "memory_bw_gbps")


def _changes_of_queues(t: Trace, ranks: Sequence[int] | None) -> Iterator[tuple[int, pl.DataFrame]]:
    def tables(rank: int) -> dict[str, pl.DataFrame]:
        launched = frame_tables.launched(t.get_trace(rank), t.symbol_table, LAUNCHES, t.start_ns(rank))
        return {"device_events": launched}

    job = Job.from_ranks({rank: RankTrace(rank, tables(rank)) for rank in asked(t, ranks)})
    return _groups(job.queue_length(over_time=True, full_at=_NEVER), "rank")


def _changes_of_copies(t: Trace, ranks: Sequence[int] | None) -> Iterator[tuple[int, pl.DataFrame]]:
    job = job_of(t, asked(t, ranks), lambda frame, symbols: {"device_events": frame_tables.copies(frame, symbols)})
    return _groups(job.memory_bandwidth(over_time=True), "rank")


def _groups(table: pl.DataFrame, by: str) -> Iterator[tuple[Any, pl.DataFrame]]:
    """Each value of ``by`` and its rows, in order; where those of a value are together, none is copied."""
    ordered = table if table[by].is_sorted() else table.sort(by, maintain_order=True)
    before = 0
    for count, value in ordered[by].rle().struct.unnest().iter_rows():
        yield value, ordered.slice(before, count)
        before += count


def _queue_lengths(frame: pd.DataFrame, changes: pl.DataFrame) -> pd.DataFrame:
    place = changes["event_id"].to_numpy().astype(np.int64)
    event, ts = pd.Index(frame["index"].to_numpy()[place], name="index"), frame["ts"].to_numpy()[place]
    # A launch shows the process and stream of what it launched: mostly what its queue started in its turn.
    is_launch = changes["launch_count"].to_numpy() > 0
    launched, shown = frame["index_correlation"].to_numpy()[place[is_launch]], place[~is_launch]
    others = np.flatnonzero(event.to_numpy()[~is_launch] != launched)
    shown[others] = frames.places(frame)(launched[others])
    place[is_launch] = shown
    series: pd.DataFrame = pd.DataFrame(
        {
            "ts": ts,
            "pid": frames.as_objects(frame["pid"].to_numpy()[place]),
            "tid": frames.as_objects(frame["tid"].to_numpy()[place]),
            "stream": changes["stream"].to_numpy(writable=True),
            "queue_length": changes["max_count"].to_numpy(writable=True),
        },
        index=event,
        copy=False,
    )
    return series


def _bandwidths(frame: pd.DataFrame, changes: pl.DataFrame) -> pd.DataFrame:
    place = changes["event_id"].to_numpy()
    series: pd.DataFrame = pd.DataFrame(
        {
            "ts": changes.select(frames.us("start_ns").cast(pl.Float64)).to_series().to_numpy(),
            "pid": frames.as_objects(frame["pid"].to_numpy()[place]),
            "name": changes["copy"].to_list(),
            "memory_bw_gbps": changes["max_gbps"].to_numpy(),
        },
        index=pd.Index(frame["index"].to_numpy()[place]),
    )
    return series


def _described(samples: Mapping[int, pl.DataFrame], by: str, value: str) -> pd.DataFrame | None:
    """Statistics of the values, per rank and value of ``by``."""
    if not samples:
        return None
    rows = [
        (rank, group, *(statistic(values) for statistic in _STATISTICS.values()))
        for rank, table in sorted(samples.items())
        for group, sampled in _groups(table, by)
        for values in [sampled[value].sort()]
    ]
    schema = {"rank": pl.Int64, by: None, **dict.fromkeys(_STATISTICS, pl.Float64)}
    table = pl.DataFrame(rows, schema, orient="row")
    result: pd.DataFrame = frames.to_pandas(table).set_index(["rank", by])
    result.columns = pd.MultiIndex.from_product([[value], result.columns])
    # HTA has no index where there is nothing to describe.
    return result.reset_index(drop=True) if result.empty else result


def _samples(frame: pd.DataFrame, *columns: str) -> pl.DataFrame:
    return pl.DataFrame({column: frame[column].to_numpy() for column in columns})


def _full(samples: pd.DataFrame, max_queue_length: int) -> Iterator[tuple[int, int]]:
    """Streams whose queue ever was that long, and for how long."""
    for stream, queue in _groups(_samples(samples, "stream", "ts", "queue_length"), "stream"):
        is_full = queue["queue_length"] >= max_queue_length
        if is_full.any():
            # Nobody knows when the last length changed.
            yield stream, int(queue["ts"].diff(null_behavior="drop").filter(is_full[:-1]).sum())
