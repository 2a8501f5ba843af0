"""The input formats: a folder and a declaration each, and this list of them."""

from __future__ import annotations

from holotrace.formats.dataset import DATASET
from holotrace.formats.declaration import Format, Head
from holotrace.formats.kineto import KINETO
from holotrace.formats.megascan import MEGASCAN
from holotrace.formats.xplane import XPLANE

__all__ = ["FORMATS", "Format", "Head", "recognized"]

# In the order in which they are asked whether a file is theirs: exported profiles and schedules are trace-event JSON
# too.
FORMATS: dict[str, Format] = {declared.name: declared for declared in (XPLANE, MEGASCAN, KINETO, DATASET)}


def recognized(head: Head, *, named: bool) -> Format | None:
    """The format of a file; one that was named by itself has one even if nothing tells it."""
    for declared in FORMATS.values():
        if declared.sniff(head):
            return declared
    return next((declared for declared in FORMATS.values() if named and declared.takes_unknown), None)
