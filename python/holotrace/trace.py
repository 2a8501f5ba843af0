"""What analyses read: one rank's tables, and a job made of ranks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import polars as pl

from holotrace.schema import Table

T = TypeVar("T")


@dataclass(frozen=True)
class RankTrace:
    """One rank's tables, as far as they were asked for, and the metadata of its file."""

    rank: int
    tables: Mapping[str, pl.DataFrame]
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, table: Table) -> pl.DataFrame:
        """The frame of ``table``; an analysis gets what its ``reads`` declares."""
        return self.tables[table.name]


class JobTrace(ABC):
    """All ranks of a job; each is loaded when a task needs it and let go afterwards."""

    @property
    @abstractmethod
    def ranks(self) -> tuple[int, ...]:
        """Ranks that are present, ascending."""

    @abstractmethod
    def map(self, task: Callable[[RankTrace], T], reads: Sequence[Table]) -> list[T]:
        """Run ``task`` on every rank with the tables in ``reads``; results in rank order."""
