"""Numbers, times, sizes and names as people read them."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from holotrace.core.schema import Column, Unit

NOTHING = "\u2013"

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_SIZES = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
# A column with a few seconds in it reads better in ms; from ten seconds on the digits get too many.
_COLUMN_TIMES = ((1e9, "s", 10e9), (1e6, "ms", 1e6), (1e3, "µs", 1e3), (1.0, "ns", 0.0))

_NUMBERS = frozenset(
    {Unit.NS, Unit.BYTES, Unit.RATIO, Unit.COUNT, Unit.FLOAT, Unit.RANK, Unit.STEP, Unit.EVENT, Unit.NUMBER}
    | {Unit.UNSIGNED}
)
# Numbers that name something: never grouped, never rounded.
# Numbers of ranks or steps; an empty list means all.
LISTS = frozenset({Unit.RANKS, Unit.STEPS})
_NAMES = frozenset({Unit.RANK, Unit.STEP, Unit.EVENT, Unit.NUMBER, Unit.UNSIGNED})
# Columns that say when something was, on the clock of a file.
_POINTS = frozenset({"start_ns", "end_ns", "time_ns"})
_WORDS = {
    "comm": "communication",
    "std": "std. dev.",
    "cpu": "CPU",
    "gbps": "GB/s",
    "flops": "FLOPs",
    "tflops": "TFLOP/s",
    "mfu": "MFU",
    "hfu": "HFU",
    "hlo": "HLO",
    "id": "ID",
}
# Plain numbers of operations reach 10^15, and nobody reads fifteen digits.
_POWERS = ((1e15, "10¹⁵"), (1e12, "10¹²"), (1e9, "10⁹"), (1e6, "10⁶"))
# Control characters could drive a terminal, and marks of writing direction could make a name read as another.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Scale:
    """How a column's numbers are written: all in one unit, with the same decimals."""

    factor: float = 1.0
    decimals: int = 0
    unit: str = ""
    grouped: bool = True

    def text(self, value: float | None) -> str:
        """The number without its unit; a dash where there is none."""
        if value is None or not math.isfinite(value):
            return NOTHING
        shown = value if self.factor == 1.0 else value * self.factor
        grouping = "," if self.grouped else ""
        if isinstance(shown, int):
            return f"{shown:{grouping}}"
        # What is rounded to nothing has no sign.
        return f"{round(shown, self.decimals) or 0.0:{grouping}.{self.decimals}f}"


def is_number(column: Column) -> bool:
    """Whether a column's cells are numbers, to be sorted by value."""
    return column.unit in _NUMBERS


def is_measure(column: Column) -> bool:
    """Whether its numbers count something, rather than name something as a rank does."""
    return column.unit in _NUMBERS - _NAMES


def scale(column: Column, values: pl.Series, beside: float = 0.0) -> Scale:
    """The scale that suits all ``values`` of ``column``, and values as large as ``beside`` next to them."""
    if column.unit in _NAMES or column.unit not in _NUMBERS:
        return Scale(grouped=False)
    if column.unit is Unit.COUNT:
        return Scale()
    if column.unit is Unit.RATIO:
        return Scale(100.0, 1, "%")
    sizes = _sizes(values)
    largest, typical = max(_float(sizes.max()), beside), _float(sizes.median())
    if column.unit is Unit.NS:
        step, unit = next((s, u) for s, u, start in _COLUMN_TIMES if largest >= start)
    elif column.unit is Unit.BYTES:
        step, unit = next(((s, u) for s, u in _SIZES if largest >= s), (1.0, "B"))
    else:
        step, unit = next(((s, u) for s, u in _POWERS if largest >= s), (1.0, ""))
    whole = step == 1.0 and column.unit is not Unit.FLOAT
    return Scale(1.0 / step, 0 if whole else _decimals(typical / step), unit)


def scales(table: pl.DataFrame, columns: Sequence[Column], together: Collection[str] = ()) -> list[Scale]:
    """The scale of each column; the columns named in ``together`` share their unit, to be compared."""
    beside = max((_float(_sizes(table[name]).max()) for name in together), default=0.0)
    return [scale(column, table[column.name], beside if column.name in together else 0.0) for column in columns]


def since_first_event(
    table: pl.DataFrame, columns: Sequence[Column], first_ns: int | None
) -> tuple[pl.DataFrame, tuple[Column, ...]]:
    """The table with points in time counted from the first event of the job, as a reader can place them."""
    points = {c.name: f"{c.name.removesuffix('_ns')}_since_first_event_ns" for c in columns if c.name in _POINTS}
    if first_ns is None or not points:
        return table, tuple(columns)
    shifted = table.with_columns(pl.col(list(points)) - first_ns).rename(points)
    return shifted, tuple(replace(c, name=points.get(c.name, c.name)) for c in columns)


