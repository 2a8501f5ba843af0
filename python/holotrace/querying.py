"""SQL over the tables of a job and the answers to its analyses."""

from __future__ import annotations

import polars as pl

from holotrace.discovery import Paths
from holotrace.job import Job
from holotrace.opening import open as open_job


def query(sql: str, job: Job | Paths) -> pl.DataFrame:
    """The answer to an SQL query over a job, e.g. ``SELECT kind, count(*) FROM device_events GROUP BY kind``.

    Tables are those of docs/tables.md, each with its ``rank``, and the analyses of docs/analyses, e.g. ``causes`` and
    ``operators``, with their default options. An analysis is computed only where the query names it. A table that is
    called like an analysis has a name that ends in ``_table``: ``modules`` is the analysis, ``modules_table`` the
    table. Polars runs the query.

    Args:
        sql: One SELECT.
        job: A job, or where its traces or its dataset are.

    Returns:
        The rows that the SELECT asks for.

    Raises:
        UsageError: the query cannot be run; the message lists the tables or columns that there are.
        InputError: the job cannot be read.
    """
    return (job if isinstance(job, Job) else open_job(job, cache_bytes=0)).query(sql)
