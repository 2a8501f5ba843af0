"""Tables of ranks that were read, kept for the next question: in memory up to a limit, and beyond it in files."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Generic, TypeVar

import polars as pl

from holotrace.core.schema import Table
from holotrace.core.trace import RankTrace
from holotrace.discovery import RankSource
from holotrace.engine.map_ranks import Source, Unread, Visit
from holotrace.errors import InputError
from holotrace.loading.rank import load, merged

T = TypeVar("T")
# A rank's number and where it is.
_Rank = tuple[int, str]
_SHARE = 4  # part of the machine's memory that is kept by default: a quarter
_UNKNOWN_BYTES = 1 << 30  # kept where a system does not say how much it has
_FREE_RATIO = 0.1  # of a disk that is left to others


def default_bytes() -> int:
    """How much a job keeps in memory unless it is told."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _SHARE
    except (AttributeError, OSError, ValueError):
        return _UNKNOWN_BYTES


@dataclass
class _Held:
    """A table as far as it was read, in memory or in a file."""

    table: Table
    where: pl.DataFrame | Path

    @property
    def bytes(self) -> int:
        """Of memory."""
        return int(self.where.estimated_size()) if isinstance(self.where, pl.DataFrame) else 0

    def has(self, wanted: Table) -> bool:
        return set(wanted.columns) <= set(self.table.columns)

    def read(self, wanted: Table) -> pl.DataFrame:
        if isinstance(self.where, pl.DataFrame):
            return self.where.select(wanted.column_names)
        return pl.read_ipc(self.where, columns=list(wanted.column_names)).select(wanted.column_names)


class RankCache:
    """What was read of each rank; files are in a temporary folder that goes when this is closed, dropped or exited.

    Args:
        memory_bytes: As much is held in memory; the tables that were used least recently move to Arrow files.
        together: Columns that are read with any other of their table, as a next question will need them.
    """

    def __init__(self, memory_bytes: int, together: Sequence[Table] = ()) -> None:
        self.memory_bytes = memory_bytes
        self._together = merged(together)
        # By rank and table, least recently used first.
        self._held: OrderedDict[tuple[_Rank, str], _Held] = OrderedDict()
        self._metadata: dict[_Rank, Mapping[str, Any]] = {}
        self._lock = Lock()
        self._folder: Path | None = None
        self._remove: Callable[[], object] = dict

    @property
    def held_bytes(self) -> int:
        """Bytes of the tables that are in memory."""
        return sum(held.bytes for held in self._held.values())

    def trace(self, source: RankSource, reads: Sequence[Table]) -> RankTrace:
        """The rank's tables as far as ``reads`` asks for; what is not kept yet is read."""
        wanted, rank = merged(reads), (source.rank, str(source.path))
        with self._lock:
            known = {name: held for name in wanted if (held := self._held.get((rank, name)))}
            frames = {name: held.read(wanted[name]) for name, held in known.items() if held.has(wanted[name])}
            for name in frames:
                self._held.move_to_end((rank, name))
            metadata = self._metadata.get(rank)
        missing = [table for name, table in wanted.items() if name not in frames]
        if missing or metadata is None:
            before = [known[table.name].table for table in missing if table.name in known]
            beside = [self._together[table.name] for table in missing if table.name in self._together]
            loaded = load(source, (*missing, *before, *beside))
            metadata = loaded.metadata
            frames |= {table.name: loaded[table].select(table.column_names) for table in missing}
            with self._lock:
                self._metadata[rank] = metadata
                for table in merged((*missing, *before, *beside)).values():
                    self._keep(rank, table, loaded[table])
        return RankTrace(source.rank, frames, metadata)

    def close(self) -> None:
        """Let go of everything; what is asked next is read again."""
        with self._lock:
            self._held.clear()
            self._metadata.clear()
            self._remove()
            self._folder = None

    def _keep(self, rank: _Rank, table: Table, frame: pl.DataFrame) -> None:
        self._forget((rank, table.name))
        self._held[rank, table.name] = _Held(table, frame)
        for key, held in list(self._held.items()):
            if self.held_bytes <= self.memory_bytes:
                return
            if isinstance(held.where, pl.DataFrame):
                self._spill(key, held, held.where)

    def _spill(self, key: tuple[_Rank, str], held: _Held, frame: pl.DataFrame) -> None:
        """Move a table to a file; where there is no room for it, it will be read again."""
        try:
            folder = self._opened()
            disk = shutil.disk_usage(folder)
            if disk.free - frame.estimated_size() < disk.total * _FREE_RATIO:
                raise OSError
            path = folder / f"{key[0][0]}-{key[1]}.arrow"
            frame.write_ipc(path, compression="uncompressed")
        except OSError:
            del self._held[key]
        else:
            held.where = path

    def _forget(self, key: tuple[_Rank, str]) -> None:
        held = self._held.pop(key, None)
        if held is not None and isinstance(held.where, Path):
            held.where.unlink(missing_ok=True)

    def _opened(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="holotrace-"))
            self._remove = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder


@dataclass(frozen=True)
class KeptVisit(Generic[T]):
    """Runs a task on a rank whose tables are kept; for workers that share this process's memory."""

    cache: RankCache
    visit: Visit[T]

    def __call__(self, source: Source) -> T | Unread:
        if isinstance(source, RankTrace):
            return self.visit(source)
        try:
            trace = self.cache.trace(source, self.visit.reads)
        except InputError as error:
            return Unread(source, error)
        return self.visit(trace)
