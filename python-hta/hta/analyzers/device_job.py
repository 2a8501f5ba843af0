"""Device work as HTA sees it, as a job that holotrace's analyses can be asked about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pandas as pd
import polars as pl

from holotrace import Job, RankTrace
from hta import frame_tables
from hta.common.trace import Trace
from hta.common.trace_symbol_table import TraceSymbolTable


def device_job(t: Trace, kind_of: Mapping[str, str]) -> Job:
    """The rows on streams of every rank, each of the kind that ``kind_of`` gives to its kernel type.

    HTA knows a kernel's type by its name alone. Types without a kind are left out.
    """

    def device_events(frame: pl.DataFrame) -> pl.DataFrame:
        kinds = frame.with_columns(kind=pl.col("kernel_type").replace_strict(kind_of, default=None))
        return kinds.drop_nulls("kind").drop("kernel_type")

    return Job.from_ranks(
        {
            rank: RankTrace(
                rank, {"device_events": device_events(frame_tables.kernels(t.get_trace(rank), t.symbol_table))}
            )
            for rank in t.get_ranks()
        }
    )


def asked(t: Trace, ranks: Sequence[int] | None) -> list[int]:
    """These ranks, each once; by default rank 0, or the first where there is no rank 0."""
    return list(dict.fromkeys(ranks or ([0] if 0 in t.traces else t.get_ranks()[:1])))


def job_of(
    t: Trace,
    ranks: Iterable[int],
    tables: Callable[[pd.DataFrame, TraceSymbolTable], Mapping[str, pl.DataFrame]],
) -> Job:
    """What ``tables`` makes of the frames of these ranks, as a job that holotrace's analyses can be asked about."""
    return Job.from_ranks({rank: RankTrace(rank, tables(t.get_trace(rank), t.symbol_table)) for rank in ranks})
