"""One rank's tables, with the columns that are not in the file but follow from it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import polars as pl

from holotrace.core.on_demand import Held, OnDemand, Tables, whole
from holotrace.core.plans import constant
from holotrace.core.schema import Table, filled, in_order, legible
from holotrace.core.source import RankSource
from holotrace.core.tables import ALL, CALLS, DEVICE_EVENTS, PROBLEMS, RANK_INFO, XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive import call_tree, kernel_kinds
from holotrace.formats import FORMATS, Format
from holotrace.formats.parsed import Columns, Parsed, RankParts
from holotrace.loading import info

_DECLARED = {table.name: table for table in ALL}
# Tables whose column ``kind`` is made here, and the columns of the file that it is made of.
_OF_A_KIND = (DEVICE_EVENTS.name, XLA_OPS.name)
_MAKE_KIND = ("category", "name")
# The columns of the problems table that a reader knows; who and where is added here.
_READ_PROBLEMS = PROBLEMS.only("problem", "count", "first_offset", "example", "action")


def load(source: RankSource, reads: Sequence[Table], *, every_problem: bool = False) -> RankTrace:
    """Read one rank's file as far as ``reads`` asks for; what its format lacks is empty or null.

    Args:
        source: The file.
        reads: Tables and columns.
        every_problem: Look also into what ``reads`` does not ask for, so that no problem of the file stays unseen.
    """
    wanted = merged(reads)
    asked = _asked(wanted, FORMATS[source.format])
    read = _from_file(source, asked, in_files(asked), every_problem)
    tables = dict(read.held)
    if CALLS.name in asked:
        tables[CALLS.name] = _calls(tables, asked[CALLS.name])
    filled = {name: _filled(tables.get(name), table) for name, table in wanted.items()}
    return replace(read, tables=Tables(filled), kinds=source.kinds, settings=source.settings)


def parts(source: RankSource | RankTrace, reads: Sequence[Table]) -> RankParts:
    """The same for who writes it on: frames are made only of what is made here."""
    scan = FORMATS[source.format].scan if isinstance(source, RankSource) else None
    if isinstance(source, RankSource) and scan:
        wanted = merged(reads)
        scanned = scan(source, _to_parse(wanted, FORMATS[source.format]))
        made = _made(source, wanted, wanted, scanned)
        tables = {name: [there[name] for there in (scanned.tables, made) if name in there] for name in wanted}
        return RankParts(source.rank, made[RANK_INFO.name], tables, scanned.metadata)
    trace = narrowed(source, reads) if isinstance(source, RankTrace) else load(source, reads)
    return RankParts(
        trace.rank, trace[RANK_INFO], {name: [table] for name, table in trace.held.items()}, trace.metadata
    )


def _complete(declared: Format, source: RankSource, needed: Mapping[str, Table]) -> RankTrace:
    """One rank of a file whose kinds are as it was written, or as the user's own rules say now."""
    decided = [name for name in _OF_A_KIND if source.kinds and _has_kind(needed.get(name))]
    reads = merged([*needed.values(), *(_DECLARED[name].only(*_MAKE_KIND) for name in decided)])
    read = declared.read(source, list(reads.values()))
    kinds = {}
    for name in decided:
        table = whole(read.tables[name])
        kinds[name] = table.with_columns(kernel_kinds.kinds(table, source.kinds))
    return RankTrace(source.rank, Tables({**read.tables, **kinds}), read.metadata)


def _from_file(
    source: RankSource, wanted: Mapping[str, Table], needed: Mapping[str, Table], every_problem: bool
) -> RankTrace:
    declared = FORMATS[source.format]
    if declared.has_made_columns:
        return _complete(declared, source, needed)
    reader = declared.read_closely if every_problem and declared.read_closely else declared.read
    parsed = reader(source, _to_parse(needed, declared))
    made = _made(source, wanted, needed, parsed)
    read: dict[str, Held] = {}
    for name, table in parsed.tables.items():
        if isinstance(table, pl.DataFrame):
            read[name] = in_order(_told(table.hstack(made[name]) if name in made else table))
        elif name in _OF_A_KIND and _has_kind(needed.get(name)):
            read[name] = table.with_made("kind", _MAKE_KIND, partial(kernel_kinds.kinds, rules=source.kinds))
        else:
            read[name] = table
    return RankTrace(source.rank, Tables({**made, **read}), parsed.metadata)


def _told(table: pl.DataFrame) -> pl.DataFrame:
    """The columns in which there is anything: of the others nothing need be held."""
    return table[[column.name for column in table.get_columns() if column.null_count() < table.height]]


