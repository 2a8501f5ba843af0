"""Why streams are idle, in HTA's tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import pandas as pd
import polars as pl

from holotrace import Job, RankTrace
from holotrace.core.tables import DEVICE_EVENTS
from hta import figures, frame_tables, frames
from hta.analyzers.device_job import asked, job_of
from hta.common.trace import Trace

_OTHER = "other"
_STREAMS = DEVICE_EVENTS.only("stream")


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
    causes = job.idle_causes(by_stream=True, max_kernel_gap_ns=max(0, round(consecutive_kernel_delay * 1000)))
    table = _with_other(causes, _queues(job, chosen, streams))
    sums = frames.to_pandas(
        table.select(
            pl.col("rank").cast(pl.Int64),
            "stream",
            pl.col("cause").alias("idle_category"),
            (pl.col("idle_ns") / 1000).round(2).alias("idle_time"),
            pl.col("share_ratio").round(2).alias("idle_time_ratio"),
        )
    )
    # HTA counts the rows of each rank by themselves.
    sums.index = pd.Index([place for _, rows in groupby(table["rank"]) for place, _ in enumerate(rows)], dtype="int64")
    if visualize:
        sums["stream"] = sums["stream"].astype(str)
        exact = sums.assign(idle_time_ratio=table["share_ratio"].to_numpy())
        for rank in chosen:
            figures.idle_time(exact[exact["rank"] == rank], rank, visualize_pctg).show()
    return sums, _described(table) if show_idle_interval_stats else None


def _queues(job: Job, ranks: Sequence[int], streams: Sequence[int] | None) -> Iterator[tuple[int, int]]:
    """Rank and stream of the rows to return, in HTA's order: as they were asked for, else as they first appear."""
    used = dict(zip(job.ranks, job.map(_streams, [_STREAMS]), strict=True))
    for rank in ranks:
        for stream in streams or used[rank]:
            if stream in used[rank]:
                yield rank, stream


def _streams(rank: RankTrace) -> list[int]:
    return rank[_STREAMS]["stream"].unique(maintain_order=True).to_list()


def _with_other(causes: pl.DataFrame, queues: Iterable[tuple[int, int]]) -> pl.DataFrame:
    """The causes of the idle time of these ranks' streams; each has HTA's row for other causes."""
    told: dict[tuple[int, int], dict[str, dict[str, Any]]] = {}
    for row in causes.iter_rows(named=True):
        told.setdefault((row["rank"], row["stream"]), {})[row["cause"]] = row
    rows: list[dict[str, Any]] = []
    for rank, stream in queues:
        known = told.get((rank, stream), {})
        is_idle = any(row["idle_ns"] for row in known.values())
        none = {"rank": rank, "stream": stream, "cause": _OTHER, "count": 0, "idle_ns": 0}
        by_cause = {_OTHER: none | {"share_ratio": 0.0 if is_idle else None}} | known
        rows += (by_cause[cause] for cause in sorted(by_cause))
    return pl.DataFrame(rows, causes.schema)


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
