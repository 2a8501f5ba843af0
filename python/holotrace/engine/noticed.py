"""Problems that came up while a job was asked, so that no answer is partial without a word."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from holotrace.core.problems import frame
from holotrace.errors import PartialDataWarning
from holotrace.present.problems import in_words

# Called with problems that nobody was told of yet.
Tell = Callable[[pl.DataFrame], None]
_Key = tuple[Any, ...]


class Noticed:
    """Each problem once, however many questions came upon it.

    Args:
        tell: Called with what is new after a question.
    """

    def __init__(self, tell: Tell | None = None) -> None:
        self._tell = tell
        self._rows: dict[_Key, Mapping[str, Any]] = {}

    def add(self, problems: Iterable[Mapping[str, Any]], *, is_told: bool = False) -> None:
        """Take in what a question came upon; ``is_told`` where its answer shows the problems itself."""
        new = []
        for row in problems:
            key = _key(row)
            known = self._rows.get(key)
            if known is None:
                new.append(row)
            if known is None or known["count"] < row["count"]:
                self._rows[key] = row
        if new and self._tell and not is_told:
            self._tell(frame(new))

    @property
    def problems(self) -> pl.DataFrame:
        """Rows of the problems table."""
        return frame(self._rows.values())


def _key(row: Mapping[str, Any]) -> _Key:
    # Of a rank's damage one question may see more than another; what concerns the job is told by its example.
    return (row["rank"], row["problem"], row["file"], row["example"] if row["rank"] is None else None)


def warn(problems: pl.DataFrame) -> None:
    """Issue a warning that the answers are of what could be read."""
    if said := in_words(problems):
        message = f"{said}; job.problems() lists everything"
        warnings.warn(message, PartialDataWarning, stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """How far up the stack whoever asked is: the first function outside of this package."""
    package = str(Path(__file__).parents[1])
    level, frame_of = 0, inspect.currentframe()
    while frame_of and frame_of.f_code.co_filename.startswith(package):
        level, frame_of = level + 1, frame_of.f_back
    return level
