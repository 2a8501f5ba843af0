"""Files in archives and packed files of this machine that the Rust readers do not inflate, read piece by piece.

Nothing is unpacked to disk, so no name can lead out of a folder; a piece at a time is in memory.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Literal

from holotrace.errors import InputError
from holotrace.stores.places import Member, Stream

PIECE_BYTES = 1 << 20
# Endings of archives, and of files that hold one other file.
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2")
PACKED = (".xz", ".bz2")
# No trace is packed as densely: what grows more is made to fill memory.
_MOST_GROWTH = 200
ANY_GROWTH_BYTES = 1 << 30  # whatever it was packed to
_MOST_MEMBERS = 100_000
_MOST_HEADER_BYTES = 1 << 24  # of one member of a tar archive, which its reader takes into memory
_TAR_MAGIC_AT = 257

_DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,  # an encrypted zip
    NotImplementedError,
    zlib.error,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    UnicodeError,
    OverflowError,
)

Kind = Literal["zip", "tar", "packed"]


def kind_of(path: Path) -> Kind | None:
    """What a file of this machine is by its first bytes: an archive, or a file packed as only Python reads it."""
    with path.open("rb") as file:
        begin = file.read(_TAR_MAGIC_AT + 8)
    if begin.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    if begin[_TAR_MAGIC_AT:].startswith(b"ustar"):
        return "tar"
    opener = _opener(begin)
    if opener is None:
        return None
    try:
        with opener(path) as inflated:
            if inflated.read(_TAR_MAGIC_AT + 8)[_TAR_MAGIC_AT:].startswith(b"ustar"):
                return "tar"
    except _DAMAGE:
        pass
    # Gzip that holds no archive is what the Rust readers inflate.
    return None if opener is gzip.open else "packed"


# Any: the three modules' functions have no common type.
def _opener(begin: bytes) -> Any:
    if begin.startswith(b"\x1f\x8b"):
        return gzip.open
    if begin.startswith(b"\xfd7zXZ\x00"):
        return lzma.open
    return bz2.open if begin.startswith(b"BZh") else None


def inside(folder: Member) -> tuple[list[Member], list[Member]]:
    """The folders and the files in a folder of an archive, by name."""
    prefix = f"{folder.inside}/" if folder.inside else ""
    below = [name[len(prefix) :] for name in _names(folder.archive) if name.startswith(prefix)]
    folders = sorted({name.partition("/")[0] for name in below if "/" in name})
    return [folder / name for name in folders], [folder / name for name in sorted(below) if "/" not in name]


def members(archive: Path) -> list[Member]:
    """All files in an archive, by name."""
    return [Member(archive, name) for name in sorted(_names(archive))]


def _names(archive: Path) -> tuple[str, ...]:
    state = archive.stat()
    return _names_of(archive, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=8)
def _names_of(archive: Path, _changed_ns: int, _bytes: int) -> tuple[str, ...]:
    with _explained(archive):
        if kind_of(archive) == "zip":
            with zipfile.ZipFile(archive) as opened:
                names = [entry.filename for entry in opened.infolist() if not entry.is_dir()]
        else:
            with _tar(archive) as opened_tar:
                names = []
                for entry in opened_tar:
                    names += [entry.name] if entry.isreg() else []
                    if len(names) > _MOST_MEMBERS:
                        break
                else:
                    _check_end(opened_tar)
    if len(names) > _MOST_MEMBERS:
        raise InputError(f"{archive} has more than {_MOST_MEMBERS} members; unpack those that are traces")
    # Names in archives are data: those that would lead elsewhere if they were unpacked are read like all others.
    return tuple(dict.fromkeys("/".join(part for part in name.split("/") if part) for name in names))


def _check_end(opened: tarfile.TarFile) -> None:
    """Read what is behind the last member: gzip has its checksum at the end, where no member leads."""
    behind: Any = opened.fileobj
    read = 0
    while piece := behind.read(PIECE_BYTES):
        read += len(piece)
        if read > ANY_GROWTH_BYTES:
            raise ValueError("it goes on for more than a gigabyte behind its last member")


def stream(member: Member) -> Stream:
    """A file's bytes as they are unpacked, for the Rust readers; to be read once."""
    with _explained(member):
        return Stream(str(member), _pieces(member), _packed_bytes(member))


def first(member: Member, count: int) -> bytes:
    """The first ``count`` bytes of a file, or all of it if that is less."""
    begin = b""
    for piece in _pieces(member):
        begin += piece
        if len(begin) >= count:
            break
    return begin[:count]


def _packed_bytes(member: Member) -> int:
    if member.inside and kind_of(member.archive) == "zip":
        with zipfile.ZipFile(member.archive) as opened:
            return _zip_entry(opened, member).compress_size
    return member.archive.stat().st_size


def _pieces(member: Member) -> Iterator[bytes]:
    most = max(_packed_bytes(member) * _MOST_GROWTH, ANY_GROWTH_BYTES)
    read = 0
    with _explained(member), _opened(member) as file:
        while piece := file.read(PIECE_BYTES):
            read += len(piece)
            if read > most:
                raise ValueError(f"it inflates to more than {_MOST_GROWTH} times its size, as no trace does")
            yield piece


@contextmanager
def _opened(member: Member) -> Iterator[IO[bytes]]:
    kind = kind_of(member.archive)
    if kind == "zip":
        with zipfile.ZipFile(member.archive) as opened, opened.open(_zip_entry(opened, member)) as file:
            yield file
    elif kind == "tar":
        with _tar(member.archive) as opened_tar:
            entry = next((one for one in opened_tar if one.isreg() and _cleaned(one.name) == member.inside), None)
            found = opened_tar.extractfile(entry) if entry else None
            if found is None:
                raise ValueError("it is not there any more")
            yield found
    else:
        with member.archive.open("rb") as packed:
            opener = _opener(packed.read(8))
        with opener(member.archive) as file:
            yield file


def _cleaned(name: str) -> str:
    return "/".join(part for part in name.split("/") if part)


def _zip_entry(opened: zipfile.ZipFile, member: Member) -> zipfile.ZipInfo:
    found = next((entry for entry in opened.infolist() if _cleaned(entry.filename) == member.inside), None)
    if found is None:
        raise ValueError("it is not there any more")
    return found


@contextmanager
def _tar(archive: Path) -> Iterator[tarfile.TarFile]:
    with archive.open("rb") as packed:
        opener = _opener(packed.read(8))
    with opener(archive) if opener else archive.open("rb") as inflated:
        # Any: it has what tarfile calls.
        bounded: Any = _Bounded(inflated)
        with tarfile.open(fileobj=bounded, mode="r:") as opened:
            yield opened


class _Bounded:
    """A file of which little is taken into memory at once, whatever a header says."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, count: int = -1) -> bytes:
        if not 0 <= count <= _MOST_HEADER_BYTES:
            raise ValueError("a header is larger than any of a trace")
        return self._file.read(count)

    def seek(self, to: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(to, whence)

    def tell(self) -> int:
        return self._file.tell()


@contextmanager
def _explained(where: Path | Member) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except _DAMAGE as error:
        reason = (str(error).partition("\n")[0] or type(error).__name__)[:200].rstrip(". ")
        raise InputError(f"{where} cannot be read: {reason}; unpack it with another program") from error
