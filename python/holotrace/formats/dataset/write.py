"""One rank's tables as Parquet files of a dataset."""

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

from holotrace import stores
from holotrace.core.native import native
from holotrace.core.on_demand import OnDemand
from holotrace.core.schema import Table
from holotrace.core.tables import ALL, FLOWS, RANK, RANK_INFO
from holotrace.formats.dataset.layout import STAMP, UNSUMMED, Stamp, answers, part, summed
from holotrace.formats.dataset.read import TABLES, TIMES
from holotrace.formats.parsed import Columns, RankParts
from holotrace.stores import Place, Remote

_WORKSHOP = ".rank="
_ABANDONED_S = 3600  # nobody takes as long from one table of a rank to the next
_WRITERS = 2  # tables at once; making one is work for one core
# Making arrows takes longest, and nobody shall wait for them in the end.
_IN_TURN = (FLOWS, *(table for table in ALL if table is not FLOWS))


def write(root: Place, rank: RankParts, seen: Stamp) -> None:
    """Write a whole rank, in place of what was there; an interruption leaves that, none, or the whole one."""
    with _workshop(root, rank.rank) as making:
        rows = _write_all(making, rank)
        sums = {name: native.checksum(str(making / name)) for name in rows}
        stamped = replace(seen, rows=rows, sums=sums, metadata=rank.metadata)
        _write(making, RANK_INFO, rank.tables[RANK_INFO.name], {STAMP: stamped.text(), "sum": UNSUMMED})
        own = making / RANK_INFO.name
        own.write_bytes(summed(own.read_bytes()))
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
    times = next((name for name in TIMES if name in table.column_names), None)
    framed = (part.select(part.columns) if isinstance(part, OnDemand) else part for part in parts)
    whole = [_signed(part).rechunk() if isinstance(part, pl.DataFrame) else part for part in framed]
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