def _made(
    source: RankSource, wanted: Mapping[str, Table], needed: Mapping[str, Table], parsed: Parsed[Columns]
) -> dict[str, pl.DataFrame]:
    """The columns that are not in the file, by table."""

    def frame(table: Table) -> pl.DataFrame:
        there = parsed.tables.get(table.name)
        return table.empty() if there is None else pl.DataFrame(there.select(table.column_names))

    made = {}
    if PROBLEMS.name in parsed.tables:
        made[PROBLEMS.name] = _place(source, frame(PROBLEMS.only("count")).height)
    if RANK_INFO.name in wanted:
        tables = {table.name: frame(table) for table in info.READS}
        made[RANK_INFO.name] = info.describe(
            source.rank, tables, parsed.metadata, source=source, parsed=parsed, settings=source.settings
        )
    for name in _OF_A_KIND:
        there = parsed.tables.get(name)
        if there is not None and not isinstance(there, OnDemand) and _has_kind(needed.get(name)):
            named = frame(_DECLARED[name].only(*_MAKE_KIND))
            made[name] = kernel_kinds.kinds(named, source.kinds).to_frame("kind")
    return made


def narrowed(trace: RankTrace, reads: Sequence[Table]) -> RankTrace:
    """A rank that is in memory, with exactly what ``reads`` asks for; what it lacks is empty or null."""
    wanted = merged(reads)
    tables = {name: _filled(trace.held.get(name), table) for name, table in wanted.items()}
    if RANK_INFO.name in wanted and RANK_INFO.name not in trace.held:
        seen = {table.name: whole(_filled(trace.held.get(table.name), table)) for table in info.READS}
        tables[RANK_INFO.name] = info.describe(trace.rank, seen, trace.metadata, settings=trace.settings)
    if CALLS.name in wanted and CALLS.name not in trace.held:
        tables[CALLS.name] = _calls(trace.held, wanted[CALLS.name])
    return replace(trace, tables=Tables(tables))


def _calls(tables: Mapping[str, Held], wanted: Table) -> pl.DataFrame:
    made_of = {table.name: whole(_filled(tables.get(table.name), table)) for table in call_tree.READS}
    return call_tree.calls(made_of, wanted.column_names)


def merged(reads: Iterable[Table]) -> dict[str, Table]:
    """Each table once, with every column that any of ``reads`` asks for."""
    same: dict[str, list[Table]] = {}
    for table in reads:
        same.setdefault(table.name, []).append(table)
    return {name: _together(tables) for name, tables in same.items()}


def _together(tables: Sequence[Table]) -> Table:
    """The same table with every column that any of these has."""
    columns = {column.name: column for table in tables for column in table.columns}
    is_single = all(table.of_single_launches for table in tables)
    return replace(tables[-1], columns=tuple(columns.values()), of_single_launches=is_single)


def _asked(wanted: Mapping[str, Table], declared: Format) -> dict[str, Table]:
    """What is asked of a file of that format."""
    return {
        name: table for name, table in wanted.items() if not (table.of_single_launches and declared.launches_programs)
    }


def in_files(wanted: dict[str, Table]) -> dict[str, Table]:
    """``wanted``, with what calls are made of in their place."""
    if CALLS.name not in wanted:
        return wanted
    return merged([*(table for table in wanted.values() if table.name != CALLS.name), *call_tree.READS])


def _to_parse(wanted: Mapping[str, Table], declared: Format) -> list[Table]:
    """What must be read from a file of that format so that ``wanted`` can be made."""
    reads = [table for table in wanted.values() if table.name not in (RANK_INFO.name, PROBLEMS.name)]
    if RANK_INFO.name in wanted:
        reads += [table for table in info.READS if table.name != PROBLEMS.name]
    if RANK_INFO.name in wanted or PROBLEMS.name in wanted:
        reads.append(_READ_PROBLEMS)
    reads += [_DECLARED[name].only(*_MAKE_KIND) for name in _OF_A_KIND if _has_kind(wanted.get(name))]
    known = {table.name: table.column_names for table in declared.tables}
    return [_in_file(table, known[table.name]) for table in merged(reads).values() if table.name in known]


def _has_kind(table: Table | None) -> bool:
    return table is not None and "kind" in table.column_names


def _in_file(table: Table, known: Collection[str]) -> Table:
    """The table without the column that is made here, and those that the format has not; with the caller's own."""
    made = ("kind",) if table.name in _OF_A_KIND else ()
    lacking = {*_DECLARED[table.name].column_names} - {*known}
    return replace(table, columns=tuple(c for c in table.columns if c.name not in made and c.name not in lacking))


def _place(source: RankSource, count: int) -> pl.DataFrame:
    """Whose and where each of some problems is."""
    return pl.DataFrame(
        [constant("rank", source.rank, count, pl.Int32()), constant("file", legible(source.path), count)]
    )


def _filled(held: Held | None, table: Table) -> Held:
    if held is None:
        return table.empty()
    return held.filled(table.columns) if isinstance(held, OnDemand) else in_order(filled(held, table.columns))
