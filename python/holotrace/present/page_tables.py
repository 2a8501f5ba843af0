"""Tables of the page: the first rows as text, more of them as data for its script."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
from markupsafe import Markup

from holotrace.core.analysis import Analysis
from holotrace.core.schema import Column
from holotrace.present import format as fmt
from holotrace.present import over_ranks

EMBEDDED_ROWS = 2_000  # rows of a table a browser sorts at once without a pause, and a page carries by mail
SHOWN_ROWS = 15  # rows that are there before anybody asks for more
LONG_TEXT = 24  # characters
_MOST_TEXT = 400_000  # characters that a column takes in the page
_SHORTEST_TEXT = 120
_EXACT = 2**53  # whole numbers up to this are floats without loss


@dataclass(frozen=True)
class Head:
    """One column as the page shows it."""

    label: str
    unit: str
    name: str
    meaning: str
    kind: str
    sort: str


@dataclass(frozen=True)
class TableView:
    """A table as the page shows it: the first rows as text, the embedded rows as data for the script."""

    name: str
    heads: tuple[Head, ...]
    left_out: frozenset[str]
    rows: tuple[tuple[str, ...], ...]
    embedded: int
    total: int
    order: str
    data: Markup
    # How the rows came about, where it is not plain.
    note: str = ""


def of_analysis(
    analysis: Analysis[Any], table: pl.DataFrame, first_ns: int | None, order: str, together: tuple[str, ...]
) -> TableView:
    """A row per name that opens to its ranks, or the rows themselves, outliers first."""
    found = over_ranks.per_name(analysis, table)
    if found is None:
        table, said = over_ranks.outliers_first(analysis, table)
        shown, columns = fmt.since_first_event(table, analysis.columns, first_ns)
        view = of_table(analysis.name, columns, shown, "" if said else order, together=together)
        return replace(view, order=said) if said else view
    ends = (found.by, f"least_{found.by}", f"most_{found.by}")
    inner = over_ranks.rows_of(found, table, EMBEDDED_ROWS)
    shown, columns = fmt.since_first_event(inner, analysis.columns, first_ns)
    own = tuple(column for column in columns if column.name not in found.names)
    view = of_table(analysis.name, found.columns, found.table, found.by, together=ends, inner=_inner(own, shown))
    note = f"a row per name, means of {fmt.plural(found.ranks, 'rank')}; a row opens to its ranks"
    return replace(view, note=note + (", those with the most of it" if inner.height < table.height else ""))


def _inner(columns: tuple[Column, ...], table: pl.DataFrame) -> dict[str, Any]:
    """The rows that each row opens to, for the script: the place of the row that they belong to first."""
    left_out = {c.name for c in columns if table.height == table[c.name].null_count()}
    columns = tuple(column for column in columns if column.name not in left_out)
    scales = fmt.scales(table, columns)
    cells = [_embedded(table[c.name], c, by) for c, by in zip(columns, scales, strict=True)]
    heads = [f"{fmt.label(c)} {by.unit}".strip() for c, by in zip(columns, scales, strict=True)]
    kinds = [_kind(column, table[column.name]) for column in columns]
    rows = list(zip(table["name_index"].to_list(), *cells, strict=True))
    return {"heads": heads, "columns": _written(columns, kinds, scales), "rows": rows}


def _written(columns: Sequence[Column], kinds: Sequence[str], scales: Sequence[fmt.Scale]) -> list[dict[str, Any]]:
    """How the script writes the cells of each column."""
    return [
        {
            "number": fmt.is_number(column),
            "kind": kind,
            "factor": by.factor,
            "decimals": by.decimals,
            "grouped": by.grouped,
        }
        for column, kind, by in zip(columns, kinds, scales, strict=True)
    ]


def of_table(
    name: str,
    columns: tuple[Column, ...],
    table: pl.DataFrame,
    order: str = "",
    *,
    together: tuple[str, ...] = (),
    inner: dict[str, Any] | None = None,
) -> TableView:
    if order:
        table = table.sort(order, descending=True, nulls_last=True, maintain_order=True)
    # A column nobody filled, as the step where steps were not asked for, says nothing in every row.
    left_out = frozenset(c.name for c in columns if 0 < table.height == table[c.name].null_count())
    columns = tuple(column for column in columns if column.name not in left_out)
    scales = fmt.scales(table, columns, together)
    top = table.select(column.name for column in columns).head(EMBEDDED_ROWS)
    heads = tuple(
        Head(
            label=fmt.label(column),
            unit=by.unit,
            name=column.name,
            meaning=column.meaning,
            kind=_kind(column, top[column.name]),
            sort="descending" if column.name == order else "none",
        )
        for column, by in zip(columns, scales, strict=True)
    )
    shown = top.head(SHOWN_ROWS)
    rows = zip(*(_texts(shown[c.name], c, by) for c, by in zip(columns, scales, strict=True)), strict=True)
    embedded = zip(*(_embedded(top[c.name], c, by) for c, by in zip(columns, scales, strict=True)), strict=True)
    data = {
        "columns": _written(columns, [head.kind for head in heads], scales),
        "inner": inner,
        "shown": SHOWN_ROWS,
        "rows": list(embedded),
    }
    ordered = next((f"{head.label.lower()} first" for head in heads if head.name == order), "")
    return TableView(
        name=name,
        heads=heads,
        left_out=left_out,
        rows=tuple(rows),
        embedded=top.height,
        total=table.height,
        order=f"largest {ordered}" if ordered else "",
        data=embedded_json(data),
    )


def _texts(values: pl.Series, column: Column, by: fmt.Scale) -> list[str]:
    return [fmt.cell(value, column, by) for value in values.to_list()]


def _short_texts(values: pl.Series, column: Column, by: fmt.Scale) -> list[str]:
    """Texts that lose their middle where there are so many long ones that the page would grow with them."""
    most = max(_SHORTEST_TEXT, _MOST_TEXT // max(len(values), 1))
    return [fmt.middle(text, most) for text in _texts(values, column, by)]


def _embedded(values: pl.Series, column: Column, by: fmt.Scale) -> Sequence[float | str | None]:
    """A column for the script: texts, and numbers as they are, to be sorted by; it writes them with the same scale."""
    if not fmt.is_number(column):
        return _short_texts(values, column, by)
    numbers: list[float | None] = values.to_list()
    if values.dtype.is_float():
        return [None if value is None or not math.isfinite(value) else value for value in numbers]
    if by.grouped:
        return numbers
    # One that names something goes as text where the script's floats would make it another.
    return [value if value is None or abs(value) <= _EXACT else str(value) for value in numbers]


def _kind(column: Column, values: pl.Series) -> str:
    """How a column stands: measures to the right, long texts wrapped, the rest in one line."""
    if fmt.is_measure(column):
        return "number"
    if column.unit in fmt.LISTS:
        return "short"
    lengths = values.cast(pl.String).str.len_chars()
    return "long" if not fmt.is_number(column) and (lengths > LONG_TEXT).any() else "short"


def embedded_json(data: Any) -> Markup:
    """Data for a script element, which ends at the first ``</script`` whatever surrounds it."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # escaped just here
