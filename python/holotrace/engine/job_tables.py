"""What a job tells besides the answers of its analyses: rows of its tables, and how far its clocks are apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import polars as pl

from holotrace.analyses.stragglers import stragglers
from holotrace.core.schema import Table
from holotrace.core.tables import CLOCKS, PROBLEMS, RANK, RANK_INFO, named
from holotrace.core.trace import RankTrace, T
from holotrace.derive import clocks
from holotrace.engine.questions import rows
from holotrace.errors import UsageError


class AskedJob(Protocol):
    """What is needed of a job."""

    @property
    def ranks(self) -> tuple[int, ...]: ...
    def only(self, *ranks: int) -> AskedJob: ...
    def map(self, task: Callable[[RankTrace], T], reads: Sequence[Table]) -> list[T]: ...
    def problems(self) -> pl.DataFrame: ...
    def info(self) -> pl.DataFrame: ...
    def clocks(self) -> pl.DataFrame: ...


def job_table(
    job: AskedJob, table: str | Table, rank: int | Iterable[int] | None, columns: Sequence[str] | None
) -> pl.DataFrame:
    """Rows of one table of all ranks, or of some, each with its rank."""
    wanted = named(table) if isinstance(table, str) else table
    if columns is not None:
        wanted = _narrowed(wanted, [name for name in columns if name != "rank"])
    if rank is not None:
        job = job.only(*([rank] if isinstance(rank, int) else rank))
    if known := tables_of_job(job).get(wanted.name):
        return known().select("rank", pl.col(wanted.column_names).exclude("rank"))
    empty = replace(wanted, columns=(RANK, *wanted.columns)).empty()
    return pl.concat([empty, *job.map(partial(rows, table=wanted), [wanted])])


def tables_of_job(job: AskedJob) -> Mapping[str, Callable[[], pl.DataFrame]]:
    """Gives each table that is not read rank by rank."""
    return {PROBLEMS.name: job.problems, RANK_INFO.name: job.info, CLOCKS.name: job.clocks}


def job_clocks(job: AskedJob) -> pl.DataFrame:
    """How far the clocks of ranks are apart, a row per rank, and how sure that is."""
    return clocks.of_ranks(job.ranks, job.map(partial(stragglers.part, options={}), stragglers.reads))


def _narrowed(table: Table, names: Sequence[str]) -> Table:
    if not names:
        raise UsageError(f"no column of {table.name} was asked for; it has {', '.join(table.column_names)}")
    if unknown := sorted(set(names) - set(table.column_names)):
        raise UsageError(f"{table.name} has no column {unknown[0]!r}; it has {', '.join(table.column_names)}")
    return table.only(*names)
