"""holotrace query: SQL over a job's tables and answers."""

from __future__ import annotations

import click
import polars as pl

from holotrace.cli.console import progress_bar
from holotrace.cli.job_command import table_command
from holotrace.core.schema import Column, Unit
from holotrace.engine.sql import QUESTION
from holotrace.job import Job
from holotrace.present.writers import Shown

# Units that a name tells where it ends like theirs.
_TOLD = (Unit.NS, Unit.BYTES, Unit.RATIO)


class _SqlFirst(click.Command):
    """Takes SQL and PATH in either order."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        sql = next((place for place, word in enumerate(args) if QUESTION.match(word)), 0)
        return super().parse_args(ctx, [*args[sql : sql + 1], *args[:sql], *args[sql + 1 :]])


@table_command("Answer an SQL query over tables and analyses.", path_first=False, cls=_SqlFirst)
@click.argument("sql")
def query(job: Job, sql: str) -> Shown:
    """Answer one SELECT over the tables and analyses of the job at PATH.

    Names of analyses have underscores (operator_kernels); only the analyses that the query names are computed. The
    table findings holds all findings. If a table has the name of an analysis, the name of the table ends in _table.
    All have a column rank, except findings. With --rank, analyses compare only these ranks.

    Columns whose names end in _ns, bytes or _ratio are shown in readable units.
    """
    with progress_bar("Reading") as progress:
        found = _plain(job.query(sql, progress=progress))
    columns = tuple(_column(name, dtype) for name, dtype in found.schema.items())
    return Shown("query", found, columns, job.found.origin)


def _plain(table: pl.DataFrame) -> pl.DataFrame:
    """The table in types that every format has."""
    return table.select(_as_plain(name, dtype) for name, dtype in table.schema.items())


def _as_plain(name: str, dtype: pl.DataType) -> pl.Expr:
    column = pl.col(name)
    if dtype == pl.UInt64:
        return column
    if dtype.is_integer():
        return column.cast(pl.Int64)
    if dtype.is_float() or dtype.is_decimal():
        return column.cast(pl.Float64)
    if dtype == pl.Boolean:
        return column
    # JSON, where it is no single value.
    return pl.struct(name).struct.json_encode().alias(name) if dtype.is_nested() else column.cast(pl.String)


def _column(name: str, dtype: pl.DataType) -> Column:
    unit = next((unit for unit in _TOLD if name.endswith(unit.suffix) and unit.dtype == dtype), None)
    plain = {
        pl.Int64(): Unit.NUMBER,
        pl.UInt64(): Unit.UNSIGNED,
        pl.Float64(): Unit.FLOAT,
        pl.Boolean(): Unit.BOOL,
    }.get(dtype, Unit.TEXT)
    return Column(name, unit or plain, "As the query says")
