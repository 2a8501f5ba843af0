"""One rank's file, before it is read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

AnyPath = str | os.PathLike[str]
# A file, folder or pattern; several of them; which file is which rank; or a profile's own bytes.
Paths = AnyPath | Sequence[AnyPath] | Mapping[int, AnyPath] | bytes


@dataclass(frozen=True)
class RankSource:
    """Where one rank's trace is, and how we know that it is that rank's."""

    rank: int
    path: Path
    # One of: trace, file name, number, only file, caller.
    rank_from: str
    # What the ends of the file tell of the job: distributedInfo, as far as it is there.
    metadata: Mapping[str, Any] = field(default_factory=dict)
    # Which reader it is for: kineto (trace-event JSON) or xplane.
    format: str = "kineto"
    # The file's bytes, where it is in memory.
    content: bytes | None = field(default=None, repr=False)


def called(paths: Paths) -> tuple[str, str]:
    """What to call the job at ``paths``, and where it is in one line."""
    if isinstance(paths, bytes):
        return "profile", "bytes in memory"
    if isinstance(paths, (str, os.PathLike)):
        several: list[AnyPath] = [paths]
    else:
        several = list(paths.values() if isinstance(paths, Mapping) else paths)
    first = Path(several[0]).expanduser()
    more = f" and {len(several) - 1} more" if len(several) > 1 else ""
    # The folder names the job where files only name ranks.
    named = first.resolve() if len(several) == 1 else first.resolve().parent
    return named.name, f"{first}{more}"
