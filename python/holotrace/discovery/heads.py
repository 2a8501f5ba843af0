"""What the first and last bytes of a file tell, without reading it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from holotrace.core.native import native
from holotrace.stores import object_store as stores
from holotrace.stores.object_store import Place, Remote, Stream

END_BYTES = 64 * 1024  # PyTorch's top-level keys before traceEvents take 2-10 KB; a job of many process groups more

COMPRESSED = (".gz", ".zst")

# What a timeline that holotrace wrote of several ranks says of them, near its beginning.
TIMELINE = "timelineOfRanks"

# More than any job has; missing ranks are listed, so a number made up must not fill the memory.
MAX_RANKS = 1 << 20

_INFO = re.compile(rb'(?<!\\)"distributedInfo"\s*:\s*')
_NUMBER = re.compile(rb'"(rank|world_size)"\s*:\s*(\d{1,9})\b')
_BACKEND = re.compile(rb'"backend"\s*:\s*"([^"\\]*)"')
# Keys of a profiler's file; an array of events has "ph" in its first one.
_SIGNS = (
    b'"traceEvents"',
    b'"schemaVersion"',
    b'"deviceProperties"',
    b'"distributedInfo"',
    b'"baseTimeNanoseconds"',
    b'"displayTimeUnit"',
    b'"ph"',
)


def head(path: Place) -> bytes:
    """The first bytes, inflated."""
    if isinstance(path, Remote):
        begin = stores.first(path, END_BYTES)
        return native.read_ends(Stream(str(path), iter((begin,)), len(begin)), head_bytes=END_BYTES, tail_bytes=0)[0]
    return native.read_ends(str(path), head_bytes=END_BYTES, tail_bytes=0)[0]


def tail(path: Place) -> bytes:
    """The last bytes, inflated; costs inflating the whole file where it is compressed."""
    if isinstance(path, Remote) and path.suffix not in COMPRESSED:
        return stores.last(path, END_BYTES)
    return native.read_ends(stores.source(path), head_bytes=0, tail_bytes=END_BYTES)[1]


def may_be_trace(text: bytes) -> bool:
    """Whether a file that begins with ``text`` looks like a profiler's."""
    return any(sign in text for sign in _SIGNS)


def is_timeline(text: bytes) -> bool:
    """Whether a file that begins with ``text`` is a timeline of several ranks."""
    return f'"{TIMELINE}"'.encode() in text


def distributed_info(text: bytes) -> dict[str, Any]:
    """What ``text`` says of the rank and its job; empty where it says nothing."""
    found = _INFO.search(text)
    if found is None:
        return {}
    rest = text[found.end() :]
    try:
        value, _ = json.JSONDecoder().raw_decode(rest.decode("utf-8", "replace"))
    except ValueError:
        # Cut off inside a long list of process groups; the numbers come before it.
        value = {key.decode(): int(number) for key, number in reversed(_NUMBER.findall(rest))}
        if backend := _BACKEND.search(rest):
            value["backend"] = backend[1].decode("utf-8", "replace")
    return believable(value)


def believable(info: object) -> dict[str, Any]:
    """What a trace says of its rank and job, without numbers that cannot be."""
    kept: dict[str, Any] = dict(info) if isinstance(info, Mapping) else {}
    for key in ("rank", "world_size"):
        text = str(kept.pop(key, ""))
        if re.fullmatch(r"\d{1,9}", text, re.ASCII) and int(text) <= MAX_RANKS:
            kept[key] = int(text)
    return kept
