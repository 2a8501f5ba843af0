"""Tables of ranks that were read, kept for the next question: in memory up to a limit, and beyond it in files."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any, Generic, TypeVar

import polars as pl

from holotrace.core.schema import Table
from holotrace.core.tables import PROBLEMS
from holotrace.core.trace import RankTrace
from holotrace.discovery import RankSource
from holotrace.engine.map_ranks import Load, RankTask, Source, Unread
from holotrace.errors import InputError
from holotrace.loading.rank import load, merged

T = TypeVar("T")
# A rank's number and where it is.
_Rank = tuple[int, str]
_Key = tuple[_Rank, str]
_SHARE = 4  # part of the machine's memory that is kept by default: a quarter
_UNKNOWN_BYTES = 1 << 30  # kept where a system does not say how much it has
_FREE_RATIO = 0.1  # of a disk that is left to others


def default_bytes() -> int:
    """How much a job keeps in memory unless it is told."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _SHARE
    except (AttributeError, OSError, ValueError):
        return _UNKNOWN_BYTES


@dataclass(frozen=True)
class _Cached:
    """A table as far as it was read, and its size in memory; in a file once that is written."""

    table: Table
    bytes: int
    frame: pl.DataFrame | None
    path: Path | None = None

    def has(self, wanted: Table) -> bool:
        is_read = wanted.of_single_launches or not self.table.of_single_launches
        return is_read and set(wanted.columns) <= set(self.table.columns)

    def read(self, wanted: Table) -> pl.DataFrame | None:
        """The columns; None where the file has gone in the meantime."""
        if self.frame is not None:
            return self.frame.select(wanted.column_names)
        try:
            return pl.read_ipc(self.path, columns=list(wanted.column_names)).select(wanted.column_names)  # type: ignore[arg-type]  # one of both is there
        except (OSError, pl.exceptions.PolarsError):
            return None


def write_arrow(frame: pl.DataFrame, path: Path) -> None:
    frame.write_ipc(path, compression="uncompressed")


