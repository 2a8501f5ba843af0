"""One rank of a dataset: its tables as Parquet files, and back."""

from __future__ import annotations

import os
import shutil
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from holotrace.core.native import native
from holotrace.core.schema import Column, Table, Unit, typed
from holotrace.core.tables import ALL, FLOWS, RANK, RANK_INFO, STEPS
from holotrace.core.trace import RankTrace
from holotrace.discovery import RankSource
from holotrace.errors import InputError
from holotrace.formats.dataset.layout import STAMP, Stamp, answers, part, root_of, stamp
from holotrace.formats.parsed import Columns, RankParts
from holotrace.stores import object_store as stores
from holotrace.stores.object_store import Place, Remote

TABLES = (*ALL, RANK_INFO)
_DECLARED = {table.name: set(table.column_names) for table in TABLES}
# Rows are stored in the order of the first of these that a table has, so that statistics tell times apart.
_TIMES = ("start_ns", "time_ns", "launch_start_ns")
_ENDS = ("end_ns", "launch_end_ns")
# The first of these tells in which order the trace had them; steps are by time there too.
_ORDER = ("event_id", "device_event_id")
_WORKSHOP = ".rank="
_ABANDONED_S = 3600  # nobody takes as long from one table of a rank to the next
_WRITERS = 2  # tables at once; making one is work for one core
# Making arrows takes longest, and nobody shall wait for them in the end.
_IN_TURN = (FLOWS, *(table for table in ALL if table is not FLOWS))


def write(root: Place, rank: RankParts, seen: Stamp) -> None:
    """Write a whole rank, in place of what was there; an interruption leaves that, none, or the whole one."""
    with _workshop(root, rank.rank) as making:
        rows = _write_all(making, rank)
        stamped = replace(seen, rows=rows, metadata=rank.metadata)
        _write(making, RANK_INFO, rank.tables[RANK_INFO.name], {STAMP: stamped.text()})
        # A disk that is full by now has not cost what was there.
        stores.remove(part(root, RANK_INFO.name, rank.rank))
        stores.remove(answers(root, rank.rank))
        # The stamp is the last of TABLES.
        for table in TABLES:
            stores.move(making / table.name, part(root, table.name, rank.rank))


@contextmanager
def _workshop(root: Place, rank: int) -> Iterator[Path]:
    """A folder of this machine for a rank's files until they are whole."""
    if isinstance(root, Remote):
        with TemporaryDirectory(prefix="holotrace-") as folder:
            yield Path(folder)
        return
    # Where a rename leads into the dataset. Another process may be writing the same rank.
    making = root / f"{_WORKSHOP}{rank}.{os.urandom(8).hex()}"
    making.mkdir()
    try:
        yield making
    finally:
        shutil.rmtree(making, ignore_errors=True)


def tidy(root: Path) -> None:
    """Remove what processes that were killed left in a dataset."""
    for left in root.glob(f"{_WORKSHOP}*"):
        # Another process may do the same.
        with suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(left, ignore_errors=True)


def _write_all(making: Path, rank: RankParts) -> dict[str, int]:
    """Write all tables but the stamp; returns how many rows each has."""
    with ThreadPoolExecutor(_WRITERS, thread_name_prefix="holotrace") as writers:
        rows = writers.map(lambda table: _write(making, table, rank.tables[table.name], {}), _IN_TURN)
        return dict(zip((table.name for table in _IN_TURN), rows, strict=True))


def _write(making: Path, table: Table, parts: Sequence[Columns], metadata: Mapping[str, str]) -> int:
    times = next((name for name in _TIMES if name in table.column_names), None)
    whole = [_signed(part).rechunk() if isinstance(part, pl.DataFrame) else part for part in parts]
    known = [*_arrow_schema(table), *metadata.items()]
    return native.write_parquet(str(making / table.name), _stored(table), whole, by=times, metadata=known)


@cache
def _stored(table: Table) -> pl.DataFrame:
    """The table without rows as it is stored; the rank is its folder's name."""
    return _signed(table.empty().drop(RANK.name, strict=False))


def _signed(frame: pl.DataFrame) -> pl.DataFrame:
    """Ids of 64 bits as signed numbers, which every reader of Parquet has."""
    return frame.with_columns(pl.col(pl.UInt64).reinterpret(signed=True))


@cache
def _arrow_schema(table: Table) -> list[tuple[str, str]]:
    """What tells labels from other text, for those who know Arrow; as long as the rest of a small file."""
    # Polars locks a frame while it is written, and one that other threads look at would keep all of them waiting.
    empty = _stored(table).clone()
    if pl.Categorical not in empty.schema.values():
        return []
    stream = BytesIO()
    empty.write_ipc_stream(stream, compat_level=pl.CompatLevel.oldest())
    # The first message of a stream: four bytes that begin it, its length, and the schema.
    message = stream.getvalue()
    length = 8 + int.from_bytes(message[4:8], "little")
    return [("ARROW:schema", b64encode(message[:length]).decode())]


def read(source: RankSource, wanted: Mapping[str, Table]) -> RankTrace:
    """One rank's tables as far as ``wanted``, as its trace had them; columns that are newer than it are null.

    Raises InputError for columns of the caller's own: only the trace has other args than those of the tables.
    """
    root = root_of(source)
    seen = stamp(root, source.rank)
    if seen is None:
        raise InputError(f"rank {source.rank} of {root} is gone; convert it again")
    tables = {name: _table(root, source.rank, table, seen) for name, table in wanted.items()}
    return RankTrace(source.rank, tables, seen.metadata)


def _table(root: Place, rank: int, table: Table, seen: Stamp) -> pl.DataFrame:
    if own := [column for column in table.column_names if column not in _DECLARED[table.name]]:
        raise InputError(f"{root} is a dataset and holds no {', '.join(own)} of {table.name}; ask the traces")
    path = part(root, table.name, rank)
    if table.name not in seen.rows and table.name != RANK_INFO.name:
        # Declared after the dataset was written.
        return table.empty()
    try:
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


def _is_always_there(table: Table, column: str) -> bool:
    named_by = ("step",) if table.name == STEPS.name else _ORDER
    return column in (*_TIMES, *_ENDS, *named_by)


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
    return frame.select(_column(frame, column, rank) for column in table.columns)


def _column(frame: pl.DataFrame, column: Column, rank: int) -> pl.Expr:
    if column.unit is Unit.RANK:
        return pl.lit(rank, column.unit.dtype).alias(column.name)
    # How long a trace took to read says nothing of its dataset.
    if column.name not in frame.columns or column.name == "load_ns":
        return pl.lit(None, column.unit.dtype).alias(column.name)
    return typed(frame, column)
