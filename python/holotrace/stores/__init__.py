"""Where files are: this machine, object stores, archives, memory."""

from __future__ import annotations

from holotrace.stores.files import (
    check_listing,
    content,
    first,
    inside,
    is_pattern,
    last,
    listed,
    matching,
    move,
    remove,
    save,
    scan,
    source,
    unpacked,
)
from holotrace.stores.local import write_whole
from holotrace.stores.places import Held, Member, Origin, Place, Remote, Stream, place

__all__ = [
    "Held",
    "Member",
    "Origin",
    "Place",
    "Remote",
    "Stream",
    "check_listing",
    "content",
    "first",
    "inside",
    "is_pattern",
    "last",
    "listed",
    "matching",
    "move",
    "place",
    "remove",
    "save",
    "scan",
    "source",
    "unpacked",
    "write_whole",
]
