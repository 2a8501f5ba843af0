"""Files in object stores, by URL: listed, read piece by piece, written."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

import polars as pl

from holotrace.errors import InputError, UsageError, require

PIECE_BYTES = 1 << 20  # large enough that handing it over costs nothing, small enough to begin inflating early
_STORES_AT_HAND = 32  # connections to so many folders are kept
_RENEWED = timedelta(minutes=5)  # AWS credentials are asked for anew so often; those of a role change every hour

_S3, _WEB = ("s3", "s3a"), ("http", "https")
_SCHEMES = (*_S3, "gs", "az", "azure", "abfs", "abfss", *_WEB)
_URL = re.compile(rf"({'|'.join(_SCHEMES)})://[^/]", re.IGNORECASE)
# How a store says that it was not told, or does not know, who asks; at that address clouds tell a machine's own role.
_NO_LOGIN = (
    r"169\.254|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken|MissingAccount|\b401 |Account must"
)
_LOGIN = {
    _S3: "log in with 'aws configure' or 'aws sso login', or set AWS_SKIP_SIGNATURE=true for a public bucket",
    (
        "gs",
    ): "log in with 'gcloud auth application-default login', or set GOOGLE_SKIP_SIGNATURE=true for a public bucket",
    ("az", "azure", "abfs", "abfss"): "set AZURE_STORAGE_ACCOUNT_NAME, and log in with 'az login' and set "
    "AZURE_USE_AZURE_CLI=true, or set AZURE_STORAGE_ACCOUNT_KEY",
    _WEB: "give a signed URL",
}
# Who asks, in an address of the web: a name and password before the host, a signature behind the path.
_WHO = re.compile(r"(https?://)(?:[^\s/?@]*@)?([^\s?]*)(\?\S*)?", re.IGNORECASE)
_PATTERN = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}


@dataclass(frozen=True, order=True)
class Remote:
    """A file or folder in an object store, used like a path: s3://, gs://, az:// or abfss://, https://."""

    url: str

    def __str__(self) -> str:
        return _without_secrets(self.url) if self.is_web else self.url

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
        return self.scheme in _WEB


def _without_secrets(text: str) -> str:
    return _WHO.sub(lambda found: f"{found[1]}{found[2]}{'?...' if found[3] else ''}", text)


@dataclass(frozen=True)
class Stream:
    """A remote file's bytes as they arrive, for the Rust readers; to be read once."""

    # What errors call it.
    url: str
    pieces: Iterator[bytes]
    file_bytes: int


Place = Path | Remote


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


def source(where: Place) -> str | Stream:
    """What the Rust readers take for a file."""
    return _stream(where) if isinstance(where, Remote) else str(where)


def whole(remote: Remote) -> bytes:
    """All of a file, which must fit into memory."""
    return b"".join(_stream(remote).pieces)


def content(where: Place) -> bytes | None:
    """All of a file, which must fit into memory; None where there is none."""
    if isinstance(where, Path):
        return where.read_bytes() if where.is_file() else None
    with _explained(where):
        store, key = _located(where)
        try:
            return bytes(store.get(key).bytes())
        except FileNotFoundError:
            return None


def scan(where: Place) -> pl.LazyFrame:
    """A Parquet file, of which only the columns that are asked for are fetched."""
    path, options = (where.url, _options(where.scheme)) if isinstance(where, Remote) else (where, {})
    return pl.scan_parquet(path, glob=False, hive_partitioning=False, **options)


def first(remote: Remote, count: int) -> bytes:
    """The first ``count`` bytes of a file, or all of it if that is less."""
    if not remote.is_web:
        return _ranged(remote, (0, count))
    # A web server need not know ranges.
    begin = b""
    for piece in _stream(remote).pieces:
        begin += piece
        if len(begin) >= count:
            break
    return begin[:count]


def last(remote: Remote, count: int) -> bytes:
    """The last ``count`` bytes of a file, or all of it if that is less; nothing of a web server's."""
    # For the same reason.
    return b"" if remote.is_web else _ranged(remote, {"suffix": count})


def listed(folder: Remote, *, recursive: bool) -> list[Remote]:
    """The files in a folder, by name; a folder without files, which no store can tell from none, has an empty list."""
    _check_listing(folder)
    with _explained(folder):
        store = _store(folder.url.rstrip("/"))
        if recursive:
            found: Iterable[Any] = (entry for entries in store.list(chunk_size=1000) for entry in entries)
        else:
            found = store.list_with_delimiter()["objects"]
        return sorted(folder / entry["path"] for entry in found)


def _check_listing(folder: Remote) -> None:
    if folder.is_web:
        raise InputError(f"{folder} cannot be listed, as web servers list no files; give the URLs of the files")


def inside(folder: Place) -> tuple[list[Place], list[Place]]:
    """The folders and the files in a folder, by name; none where there is no folder."""
    if isinstance(folder, Path):
        paths = sorted(folder.iterdir()) if folder.is_dir() else []
        return [path for path in paths if path.is_dir()], [path for path in paths if path.is_file()]
    _check_listing(folder)
    with _explained(folder):
        found = _store(folder.url.rstrip("/")).list_with_delimiter()
    return (
        sorted(folder / name for name in found["common_prefixes"]),
        sorted(folder / entry["path"] for entry in found["objects"]),
    )


def matching(pattern: Remote) -> list[Remote]:
    """The files whose URLs match: ``*`` and ``?`` stand for anything within a name, ``**/`` for any folders."""
    fixed = re.split(r"[*?]", pattern.url, maxsplit=1)[0]
    folder = Remote(fixed.rpartition("/")[0])
    parts = re.split(r"(\*\*/|\*|\?)", pattern.url)
    wanted = re.compile("".join(_PATTERN.get(part, re.escape(part)) for part in parts))
    deep = "/" in pattern.url[len(fixed) :]
    return [remote for remote in listed(folder, recursive=deep) if wanted.fullmatch(remote.url)]


