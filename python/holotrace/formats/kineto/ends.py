"""What the first and last bytes of a trace-event file tell of it."""

from __future__ import annotations

import json
import re
from typing import Any

from holotrace.core.source import believable
from holotrace.formats.declaration import Head

# What a timeline that holotrace wrote of several ranks says of them, near its beginning.
TIMELINE = "timelineOfRanks"

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


def is_trace(head: Head) -> bool:
    """Whether a file looks like a profiler's."""
    return any(sign in head.text for sign in _SIGNS)


def is_timeline(head: Head) -> bool:
    """Whether a file is a timeline of several ranks."""
    return f'"{TIMELINE}"'.encode() in head.text


def refusal(head: Head) -> str:
    """Why a file is no rank's trace; empty where it may be one."""
    if is_timeline(head):
        return "a timeline of several ranks; give the traces it was made of"
    # The two forms of a trace that was written by nobody.
    if head.text.strip() in (b"{}", b"[]"):
        return "a trace without any event, not even an empty list of them; record again, or give another file"
    return ""


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
