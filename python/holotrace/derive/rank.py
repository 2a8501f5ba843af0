"""One rank's tables, with the columns that are not in the file but follow from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import polars as pl

from holotrace.derive import call_tree, info, kernel_kinds
from holotrace.parse import dataset, kineto, xplane
from holotrace.parse.parsed import Parsed
from holotrace.schema import Column, Table
from holotrace.sources import RankSource
from holotrace.sources.dataset import FORMAT
from holotrace.tables import ALL, CALLS, DEVICE_EVENTS, PROBLEMS, RANK_INFO, XLA_OPS
from holotrace.trace import RankTrace

_READERS: Mapping[str, Callable[[RankSource, Sequence[Table]], Parsed]] = {
    "kineto": lambda source, tables: kineto.read(source.path, tables),
    "xplane": lambda source, tables: xplane.read(source.path, tables, source.content),
}
_DECLARED = {table.name: table for table in ALL}
# Tables whose column ``kind`` is made here, and the columns of the file that it is made of.
_OF_A_KIND = (DEVICE_EVENTS.name, XLA_OPS.name)
_MAKE_KIND = ("category", "name")
# The columns of the problems table that a reader knows; who and where is added here.
_READ_PROBLEMS = PROBLEMS.only("problem", "count", "first_offset", "example", "action")


def load(source: RankSource, reads: Sequence[Table]) -> RankTrace:
    """Read one rank's file as far as ``reads`` asks for; what its format lacks is empty or null."""
    wanted = merged(reads)
    needed = _needed(wanted)
    read = dataset.read(source, needed) if source.format == FORMAT else _from_file(source, wanted, needed)
    tables = dict(read.tables)
    if CALLS.name in wanted:
        tables[CALLS.name] = _calls(tables)
    return replace(read, tables={name: _filled(tables.get(name), table) for name, table in wanted.items()})


def _from_file(source: RankSource, wanted: Mapping[str, Table], needed: Mapping[str, Table]) -> RankTrace:
    parsed = _READERS[source.format](source, _to_parse(needed, source.format))
    tables = dict(parsed.tables)
    if PROBLEMS.name in tables:
        tables[PROBLEMS.name] = _located(tables[PROBLEMS.name], source)
    if RANK_INFO.name in wanted:
        tables[RANK_INFO.name] = info.describe(source.rank, tables, parsed.metadata, source=source, parsed=parsed)
    for name in _OF_A_KIND:
        if name in tables and _has_kind(needed.get(name)):
            tables[name] = tables[name].with_columns(kind=kernel_kinds.kinds(tables[name]))
    return RankTrace(source.rank, tables, parsed.metadata)


def narrowed(trace: RankTrace, reads: Sequence[Table]) -> RankTrace:
    """A rank that is in memory, with exactly what ``reads`` asks for; what it lacks is empty or null."""
    wanted = merged(reads)
    tables = {name: _filled(trace.tables.get(name), table) for name, table in wanted.items()}
    if RANK_INFO.name in wanted and RANK_INFO.name not in trace.tables:
        seen = {table.name: _filled(trace.tables.get(table.name), table) for table in info.READS}
        tables[RANK_INFO.name] = info.describe(trace.rank, seen, trace.metadata)
    if CALLS.name in wanted and CALLS.name not in trace.tables:
        tables[CALLS.name] = _calls(trace.tables).select(wanted[CALLS.name].column_names)
    return replace(trace, tables=tables)


def _calls(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    return call_tree.calls({table.name: _filled(tables.get(table.name), table) for table in call_tree.READS})


def merged(reads: Iterable[Table]) -> dict[str, Table]:
    """Each table once, with every column that any of ``reads`` asks for."""
    wanted: dict[str, Table] = {}
    for table in reads:
        known = wanted[table.name].columns if table.name in wanted else ()
        columns = {column.name: column for column in (*known, *table.columns)}
        wanted[table.name] = replace(table, columns=tuple(columns.values()))
    return wanted


def _needed(wanted: dict[str, Table]) -> dict[str, Table]:
    """``wanted``, with what calls are made of in their place."""
    if CALLS.name not in wanted:
        return wanted
    return merged([*(table for table in wanted.values() if table.name != CALLS.name), *call_tree.READS])


def _to_parse(wanted: Mapping[str, Table], of_format: str) -> list[Table]:
    """What must be read from a file of that format so that ``wanted`` can be made."""
    reads = [table for table in wanted.values() if table.name not in (RANK_INFO.name, PROBLEMS.name)]
    if RANK_INFO.name in wanted:
        reads += [table for table in info.READS if table.name != PROBLEMS.name]
    if RANK_INFO.name in wanted or PROBLEMS.name in wanted:
        reads.append(_READ_PROBLEMS)
    reads += [_DECLARED[name].only(*_MAKE_KIND) for name in _OF_A_KIND if _has_kind(wanted.get(name))]
    there = [table for table in merged(reads).values() if table.format in (None, of_format)]
    return [_in_file(table, of_format) for table in there]


def _has_kind(table: Table | None) -> bool:
    return table is not None and "kind" in table.column_names


def _in_file(table: Table, of_format: str) -> Table:
    """The table without the column that is made here, and those that the format has not."""
    made = ("kind",) if table.name in _OF_A_KIND else ()
    kept = (c for c in table.columns if c.name not in made and c.format in (None, of_format))
    return replace(table, columns=tuple(kept))


def _located(problems: pl.DataFrame, source: RankSource) -> pl.DataFrame:
    rank, file = pl.lit(source.rank, pl.Int32()), pl.lit(str(source.path))
    return problems.with_columns(rank=rank, file=file).select(PROBLEMS.column_names)


def _filled(frame: pl.DataFrame | None, table: Table) -> pl.DataFrame:
    if frame is None:
        return table.empty()
    return frame.select(_column(frame, column) for column in table.columns)


def _column(frame: pl.DataFrame, column: Column) -> pl.Expr:
    if column.name not in frame.columns:
        return pl.lit(None, column.unit.dtype).alias(column.name)
    # Casting to the type a column has already would copy it.
    same = frame.schema[column.name] == column.unit.dtype
    return pl.col(column.name) if same else pl.col(column.name).cast(column.unit.dtype)
