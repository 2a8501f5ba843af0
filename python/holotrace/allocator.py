"""Loads Polars with an allocator that keeps for two seconds what was let go: most of it is soon needed again.

By itself it gives pages back after half a second, of arenas of which there are four for each CPU, and the kernel clears
each page that it hands out again: a fourth of the CPU time of a report on a long profile (decision 0016).
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from ctypes import CDLL
from importlib import import_module

_SETTINGS = "_RJEM_MALLOC_CONF"
# Options of mallopt(3), and from how many bytes on a block goes back at once.
_MMAP_THRESHOLD, _TRIM_THRESHOLD, _LARGE_BYTES = -3, -1, 1 << 18

environment = os.environ  # noqa: TID251  # the allocator has no other way
if _SETTINGS in environment:
    import_module("polars")
else:
    environment[_SETTINGS] = "dirty_decay_ms:2000,narenas:1"
    try:
        import_module("polars")
    finally:
        # It was read; other programs that are started from here have settings of their own.
        del environment[_SETTINGS]


def _give_back() -> None:
    """Let the core's allocator give large blocks back when they are let go.

    The one of glibc keeps blocks below a bound, which it raises to 32 MB when it sees that larger ones come and go.
    """
    with suppress(OSError, AttributeError):
        set_option = CDLL(None).mallopt
        set_option(_MMAP_THRESHOLD, _LARGE_BYTES)
        set_option(_TRIM_THRESHOLD, _LARGE_BYTES)


if sys.platform == "linux":
    _give_back()
