"""One rank's tables, with the columns that are not in the file but follow from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import polars as pl

from holotrace.derive import info, kernel_kinds, steps
from holotrace.parse import dataset, kineto
from holotrace.schema import Table
from holotrace.sources import RankSource
from holotrace.sources.dataset import FORMAT
from holotrace.tables import DEVICE_EVENTS, PROBLEMS, RANK_INFO, STEPS
from holotrace.trace import RankTrace

# Columns of device events that are made here, and the columns of the file they are made of.
_MADE_OF = {"kind": ("category", "name"), "step": ("launch_ns",)}
# The columns of the problems table that a reader knows; who and where is added here.
_READ_PROBLEMS = PROBLEMS.only("problem", "count", "first_offset", "example", "action")


def load(source: RankSource, reads: Sequence[Table]) -> RankTrace:
    """Read one rank's file as far as ``reads`` asks for."""
    wanted = merged(reads)
    if source.format == FORMAT:
        return dataset.read(source, wanted)
    parsed = kineto.read(source.path, _to_parse(wanted))
    tables = dict(parsed.tables)
    if PROBLEMS.name in tables:
        tables[PROBLEMS.name] = _located(tables[PROBLEMS.name], source)
    if RANK_INFO.name in wanted:
        tables[RANK_INFO.name] = info.describe(source.rank, tables, parsed.metadata, source=source, parsed=parsed)
    if DEVICE_EVENTS.name in wanted:
        tables[DEVICE_EVENTS.name] = _completed(tables, wanted[DEVICE_EVENTS.name])
    kept = {name: tables[name].select(table.column_names) for name, table in wanted.items()}
    return RankTrace(source.rank, kept, parsed.metadata)


def narrowed(trace: RankTrace, reads: Sequence[Table]) -> RankTrace:
    """A rank that is in memory, with exactly what ``reads`` asks for; what it lacks is empty or null."""
    wanted = merged(reads)
    tables = {name: _filled(trace.tables.get(name), table) for name, table in wanted.items()}
    if RANK_INFO.name in wanted and RANK_INFO.name not in trace.tables:
        seen = {table.name: _filled(trace.tables.get(table.name), table) for table in info.READS}
        tables[RANK_INFO.name] = info.describe(trace.rank, seen, trace.metadata)
    return replace(trace, tables=tables)


def merged(reads: Iterable[Table]) -> dict[str, Table]:
    """Each table once, with every column that any of ``reads`` asks for."""
    wanted: dict[str, Table] = {}
    for table in reads:
        known = wanted[table.name].columns if table.name in wanted else ()
        columns = {column.name: column for column in (*known, *table.columns)}
        wanted[table.name] = replace(table, columns=tuple(columns.values()))
    return wanted


def _to_parse(wanted: dict[str, Table]) -> list[Table]:
    """What must be read from the file so that ``wanted`` can be made."""
    reads = [table for table in wanted.values() if table.name not in (RANK_INFO.name, PROBLEMS.name)]
    if RANK_INFO.name in wanted:
        reads += [table for table in info.READS if table.name != PROBLEMS.name]
    if RANK_INFO.name in wanted or PROBLEMS.name in wanted:
        reads.append(_READ_PROBLEMS)
    made = [
        name for name in _MADE_OF if DEVICE_EVENTS.name in wanted and name in wanted[DEVICE_EVENTS.name].column_names
    ]
    if made:
        reads.append(DEVICE_EVENTS.only(*(name for column in made for name in _MADE_OF[column])))
    if "step" in made:
        reads.append(STEPS.only("step", "start_ns", "end_ns"))
    from_file = merged(reads)
    if made:
        events = from_file[DEVICE_EVENTS.name]
        kept = tuple(column for column in events.columns if column.name not in made)
        from_file[DEVICE_EVENTS.name] = replace(events, columns=kept)
    return list(from_file.values())


def _completed(tables: dict[str, pl.DataFrame], wanted: Table) -> pl.DataFrame:
    events = tables[DEVICE_EVENTS.name]
    if "kind" in wanted.column_names:
        events = events.with_columns(kind=kernel_kinds.kinds(events))
    if "step" in wanted.column_names:
        events = events.with_columns(step=steps.launched_in(events["launch_ns"], tables[STEPS.name]))
    return events


def _located(problems: pl.DataFrame, source: RankSource) -> pl.DataFrame:
    rank, file = pl.lit(source.rank, pl.Int32()), pl.lit(str(source.path))
    return problems.with_columns(rank=rank, file=file).select(PROBLEMS.column_names)


def _filled(frame: pl.DataFrame | None, table: Table) -> pl.DataFrame:
    if frame is None:
        return table.empty()
    return frame.select(
        (pl.col(column.name) if column.name in frame.columns else pl.lit(None).alias(column.name)).cast(
            column.unit.dtype
        )
        for column in table.columns
    )
