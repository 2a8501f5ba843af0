"""How a step came from what it took before to what it takes after: what changed of it, and which causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from holotrace.present import format as fmt
from holotrace.present.charts.rows import Piece, Row, Rows
from holotrace.present.wording import FACTORS, WAITING

_MORE, _LESS = "#d95f0e", "#2f7fc1"  # apart for colour-blind readers; the sign says it, too
_WORTH_SAYING = 0.001  # part of a step
_MOST_CAUSES = 6
_NAME = 44  # characters
_ALL_OF_IT = 0.25  # part of the longer step; a smaller change is drawn from another beginning than zero
_ROOM = 0.5  # what is left of both steps, in changes
_LEAST_ROOM = 0.02  # and in steps
_CAUSES = {"added": "New", "removed": "Gone", "more": "More of", "fewer": "Less of"}


def waterfall(changes: pl.DataFrame, *, is_of_several: bool) -> Rows | None:
    """Bars from the step before to the step after, or None where a step took no time.

    Args:
        changes: Name, category (step, factor or cause), change, before_step_ns, after_step_ns and difference_step_ns.
            What is of one of the first two categories adds up to a step.
        is_of_several: Whether there are several ranks, whose devices may wait for each other.
    """
    factors, parts = (changes.filter(category=category) for category in ("factor", "step"))
    drawn = parts if factors.is_empty() else factors
    was, now = (int(parts[side].sum()) for side in ("before_step_ns", "after_step_ns"))
    longer = max(was, now)
    if longer <= 0:
        return None
    spans: list[tuple[str, float, float]] = []
    reached = float(was)
    for row in _told(drawn, longer):
        name = (
            WAITING if is_of_several and row["name"] == "host" else FACTORS.get(row["name"], row["name"].capitalize())
        )
        spans.append((name, reached, reached + row["difference_step_ns"]))
        reached = spans[-1][2]
    # What is too small to be told apart leads to the step after as well.
    if abs(now - reached) >= _WORTH_SAYING * longer:
        spans.append(("All else", reached, float(now)))
    causes = [_of_cause(row, was, now) for row in _told(changes.filter(category="cause"), longer)[:_MOST_CAUSES]]
    begin = _begin(was, now, [end for _, *ends in (*spans, *causes) for end in ends])
    most = max([longer, *(end for _, *ends in spans for end in ends)])
    scale = 100 / (most - begin)
    bars = [
        _whole("Step before", was, begin, scale),
        *(_bar(name, (start, end), was, begin, scale) for name, start, end in spans),
        _whole("Step after", now, begin, scale),
        *(_bar(name, (start, end), was, begin, scale) for name, start, end in causes),
    ]
    return Rows(tuple(bars), (), "", f"Bars begin at {fmt.duration(begin)}." if begin else "")


def _told(rows: pl.DataFrame, whole: float) -> Sequence[Mapping[str, Any]]:
    """What changed enough to be seen, the largest change first."""
    size = pl.col("difference_step_ns").abs()
    return rows.filter(size >= _WORTH_SAYING * whole).sort(size, "name", descending=[True, False]).to_dicts()


def _of_cause(row: Mapping[str, Any], was: int, now: int) -> tuple[str, float, float]:
    """What is new or grew made the step after longer; what is gone or shrank was in the one before."""
    change = row["difference_step_ns"]
    name = f"{_CAUSES[row['change']]}: {fmt.middle(fmt.printable(row['name']), _NAME)}"
    return (name, max(0.0, now - change), float(now)) if change > 0 else (name, float(was), max(0.0, was + change))


def _begin(was: int, now: int, ends: Sequence[float]) -> float:
    """Where bars begin: at zero, or where a small change is still seen."""
    most, least = max(was, now, *ends, 0), min(was, now, *ends, max(was, now))
    if most - least > _ALL_OF_IT * most:
        return 0.0
    return max(0.0, least - _ROOM * (most - least) - _LEAST_ROOM * most)


def _whole(name: str, ns: float, begin: float, scale: float) -> Row:
    text = fmt.duration(ns)
    return Row(name, text, "", (Piece(0.0, round((ns - begin) * scale, 2), "var(--quiet)", f"{name}: {text}"),))


def _bar(name: str, span: tuple[float, float], was: int, begin: float, scale: float) -> Row:
    start, end = span
    left, width = (min(span) - begin) * scale, abs(end - start) * scale
    sign = "+" if end > start else "\u2212"
    value, share = (
        f"{sign}{fmt.duration(abs(end - start))}",
        f"{sign}{fmt.percent(abs(end - start) / was)}" if was else "",
    )
    color = _MORE if end > start else _LESS
    return Row(name, value, share, (Piece(round(left, 2), round(width, 2), color, f"{name}: {value}"),))
