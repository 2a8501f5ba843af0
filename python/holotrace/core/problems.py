"""Rows of the problems table that are known before, or without, reading a trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from holotrace.core.schema import legible
from holotrace.core.tables import PROBLEMS

# A rank that is left out, as its file cannot be read.
UNREAD = "file not read"
# Kinds that say that events at the end of a file are missing, whichever these are.
CUT = ("file cut off", "compressed stream damaged")
# A rank that was cut off, or recorded none of the others' steps: comparing it would tell of that only.
LEFT_OUT = "rank left out of comparisons"
# Ranks that are compared over the steps that all of them have.
DIFFERENT_STEPS = "ranks recorded different steps"
# Jobs that are compared by a step of a rank.
OTHER_STEPS = "jobs recorded different numbers of steps"
# Ranks of the job that are in none of its files.
MISSING = "ranks missing"
# A rank that is left out, as the worker that read it is gone.
LOST = "worker lost"


def problem(
    what: str, *, action: str, rank: int | None = None, count: int = 1, example: str = "", file: object = None
) -> dict[str, Any]:
    """One row; ``rank`` is null where it concerns the whole job."""
    return {
        "rank": rank,
        "problem": what,
        "count": count,
        "first_offset": None,
        "example": legible(example) or None,
        "action": action,
        "file": None if file is None else legible(file),
    }


def frame(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """The rows as a problems table."""
    return pl.DataFrame(list(rows), schema=PROBLEMS.empty().schema)


def spelled(numbers: Iterable[int]) -> str:
    """Ranks in few words, e.g. ``0-3, 7``."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
