"""Why streams are idle, in HTA's tables."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import polars as pl

from holotrace import Job
from hta import figures, frame_tables, frames
from hta.analyzers.device_job import asked, job_of
from hta.common.trace import Trace


def idle_time_breakdown(  # noqa: PLR0917  HTA's order
    t: Trace,
    ranks: Sequence[int] | None,
    streams: Sequence[int] | None,
    visualize: bool,
    visualize_pctg: bool,
    show_idle_interval_stats: bool,
    consecutive_kernel_delay: int,
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """The idle time breakdowns of several ranks, one below the other."""
    chosen = asked(t, ranks)
    job = job_of(t, chosen, lambda frame, symbols: {"device_events": frame_tables.work(frame, symbols)})
    causes = job.idle_causes(by_stream=True, pause_ns=max(0, round(consecutive_kernel_delay * 1000)))
    table = _with_other(causes, _streams_of(job, chosen, streams))
    sums = frames.to_pandas(
        table.select(
            pl.col("rank").cast(pl.Int64),
            "stream",
            pl.col("cause").alias("idle_category"),
            (pl.col("idle_ns") / 1000).round(2).alias("idle_time"),
            pl.col("share_ratio").alias("idle_time_ratio"),
        )
    )
    # HTA counts the rows of each rank by themselves.
    sums.index = pd.Index(table.select(pl.int_range(pl.len()).over("rank")).to_series().to_numpy())
    if visualize:
        sums["stream"] = sums["stream"].astype(str)
        for rank in chosen:
            figures.idle_time(sums[sums["rank"] == rank], rank, visualize_pctg).show()
    # Plots are exact.
    sums["idle_time_ratio"] = sums["idle_time_ratio"].round(2)
    return sums, _described(table) if show_idle_interval_stats else None


def _streams_of(job: Job, ranks: Sequence[int], streams: Sequence[int] | None) -> pl.DataFrame:
    """Rank and stream of the rows to return, in HTA's order: as they were asked for, else as they first appear."""
    used = job.table("device_events", columns=("event_id", "stream"))
    pairs = used.group_by("rank", "stream").agg(pl.col("event_id").min()).sort("event_id").drop("event_id")
    by_rank = _in_order(pairs["rank"], ranks)
    if not streams:
        return pairs.sort(by_rank, maintain_order=True)
    return pairs.sort(by_rank, _in_order(pairs["stream"], streams)).filter(pl.col("stream").is_in(streams))


def _in_order(values: pl.Series, order: Sequence[int]) -> pl.Series:
    """The place of each value in ``order``; null where it is not there."""
    places: pl.Series = values.replace_strict({value: place for place, value in enumerate(order)}, default=None)
    return places


def _with_other(causes: pl.DataFrame, streams: pl.DataFrame) -> pl.DataFrame:
    """The causes of the idle time of these streams; each has HTA's row for other causes."""
    place = ["rank", "stream"]
    known = causes.drop("device")
    other = streams.with_columns(cause=pl.lit("other"))
    rows = pl.concat([known.select(*place, "cause"), other]).unique()
    return (
        streams.with_row_index("place")
        .join(rows, on=place)
        .join(known, on=[*place, "cause"], how="left")
        .with_columns(pl.col("count", "idle_ns").fill_null(0))
        .with_columns(
            share_ratio=pl.when(pl.col("idle_ns").sum().over(place) > 0).then(pl.col("share_ratio").fill_null(0.0))
        )
        .sort("place", "cause")
    )


def _described(table: pl.DataFrame) -> pd.DataFrame:
    """What pandas' describe says of the gaps of each stream and cause."""
    in_us = {"mean": "mean", "std": "std", "min": "min", "25%": "p25", "50%": "p50", "75%": "p75", "max": "max"}
    described = table.select(
        pl.col("cause").alias("idle_category"),
        pl.col("rank").cast(pl.Int64),
        "stream",
        pl.col("count").cast(pl.Float64),
        *((pl.col(f"{column}_ns") / 1000).round(2).alias(name) for name, column in in_us.items()),
    )
    result: pd.DataFrame = frames.to_pandas(described).set_index("idle_category")
    return result
