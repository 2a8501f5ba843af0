"""What a dataset is on disk: a manifest, and one Parquet file per table and rank.

``rank_info/rank=N/part.parquet`` is a rank's stamp: it is written last, so a rank without it is not there. Its Parquet
metadata say what no table holds: where the rank came from, its file's other keys, how many rows each table has, and
the checksum of each table's file. The checksum of the stamp's own file stands in it as well.
``answers/rank=N.zip`` holds answers that were given of the rank; nothing is lost with it.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from holotrace import stores
from holotrace.core.problems import UNREAD, frame, problem
from holotrace.core.source import MAX_RANKS, AnyPath, RankSource, believable
from holotrace.core.tables import DEVICE_EVENTS, PROBLEMS, RANK_INFO
from holotrace.errors import InputError, TraceFormatError
from holotrace.formats.declaration import OpenedFolder
from holotrace.stores import Place, Remote, place

# Grows when a table or column goes or changes its meaning; what is new is empty or null in older datasets.
SCHEMA = 1
NAME = "dataset"
# JSON, but not called so: it is no trace.
MANIFEST = "holotrace.dataset"
STAMP = "holotrace"  # key of the stamp in the Parquet metadata
# The checksum of a stamp's file, as it is where it is not known yet.
SUM = "holotrace-sum:"
UNSUMMED = f"{SUM}{0:08x}"
_SUMMED = re.compile(rb"holotrace-sum:([0-9a-f]{8})")
# Of a rank with other tables: its stamp is written last.
_WITHOUT_A_STAMP = "rank left out; convert its trace again if no conversion is under way"
# Reading footers waits for disks and network file systems far more than it computes.
_READERS = 8
# What content that is not as it was written ends in.
_DAMAGE = (ValueError, TypeError, KeyError, AttributeError, RecursionError, pl.exceptions.PolarsError)
_RANK = re.compile(r"rank=(0|[1-9]\d{0,8})", re.ASCII)


@dataclass(frozen=True)
class Manifest:
    """What a dataset says of the whole job."""

    title: str
    # Rows of the problems table that were known before the traces were read.
    problems: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Stamp:
    """What a dataset says of a rank beside its tables."""

    rank_from: str
    # Its trace file and what tells that from others; empty for a rank that was in none.
    origin: Mapping[str, Any]
    # Rows of each table.
    rows: Mapping[str, int]
    # What was known of the job before the file was read, and the file's top-level keys.
    job: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    # CRC-32 of each table's file; datasets of older versions have none.
    sums: Mapping[str, int] = field(default_factory=dict)

    def text(self) -> str:
        return json.dumps(asdict(self))


def is_dataset(path: AnyPath) -> bool:
    """Whether a dataset is there."""
    root = place(path)
    # Asking for a file that is not there is forbidden to those who may not list.
    return (root / MANIFEST).is_file() if isinstance(root, Path) else root / MANIFEST in stores.inside(root)[1]


def part(root: Place, table: str, rank: int) -> Place:
    """The file of one table and rank, which may not exist."""
    return _within(root, root / _file(table, rank))


def size(root: Path, table: str, rank: int) -> int | None:
    """Bytes of the file of one table and rank; None where there is none."""
    try:
        return (root / _file(table, rank)).stat().st_size
    except FileNotFoundError:
        return None


def answers(root: Place, rank: int) -> Place:
    """The file of a rank's answers, which may not exist."""
    return _within(root, root / "answers" / f"rank={rank}.zip")


def _file(table: str, rank: int) -> str:
    return f"{table}/rank={rank}/part.parquet"


def _within(root: Place, path: Place) -> Place:
    # A link must not make us read or write elsewhere.
    if isinstance(root, Path) and isinstance(path, Path) and not path.resolve().is_relative_to(root.resolve()):
        raise InputError(f"{path} leads out of its dataset; remove the link")
    return path


def root_of(source: RankSource) -> Place:
    """The dataset of a rank that is in one."""
    if not isinstance(source.path, Path | Remote):
        raise InputError(f"{source.path} is of a dataset that is no folder; unpack it")
    return source.path.parent.parent.parent


def manifest(root: Place) -> Manifest:
    """What the dataset at ``root`` is; raises InputError for a newer schema than this version knows."""
    path = root / MANIFEST
    try:
        found = json.loads(stores.content(path) or b"")
        schema, title, rows = int(found["schema"]), str(found["title"]), found["problems"]
        if found.get("sum", expected := _manifest_sum(title, rows)) != expected and schema <= SCHEMA:
            raise ValueError("the checksum is another")
        known = frame({name: row.get(name) for name in PROBLEMS.column_names} for row in rows).to_dicts()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}; check the folder") from error
    except _DAMAGE as error:
        raise InputError(f"{path} is damaged; remove it and convert the traces again: whole ranks are kept") from error
    if schema > SCHEMA:
        raise InputError(
            f"{root} has schema {schema}, written by holotrace {found.get('holotrace')}, and this version reads up to "
            f"{SCHEMA}; update holotrace, or convert the traces again"
        )
    return Manifest(title, tuple(known))


