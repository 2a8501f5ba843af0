"""Device work as HTA sees it, as a job that holotrace's analyses can be asked about."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from holotrace import Job, RankTrace
from hta import frames
from hta.common.trace import Trace


def device_job(t: Trace, kind_of: Mapping[str, str]) -> Job:
    """The rows on streams of every rank, each of the kind that ``kind_of`` gives to its kernel type.

    HTA knows a kernel's type by its name alone. Types without a kind are left out.
    """

    def device_events(frame: pl.DataFrame) -> pl.DataFrame:
        kinds = frame.with_columns(kind=pl.col("kernel_type").replace_strict(kind_of, default=None))
        return kinds.drop_nulls("kind").drop("kernel_type")

    return Job.from_ranks(
        {
            rank: RankTrace(rank, {"device_events": device_events(frames.kernels(t.get_trace(rank), t.symbol_table))})
            for rank in t.get_ranks()
        }
    )
