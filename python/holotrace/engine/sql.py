"""SQL over the tables of a job and the answers to its analyses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial

import polars as pl
from polars.io.plugins import register_io_source

from holotrace.core.schema import Column, Table, Unit
from holotrace.core.tables import ALL, CALLS, PROBLEMS, RANK
from holotrace.core.trace import JobTrace, RankTrace
from holotrace.engine.questions import rows
from holotrace.engine.sql_tables import Told, name_of
from holotrace.errors import HolotraceError, UsageError


def _with_rank(table: Table) -> tuple[Column, ...]:
    return (RANK, *(column for column in table.columns if column.name != RANK.name))


# Tables that are read rank by rank.
_READ = {name_of(table): replace(table, columns=_with_rank(table)) for table in (*ALL, CALLS) if table is not PROBLEMS}
# Data comes in through its tables only, and nothing is changed.
QUESTION = re.compile(r"\s*(\(\s*)*(select|with)\b", re.IGNORECASE)
# What is no part of the query, texts and remarks, told from names in quotes, which may hold such quotes themselves; and
# Polars' functions that read any file or URL.
_SAID = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/|(\"[^\"]*\"|`[^`]*`)", re.DOTALL)
_FILE = re.compile(r"\bread_\w+[\"`]?\s*\(", re.IGNORECASE)
# Each may nest what is before it once more, and Polars has no bound to that but its stack: some 4,000 and it is gone.
_OPERATOR = re.compile(r"[-+*/%|&^<>=]+|\b(and|or|xor|union|intersect|except|join|collate)\b", re.IGNORECASE)
_MOST_OPERATORS = 1_000
# How Polars names what it does not find.
_UNKNOWN_TABLE = re.compile(r"relation '([^']*)' was not found")
_UNKNOWN_COLUMN = re.compile(r"unable to find column \"([^\"]*)\"|no column named '([^']*)'")


def answer(sql: str, job: JobTrace, told: Mapping[str, Told]) -> pl.DataFrame:
    """What Polars answers to one SELECT; only the columns that it names are read, and rows kept that it needs.

    Args:
        sql: The query.
        job: What is asked.
        told: Each table that is not read rank by rank; its rows are asked for where the query needs them.
    """
    tables = {**_READ, **{name: each.table for name, each in told.items()}}
    if not QUESTION.match(sql):
        raise UsageError("the query does not begin with SELECT or WITH; give one question")
    if _FILE.search(_SAID.sub(lambda said: said[1] or " ", sql)):
        raise UsageError(f"the query reads a file, and only what the job holds can be asked for; {_known(sql, tables)}")
    if len(_OPERATOR.findall(sql)) > _MOST_OPERATORS:
        raise UsageError(f"the query has more than {_MOST_OPERATORS} operators; ask for less, or name values with IN")
    failures: list[HolotraceError] = []
    scans = {name: _Scan(job, table, told.get(name), failures).lazy() for name, table in tables.items()}
    try:
        return pl.SQLContext(scans).execute(sql).collect()
    except (pl.exceptions.PolarsError, UnicodeError) as error:
        if failures:
            raise failures[0] from error
        reason = str(error).strip().partition("\n")[0].partition(";")[0].rstrip(".")
        raise UsageError(f"the query cannot be run: {reason}; {_way_out(reason, sql, tables)}") from error


@dataclass(frozen=True)
class _Scan:
    """A table of all ranks that Polars reads when a query needs it, as far as the query needs it."""

    job: JobTrace
    table: Table
    told: Told | None
    # What reading raised: Polars would tell it as an error of its own.
    failures: list[HolotraceError]

    def lazy(self) -> pl.LazyFrame:
        return register_io_source(self, schema=self._columns.empty().schema, is_pure=True)

    @property
    def _columns(self) -> Table:
        """With labels as text: of categories Polars' SQL only knows whether they are equal."""
        declared = self.table.columns
        plain = (replace(column, unit=Unit.TEXT) if column.unit is Unit.LABEL else column for column in declared)
        return replace(self.table, columns=tuple(plain))

    def __call__(
        self, columns: list[str] | None, predicate: pl.Expr | None, row_count: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        # A table's rank is in no file, so that a column of it must be read to count its rows.
        wanted = self._columns.only(*(columns or ()), *self._columns.column_names[1:2]) if columns else self._columns
        try:
            frame = self._read(wanted, predicate)
        except HolotraceError as error:
            self.failures.append(error)
            raise
        yield frame.select(columns or pl.all()).head(frame.height if row_count is None else row_count)

    def _read(self, wanted: Table, predicate: pl.Expr | None) -> pl.DataFrame:
        if self.told is not None:
            known = self.told.rows().select(self._columns.column_names).cast({pl.Categorical: pl.String})
            return known if predicate is None else known.filter(predicate)
        stored = self.table.only(*(name for name in wanted.column_names if name != RANK.name))
        parts = self.job.map(partial(_matching, table=stored, predicate=predicate), [stored])
        return pl.concat([self._columns.only(RANK.name, *wanted.column_names).empty(), *parts])


def _matching(rank: RankTrace, table: Table, predicate: pl.Expr | None) -> pl.DataFrame:
    found = rows(rank, table).cast({pl.Categorical: pl.String})
    return found if predicate is None else found.filter(predicate)


def _way_out(reason: str, sql: str, tables: Mapping[str, Table]) -> str:
    """Names like the one that is not there, or else what there is."""
    if table := _UNKNOWN_TABLE.search(reason):
        return _meant(table[1].replace("-", "_"), tables) or _known("", tables)
    said = []
    if column := _UNKNOWN_COLUMN.search(reason):
        there = dict.fromkeys(name for table in _named(sql, tables).values() for name in table.column_names)
        said = [_meant(column[1] or column[2], there)]
    return " ".join(filter(None, (*said, _known(sql, tables))))


def _meant(wanted: str, there: Iterable[str]) -> str:
    like = get_close_matches(wanted.lower(), list(there))
    return f"did you mean {' or '.join(like)}?" if like else ""


def _named(sql: str, tables: Mapping[str, Table]) -> dict[str, Table]:
    return {name: table for name, table in tables.items() if re.search(rf"\b{name}\b", sql, re.IGNORECASE)}


def _known(sql: str, tables: Mapping[str, Table]) -> str:
    """The columns of the tables that a query names, or else the tables."""
    if named := _named(sql, tables):
        return "; ".join(f"{name} has the columns {', '.join(table.column_names)}" for name, table in named.items())
    return f"there are the tables {', '.join(tables)}"
