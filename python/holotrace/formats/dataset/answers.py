"""Answers that a dataset gave, kept in it for the next time it is asked."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import polars as pl

from holotrace import stores
from holotrace.core import arrow
from holotrace.core.schema import Column
from holotrace.core.source import RankSource
from holotrace.core.tables import PROBLEMS, RANK_INFO
from holotrace.errors import InputError, UsageError
from holotrace.formats.dataset.layout import answers, part, root_of, size
from holotrace.formats.dataset.read import TABLES
from holotrace.formats.declaration import Program
from holotrace.stores import Place, Remote

MOST_BYTES = 1 << 26  # of one rank's answers, which are small tables
# What reading raises where there is nothing, or what is not ours.
_DAMAGE = (
    OSError,
    InputError,
    BadZipFile,
    EOFError,
    ValueError,
    RuntimeError,
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
)

log = logging.getLogger("holotrace")


@dataclass(frozen=True)
class StoredAnswers:
    """The answers of one rank in a file: a table each, in Arrow's stream format."""

    path: Place
    # Tells the rank as it is and the program as it runs from all others.
    identity: bytes
    # Tells whether a table was changed since; empty in a store, where asking each file for its size costs a trip.
    tables: bytes

    @classmethod
    def of(cls, source: RankSource, program_of: Program) -> StoredAnswers | None:
        """Those of a rank of a dataset; None where nothing can be kept."""
        root, rank = root_of(source), source.rank
        try:
            program = program_of()
            path, stamp = answers(root, rank), stores.content(part(root, RANK_INFO.name, rank))
            if stamp is None or program is None:
                return None
            tables = b"" if isinstance(root, Remote) else _sizes(root, rank)
        except (OSError, InputError):
            # Its reader says what is wrong.
            return None
        return cls(
            path, digest_of(program, str(rank).encode(), stamp, repr((source.kinds, source.settings)).encode()), tables
        )

    @property
    def is_remote(self) -> bool:
        return isinstance(self.path, Remote)

    def read(self, columns: Mapping[str, tuple[Column, ...]]) -> dict[str, pl.DataFrame]:
        """All that is there, with these columns by name; nothing where it is damaged, or of another program."""
        try:
            with ZipFile(BytesIO(_content(self.path))) as archive:
                if not archive.comment.startswith(self.identity + self.tables) or not _all_ours(archive, columns):
                    return {}
                found = {name: pl.read_ipc_stream(BytesIO(archive.read(name))) for name in archive.namelist()}
        except _DAMAGE:
            return {}
        return found if all(_as_declared(frame, columns[name]) for name, frame in found.items()) else {}

    def write(self, parts: Mapping[str, pl.DataFrame]) -> None:
        """Keep them in place of what was there, if the place can be written to."""
        content = BytesIO()
        with ZipFile(content, "w") as archive:
            archive.comment = self.identity + self.tables
            for name, frame in parts.items():
                archive.writestr(ZipInfo(name), arrow.stream(frame))
        if content.tell() > MOST_BYTES:
            return
        try:
            if isinstance(self.path, Path):
                self.path.parent.mkdir(exist_ok=True)
            stores.save(self.path, content.getvalue())
        except (OSError, UsageError) as error:
            log.debug("answers are not kept: %s", error)


def _all_ours(archive: ZipFile, columns: Collection[str]) -> bool:
    """Whether what is in it can be answers, told before anything is inflated."""
    named = all(entry.filename in columns and entry.compress_type == ZIP_STORED for entry in archive.infolist())
    return named and {RANK_INFO.name, PROBLEMS.name} <= set(archive.namelist())


def _as_declared(frame: pl.DataFrame, columns: tuple[Column, ...]) -> bool:
    return list(frame.schema.items()) == [(column.name, column.unit.dtype) for column in columns]


def _content(path: Place) -> bytes:
    if isinstance(path, Remote):
        return stores.first(path, MOST_BYTES)
    return path.read_bytes() if path.is_file() and path.stat().st_size <= MOST_BYTES else b""


def _sizes(root: Path, rank: int) -> bytes:
    return digest_of(*(str(size(root, table.name, rank)).encode() for table in TABLES))


def digest_of(*parts: bytes) -> bytes:
    """A digest that other parts do not have."""
    # Each with its length, so that nothing can move from one to the next.
    digest = blake2b(digest_size=16)
    for one in parts:
        digest.update(len(one).to_bytes(8, "big"))
        digest.update(one)
    return digest.hexdigest().encode()
