"""Columns and tables: the one place where a name, a unit and a meaning meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property, lru_cache

import polars as pl

# Columns by which files are in order, as a rule.
_IN_ORDER = ("event_id", "device_event_id")
# In a smaller table an expression takes longer than the memory of a column is worth.
_MANY_ROWS = 10_000


class Unit(Enum):
    """What a column counts: (suffix its name must end in, Polars type)."""

    NS = "_ns", pl.Int64()
    BYTES = "bytes", pl.Int64()
    RATIO = "_ratio", pl.Float64()
    COUNT = "count", pl.Int64()
    RANK = "rank", pl.Int32()
    RANKS = "ranks", pl.List(pl.Int32())
    STEPS = "steps", pl.List(pl.Int64())
    STEP = "step", pl.Int64()
    EVENT = "_id", pl.UInt32()
    # Integers that name something: a stream, a device, a correlation id.
    NUMBER = "", pl.Int64()
    # Ids that use all 64 bits, e.g. a fingerprint.
    UNSIGNED = "", pl.UInt64()
    FLOAT = "", pl.Float64()
    BOOL = "", pl.Boolean()
    # Dictionary-encoded text in tables with a row per event.
    LABEL = "", pl.Categorical()
    # Plain text in small tables.
    TEXT = "", pl.String()
    # What only its writer reads; in no table that users see.
    BINARY = "", pl.Binary()

    def __init__(self, suffix: str, dtype: pl.DataType) -> None:
        self.suffix = suffix
        self.dtype = dtype


@dataclass(frozen=True)
class Column:
    """One column: its name ends in its unit's suffix, its meaning is one phrase."""

    name: str
    """Lower case, and it ends in the suffix of its unit."""

    unit: Unit
    """What it counts, and its type."""

    meaning: str
    """One phrase, for the reader of a table."""

    arg: str | None = None
    """The key of a trace event's ``args`` this column is read from, for columns that are."""

    def __post_init__(self) -> None:
        if not self.name.endswith(self.unit.suffix):
            raise ValueError(f"{self.name}: a {self.unit.name} column ends in {self.unit.suffix!r}")


@dataclass(frozen=True)
class Table:
    """A named, documented set of columns; ``only`` narrows it to what a reader needs."""

    name: str
    """Its name in ``Job.table``, queries and datasets."""

    meaning: str
    """What a row is."""

    columns: tuple[Column, ...]
    """In order."""

    of_single_launches: bool = False
    """Whether it is asked only of files in which the host launches kernels one by one, not whole programs."""

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """In order."""
        return tuple(column.name for column in self.columns)

    def only(self, *names: str) -> Table:
        """The same table with just the named columns, in declared order."""
        unknown = set(names) - set(self.column_names)
        if unknown:
            raise ValueError(f"{self.name} has no columns {sorted(unknown)}")
        return replace(self, columns=tuple(c for c in self.columns if c.name in names))

    def without(self, *names: str) -> Table:
        """The same table with all but the named columns."""
        return self.only(*(name for name in self.column_names if name not in names))

    def where_launched_singly(self) -> Table:
        """The same table, asked only of files in which the host launches kernels one by one."""
        return replace(self, of_single_launches=True)

    def empty(self) -> pl.DataFrame:
        """A frame of this table without rows."""
        return empty(self.columns)


def empty(columns: tuple[Column, ...]) -> pl.DataFrame:
    """A frame without rows that has exactly ``columns``."""
    return _empty(columns).clear()


@lru_cache
def _empty(columns: tuple[Column, ...]) -> pl.DataFrame:
    return pl.DataFrame(schema={column.name: column.unit.dtype for column in columns})


def conform(frame: pl.DataFrame, columns: tuple[Column, ...], owner: str) -> pl.DataFrame:
    """Return ``frame`` with exactly ``columns``, in order and with their types."""
    declared = {column.name for column in columns}
    missing = sorted(declared - set(frame.columns))
    extra = sorted(set(frame.columns) - declared)
    if missing or extra:
        raise TypeError(f"{owner} broke its schema: missing {missing}, undeclared {extra}")
    return filled(frame, columns)


def filled(frame: pl.DataFrame, columns: Sequence[Column]) -> pl.DataFrame:
    """Exactly ``columns``, in order and with their types; null where ``frame`` lacks one."""
    # Putting the whole schema together takes as long as all the rest.
    there = dict(zip(frame.columns, frame.dtypes, strict=True))
    wanted = {column.name: column.unit.dtype for column in columns}
    known = {name: dtype for name, dtype in wanted.items() if name in there}
    found = frame[:, list(known)]
    for place, (name, dtype) in enumerate(known.items()):
        if there[name] != dtype:
            found.replace_column(place, typed(found[name], dtype))
    lacking = {name: dtype for name, dtype in wanted.items() if name not in there}
    return with_nothing(found, lacking, frame.height)[:, list(wanted)] if lacking else found


def with_nothing(frame: pl.DataFrame, columns: Mapping[str, pl.DataType], height: int) -> pl.DataFrame:
    """The frame, of that height, and behind its own these columns in which there is nothing."""
    if not columns:
        return frame
    if frame.width and height >= _MANY_ROWS:
        # As long as nobody writes into them, these take no memory.
        return frame.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in columns.items())
    of_type = {dtype: _nothing(dtype).new_from_index(0, height) for dtype in set(columns.values())}
    first, *rest = (of_type[dtype].alias(name) for name, dtype in columns.items())
    return frame.hstack([first, *rest]) if frame.width else first.to_frame().hstack(rest)


@lru_cache
def _nothing(dtype: pl.DataType) -> pl.Series:
    return pl.Series([None], dtype=dtype)


def typed(found: pl.Series, wanted: pl.DataType) -> pl.Series:
    """The column with that type."""
    # Casting to the type a column has already would copy it.
    if found.dtype == wanted:
        return found
    if wanted == pl.UInt64 and found.dtype == pl.Int64:
        found = found.reinterpret(signed=False)
    cast: pl.Series = found.cast(wanted)
    return cast


def in_order(frame: pl.DataFrame) -> pl.DataFrame:
    """The same frame, which knows that its events are in order where they are: to join by them then takes little."""
    known = frame.clone()
    for place, name in enumerate(frame.columns):
        if name in _IN_ORDER and not (column := frame[name]).null_count() and column.is_sorted():
            known.replace_column(place, column.set_sorted())
    return known


def legible(text: object) -> str:
    """The text with question marks for what no column holds: halves of characters, as odd file names and JSON have."""
    return str(text).encode(errors="replace").decode()
