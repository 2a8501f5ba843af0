"""The first and last bytes of a file, which tell what it is without reading it."""

from __future__ import annotations

from pathlib import Path

from holotrace import stores
from holotrace.core.native import native
from holotrace.formats.declaration import Head
from holotrace.stores import Origin, Remote, Stream

END_BYTES = 64 * 1024  # PyTorch's top-level keys before traceEvents take 2-10 KB; a job of many process groups more

COMPRESSED = (".gz", ".zst")


def head(path: Origin) -> Head:
    """The first bytes, inflated."""
    if isinstance(path, Path):
        return Head(path, native.read_ends(str(path), head_bytes=END_BYTES, tail_bytes=0)[0])
    begin = stores.first(path, END_BYTES)
    stream = Stream(str(path), iter((begin,)), len(begin))
    return Head(path, native.read_ends(stream, head_bytes=END_BYTES, tail_bytes=0)[0])


def tail(path: Origin) -> bytes:
    """The last bytes, inflated; costs inflating the whole file where it is compressed."""
    if isinstance(path, Remote) and not is_packed(path):
        return stores.last(path, END_BYTES)
    return native.read_ends(stores.source(path), head_bytes=0, tail_bytes=END_BYTES)[1]


def is_packed(path: Origin) -> bool:
    """Whether the end of a file is behind all the rest of it."""
    return not isinstance(path, Path | Remote) or path.suffix in COMPRESSED
