"""One rank's file, before it is read."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holotrace.core.kinds import KindRule
from holotrace.core.schema import legible
from holotrace.stores import Origin, Remote, place

# More than any job has; missing ranks are listed, so a number made up must not fill the memory.
MAX_RANKS = 1 << 20

# What a profile of XLA says of itself: whether a number is the same step in all profiles of the job.
STEPS_ARE_NUMBERED = "steps_are_numbered"

AnyPath = str | os.PathLike[str] | Remote
# A file, folder or pattern, of this machine or by URL; several of them; or which file is which rank; ...
InPlaces = AnyPath | Sequence[AnyPath] | Mapping[int, AnyPath]
# ... or the bytes of a profile.
Paths = InPlaces | bytes


@dataclass(frozen=True)
class RankSource:
    """Where one rank's trace is, and how we know that it is that rank's."""

    rank: int
    path: Origin
    # One of: trace, file name, number, only file, caller.
    rank_from: str
    # Name of its format, one of holotrace.formats.FORMATS.
    format: str
    # What the ends of the file tell of the job: distributedInfo, as far as it is there.
    metadata: Mapping[str, Any] = field(default_factory=dict)
    # The user's own rules for kinds of device work; they travel with it to every worker.
    kinds: tuple[KindRule, ...] = ()
    # What else the user gave for questions about it, by name: models of operators, peaks of devices.
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)


def believable(info: object) -> dict[str, Any]:
    """What a trace says of its rank and job, without numbers that cannot be."""
    kept: dict[str, Any] = dict(info) if isinstance(info, Mapping) else {}
    for key in ("rank", "world_size"):
        text = str(kept.pop(key, ""))
        if re.fullmatch(r"\d{1,9}", text, re.ASCII) and int(text) <= MAX_RANKS:
            kept[key] = int(text)
    return kept


def several(paths: InPlaces) -> list[AnyPath]:
    """The paths one by one."""
    if isinstance(paths, (str, os.PathLike, Remote)):
        return [paths]
    return list(paths.values() if isinstance(paths, Mapping) else paths)


def called(paths: Paths) -> tuple[str, str]:
    """What to call the job at ``paths``, and where it is in one line."""
    if isinstance(paths, bytes):
        return "profile", "bytes in memory"
    named = several(paths)
    first = place(named[0])
    more = f" and {len(named) - 1} more" if len(named) > 1 else ""
    # The folder names the job where files only name ranks.
    whole = first if isinstance(first, Remote) else first.resolve()
    return legible((whole if len(named) == 1 else whole.parent).name), legible(f"{first}{more}")
