"""Levels that rise and fall over time: launches that wait in a queue, and the bandwidth of copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
import polars as pl

from hta import frame_tables, frames
from hta.analyzers.device_job import asked, job_of
from hta.common.constants import LAUNCHES
from hta.common.trace import Trace
from hta.common.trace_symbol_table import TraceSymbolTable

_BLOCKED = ("duration_at_max_queue_length", "relative_duration_at_max_queue_length")
# HTA asks for the time on a full queue afterwards, with a length of its own.
_NEVER = 2**62
# What pandas' describe says of numbers.
_STATISTICS: dict[str, Callable[[pl.Expr], pl.Expr]] = {
    "count": pl.Expr.count,
    "mean": pl.Expr.mean,
    "std": pl.Expr.std,
    "min": pl.Expr.min,
    "25%": lambda values: values.quantile(0.25, "linear"),
    "50%": lambda values: values.quantile(0.5, "linear"),
    "75%": lambda values: values.quantile(0.75, "linear"),
    "max": pl.Expr.max,
}


class TraceCounters:
    """Questions about what changes while a job runs."""

    @classmethod
    def get_queue_length_time_series(cls, t: Trace, ranks: Sequence[int] | None = None) -> dict[int, pd.DataFrame]:
        """The length of each stream's queue after every change, for each rank that launched work.

        A row's index is that of the event that changed the length: the launch, or the work that started.
        """
        job = job_of(t, asked(t, ranks), _launched)
        return {
            rank: _queue_lengths(t.get_trace(rank), changes)
            for rank, changes in _by_rank(job.queue_length(over_time=True, full_at=_NEVER))
        }

    @classmethod
    def get_queue_length_summary_from_time_series(
        cls, queue_length_dict: Mapping[int, pd.DataFrame]
    ) -> pd.DataFrame | None:
        """What describes the samples of each rank and stream; None without samples."""
        return _described(queue_length_dict, "stream", "queue_length")

    @classmethod
    def get_queue_length_summary(cls, t: Trace, ranks: Sequence[int] | None = None) -> pd.DataFrame | None:
        """What describes the queue lengths of each rank and stream; None where nothing was launched."""
        return cls.get_queue_length_summary_from_time_series(cls.get_queue_length_time_series(t, ranks))

    @classmethod
    def get_time_spent_blocked_on_full_queue(
        cls, t: Trace, queue_length_dict: Mapping[int, pd.DataFrame], max_queue_length: int
    ) -> pd.DataFrame:
        """How long the queue of each rank and stream was that long, as far as it ever was, in time and as a share."""
        full = [_full(t, rank, samples, max_queue_length) for rank, samples in queue_length_dict.items()]
        none = pl.DataFrame(schema=dict(zip(("rank", "stream", *_BLOCKED), [pl.Int64] * 3 + [pl.Float64], strict=True)))
        return frames.to_pandas(pl.concat([none, *full]))

    @classmethod
    def get_memory_bw_time_series(cls, t: Trace, ranks: Sequence[int] | None = None) -> dict[int, pd.DataFrame]:
        """The bandwidth of each kind of copy after every start and end of one, for each rank that copied."""
        job = job_of(t, asked(t, ranks), _copies)
        return {
            rank: _bandwidths(t.get_trace(rank), changes)
            for rank, changes in _by_rank(job.memory_bandwidth(over_time=True))
        }

    @classmethod
    def get_memory_bw_summary(cls, t: Trace, ranks: Sequence[int] | None = None) -> pd.DataFrame | None:
        """What describes the bandwidth of each rank and kind of copy while there is any; None without copies."""
        series = cls.get_memory_bw_time_series(t, ranks)
        moving = {rank: samples[samples["memory_bw_gbps"] > 0] for rank, samples in series.items()}
        return _described(moving, "name", "memory_bw_gbps")


def _launched(frame: pd.DataFrame, symbols: TraceSymbolTable) -> dict[str, pl.DataFrame]:
    return {"device_events": frame_tables.launched(frame, symbols, LAUNCHES)}


def _copies(frame: pd.DataFrame, symbols: TraceSymbolTable) -> dict[str, pl.DataFrame]:
    return {"device_events": frame_tables.copies(frame, symbols)}


def _by_rank(table: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
    """The rows of each rank; those of a rank are together, so that none is copied."""
    before = 0
    for count, rank in table["rank"].rle().struct.unnest().iter_rows():
        yield rank, table.slice(before, count)
        before += count


def _queue_lengths(frame: pd.DataFrame, changes: pl.DataFrame) -> pd.DataFrame:
    event = pd.Index(changes["event_id"].to_numpy().astype(np.int64), name="index")
    places = frames.places(frame)
    place = places(event.to_numpy())
    # A launch shows the process and stream of what it launched.
    is_launch = changes["launch_count"].to_numpy() > 0
    place[is_launch] = places(frame["index_correlation"].to_numpy()[place[is_launch]])
    series: pd.DataFrame = pd.DataFrame(
        {
            "ts": changes.select(frames.us("start_ns")).to_series().to_numpy(writable=True),
            "pid": frame["pid"].to_numpy()[place].astype(object),
            "tid": frame["tid"].to_numpy()[place].astype(object),
            "stream": changes["stream"].to_numpy(writable=True),
            "queue_length": changes["max_count"].to_numpy(writable=True),
        },
        index=event,
        copy=False,
    )
    return series


def _bandwidths(frame: pd.DataFrame, changes: pl.DataFrame) -> pd.DataFrame:
    event = pd.Index(changes["event_id"].to_numpy().astype(np.int64))
    series: pd.DataFrame = pd.DataFrame(
        {
            "ts": changes.select(frames.us("start_ns").cast(pl.Float64)).to_series().to_numpy(),
            "pid": frame["pid"].to_numpy()[frames.places(frame)(event.to_numpy())].astype(object),
            "name": changes["copy"].to_list(),
            "memory_bw_gbps": changes["max_gbps"].to_numpy(),
        },
        index=event,
    )
    return series


def _described(series: Mapping[int, pd.DataFrame], by: str, value: str) -> pd.DataFrame | None:
    """Statistics of the values, per rank and value of ``by``."""
    if not series:
        return None
    statistics = {name: statistic(pl.col(value)).cast(pl.Float64) for name, statistic in _STATISTICS.items()}
    table = pl.concat(
        (
            _samples(frame, by, value).group_by(by).agg(**statistics).select(pl.lit(rank).alias("rank"), pl.all())
            for rank, frame in series.items()
        ),
        # A rank may have no sample.
        how="vertical_relaxed",
    ).sort("rank", by)
    result: pd.DataFrame = frames.to_pandas(table).set_index(["rank", by])
    result.columns = pd.MultiIndex.from_product([[value], result.columns])
    # HTA has no index where there is nothing to describe.
    return result.reset_index(drop=True) if result.empty else result


def _samples(frame: pd.DataFrame, by: str, value: str) -> pl.DataFrame:
    groups = frame[by]
    is_text = not pd.api.types.is_numeric_dtype(groups)
    return pl.DataFrame({by: groups.to_list() if is_text else groups.to_numpy(), value: frame[value].to_numpy()})


def _full(t: Trace, rank: int, samples: pd.DataFrame, max_queue_length: int) -> pl.DataFrame:
    lasted, share = _BLOCKED
    times = pl.DataFrame({name: samples[name].to_numpy() for name in ("stream", "ts", "queue_length")})
    is_full, ts = pl.col("queue_length") >= max_queue_length, pl.col("ts")
    return (
        times.group_by("stream")
        .agg((ts.shift(-1) - ts).filter(is_full).sum().alias(lasted), is_full.any().alias("is_full"))
        .filter("is_full")
        .sort("stream")
        .select(
            pl.lit(rank, pl.Int64()).alias("rank"),
            "stream",
            lasted,
            (pl.col(lasted) / t.get_trace_duration(rank)).alias(share),
        )
        .cast({"stream": pl.Int64, lasted: pl.Int64})
    )