class TableCache:
    """What was read of each rank; files are in a temporary folder that goes when this is closed, dropped or exited.

    Args:
        memory_bytes: As much is held in memory; the tables that were used least recently move to Arrow files.
        together: Columns that are read with any other of their table, as a next question will need them.
        load: Reads a rank.
        write: Writes a table that leaves memory.
    """

    def __init__(
        self,
        memory_bytes: int,
        together: Sequence[Table] = (),
        *,
        load: Load = load,
        write: Callable[[pl.DataFrame, Path], None] = write_arrow,
    ) -> None:
        self.memory_bytes = memory_bytes
        self._together = merged(together)
        self._load, self._write = load, write
        # Guards all that follows, and is never held while something is read or written.
        self._lock = Lock()
        # Least recently used first. What is on its way to a file is among those in files, with its frame.
        self._in_memory: OrderedDict[_Key, _Cached] = OrderedDict()
        self._in_files: OrderedDict[_Key, _Cached] = OrderedDict()
        self._held_bytes = 0
        self._metadata: dict[_Rank, Mapping[str, Any]] = {}
        self._numbers = count()
        self._folder: Path | None = None
        self._remove: Callable[[], object] = dict

    @property
    def held_bytes(self) -> int:
        """Bytes of the tables that are in memory."""
        return self._held_bytes

    def trace(self, source: RankSource, reads: Sequence[Table]) -> RankTrace:
        """The rank's tables as far as ``reads`` asks for; what is not kept yet is read."""
        wanted, rank = merged(reads), (source.rank, str(source.path))
        known, metadata = self._known(rank, wanted)
        found = {name: cached.read(wanted[name]) for name, cached in known.items() if cached.has(wanted[name])}
        frames = {name: frame for name, frame in found.items() if frame is not None}
        missing = [table for name, table in wanted.items() if name not in frames]
        if missing and PROBLEMS.name in frames:
            # Columns that were not read before may have problems of their own.
            missing.append(wanted[PROBLEMS.name])
        if missing or metadata is None:
            before = [known[table.name].table for table in missing if table.name in known]
            beside = [self._together[table.name] for table in missing if table.name in self._together]
            loaded = self._load(source, (*missing, *before, *beside))
            # A file that is asked for less may tell less of itself.
            metadata = {**(metadata or {}), **loaded.metadata}
            frames |= {table.name: loaded[table].select(table.column_names) for table in missing}
            self._keep(rank, metadata, {t: loaded[t] for t in merged((*missing, *before, *beside)).values()})
        return RankTrace(source.rank, frames, metadata, source.kinds, source.settings)

    def close(self) -> None:
        """Let go of everything; what is asked next is read again."""
        with self._lock:
            for entries in (self._in_memory, self._in_files, self._metadata):
                entries.clear()
            self._held_bytes = 0
            self._remove()
            self._folder = None

    def _known(self, rank: _Rank, names: Mapping[str, Table]) -> tuple[dict[str, _Cached], Mapping[str, Any] | None]:
        known = {}
        with self._lock:
            for name in names:
                for entries in (self._in_memory, self._in_files):
                    if cached := entries.get((rank, name)):
                        entries.move_to_end((rank, name))
                        known[name] = cached
            return known, self._metadata.get(rank)

    def _keep(self, rank: _Rank, metadata: Mapping[str, Any], frames: Mapping[Table, pl.DataFrame]) -> None:
        read = {(rank, t.name): _Cached(t, int(frame.estimated_size()), frame) for t, frame in frames.items()}
        with self._lock:
            self._metadata[rank] = metadata
            replaced = [self._in_files.pop(key, None) for key in read]
            for key, cached in read.items():
                before = self._in_memory.pop(key, None)
                self._in_memory[key] = cached
                self._held_bytes += cached.bytes - (before.bytes if before else 0)
            leaving = {}
            while self._held_bytes > self.memory_bytes:
                key, cached = self._in_memory.popitem(last=False)
                self._held_bytes -= cached.bytes
                leaving[key] = self._in_files[key] = cached
        for old in replaced:
            if old and old.path:
                old.path.unlink(missing_ok=True)
        for key, cached in leaving.items():
            self._spill(key, cached)

    def _spill(self, key: _Key, cached: _Cached) -> None:
        """Move a table to a file; where there is no room for it, it will be read again."""
        written = self._written(key, cached)
        with self._lock:
            # It may have been read again, or all let go, while it was written.
            is_current = self._in_files.get(key) is cached
            if is_current and written:
                self._in_files[key] = written
            elif is_current:
                del self._in_files[key]
            is_closed = written and written.path and written.path.parent != self._folder
        if not is_current and written and written.path:
            written.path.unlink(missing_ok=True)
            if is_closed:
                # It could not go with the rest while this was being written into it.
                with suppress(OSError):
                    written.path.parent.rmdir()

    def _written(self, key: _Key, cached: _Cached) -> _Cached | None:
        try:
            path = self._opened() / f"{key[0][0]}-{key[1]}-{next(self._numbers)}.arrow"
        except OSError:
            return None
        try:
            disk = shutil.disk_usage(path.parent)
            if cached.frame is None or disk.free - cached.bytes < disk.total * _FREE_RATIO:
                return None
            self._write(cached.frame, path)
        except (OSError, pl.exceptions.PolarsError):
            path.unlink(missing_ok=True)
            return None
        return _Cached(cached.table, cached.bytes, None, path)

    def _opened(self) -> Path:
        with self._lock:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="holotrace-"))
                self._remove = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            return self._folder


@dataclass(frozen=True)
class CachedRankTask(Generic[T]):
    """Runs a task on a rank whose tables are kept; for workers that share this process's memory."""

    cache: TableCache
    task: RankTask[T]

    def __call__(self, source: Source) -> T | Unread:
        if isinstance(source, RankTrace):
            return self.task(source)
        try:
            trace = self.cache.trace(source, self.task.reads)
        except InputError as error:
            return Unread(source, error)
        return self.task(trace)
