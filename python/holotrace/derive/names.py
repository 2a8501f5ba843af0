"""What follows from names alone, decided once for each of them."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

# What XLA adds to the name of an operation to tell it from others of that name: "fusion.3.remat2".
NUMBERED = r"(\.(clone|remat\d*|cloned|\d+))+$"


def decided(names: pl.Series, decide: Callable[[str], str | None]) -> pl.Series:
    """What ``decide`` says of each name, null where that is nothing; a trace has few names and millions of events."""
    unique = names.drop_nulls().unique()
    answers = [decide(text) for text in unique.cast(pl.String())]
    # Labels are compared by their numbers: as text, those of millions of events would take much of the memory.
    is_label = isinstance(names.dtype, pl.Categorical)
    keys, known = (names.to_physical(), unique.to_physical()) if is_label else (names, unique)
    found: pl.Series = keys.replace_strict(known, pl.Series(answers, dtype=pl.String()), default=None)
    return found.alias(names.name)


def pair(first: str, second: str) -> pl.Expr:
    """One number for each pair of labels in two columns; null is a label.

    Where a key has several columns Polars writes each row's key as bytes, which takes longer than the comparison.
    """
    low, high = (pl.col(name).to_physical().cast(pl.UInt64).fill_null(2**32 - 1) for name in (second, first))
    return high * 2**32 + low
