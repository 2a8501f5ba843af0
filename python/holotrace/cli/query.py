"""holotrace query: SQL over a job's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import polars as pl

from holotrace.cli.job_command import table_command
from holotrace.core.schema import Column, Unit
from holotrace.job import Job

if TYPE_CHECKING:
    from holotrace.present.writers import Shown

# Units that a name tells where it ends like theirs.
_TOLD = (Unit.NS, Unit.BYTES, Unit.RATIO)


@table_command("What SQL answers, over the tables.", path_first=False)
@click.argument("sql")
def query(job: Job, sql: str) -> Shown:
    """The answer to one SELECT over the tables of the job at PATH, traces or dataset; each has a column rank.

    Columns whose names end in _ns, bytes or _ratio are shown in these units.
    """
    from holotrace.present.writers import Shown  # noqa: PLC0415  # not needed for --help

    found = _plain(job.query(sql))
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
