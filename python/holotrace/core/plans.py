"""Work on small frames, for which Polars takes as long as for a thousand times the rows: less of that."""

from __future__ import annotations

import polars as pl

_AS_WRITTEN = pl.QueryOptFlags.none()


def done(plan: pl.LazyFrame) -> pl.DataFrame:
    """What comes of the plan, carried out step by step as it is written.

    Small tables take their time for each query, whatever that does: one of several steps takes half as long as one for
    each. To look for a better plan would take longer still.
    """
    return plan.collect(engine="in-memory", optimizations=_AS_WRITTEN)


def columns(frame: pl.DataFrame, *names: str, **renamed: str) -> pl.DataFrame:
    """These columns of the frame, and others of it by other names, as ``start_ns="began_ns"``; no query is made."""
    others = (frame.get_column(own).alias(name) for name, own in renamed.items())
    return pl.DataFrame([*(frame.get_column(name) for name in names), *others])


def without(frame: pl.DataFrame, *names: str) -> pl.DataFrame:
    """The frame without these columns; no query is made."""
    return frame[:, [name for name in frame.columns if name not in names]]


def constant(name: str, value: object, height: int, dtype: pl.DataType | None = None) -> pl.Series:
    """A column of that height in which each value is the same; no query is made."""
    same: pl.Series = pl.Series(name, [value], dtype).new_from_index(0, height)
    return same


def not_null(values: pl.Series) -> pl.Series:
    """The values that are not null; where all are, no query is made."""
    return values.drop_nulls() if values.null_count() else values
