"""What follows from names alone, decided once for each of them."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from holotrace.core.native import native
from holotrace.core.plans import constant

# Stands for no label in the core.
NONE = 2**32 - 1
# Of so many rows and more, labels are compared faster by their numbers.
_MANY_ROWS = 1 << 14
# What XLA adds to the name of an operation to tell it from others of that name: "fusion.3.remat2".
NUMBERED = r"(\.(clone|remat\d*|cloned|\d+))+$"


def distinct(values: pl.Series) -> pl.Series:
    """Each value that is there, once, in any order."""
    if not isinstance(values.dtype, pl.Categorical) or len(values) < _MANY_ROWS:
        # Of few rows this takes a fifth of the time of unique(), and of many as long.
        return values.alias("value").value_counts()["value"].alias(values.name)
    once: pl.Series = values[_first_rows(values.to_frame())]
    return once


def are_in(values: pl.Series, chosen: pl.Series) -> pl.Series:
    """Which of the values are among those that were chosen; null where there is none."""
    # As a method of the column each of the two would be a query by itself.
    return values.to_frame("value").select(pl.col("value").is_in(pl.lit(chosen).implode()))["value"].alias(values.name)


def distinct_pairs(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of one or two columns of labels, each once."""
    return frame[_first_rows(frame)]


def _first_rows(labels: pl.DataFrame) -> pl.Series:
    """The row in which each label, or pair of them, comes first."""
    return pl.DataFrame(native.first_rows(codes(labels), labels.columns)).to_series()


def codes(labels: pl.DataFrame) -> pl.DataFrame:
    """Columns of labels as numbers, as which the core takes them; null where there is none."""
    return labels.select(pl.all().to_physical().cast(pl.UInt32))


def decided(names: pl.Series, decide: Callable[[str], str | None]) -> pl.Series:
    """What ``decide`` says of each name, null where that is nothing; a trace has few names and millions of events."""
    known = [name for name in distinct(names) if name is not None]
    if not known:
        return constant(names.name, None, len(names), pl.String())
    answers = [decide(name) for name in known]
    if not isinstance(names.dtype, pl.Categorical):
        keys = pl.Series(known, dtype=names.dtype)
        found: pl.Series = names.replace_strict(keys, pl.Series(answers, dtype=pl.String()), default=None)
        return found.alias(names.name)
    # Labels are compared by their numbers: as text, those of millions of events would take much of the memory.
    numbers = pl.Series(known, dtype=names.dtype).to_physical().to_list()
    of_codes = sorted(zip(numbers, answers, strict=True))
    ordered = pl.DataFrame({"event_id": [code for code, _ in of_codes]}, schema={"event_id": pl.UInt32()})
    rows = pl.DataFrame(native.rows_of(ordered, names.to_physical().to_frame("event_id"))).to_series()
    return pl.Series(names.name, [answer for _, answer in of_codes], pl.String())[rows]


def pair(first: str, second: str) -> pl.Expr:
    """One number for each pair of labels in two columns; null is a label.

    Where a key has several columns Polars writes each row's key as bytes, which takes longer than the comparison.
    """
    low, high = (pl.col(name).to_physical().cast(pl.UInt64).fill_null(NONE) for name in (second, first))
    return high * 2**32 + low
