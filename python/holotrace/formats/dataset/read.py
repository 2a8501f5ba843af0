"""One rank of a dataset: its Parquet files as tables."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from holotrace import stores
from holotrace.core.native import native
from holotrace.core.schema import Table, Unit, filled
from holotrace.core.source import RankSource
from holotrace.core.tables import ALL, RANK_INFO, STEPS
from holotrace.errors import InputError
from holotrace.formats.dataset.layout import Stamp, part, root_of, stamp
from holotrace.formats.parsed import Parsed
from holotrace.stores import Place, Remote

TABLES = (*ALL, RANK_INFO)
# Rows are stored in the order of the first of these that a table has, so that statistics tell times apart.
TIMES = ("start_ns", "time_ns", "launch_start_ns")
_DECLARED = {table.name: set(table.column_names) for table in TABLES}
_ENDS = ("end_ns", "launch_end_ns")
# The first of these tells in which order the trace had them; steps are by time there too.
_ORDER = ("event_id", "device_event_id")


def read(source: RankSource, tables: Sequence[Table]) -> Parsed[pl.DataFrame]:
    """The wanted tables of one rank, as its trace had them; columns that are newer than it are null.

    Raises InputError for columns of the caller's own: only the trace has other args than those of the tables.
    """
    started = time.perf_counter_ns()
    root = root_of(source)
    seen = stamp(root, source.rank)
    if seen is None:
        raise InputError(f"rank {source.rank} of {root} is gone; convert it again")
    frames = {table.name: _table(root, source.rank, table, seen) for table in tables}
    return Parsed(frames, seen.metadata, {}, time.perf_counter_ns() - started)


def _table(root: Place, rank: int, table: Table, seen: Stamp) -> pl.DataFrame:
    if own := [column for column in table.column_names if column not in _DECLARED[table.name]]:
        raise InputError(f"{root} is a dataset and holds no {', '.join(own)} of {table.name}; ask the traces")
    path = part(root, table.name, rank)
    if table.name not in seen.rows and table.name != RANK_INFO.name:
        # Declared after the dataset was written.
        return table.empty()
    try:
        _check_sum(path, seen.sums.get(table.name))
        frame = _columns(path, table, rank)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = str(error).strip().partition("\n")[0]
        network = "check the network, or " if isinstance(path, Remote) else ""
        raise InputError(
            f"{path} cannot be read ({reason}); {network}convert rank {rank} again with overwrite=True (--overwrite)"
        ) from error
    if frame.height != seen.rows.get(table.name, 1):
        raise InputError(
            f"{path} has {frame.height} rows and not the {seen.rows.get(table.name, 1)} that were written; "
            f"convert rank {rank} again with overwrite=True (--overwrite)"
        )
    if lost := [name for name in frame.columns if _is_always_there(table, name) and frame[name].null_count()]:
        raise InputError(
            f"{path} has rows without {lost[0]}; convert rank {rank} again with overwrite=True (--overwrite)"
        )
    return frame


def _check_sum(path: Place, known: int | None) -> None:
    """Raises OSError for a file that is not as it was written.

    Of an object store only the columns that are asked for are fetched, and it keeps checksums of its own.
    """
    if known is not None and isinstance(path, Path) and native.checksum(str(path)) != known:
        raise OSError("its checksum is another")


def _is_always_there(table: Table, column: str) -> bool:
    named_by = ("step",) if table.name == STEPS.name else _ORDER
    return column in (*TIMES, *_ENDS, *named_by)


def _columns(path: Place, table: Table, rank: int) -> pl.DataFrame:
    """The table's columns, its rows in the order in which the trace had them."""
    stored = stores.scan(path)
    there = stored.collect_schema().names()
    order = [name for name in _ORDER if name in there and table.name != STEPS.name][:1]
    needed = [name for name in there if name in table.column_names or name in order]
    # Without a column there would be no rows to be null.
    frame = stored.select(needed or there[:1]).collect()
    if order and not frame[order[0]].is_sorted():
        frame = frame.sort(order, maintain_order=True)
    # How long a trace took to read says nothing of its dataset.
    told = frame.drop("load_ns", strict=False)
    ranks = [pl.lit(rank, c.unit.dtype).alias(c.name) for c in table.columns if c.unit is Unit.RANK]
    return filled(told.with_columns(ranks) if ranks else told, table.columns)
