"""How memory is let go: Polars keeps it for a moment, as most of it is soon needed again, and cycles are sought seldom.

By itself it has four arenas for each CPU, and what it no longer uses is for another second still counted as the
process's; without a thread for it, large columns are let go at once. The kernel clears each page that it hands out
again, which large pages make cheap (decision 0016).
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

_SETTINGS = "_RJEM_MALLOC_CONF"
# By itself Python looks for garbage each time that there are 700 more, or 2,000, as of its version.
_OBJECTS_TO_SEARCH = 50_000

environment = os.environ  # noqa: TID251  # the allocator has no other way
if _SETTINGS in environment:
    import_module("polars")
else:
    environment[_SETTINGS] = (
        "background_thread:false,dirty_decay_ms:1000,muzzy_decay_ms:0,narenas:1,thp:always,oversize_threshold:1000000000000"
    )
    try:
        import_module("polars")
    finally:
        # It was read; other programs that are started from here have settings of their own.
        del environment[_SETTINGS]


@contextmanager
def nothing_collected() -> Iterator[None]:
    """Look for no garbage within this, as while modules are imported: they stay, and looking is a tenth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def collect_seldom() -> None:
    """Look for garbage less often, in a process of our own: an eighth of the CPU time of a small report.

    What was made so far is there to stay, and what is large is let go without a search: only cycles need one.
    """
    gc.freeze()
    gc.set_threshold(_OBJECTS_TO_SEARCH)
