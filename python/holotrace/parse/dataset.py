"""One rank of a dataset: its tables as Parquet files, and back."""

from __future__ import annotations

import shutil
from base64 import b64encode
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from holotrace import stores
from holotrace._native import write_parquet
from holotrace.errors import InputError
from holotrace.schema import Column, Table, Unit
from holotrace.sources import RankSource
from holotrace.sources.dataset import STAMP, Stamp, answers, part, root_of, stamp
from holotrace.stores import Place, Remote
from holotrace.tables import ALL, RANK, RANK_INFO, STEPS
from holotrace.trace import RankTrace

TABLES = (*ALL, RANK_INFO)
_DECLARED = {table.name: set(table.column_names) for table in TABLES}
# Rows are stored in the order of the first of these that a table has, so that statistics tell times apart.
_TIMES = ("start_ns", "time_ns", "launch_start_ns")
# The first of these tells in which order the trace had them; steps are by time there too.
_ORDER = ("event_id", "device_event_id")
_WRITERS = 2  # tables at once; the largest takes nearly half of the time


def write(root: Place, trace: RankTrace, seen: Stamp) -> None:
    """Write a whole rank, in place of what was there; an interruption leaves none, or the whole one."""
    stores.remove(part(root, RANK_INFO.name, trace.rank))
    stores.remove(answers(root, trace.rank))
    seen = replace(seen, rows={table.name: trace[table].height for table in ALL}, metadata=trace.metadata)
    with _workshop(root, trace.rank) as making:
        _write_all(making, trace, {STAMP: seen.text()})
        # The stamp is the last of TABLES.
        for table in TABLES:
            stores.move(making / table.name, part(root, table.name, trace.rank))


@contextmanager
def _workshop(root: Place, rank: int) -> Iterator[Path]:
    """A folder of this machine for a rank's files until they are whole."""
    if isinstance(root, Remote):
        with TemporaryDirectory(prefix="holotrace-") as folder:
            yield Path(folder)
        return
    # Where a rename leads into the dataset; what a process that was killed left there goes the next time.
    making = root / f".rank={rank}"
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir()
    yield making
    making.rmdir()


def _write_all(making: Path, trace: RankTrace, stamped: Mapping[str, str]) -> None:
    def write_one(table: Table) -> None:
        _write(making / table.name, table, trace[table], stamped if table is RANK_INFO else {})

    # The largest first, so that nobody waits for it in the end.
    tables = sorted(TABLES, key=lambda table: trace[table].estimated_size(), reverse=True)
    with ThreadPoolExecutor(_WRITERS, thread_name_prefix="holotrace") as writers:
        list(writers.map(write_one, tables))


def _write(path: Path, table: Table, frame: pl.DataFrame, metadata: Mapping[str, str]) -> None:
    there = frame.drop(RANK.name, strict=False).rechunk()
    times = next((name for name in _TIMES if name in there.columns), None)
    write_parquet(str(path), there, by=times, metadata=[*_arrow_schema(table), *metadata.items()])


@cache
def _arrow_schema(table: Table) -> list[tuple[str, str]]:
    """What tells labels from other text, for those who know Arrow; as long as the rest of a small file."""
    empty = table.empty().drop(RANK.name, strict=False)
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
    return frame


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
    # Casting to the type a column has already would copy it.
    same = frame.schema[column.name] == column.unit.dtype
    return pl.col(column.name) if same else pl.col(column.name).cast(column.unit.dtype)
