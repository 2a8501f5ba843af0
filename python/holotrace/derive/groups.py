"""Rows that belong together."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from holotrace.core.native import native
from holotrace.core.plans import constant
from holotrace.core.schema import typed
from holotrace.derive.names import distinct

_LEAST = -(2**63)


def differing(rows: pl.DataFrame, by: Sequence[str]) -> list[str]:
    """The columns of ``by`` that tell groups apart; one that is the same everywhere takes as long to group by.

    A rank has one device, most often, and work that is looked at as a whole is on no queue.
    """
    differs = rows.select(pl.col(by).ne_missing(pl.col(by).first()).any())
    return [column for column in by if differs[column].item()]


def numbered(rows: pl.DataFrame, by: Sequence[str]) -> pl.Series:
    """The number of each row's ``group``; groups are in the order of the columns of ``by``, nothing known first."""
    keys = differing(rows, by)
    if len(keys) == 1 and rows.schema[keys[0]] == pl.Int64 and not rows[keys[0]].null_count():
        return rows[keys[0]].alias("group")
    number = constant("group", 0, rows.height, pl.Int64())
    for key in keys:
        values = distinct(rows[key]).sort()
        place: pl.Series = values.search_sorted(rows[key])
        number = number * len(values) + place.cast(pl.Int64)
    return number


def ordered(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The rows in order of these columns of whole numbers, nothing known first; equal ones stay as they are.

    Events are mostly in order, or a few runs that are, which Polars' sort by several columns makes no use of.
    """
    place = order(rows, by)
    return rows if place is None else rows[place]


def order(rows: pl.DataFrame, by: Sequence[str]) -> pl.Series | None:
    """The numbers of the rows in that order; None where they are in order."""
    keys = (typed(rows[name], pl.Int64()) for name in by)
    known = pl.DataFrame([key.fill_null(_LEAST) if key.null_count() else key for key in keys])
    found = native.order(known, by, rows.height)
    return None if found is None else pl.DataFrame(found)["row"]


def in_alphabet(labels: pl.Series) -> pl.Series:
    """The place of each label in the order of the texts of all of them; none comes last."""
    texts = labels.unique().drop_nulls().cast(pl.String).sort()
    place: pl.Series = labels.cast(pl.Enum(texts)).to_physical().cast(pl.Int64)
    return place.fill_null(len(texts)) if place.null_count() else place
