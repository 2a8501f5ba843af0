"""What analyses read: one rank's tables, and a job made of ranks."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Protocol, TypeVar

import polars as pl

from holotrace.core.kinds import KindRule
from holotrace.core.on_demand import Held, Tables, narrowed
from holotrace.core.schema import Table

# The key of the metadata that says so; see RankTrace.
COMPUTES_ON_HOST = "computes_on_host"
T = TypeVar("T")
J = TypeVar("J", bound="JobTrace")
_finished: ContextVar[Callable[[Sequence[Table]], None]] = ContextVar("finished", default=lambda _: None)


def finished_with(*tables: Table) -> None:
    """Say that the answer which is being made needs no more of these tables: they need not wait until it is made."""
    _finished.get()(tables)


@contextmanager
def hearing(tell: Callable[[Sequence[Table]], None]) -> Iterator[None]:
    """Within this, ``tell`` hears which tables are finished with."""
    before = _finished.set(tell)
    try:
        yield
    finally:
        _finished.reset(before)


class _Made:
    """What was computed for a rank: each once, however many threads ask; another process computes it anew."""

    def __init__(self) -> None:
        self._values: dict[Callable[[RankTrace], Any], Any] = {}
        self._locks: dict[Callable[[RankTrace], Any], threading.RLock] = {}
        # The tables that each was made of, and in each thread those that what is being made has read.
        self._made_of: dict[Callable[[RankTrace], Any], set[str]] = {}
        self._reading = threading.local()

    def __reduce__(self) -> tuple[type[_Made], tuple[()]]:
        return _Made, ()

    def of(self, rank: RankTrace, make: Callable[[RankTrace], T]) -> T:
        with self._locks.setdefault(make, threading.RLock()):
            if make not in self._values:
                outer, self._reading.tables = getattr(self._reading, "tables", None), set[str]()
                try:
                    self._values[make] = make(rank)
                finally:
                    self._made_of[make], self._reading.tables = self._reading.tables, outer
            self.note(self._made_of[make])
            made: T = self._values[make]
            return made

    def note(self, tables: Iterable[str]) -> None:
        """What this thread is making is made of these."""
        if (reading := getattr(self._reading, "tables", None)) is not None:
            reading.update(tables)

    def forget(self, make: Callable[[RankTrace], Any]) -> None:
        """Let go of what it made."""
        with self._locks.setdefault(make, threading.RLock()):
            self._values.pop(make, None)

    def keep(self, together: Collection[Set[str]]) -> None:
        """Let go of what was made of tables that none of these sets holds ``together``."""
        for make, made_of in list(self._made_of.items()):
            if not any(made_of <= tables for tables in together):
                self._values.pop(make, None)


@dataclass(frozen=True)
class RankTrace:
    """One rank's tables, as far as they were asked for, and the metadata of its file."""

    rank: int
    """Its number in the job."""

    tables: Mapping[str, pl.DataFrame] = field(repr=False)
    """By name; read them as ``trace[TABLE]``, which gives the declared columns."""

    metadata: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What the file says about the recording, e.g. the world size."""

    kinds: tuple[KindRule, ...] = ()
    """The user's own rules that the kinds of its device work were decided by, before the built-in ones."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """What else the user gave for questions about it, by name: models of operators, peaks of devices."""

    _cached: _Made = field(init=False, repr=False, compare=False, default_factory=_Made)

    @property
    def computes_on_host(self) -> bool:
        """Whether its operators compute in their own time: it has no accelerator, and the host is its device."""
        return self.metadata.get(COMPUTES_ON_HOST) is True

    def __getitem__(self, table: Table) -> pl.DataFrame:
        """The columns of ``table``, as far as they were asked for; an analysis gets what its ``reads`` declares."""
        frame = self.held[table.name]
        self._cached.note((table.name,))
        there = frame.columns
        names = [name for name in table.column_names if name in there]
        return frame[:, names] if isinstance(frame, pl.DataFrame) else frame.select(names)

    def where(self, table: Table, is_kept: pl.Expr | pl.Series) -> pl.DataFrame:
        """The rows of ``table`` that are kept; others are not even put together.

        Args:
            table: What is asked for.
            is_kept: Of each row; an expression may name columns that are not asked for.
        """
        held = self.held[table.name]
        self._cached.note((table.name,))
        names = [name for name in table.column_names if name in held.columns]
        if isinstance(is_kept, pl.Expr):
            asked = is_kept.meta.root_names()
            if isinstance(held, pl.DataFrame):
                both = held[:, list(dict.fromkeys((*names, *asked)))]
                return both.filter(is_kept)[:, names]
            is_kept = held.select(asked).select(is_kept).to_series()
        return held[:, names].filter(is_kept) if isinstance(held, pl.DataFrame) else held.where(names, is_kept)

    def rows(self, table: Table, places: pl.Series) -> pl.DataFrame:
        """The rows of ``table`` at some places.

        Args:
            table: What is asked for.
            places: Numbers of rows, in the order that is wanted.
        """
        held = self.held[table.name]
        if isinstance(held, pl.DataFrame):
            return self[table][places]
        # Of a large table one column after the other is put together, and let go.
        return pl.DataFrame([self[table.only(name)].to_series()[places] for name in table.column_names])

    def summed(self, table: Table, is_kept: pl.Expr, by: Sequence[str], **sums: pl.Expr) -> pl.DataFrame:
        """The rows of ``table`` that are kept, those with the same values in ``by`` put together.

        Args:
            table: What is asked for.
            is_kept: Of each row, by any columns of the table.
            by: Columns; rows are in the order of the first with their values.
            sums: Expressions of the rows that are alike.
        """
        held = self.held[table.name]
        self._cached.note((table.name,))
        if isinstance(held, pl.DataFrame):
            return held.filter(is_kept).group_by(by, maintain_order=True).agg(**sums)
        return held.summed(by, held[is_kept.meta.root_names()].select(is_kept).to_series(), sums)

    def follows(self, table: Table, make: Callable[[pl.DataFrame], pl.Series]) -> pl.Series:
        """A column that follows row by row from those of ``table``: made once for all rows that share their values.

        Args:
            table: The columns that it follows from.
            make: Returns it for some rows of them.
        """
        held = self.held[table.name]
        if isinstance(held, pl.DataFrame):
            return make(self[table])
        self._cached.note((table.name,))
        of = [name for name in table.column_names if name in held.columns]
        return held.with_made("it", of, make)[["it"]].to_series()

    def count(self, table: Table) -> int:
        """How many rows ``table`` has, of which no column is put together."""
        self._cached.note((table.name,))
        return self.held[table.name].height

    @property
    def held(self) -> Mapping[str, Held]:
        """Its tables as they are in memory, where not every column of each need be made."""
        return self.tables.held if isinstance(self.tables, Tables) else self.tables

    def cached(self, make: Callable[[RankTrace], T]) -> T:
        """The result of ``make``, computed once for all analyses that ask for it."""
        return self._cached.of(self, make)

    def forget(self, make: Callable[[RankTrace], Any]) -> None:
        """Let go of the result of ``make``, which nobody else asks for."""
        self._cached.forget(make)

    def keep(self, reads: Sequence[Iterable[Table]]) -> None:
        """Let go of all that nobody will ask for.

        Args:
            reads: What each of those reads who still come. What was made of several tables stays only for one of them
                that reads them all.
        """
        columns: dict[str, set[str]] = {}
        for table in chain.from_iterable(reads):
            columns.setdefault(table.name, set()).update(table.column_names)
        kept = {
            name: frame if columns[name].issuperset(frame.columns) else narrowed(frame, columns[name])
            for name, frame in self.held.items()
            if name in columns
        }
        # Whoever holds the rank holds no more than this, however many they are.
        object.__setattr__(self, "tables", Tables(kept))
        self._cached.keep([{table.name for table in tables} for tables in reads])


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

    def compared(self, task: Callable[[RankTrace], T], reads: Sequence[Table]) -> list[T]:
        """The same on ranks that can be compared, each in the steps that all of them have; by default all is."""
        return self.map(task, reads)

    def ask(self, question: Question, options: Mapping[str, Any]) -> pl.DataFrame:
        """The answer of all ranks to ``question``, as one table."""
        return question.combine(self.map(partial(question.part, options=options), question.reads), options)
