"""Files wherever they are: read as a whole, by their ends or piece by piece, listed, written."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from holotrace.stores import archives, local, login, object_store
from holotrace.stores.object_store import check_listing, is_pattern, listed, matching
from holotrace.stores.places import Held, Member, Origin, Place, Remote, Stream

__all__ = ["check_listing", "is_pattern", "listed", "matching"]


def unpacked(where: Origin) -> Origin:
    """What a file that is packed as only Python reads it holds; any other file as it is."""
    is_packed = isinstance(where, Path) and where.name.endswith(archives.PACKED)
    return Member(where) if is_packed and isinstance(where, Path) else where


def source(where: Origin) -> str | Stream:
    """What the Rust readers take for a file."""
    if isinstance(where, Path):
        return str(where)
    if isinstance(where, Remote):
        return object_store.stream(where)
    if isinstance(where, Member):
        return archives.stream(where)
    return Stream(where.name, iter((where.content,)), len(where.content))


def content(where: Place) -> bytes | None:
    """All of a file, which must fit into memory; None where there is none."""
    if isinstance(where, Remote):
        return object_store.content(where)
    return where.read_bytes() if where.is_file() else None


def scan(where: Place) -> pl.LazyFrame:
    """A Parquet file, of which only the columns that are asked for are fetched."""
    path, options = (where.url, login.of_polars(where.scheme)) if isinstance(where, Remote) else (where, {})
    return pl.scan_parquet(path, glob=False, hive_partitioning=False, **options)


def first(where: Origin, count: int) -> bytes:
    """The first ``count`` bytes of a file, or all of it if that is less."""
    if isinstance(where, Remote):
        return object_store.first(where, count)
    if isinstance(where, Member):
        return archives.first(where, count)
    if isinstance(where, Held):
        return where.content[:count]
    with where.open("rb") as file:
        return file.read(count)


def last(where: Origin, count: int) -> bytes:
    """The last ``count`` bytes of a file, or all of it if that is less; nothing where it cannot be read backwards."""
    if isinstance(where, Remote):
        return object_store.last(where, count)
    if isinstance(where, Member):
        return b""
    if isinstance(where, Held):
        return where.content[-count:]
    with where.open("rb") as file:
        file.seek(max(where.stat().st_size - count, 0))
        return file.read(count)


def inside(folder: Origin) -> tuple[list[Origin], list[Origin]]:
    """The folders and the files in a folder, by name; none where there is no folder."""
    if isinstance(folder, Remote):
        folders, files = object_store.inside(folder)
        return [*folders], [*files]
    if isinstance(folder, Member):
        below, members = archives.inside(folder)
        return [*below], [*members]
    if isinstance(folder, Held):
        return [], []
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in paths if path.is_dir()], [path for path in paths if path.is_file()]


def save(where: Place, content: bytes | str, *, media_type: str = "application/octet-stream") -> None:
    """Write a file, whole or not at all."""
    if isinstance(where, Remote):
        object_store.save(where, content.encode() if isinstance(content, str) else content, media_type=media_type)
    else:
        local.save(where, content)


def move(file: Path, where: Place) -> None:
    """Put a file of this machine in its place, whole or not at all."""
    if isinstance(where, Remote):
        object_store.save(where, file)
        file.unlink()
        return
    where.parent.mkdir(parents=True, exist_ok=True)
    file.replace(where)


def remove(where: Place) -> None:
    """Remove a file, if it is there."""
    if isinstance(where, Remote):
        object_store.remove(where)
    else:
        where.unlink(missing_ok=True)
