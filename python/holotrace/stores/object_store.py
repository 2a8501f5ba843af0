"""Files in object stores, by URL: listed, read piece by piece, written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from holotrace.errors import InputError, UsageError, require
from holotrace.stores import login
from holotrace.stores.places import WEB, Remote, Stream, without_secrets

PIECE_BYTES = 1 << 20  # large enough that handing it over costs nothing, small enough to begin inflating early
_STORES_AT_HAND = 32  # connections to so many folders are kept
_PATTERN = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}


def first(remote: Remote, count: int) -> bytes:
    """The first ``count`` bytes of a file, or all of it if that is less."""
    if not remote.is_web:
        return _ranged(remote, (0, count))
    # A web server need not know ranges.
    begin = b""
    for piece in stream(remote).pieces:
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
    check_listing(folder)
    with _explained(folder):
        store = _store(folder.url.rstrip("/"))
        if recursive:
            found: Iterable[Any] = (entry for entries in store.list(chunk_size=1000) for entry in entries)
        else:
            found = store.list_with_delimiter()["objects"]
        return sorted(folder / entry["path"] for entry in found)


def check_listing(folder: Remote) -> None:
    if folder.is_web:
        raise InputError(f"{folder} cannot be listed, as web servers list no files; give the URLs of the files")


def inside(folder: Remote) -> tuple[list[Remote], list[Remote]]:
    """The folders and the files in a folder, by name; none where there is no folder."""
    check_listing(folder)
    with _explained(folder):
        found = _store(folder.url.rstrip("/")).list_with_delimiter()
    return (
        sorted(folder / name for name in found["common_prefixes"]),
        sorted(folder / entry["path"] for entry in found["objects"]),
    )


def content(remote: Remote) -> bytes | None:
    """All of a file, which must fit into memory; None where there is none."""
    with _explained(remote):
        store, key = _located(remote)
        try:
            return bytes(store.get(key).bytes())
        except FileNotFoundError:
            return None


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


def remove(remote: Remote) -> None:
    """Remove a file, if it is there."""
    with _explained(remote, doing="removed"), suppress(FileNotFoundError):
        store, key = _located(remote)
        store.delete(key)


def stream(remote: Remote) -> Stream:
    """A file's bytes as they arrive."""
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
    if scheme in WEB:
        return obstore.HTTPStore.from_url(folder, client_options=options)
    root, below = re.match(r"([^/]+//[^/]+)(.*)", folder, re.DOTALL).groups()  # type: ignore[union-attr]  # _URL matched
    return obstore.from_url(root + quote(below), client_options=options, **login.of_store(scheme))


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
        elif re.search(login.NO_LOGIN, text):
            wrong = f"no credentials were found, or they are not valid; {login.advice(remote)}"
        elif re.search(r"\b40[13] |AccessDenied|Forbidden", text):
            wrong = f"it is not allowed with the credentials at hand; {login.advice(remote)}"
        else:
            wrong = f"{without_secrets(text.partition(chr(10))[0]).rstrip('. :')}; check the address and the network"
        kind = InputError if doing == "read" else UsageError
        raise kind(f"{remote} cannot be {doing}: {wrong}") from error