def manifest_text(known: Manifest, version: str) -> str:
    said = asdict(known)
    total = _manifest_sum(said["title"], said["problems"])
    return json.dumps({"schema": SCHEMA, "holotrace": version, **said, "sum": total}, indent=2)


def _manifest_sum(title: str, problems: Any) -> int:
    return zlib.crc32(json.dumps([title, problems]).encode())


def stamp(root: Place, rank: int) -> Stamp | None:
    """What the dataset says of a rank; None where the rank is not there, or not whole.

    Raises TraceFormatError where that is damaged, and InputError where it cannot be read.
    """
    path = part(root, RANK_INFO.name, rank)
    try:
        content = stores.content(path)
        if content is None:
            return None
        if not is_whole(content):
            raise ValueError("the checksum is another")
        found = json.loads(pl.read_parquet_metadata(BytesIO(content))[STAMP])
        rows = {str(name): int(count) for name, count in found["rows"].items()}
        sums = {str(name): int(known) for name, known in found.get("sums", {}).items()}
        job, metadata, origin = (dict(found[key]) for key in ("job", "metadata", "origin"))
        return Stamp(str(found["rank_from"]), origin, rows, believable(job), metadata, sums)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}; check the file") from error
    except (*_DAMAGE, pl.exceptions.PanicException) as error:
        raise TraceFormatError(f"{path} is damaged; convert rank {rank} again") from error


def summed(content: bytes) -> bytes:
    """A stamp's file with its checksum in it."""
    return content.replace(UNSUMMED.encode(), f"{SUM}{zlib.crc32(content):08x}".encode(), 1)


def is_whole(content: bytes) -> bool:
    """Whether a stamp's file has its checksum; one of an older version tells nothing."""
    found = _SUMMED.search(content)
    if found is None:
        return True
    unsummed = content[: found.start()] + UNSUMMED.encode() + content[found.end() :]
    return zlib.crc32(unsummed) == int(found[1], 16)


def stamps(root: Place) -> tuple[dict[int, Stamp], dict[int, TraceFormatError]]:
    """What it says of each rank that is there and whole, and what is wrong with each that says nothing, ascending."""
    ranks = _ranks(root, RANK_INFO.name)
    with ThreadPoolExecutor(_READERS) as readers:
        found = dict(zip(ranks, readers.map(partial(_stamp_or_damage, root), ranks), strict=True))
    whole = {rank: seen for rank, seen in found.items() if isinstance(seen, Stamp)}
    return whole, {rank: seen for rank, seen in found.items() if isinstance(seen, TraceFormatError)}


def _ranks(root: Place, table: str) -> list[int]:
    """The ranks that have a folder in a table, ascending."""
    folders, _ = stores.inside(root / table)
    numbers = [int(named[1]) for path in folders if (named := _RANK.fullmatch(path.name))]
    return sorted(number for number in numbers if number < MAX_RANKS)


def _stamp_or_damage(root: Place, rank: int) -> Stamp | TraceFormatError | None:
    try:
        return stamp(root, rank)
    except TraceFormatError as error:
        return error


def source(root: Place, rank: int, seen: Stamp) -> RankSource:
    return RankSource(rank, part(root, RANK_INFO.name, rank), seen.rank_from, NAME, seen.job)


def opened(root: Place) -> OpenedFolder:
    """The job at ``root``: its whole ranks, and what is wrong with others."""
    known = manifest(root)
    seen, damaged = stamps(root)
    if damaged and not seen:
        raise next(iter(damaged.values()))
    if not seen:
        raise InputError(f"{root} is a dataset without a whole rank; convert the traces into it again")
    sources = tuple(source(root, rank, stamp) for rank, stamp in seen.items())
    recorded = tuple(replace(one, path=place(str(seen[one.rank].origin.get("file")))) for one in sources)
    unread = [
        problem(UNREAD, rank=rank, example=str(error), file=part(root, RANK_INFO.name, rank), action="rank left out")
        for rank, error in damaged.items()
    ]
    unread += [
        problem(UNREAD, rank=rank, example="its description is not there", file=root, action=_WITHOUT_A_STAMP)
        for rank in sorted({*_ranks(root, DEVICE_EVENTS.name)} - {*seen, *damaged})
    ]
    return OpenedFolder(sources, (*known.problems, *unread), known.title, recorded)


def origin(source: RankSource) -> Mapping[str, Any]:
    """What the trace file was that a rank was converted from."""
    known = stamp(root_of(source), source.rank)
    return dict(known.origin) if known else {}


def is_of(source: RankSource, root: Place) -> bool:
    """Whether a rank is in the dataset at ``root``."""
    if source.format != NAME:
        return False
    known = root_of(source)
    return (known.resolve() if isinstance(known, Path) else known) == root
