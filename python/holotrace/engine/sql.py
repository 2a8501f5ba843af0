"""SQL over the tables of a job."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import polars as pl
from polars.io.plugins import register_io_source

from holotrace.core.schema import Table, Unit
from holotrace.core.tables import ALL, MADE, RANK
from holotrace.core.trace import JobTrace, RankTrace
from holotrace.engine.questions import rows
from holotrace.errors import HolotraceError, UsageError

_TABLES = {table.name: table for table in (*ALL, *MADE)}
# Data comes in through its tables only, and nothing is changed.
_QUESTION = re.compile(r"\s*(\(\s*)*(select|with)\b", re.IGNORECASE)
# What is no part of the query, texts and remarks, told from names in quotes, which may hold such quotes themselves; and
# Polars' functions that read any file or URL.
_SAID = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/|(\"[^\"]*\"|`[^`]*`)", re.DOTALL)
_FILE = re.compile(r"\bread_\w+[\"`]?\s*\(", re.IGNORECASE)
# Each may nest what is before it once more, and Polars has no bound to that but its stack: some 4,000 and it is gone.
_OPERATOR = re.compile(r"[-+*/%|&^<>=]+|\b(and|or|xor|union|intersect|except|join|collate)\b", re.IGNORECASE)
_MOST_OPERATORS = 1_000


def answer(sql: str, job: JobTrace, told: Mapping[str, Callable[[], pl.DataFrame]]) -> pl.DataFrame:
    """What Polars answers to one SELECT; only the columns that it names are read, and rows kept that it needs.

    Args:
        sql: The query.
        job: What is asked.
        told: Gives each table that is not read rank by rank.
    """
    if not _QUESTION.match(sql):
        raise UsageError("the query does not begin with SELECT or WITH; give one question")
    if _FILE.search(_SAID.sub(lambda said: said[1] or " ", sql)):
        raise UsageError(f"the query reads a file, and only what the job holds can be asked for; {_known(sql)}")
    if len(_OPERATOR.findall(sql)) > _MOST_OPERATORS:
        raise UsageError(f"the query has more than {_MOST_OPERATORS} operators; ask for less, or name values with IN")
    failures: list[HolotraceError] = []
    scans = {name: _Scan(job, table, told.get(name), failures).lazy() for name, table in _TABLES.items()}
    try:
        return pl.SQLContext(scans).execute(sql).collect()
    except (pl.exceptions.PolarsError, UnicodeError) as error:
        if failures:
            raise failures[0] from error
        reason = str(error).strip().partition("\n")[0].partition(";")[0].rstrip(".")
        raise UsageError(f"the query cannot be run: {reason}; {_known(sql)}") from error


@dataclass(frozen=True)
class _Scan:
    """A table of all ranks that Polars reads when a query needs it, as far as the query needs it."""

    job: JobTrace
    table: Table
    told: Callable[[], pl.DataFrame] | None
    # What reading raised: Polars would tell it as an error of its own.
    failures: list[HolotraceError]

    def lazy(self) -> pl.LazyFrame:
        return register_io_source(self, schema=self._with_rank.empty().schema, is_pure=True)

    @property
    def _with_rank(self) -> Table:
        """With labels as text: of categories Polars' SQL only knows whether they are equal."""
        others = (column for column in self.table.columns if column.name != RANK.name)
        plain = (replace(column, unit=Unit.TEXT) if column.unit is Unit.LABEL else column for column in others)
        return replace(self.table, columns=(RANK, *plain))

    def __call__(
        self, columns: list[str] | None, predicate: pl.Expr | None, row_count: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        # A table's rank is in no file, so that a column of it must be read to count its rows.
        wanted = (
            self._with_rank.only(*(columns or ()), *self._with_rank.column_names[1:2]) if columns else self._with_rank
        )
        try:
            frame = self._read(wanted, predicate)
        except HolotraceError as error:
            self.failures.append(error)
            raise
        yield frame.select(columns or pl.all()).head(frame.height if row_count is None else row_count)

    def _read(self, wanted: Table, predicate: pl.Expr | None) -> pl.DataFrame:
        if self.told is not None:
            known = self.told()
            return known if predicate is None else known.filter(predicate)
        stored = self.table.only(*(name for name in wanted.column_names if name != RANK.name))
        parts = self.job.map(partial(_matching, table=stored, predicate=predicate), [stored])
        return pl.concat([self._with_rank.only(RANK.name, *wanted.column_names).empty(), *parts])


def _matching(rank: RankTrace, table: Table, predicate: pl.Expr | None) -> pl.DataFrame:
    found = rows(rank, table).cast({pl.Categorical: pl.String})
    return found if predicate is None else found.filter(predicate)


def _known(sql: str) -> str:
    """The columns of the tables that a query names, or else the tables."""
    named = [table for name, table in _TABLES.items() if re.search(rf"\b{name}\b", sql, re.IGNORECASE)]
    if not named:
        return f"there are the tables {', '.join(_TABLES)}"
    columns = (
        f"{table.name} has the columns {', '.join(dict.fromkeys(('rank', *table.column_names)))}" for table in named
    )
    return "; ".join(columns)