def is_pattern(where: Remote) -> bool:
    """Whether a URL stands for several files."""
    return not where.is_web and re.search(r"[*?]", where.url) is not None


def save(remote: Remote, content: bytes | Path, *, media_type: str = "application/octet-stream") -> None:
    """Write a file, also from one of this machine, whole or not at all."""
    with _explained(remote, doing="written"):
        store, key = _located(remote)
        store.put(key, content, attributes={"Content-Type": media_type})


def move(file: Path, where: Place) -> None:
    """Put a file of this machine in its place, whole or not at all."""
    if isinstance(where, Remote):
        save(where, file)
        file.unlink()
        return
    where.parent.mkdir(parents=True, exist_ok=True)
    file.replace(where)


def remove(where: Place) -> None:
    """Remove a file, if it is there."""
    if isinstance(where, Path):
        where.unlink(missing_ok=True)
        return
    with _explained(where, doing="removed"), suppress(FileNotFoundError):
        store, key = _located(where)
        store.delete(key)


def _stream(remote: Remote) -> Stream:
    with _explained(remote):
        store, key = _located(remote)
        found = store.get(key)
        return Stream(str(remote), _pieces(remote, found), found.meta["size"])


def _pieces(remote: Remote, found: Any) -> Iterator[bytes]:
    with _explained(remote):
        for piece in found.stream(min_chunk_size=PIECE_BYTES):
            yield bytes(piece)


def _ranged(remote: Remote, which: Any) -> bytes:
    with _explained(remote):
        store, key = _located(remote)
        return bytes(store.get(key, options={"range": which}).bytes())


def _located(remote: Remote) -> tuple[Any, str]:
    """The store the file is in, and what the file is called there."""
    if remote.is_web:
        return _store(remote.url), ""
    folder = remote.parent
    return _store(folder.url), remote.url[len(folder.url) :].lstrip("/")


# Any: obstore is optional.
@lru_cache(maxsize=_STORES_AT_HAND)
def _store(folder: str) -> Any:
    """A connection to a folder, which tries again on its own where the network fails."""
    obstore = require("obstore.store", extra="remote")
    scheme = Remote(folder).scheme
    # Plain HTTP is the choice of who names such an endpoint.
    options = {"allow_http": True}
    if scheme in _WEB:
        return obstore.HTTPStore.from_url(folder, client_options=options)
    root, below = re.match(r"([^/]+//[^/]+)(.*)", folder, re.DOTALL).groups()  # type: ignore[union-attr]  # _URL matched
    more = _aws() if scheme in _S3 else {}
    return obstore.from_url(root + quote(below), client_options=options, **more)


def _aws() -> dict[str, Any]:
    """Credentials and region as AWS's own tools find them: environment, profiles, single sign-on, roles."""
    session = require("boto3", extra="remote").Session()
    known = session.get_credentials()
    found: dict[str, Any] = {"region": session.region_name} if session.region_name else {}
    if known is None:
        return found

    def credentials() -> dict[str, Any]:
        now = known.get_frozen_credentials()
        return {
            "access_key_id": now.access_key,
            "secret_access_key": now.secret_key,
            "token": now.token,
            "expires_at": datetime.now(timezone.utc) + _RENEWED,
        }

    return {**found, "credential_provider": credentials}


@lru_cache
def _options(scheme: str) -> dict[str, Any]:
    """What makes Polars log in as ``_store`` does; it reads the same variables of the environment."""
    if scheme not in _S3:
        return {"credential_provider": None}
    found = _aws()
    options = {"aws_region": found["region"]} if "region" in found else {}
    return {"credential_provider": _for_polars(found.get("credential_provider")), "storage_options": options}


def _for_polars(ask: Callable[[], dict[str, Any]] | None) -> Callable[[], tuple[dict[str, str], int]] | None:
    if ask is None:
        return None

    def credentials() -> tuple[dict[str, str], int]:
        now = ask()
        named = {
            "aws_access_key_id": now["access_key_id"],
            "aws_secret_access_key": now["secret_access_key"],
            "aws_session_token": now["token"],
        }
        return {name: value for name, value in named.items() if value}, int(now["expires_at"].timestamp())

    return credentials


@contextmanager
def _explained(remote: Remote, doing: str = "read") -> Iterator[None]:
    """Says what is wrong with ``remote`` in one sentence and a way out."""
    base = require("obstore.exceptions", extra="remote").BaseError
    aws = require("botocore.exceptions", extra="remote").BotoCoreError
    try:
        yield
    except (base, aws, OSError, ValueError) as error:
        # Behind the first line come an XML document and obstore's own insides.
        text, bucket = str(error), remote.url.split("/")[2]
        if re.search("NoSuchBucket|ContainerNotFound|bucket does not exist", text):
            wrong = f"there is no {bucket}; check its name, its region and the endpoint"
        elif isinstance(error, FileNotFoundError):
            wrong = "it does not exist; check the name, or give its folder"
        elif re.search(_NO_LOGIN, text):
            wrong = f"no credentials were found, or they are not valid; {_login(remote)}"
        elif re.search(r"\b40[13] |AccessDenied|Forbidden", text):
            wrong = f"it is not allowed with the credentials at hand; {_login(remote)}"
        else:
            wrong = f"{_without_secrets(text.partition(chr(10))[0]).rstrip('. :')}; check the address and the network"
        kind = InputError if doing == "read" else UsageError
        raise kind(f"{remote} cannot be {doing}: {wrong}") from error


def _login(remote: Remote) -> str:
    return next(advice for schemes, advice in _LOGIN.items() if remote.scheme in schemes)
