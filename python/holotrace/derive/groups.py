"""Rows that belong together."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl


def differing(rows: pl.DataFrame, by: Sequence[str]) -> list[str]:
    """The columns of ``by`` that tell groups apart; one that is the same everywhere takes as long to group by.

    A rank has one device, most often, and work that is looked at as a whole is on no queue.
    """
    differs = rows.select(pl.col(by).ne_missing(pl.col(by).first()).any())
    return [column for column in by if differs[column].item()]
