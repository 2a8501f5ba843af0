"""What follows from names alone, decided once for each of them."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl


def decided(names: pl.Series, decide: Callable[[str], str | None]) -> pl.Series:
    """What ``decide`` says of each name, null where that is nothing; a trace has few names and millions of events."""
    texts = names.cast(pl.String())
    answers = {text: decide(text) for text in texts.drop_nulls().unique()}
    found: pl.Series = texts.replace_strict(answers, default=None, return_dtype=pl.String())
    return found
