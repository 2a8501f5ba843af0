"""What analyses read: one rank's tables, and a job made of ranks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

import polars as pl

from holotrace.core.kinds import KindRule
from holotrace.core.schema import Table

T = TypeVar("T")
J = TypeVar("J", bound="JobTrace")


@dataclass(frozen=True)
class RankTrace:
    """One rank's tables, as far as they were asked for, and the metadata of its file."""

    rank: int
    tables: Mapping[str, pl.DataFrame]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    # The user's own rules that the kinds of its device work were decided by, before the built-in ones.
    kinds: tuple[KindRule, ...] = ()
    # What else the user gave for questions about it, by name: models of operators, peaks of devices.
    settings: Mapping[str, Any] = field(default_factory=dict)
    _cached: dict[Callable[[RankTrace], Any], Any] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __getitem__(self, table: Table) -> pl.DataFrame:
        """The columns of ``table``, as far as they were asked for; an analysis gets what its ``reads`` declares."""
        frame = self.tables[table.name]
        there = frame.columns
        return frame[[name for name in table.column_names if name in there]]

    def cached(self, make: Callable[[RankTrace], T]) -> T:
        """The result of ``make``, computed once for all analyses that ask for it."""
        if make not in self._cached:
            self._cached[make] = make(self)
        made: T = self._cached[make]
        return made


class Question(Protocol):
    """What can be asked of a job: answered rank by rank, from some tables."""

    @property
    def name(self) -> str: ...
    @property
    def reads(self) -> tuple[Table, ...]: ...
    def part(self, rank: RankTrace, options: Mapping[str, Any]) -> pl.DataFrame: ...
    def combine(self, parts: Iterable[pl.DataFrame], options: Mapping[str, Any]) -> pl.DataFrame: ...


class JobTrace(ABC):
    """All ranks of a job; each is loaded when a task needs it and let go afterwards."""

    @property
    @abstractmethod
    def ranks(self) -> tuple[int, ...]:
        """Ranks that are present, ascending."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is kept for the next question."""

    def __enter__(self: J) -> J:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def map(self, task: Callable[[RankTrace], T], reads: Sequence[Table]) -> list[T]:
        """Run ``task`` on every rank with the tables in ``reads``; results in rank order."""

    def ask(self, question: Question, options: Mapping[str, Any]) -> pl.DataFrame:
        """The answer of all ranks to ``question``, as one table."""
        return question.combine(self.map(partial(question.part, options=options), question.reads), options)