def cell(value: Any, column: Column, by: Scale) -> str:
    """One cell of a table as text, without its unit."""
    if value is None:
        return NOTHING
    if column.unit is Unit.BOOL:
        return "yes" if value else "no"
    if column.unit in LISTS:
        return ranks(list(value)) if len(value) else "all"
    return by.text(value) if is_number(column) else printable(str(value))


def label(column: Column) -> str:
    """What a column is called on a page: words instead of a name, without its unit."""
    name = column.name
    if column.unit in (Unit.NS, Unit.RATIO):
        name = name.removesuffix(column.unit.suffix)
    elif column.unit is Unit.BYTES and name != "bytes":
        name = name.removesuffix("_bytes")
    words = " ".join(_WORDS.get(word, word) for word in name.split("_"))
    return words[:1].upper() + words[1:]


def duration(ns: float | None) -> str:
    """A span in the unit that suits it: 850 ns, 12.3 µs, 4.56 ms, 1.23 s."""
    return _with_unit(ns, _TIMES)


def size(count: float | None) -> str:
    """Bytes in the unit that suits them: 512 B, 1.50 KiB, 20.0 MiB."""
    return _with_unit(count, _SIZES)


def number(value: int | None) -> str:
    """A whole number with its thousands apart."""
    return NOTHING if value is None else f"{value:,}"


def percent(ratio: float | None) -> str:
    """A share: 61%, 4.2%, <0.1%; 100% is all of it, and what is almost all is 99.7% or >99.9%."""
    if ratio is None or not math.isfinite(ratio):
        return NOTHING
    if 0 < ratio < 0.001:
        return "<0.1%"
    if 0.9995 <= ratio < 1:
        return ">99.9%"
    return f"{ratio:.0%}" if ratio == 0 or 0.0995 <= abs(ratio) < 0.995 or abs(ratio) >= 1 else f"{ratio:.1%}"


def plural(count: int, noun: str) -> str:
    """A count and its noun: 1 rank, 8 ranks."""
    return f"{number(count)} {noun}{'' if count == 1 else 's'}"


def listed(items: Sequence[str]) -> str:
    """Items as a sentence lists them: a, b and c."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def ranks(numbers: Sequence[int], at_most: int = 6) -> str:
    """Ranks as ranges, the first ``at_most`` of them: 0-3, 7."""
    spans: list[tuple[int, int]] = []
    for rank in sorted(set(numbers)):
        if spans and rank == spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], rank)
        else:
            spans.append((rank, rank))
    text = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans[:at_most])
    left = sum(b - a + 1 for a, b in spans[at_most:])
    return f"{text} and {number(left)} more" if left else text


MOST_SHOWN = 4_000  # characters of a text; names of templates have some thousand, those of damaged files millions


def printable(text: str) -> str:
    """The text on one line, without characters that a page or a terminal would obey instead of show; long ones cut."""
    return _UNPRINTABLE.sub(lambda found: " " if found[0] in "\t\n\r" else "\ufffd", middle(text, MOST_SHOWN))


def middle(text: str, width: int) -> str:
    """The text cut in the middle to ``width``: kernels differ at both ends."""
    if len(text) <= width:
        return text
    head = width // 2
    tail = width - head - 1
    return f"{text[:head]}…{text[len(text) - tail :]}"


def _sizes(values: pl.Series) -> pl.Series:
    """Magnitudes of the values that are numbers and not zero."""
    sizes = values.cast(pl.Float64).abs()
    kept: pl.Series = sizes.filter(sizes.is_finite() & (sizes > 0))
    return kept


def _with_unit(value: float | None, steps: Sequence[tuple[float, str]]) -> str:
    if value is None or not math.isfinite(value):
        return NOTHING
    step, unit = next(((s, u) for s, u in steps if abs(value) >= s), steps[-1])
    decimals = 0 if step == 1.0 else _decimals(abs(value) / step)
    return f"{value / step:,.{decimals}f} {unit}"


def _decimals(typical: float) -> int:
    """Decimals that show three digits of a number of this size."""
    return 2 if typical <= 0 else max(0, min(3, 2 - math.floor(math.log10(typical))))


def _float(value: Any) -> float:
    # Polars types an aggregate of a series as any Python value; of floats it is a float, or null when empty.
    return 0.0 if value is None else float(value)
