"""What a job tells besides the answers of its analyses: rows of its tables, SQL over them, what is there."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from holotrace.analyses import ALL
from holotrace.analyses.stragglers import stragglers
from holotrace.core.analysis import Analysis, Finding
from holotrace.core.schema import Table
from holotrace.core.tables import CLOCKS, PROBLEMS, RANK, RANK_INFO, named
from holotrace.core.trace import JobTrace
from holotrace.derive import clocks
from holotrace.engine.questions import JobResult, rows
from holotrace.engine.sql import answer
from holotrace.errors import UsageError


class JobTables(JobTrace):
    """A job one can ask for its tables."""

    @abstractmethod
    def only(self, *ranks: int) -> JobTables:
        """The same job, looking at some of its ranks."""

    @abstractmethod
    def run(
        self, analyses: Iterable[Analysis[Any]] = ALL, options: Mapping[str, Mapping[str, Any]] | None = None
    ) -> JobResult:
        """The tables of several analyses and all about the job, from reading each rank once."""

    def table(
        self, table: str | Table, *, rank: int | Iterable[int] | None = None, columns: Sequence[str] | None = None
    ) -> pl.DataFrame:
        """Rows of one table of all ranks, or of some, each with its rank.

        Args:
            table: Its name, e.g. "device_events", or itself, perhaps with columns of your own (an arg of an event).
            rank: One rank or several; all by default.
            columns: Only these; columns that are not asked for are not read.
        """
        wanted = named(table) if isinstance(table, str) else table
        if columns is not None:
            wanted = _narrowed(wanted, [name for name in columns if name != "rank"])
        job = self if rank is None else self.only(*([rank] if isinstance(rank, int) else rank))
        if told := job._told.get(wanted.name):
            return told().select("rank", pl.col(wanted.column_names).exclude("rank"))
        empty = replace(wanted, columns=(RANK, *wanted.columns)).empty()
        return pl.concat([empty, *job.map(partial(rows, table=wanted), [wanted])])

    def query(self, sql: str) -> pl.DataFrame:
        """The answer to one SELECT over the tables, each with its ``rank``; see ``holotrace.query``."""
        return answer(sql, self, self._told)

    @property
    def _told(self) -> dict[str, Callable[[], pl.DataFrame]]:
        return {PROBLEMS.name: self.problems, RANK_INFO.name: self.info, CLOCKS.name: self.clocks}

    def info(self) -> pl.DataFrame:
        """What is there, a row per rank: device, software, steps, events, how fast it was read."""
        return self.run(()).info

    def problems(self) -> pl.DataFrame:
        """What could not be read as it was written or is missing, and what was done about it."""
        return self.run(()).problems

    def clocks(self) -> pl.DataFrame:
        """How far the clocks of ranks are apart, a row per rank, and how sure that is."""
        return clocks.of_ranks(self.ranks, self.map(partial(stragglers.part, options={}), stragglers.reads))

    def findings(self) -> tuple[Finding, ...]:
        """What the rules of all analyses find."""
        return self.run().findings


def _narrowed(table: Table, names: Sequence[str]) -> Table:
    if not names:
        raise UsageError(f"no column of {table.name} was asked for; it has {', '.join(table.column_names)}")
    if unknown := sorted(set(names) - set(table.column_names)):
        raise UsageError(f"{table.name} has no column {unknown[0]!r}; it has {', '.join(table.column_names)}")
    return table.only(*names)
