"""When the clock of a file began."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Kineto counts from then since PyTorch 2.2: the beginning of some quarter of a year.
_KEY = "baseTimeNanoseconds"
# Together with a time of the file it must fit into 64 bits; this is in the year 2116.
_MOST_NS = 1 << 62


def base_ns(metadata: Mapping[str, Any]) -> int:
    """Nanoseconds from 1970 to the 0 of a file with these top-level keys; 0 where it does not say."""
    base = metadata.get(_KEY)
    return base if type(base) is int and 0 <= base < _MOST_NS else 0
