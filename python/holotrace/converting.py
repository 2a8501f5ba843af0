"""Traces as a dataset: Parquet files that open faster, take less space, and that other engines read."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl

from holotrace import stores
from holotrace.core.problems import LOST, UNREAD, frame
from holotrace.core.tables import PROBLEMS, RANK_INFO
from holotrace.core.trace import RankTrace
from holotrace.discovery import Paths, RankSource, Survey, spelled, survey
from holotrace.discovery.completeness import DOUBTS
from holotrace.engine.answers import EVERYTHING, QuestionTask
from holotrace.engine.map_ranks import Progress, Unread, attempt, read_ranks
from holotrace.engine.noticed import warn
from holotrace.errors import InputError, UsageError
from holotrace.formats import FORMATS
from holotrace.formats.dataset import write as dataset
from holotrace.formats.dataset.layout import (
    MANIFEST,
    Manifest,
    Stamp,
    is_dataset,
    is_of,
    manifest,
    manifest_text,
    stamps,
)
from holotrace.formats.dataset.read import TABLES
from holotrace.job import Job
from holotrace.loading.rank import parts
from holotrace.opening import open as open_job
from holotrace.stores import Member, Origin, Place, Remote

_END_BYTES = 64 * 1024  # of both ends of a file, which hold its first and last times and its check sum


@dataclass(frozen=True)
class Conversion:
    """What became of a job's ranks."""

    path: Place
    """Where the dataset is."""

    written: tuple[int, ...]
    """Written now."""

    kept: tuple[int, ...]
    """There already, from the same file."""

    problems: pl.DataFrame
    """Rows of the problems table: ranks that could not be read, and what those that were written are without."""


