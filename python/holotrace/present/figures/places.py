"""Where the rows of a table stand on the axis across."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from holotrace.core.schema import Column, Unit
from holotrace.present import format as fmt
from holotrace.present.figures.style import Columns, markup

LABELLED = 33  # bars that each carry their label; beyond it Plotly picks round ones
_LABELS_WIDTH = 130  # characters of all labels together that have room below an axis
_LONGEST = 24  # characters of one of them


@dataclass(frozen=True)
class Axis:
    """Where the rows of a table stand on the x axis, and the layout of that axis."""

    positions: list[Any]
    layout: dict[str, Any]
    # What each row is called.
    labels: list[str]


def axis_of(x: Column, table: pl.DataFrame, columns: Columns) -> Axis:
    """Places of the rows: at the rank itself where each has one row, else one after the other."""
    values = table[x.name]
    counted = x.unit in (Unit.RANK, Unit.STEP) and values.n_unique() == table.height and not values.null_count()
    if counted:
        low, high = int(values.cast(pl.Int64).min() or 0), int(values.cast(pl.Int64).max() or 0)
        if high - low < 4 * table.height + 8:
            # A few bars across the whole page look like walls; leave room for eight.
            room = max(0.0, (7 - (high - low)) / 2)
            layout: dict[str, Any] = {"title": {"text": fmt.label(x)}, "range": [low - room - 0.6, high + room + 0.6]}
            if high - low < LABELLED:
                ticks = values.sort().to_list()
                layout |= {"tickvals": ticks, "ticktext": [str(tick) for tick in ticks]}
            else:
                layout |= {"nticks": 17, "tickformat": "d"}
            return Axis(values.to_list(), layout, [f"{fmt.label(x)} {value}" for value in values])
    named = telling(x, table, columns)
    labels = labels_of(named, table)
    # Labels stand beside each other.
    longest = max(map(len, labels), default=0) + 2
    every = max(1, -(-len(labels) // LABELLED), -(-len(labels) * min(longest, _LONGEST) // _LABELS_WIDTH))
    room = max(0.0, (8 - len(labels)) / 2)
    return Axis(
        list(range(len(labels))),
        {
            "title": {"text": " · ".join(fmt.label(c) for c in named)},
            "tickvals": list(range(0, len(labels), every)),
            "ticktext": [fmt.middle(text, _LONGEST) for text in labels[::every]],
            "range": [-room - 0.6, len(labels) - 1 + room + 0.6],
        },
        labels,
    )


def telling(x: Column, table: pl.DataFrame, columns: Columns) -> list[Column]:
    """What tells rows apart: ``x``, else the step as well, and a device or stream where there are several."""
    if table[x.name].n_unique() == table.height:
        return [x]
    return [x, *(c for c in columns.values() if c.name != x.name and _tells_apart(c, table))]


def labels_of(named: Sequence[Column], table: pl.DataFrame) -> list[str]:
    return [
        markup(fmt.printable(" · ".join(fmt.NOTHING if v is None else str(v) for v in row)))
        for row in table.select(c.name for c in named).iter_rows()
    ]


def _tells_apart(column: Column, table: pl.DataFrame) -> bool:
    return column.unit is Unit.STEP or (column.unit is Unit.NUMBER and table[column.name].n_unique() > 1)
