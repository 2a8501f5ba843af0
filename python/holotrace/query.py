"""SQL over the tables of a job."""

from __future__ import annotations

import polars as pl

from holotrace.discovery import Paths
from holotrace.job import Job
from holotrace.open import open as open_job


def query(sql: str, job: Job | Paths) -> pl.DataFrame:
    """The answer to an SQL query over a job, e.g. ``SELECT kind, count(*) FROM device_events GROUP BY kind``.

    Tables and columns are those that docs/tables.md lists, each with its ``rank``; Polars runs the query.

    Raises UsageError, with the tables or columns that there are, for a query that cannot be run.

    Args:
        sql: One SELECT.
        job: A job, or where its traces or its dataset are.
    """
    return (job if isinstance(job, Job) else open_job(job, cache_bytes=0)).query(sql)