def convert(
    traces: Job | Paths,
    out: str | os.PathLike[str] | Remote,
    *,
    overwrite: bool = False,
    answers: bool = False,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Conversion:
    """Write traces as a dataset, or add their ranks to one: a Parquet file per table and rank, and their problems.

    It opens like traces do and gives the same answers. Ranks that are there from the same file are kept, so that an
    interrupted conversion goes on where it stopped. What no table has a column for stays in the traces only.

    Args:
        traces: A job, or where its traces (or another dataset) are.
        out: The folder, here or in an object store; it is made, or it is a dataset.
        overwrite: Write ranks again that are there, also from other files.
        answers: Keep the answers of all analyses in it too, which otherwise the first run of them does.
        executor: Where ranks are read and written, e.g. a process pool; all workers must see ``out``.
        progress: Called with the number of ranks done and of all that are to be written.

    Returns:
        Which ranks were written and which were there already, and what could not be read.

    Raises:
        InputError: ``out`` cannot be written, or holds a rank from another file.
        UsageError: ``out`` would be overwritten with itself.
    """
    found = (traces if isinstance(traces, Job) else open_job(traces)).found
    where = stores.place(out)
    root = where.resolve() if isinstance(where, Path) else where
    _prepare(root)
    if overwrite and any(isinstance(source, RankSource) and is_of(source, root) for source in found.sources):
        # An interruption would leave neither.
        raise UsageError(f"{root} cannot be overwritten with itself; convert it into another folder")
    present = {} if overwrite else stamps(root)[0]
    origins = {source.rank: _origin(source) for source in found.sources}
    there = {rank: origin for rank, origin in origins.items() if rank in present}
    other = [rank for rank, origin in there.items() if not _same(origin, present[rank].origin)]
    if other:
        known, given = (_called(o) for o in (present[other[0]].origin, origins[other[0]]))
        raise InputError(
            f"{root} has rank {spelled(other)} already, rank {other[0]} from {known} and not from {given}; "
            "choose another folder, or replace what is there with overwrite=True (--overwrite)"
        )
    wanted = [source for source in found.sources if source.rank not in there]
    _tell(root, found, (), ())
    done, unread = read_ranks(_Write(root), wanted, executor=executor, progress=progress) if wanted else ([], [])
    written = [each.rank for each in done]
    _tell(root, found, written, unread)
    if answers and (written or there):
        everything = QuestionTask(EVERYTHING, into_stores=True)
        read_ranks(everything, survey(root).sources, executor=executor, progress=progress)
    problems = frame([*unread, *(row for each in done for row in each.problems)])
    if not isinstance(traces, Job):
        warn(problems)
    return Conversion(root, tuple(written), tuple(sorted(there)), problems)


@dataclass(frozen=True)
class _Written:
    """A rank that was written, and its rows of the problems table."""

    rank: int
    problems: list[dict[str, Any]]


@dataclass(frozen=True)
class _Write:
    """Reads one rank and writes it; travels to any worker."""

    root: Place

    def __call__(self, source: RankSource | RankTrace) -> _Written | Unread:
        return attempt(source, self._write)

    def _write(self, source: RankSource | RankTrace) -> _Written:
        rank = parts(source, TABLES)
        job = source.metadata if isinstance(source, RankSource) else {}
        seen = Stamp(rank.info["rank_from"][0], _origin(source), {}, job)
        try:
            dataset.write(self.root, rank, seen)
        except OSError as error:
            raise _unwritten(self.root, error) from error
        parts_of_rows = [pl.DataFrame(part) for part in rank.tables.get(PROBLEMS.name, ())]
        problems = pl.concat(parts_of_rows, how="horizontal") if parts_of_rows else PROBLEMS.empty()
        return _Written(rank.rank, problems.select(PROBLEMS.column_names).rows(named=True))


def _prepare(root: Place) -> None:
    """Make the folder, or see that it is a dataset that may be written to."""
    if isinstance(root, Remote) and root.is_web:
        raise UsageError(f"{root} is of a web server, which takes no folders; name one here or in an object store")
    if is_dataset(root):
        manifest(root)
        if isinstance(root, Path):
            dataset.tidy(root)
        return
    try:
        if isinstance(root, Path):
            root.mkdir(parents=True, exist_ok=True)
        folders, files = stores.inside(root)
        # A dataset whose manifest was lost still has its ranks.
        if [*folders, *files] and RANK_INFO.name not in [folder.name for folder in folders]:
            raise UsageError(f"{root} is not empty and no dataset; name a new folder")
        if isinstance(root, Path):
            # Before anything else, so that who converts into it at the same time sees what it becomes.
            (root / RANK_INFO.name).mkdir(exist_ok=True)
    except OSError as error:
        raise _unwritten(root, error) from error


def _unwritten(root: Place, error: OSError) -> UsageError:
    return UsageError(f"{root} cannot be written: {error.strerror or error}; name a folder that can")


def _origin(source: RankSource | RankTrace) -> dict[str, Any]:
    """What tells the source's file from any other."""
    if isinstance(source, RankTrace):
        return {}
    if origin := FORMATS[source.format].origin:
        return dict(origin(source))
    try:
        ends = _ends(source.path)
    except (OSError, InputError):
        # It cannot be read, which its reader will say.
        return {"file": str(source.path)}
    own = {"kinds": hashlib.blake2b(repr(source.kinds).encode(), digest_size=16).hexdigest()} if source.kinds else {}
    return {"file": str(source.path), "ends": hashlib.blake2b(b"".join(ends), digest_size=16).hexdigest(), **own}


def _called(origin: Mapping[str, Any]) -> str:
    rules = " with rules for kinds" if origin.get("kinds") else ""
    return f"{origin.get('file', 'memory')}{rules}"


def _ends(path: Origin) -> tuple[bytes, ...]:
    if isinstance(path, Member):
        return (*_ends(path.archive), path.inside.encode())
    size = path.stat().st_size if isinstance(path, Path) else 0
    ends = stores.first(path, _END_BYTES), stores.last(path, _END_BYTES)
    return (*ends, str(size).encode()) if isinstance(path, Path) else ends


def _same(origin: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    return "ends" in origin and all(origin.get(key) == known.get(key) for key in ("ends", "kinds"))


def _tell(root: Place, found: Survey, whole: Collection[int], unread: Sequence[Mapping[str, Any]]) -> None:
    """Write the manifest: what it said, without ranks that have been read since, and what is known now."""
    known = manifest(root) if is_dataset(root) else Manifest(found.title, ())
    before = [row for row in known.problems if row["problem"] not in (UNREAD, LOST) or row["rank"] not in whole]
    now = [row for row in found.problems if row["problem"] not in DOUBTS]
    problems = {json.dumps(row, sort_keys=True): row for row in (*before, *now, *unread)}
    text = manifest_text(Manifest(known.title, tuple(problems.values())), version("holotrace"))
    try:
        stores.save(root / MANIFEST, text)
    except OSError as error:
        raise _unwritten(root, error) from error
