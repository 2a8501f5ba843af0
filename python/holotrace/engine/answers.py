"""Answers that a dataset gave, kept in it for the next time it is asked."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import polars as pl

from holotrace.analyses import ALL
from holotrace.core.schema import Column
from holotrace.core.tables import PROBLEMS, RANK_INFO
from holotrace.discovery import RankSource
from holotrace.engine.map_ranks import Load, RankTask, Source, Unread
from holotrace.engine.questions import Answers, Questions
from holotrace.errors import InputError, UsageError
from holotrace.formats.dataset.layout import FORMAT, answers, part, root_of, size
from holotrace.formats.dataset.read import TABLES
from holotrace.loading.rank import load
from holotrace.stores import object_store as stores
from holotrace.stores.object_store import Place, Remote

_MOST_BYTES = 1 << 26  # of one rank's answers, which are small tables
_IMPORTED_NS = time.time_ns()
# What is asked again and again: every analysis, with the options it has by itself.
EVERYTHING = Questions(tuple((analysis, {}) for analysis in ALL))
_ANALYSES = {analysis.name: analysis for analysis in ALL}
_COLUMNS = {
    **{analysis.name: analysis.part_columns for analysis in ALL},
    RANK_INFO.name: RANK_INFO.columns,
    PROBLEMS.name: PROBLEMS.columns,
}
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

# Tells this program from another; None where that is unknown.
Program = Callable[[], bytes | None]

log = logging.getLogger("holotrace")


def program_in(folder: Path, imported_ns: int) -> bytes | None:
    """What tells the program in ``folder`` from any other; None where it was changed since ``imported_ns``."""
    files, digest = _content_of(folder)
    return None if any(os.stat(file).st_ctime_ns > imported_ns for file in files) else digest  # noqa: PTH116  # faster


def running_program() -> bytes | None:
    """What tells the program that runs from any other; None where its files are no more those that were imported."""
    return program_in(Path(__file__).parents[1], _IMPORTED_NS)


@lru_cache
def _content_of(folder: Path) -> tuple[tuple[str, ...], bytes]:
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".so", ".pyd"))
    return tuple(map(str, files)), _digest(pl.__version__.encode(), *(path.read_bytes() for path in files))


@dataclass(frozen=True)
class QuestionTask:
    """Answers questions on one rank: as far as it can from what the rank's dataset keeps, else from its tables."""

    questions: Questions
    # A store is only written to where that is asked for.
    into_stores: bool = False
    load: Load = load
    program: Program = running_program

    def __call__(self, source: Source) -> Answers | Unread:
        kept = _Kept.of(source, self.program) if isinstance(source, RankSource) and source.format == FORMAT else None
        if kept is None:
            return self._asked(self.questions, source)
        # With options it is another answer, and an analysis of the caller's own may change at any time.
        plain = {
            analysis.name
            for analysis, options in self.questions.asked
            if not options and _ANALYSES.get(analysis.name) is analysis
        }
        known = kept.read()
        parts = {name: known[name] for name in plain & known.keys()}
        rest = replace(self.questions, asked=tuple(each for each in self.questions.asked if each[0].name not in parts))
        if known and not rest.asked:
            return Answers(parts, known[RANK_INFO.name], known[PROBLEMS.name])
        found = self._asked(rest, source)
        if isinstance(found, Unread):
            return found
        new = {name: found.parts[name] for name in plain - parts.keys()}
        if new and (self.into_stores or not isinstance(kept.path, Remote)):
            kept.write({**known, **new, RANK_INFO.name: found.info, PROBLEMS.name: found.problems})
        return Answers({**parts, **found.parts}, found.info, found.problems)

    def _asked(self, questions: Questions, source: Source) -> Answers | Unread:
        return RankTask(questions, questions.reads, self.load, questions.every_problem)(source)


@dataclass(frozen=True)
class _Kept:
    """The answers of one rank in a file: a table each, in Arrow's stream format."""

    path: Place
    # Tells the rank as it is and the program as it runs from all others.
    identity: bytes
    # Tells whether a table was changed since; empty in a store, where asking each file for its size costs a trip.
    tables: bytes

    @classmethod
    def of(cls, source: RankSource, program_of: Program) -> _Kept | None:
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
        return cls(path, _digest(program, str(rank).encode(), stamp, repr(source.kinds).encode()), tables)

    def read(self) -> dict[str, pl.DataFrame]:
        """All that is there; nothing where it is damaged, or not of this rank and program."""
        try:
            with ZipFile(BytesIO(_content(self.path))) as archive:
                if not archive.comment.startswith(self.identity + self.tables) or not _all_ours(archive):
                    return {}
                found = {name: pl.read_ipc_stream(BytesIO(archive.read(name))) for name in archive.namelist()}
        except _DAMAGE:
            return {}
        return found if all(_as_declared(frame, _COLUMNS[name]) for name, frame in found.items()) else {}

    def write(self, parts: Mapping[str, pl.DataFrame]) -> None:
        """Keep them in place of what was there, if the place can be written to."""
        content = BytesIO()
        with ZipFile(content, "w") as archive:
            archive.comment = self.identity + self.tables
            for name, frame in parts.items():
                stream = BytesIO()
                frame.write_ipc_stream(stream, compression="zstd")
                archive.writestr(ZipInfo(name), stream.getvalue())
        if content.tell() > _MOST_BYTES:
            return
        try:
            _save(self.path, content.getvalue())
        except (OSError, UsageError) as error:
            log.debug("answers are not kept: %s", error)


def _all_ours(archive: ZipFile) -> bool:
    """Whether what is in it can be answers, told before anything is inflated."""
    named = all(entry.filename in _COLUMNS and entry.compress_type == ZIP_STORED for entry in archive.infolist())
    return named and {RANK_INFO.name, PROBLEMS.name} <= set(archive.namelist())


def _as_declared(frame: pl.DataFrame, columns: tuple[Column, ...]) -> bool:
    return list(frame.schema.items()) == [(column.name, column.unit.dtype) for column in columns]


def _content(path: Place) -> bytes:
    if isinstance(path, Remote):
        return stores.first(path, _MOST_BYTES)
    return path.read_bytes() if path.is_file() and path.stat().st_size <= _MOST_BYTES else b""


def _save(path: Place, content: bytes) -> None:
    if isinstance(path, Remote):
        stores.save(path, content)
        return
    path.parent.mkdir(exist_ok=True)
    # Others may be writing the same.
    making = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        with making.open("xb") as file:
            file.write(content)
        making.replace(path)
    finally:
        making.unlink(missing_ok=True)


def _sizes(root: Path, rank: int) -> bytes:
    return _digest(*(str(size(root, table.name, rank)).encode() for table in TABLES))


def _digest(*parts: bytes) -> bytes:
    # Each with its length, so that nothing can move from one to the next.
    digest = blake2b(digest_size=16)
    for one in parts:
        digest.update(len(one).to_bytes(8, "big"))
        digest.update(one)
    return digest.hexdigest().encode()
