"""What every reader returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import polars as pl


class Columns(Protocol):
    """A table in Arrow memory, or one that is put there each time it is taken, e.g. a ``polars.DataFrame``."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def select(self, columns: Sequence[str], /) -> Columns: ...


C_co = TypeVar("C_co", bound=Columns, covariant=True)


@dataclass(frozen=True)
class Parsed(Generic[C_co]):
    """One file's tables, what it says of itself as a whole, and what reading it took."""

    tables: Mapping[str, C_co]
    metadata: Mapping[str, Any]
    counts: Mapping[str, int]
    load_ns: int


@dataclass(frozen=True)
class RankParts:
    """One rank's tables for a writer: each in parts with the same rows and different columns."""

    rank: int
    info: pl.DataFrame
    tables: Mapping[str, Sequence[Columns]]
    metadata: Mapping[str, Any] = field(default_factory=dict)
