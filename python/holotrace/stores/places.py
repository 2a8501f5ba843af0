"""Where a file is: on this machine, in an object store, in an archive, or in memory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

S3, WEB = ("s3", "s3a"), ("http", "https")
GOOGLE, AZURE = ("gs",), ("az", "azure", "abfs", "abfss")
_URL = re.compile(rf"({'|'.join((*S3, *GOOGLE, *AZURE, *WEB))})://[^/]", re.IGNORECASE)
# Who asks, in an address of the web: a name and password before the host, a signature behind the path.
_WHO = re.compile(r"(https?://)(?:[^\s/?@]*@)?([^\s?]*)(\?\S*)?", re.IGNORECASE)


@dataclass(frozen=True, order=True)
class Remote:
    """A file or folder in an object store, used like a path: s3://, gs://, az:// or abfss://, https://."""

    url: str

    def __str__(self) -> str:
        return without_secrets(self.url) if self.is_web else self.url

    def __truediv__(self, name: str) -> Remote:
        return Remote(f"{self.url.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        return self._path.name

    @property
    def suffix(self) -> str:
        return self._path.suffix

    @property
    def parent(self) -> Remote:
        bare = self.url.rstrip("/")
        return Remote(bare[: len(bare) - len(bare.rpartition("/")[2])].rstrip("/"))

    @property
    def _path(self) -> PurePosixPath:
        # A signed URL ends in what no file is called, and a password is nobody's business.
        bare = str(self).partition("?")[0] if self.is_web else self.url
        return PurePosixPath(bare.partition("://")[2])

    @property
    def scheme(self) -> str:
        return self.url.partition("://")[0].lower()

    @property
    def is_web(self) -> bool:
        """Whether it is on a web server, which lists nothing."""
        return self.scheme in WEB


def without_secrets(text: str) -> str:
    return _WHO.sub(lambda found: f"{found[1]}{found[2]}{'?...' if found[3] else ''}", text)


@dataclass(frozen=True)
class Stream:
    """A remote file's bytes as they arrive, for the Rust readers; to be read once."""

    # What errors call it.
    url: str
    pieces: Iterator[bytes]
    file_bytes: int


@dataclass(frozen=True, order=True)
class Member:
    """A file or folder in an archive of this machine, or, without a name, what a packed file holds."""

    archive: Path
    inside: str = ""

    def __str__(self) -> str:
        return f"{self.archive}/{self.inside}" if self.inside else str(self.archive)

    def __truediv__(self, name: str) -> Member:
        return Member(self.archive, f"{self.inside}/{name}" if self.inside else name)

    @property
    def name(self) -> str:
        return self._path.name

    @property
    def suffix(self) -> str:
        return self._path.suffix

    @property
    def parent(self) -> Member:
        return Member(self.archive, self.inside.rpartition("/")[0])

    @property
    def _path(self) -> PurePosixPath:
        return PurePosixPath(self.inside) if self.inside else PurePosixPath(self.archive.stem)


@dataclass(frozen=True, order=True)
class Held:
    """A file's content that came as bytes or through a pipe, and what messages call it."""

    name: str
    content: bytes = field(repr=False)

    def __str__(self) -> str:
        return self.name

    def __truediv__(self, name: str) -> Held:
        return Held(f"{self.name}/{name}", b"")

    @property
    def suffix(self) -> str:
        return ""

    @property
    def parent(self) -> Held:
        return self


# Where something can be written.
Place = Path | Remote
# Where a trace can be read.
Origin = Path | Remote | Member | Held


def place(path: str | os.PathLike[str] | Remote) -> Place:
    """Where ``path`` is: on this machine, or in a store if it begins like a URL."""
    if isinstance(path, Remote):
        return path
    text = os.fspath(path)
    if _URL.match(text):
        return Remote(text)
    try:
        return Path(text).expanduser()
    except RuntimeError:
        # There is no such user, so it is a name like any other.
        return Path(text)
