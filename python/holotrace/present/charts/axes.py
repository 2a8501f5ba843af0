"""Axes of charts: where a value stands, in percent, and what is written beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from holotrace.present.charts.texts import plain, title

_TICKS = 5
_ROUND = (1.0, 2.0, 5.0, 10.0)
_FEW_DECADES = 2.0  # with fewer, 2 and 5 are marked between powers of ten
_BEYOND = 0.04  # share of the axis that is left free above the largest value


@dataclass(frozen=True)
class Tick:
    """A mark beside an axis."""

    at: float
    text: str


@dataclass(frozen=True)
class Axis:
    """A range of values, or of places that texts stand at."""

    title: str
    low: float
    high: float
    ticks: tuple[Tick, ...]
    is_log: bool = False

    @classmethod
    def of(cls, layout: dict[str, Any], values: Iterable[Any], *, beyond: bool = True) -> Axis:
        """The axis that a layout asks for, over all ``values`` where it names no range."""
        is_log = layout.get("type") == "log"
        found = [_number(v) for v in values if _is_number(v)]
        if is_log:
            found = [math.log10(v) for v in found if v > 0]
        low, high = layout.get("range") or _range(found, layout.get("rangemode") == "tozero", beyond and not is_log)
        bare = cls(title(layout), float(low), float(high), (), is_log)
        return cls(bare.title, bare.low, bare.high, tuple(_ticks(bare, layout)), is_log)

    def percent(self, value: Any) -> float | None:
        """How far along the axis a value is; None for what is no number."""
        if not _is_number(value) or (self.is_log and value <= 0):
            return None
        at = math.log10(value) if self.is_log else float(value)
        return 100 * (at - self.low) / (self.high - self.low)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _number(value: Any) -> float:
    return float(value)


def _range(values: Sequence[float], to_zero: bool, beyond: bool) -> tuple[float, float]:
    low, high = min(values, default=0.0), max(values, default=1.0)
    if to_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        return (low, low + 1) if to_zero else (low - 0.5, high + 0.5)
    room = (high - low) * _BEYOND if beyond else 0.0
    return (low - room if low < 0 else low), high + room


def _ticks(axis: Axis, layout: dict[str, Any]) -> Iterable[Tick]:
    named: Iterable[tuple[Any, str]]
    if "tickvals" in layout:
        named = zip(layout["tickvals"], map(plain, layout["ticktext"]), strict=True)
    elif axis.is_log:
        named = ((v, f"{v:g}") for v in _decades(axis))
    else:
        step = _step(axis.high - axis.low, whole=layout.get("tickformat") == "d")
        decimals = max(0, -math.floor(math.log10(step)))
        first = math.ceil(axis.low / step)
        count = math.floor((axis.high - axis.low) / step) + 2
        values = [(first + i) * step for i in range(count)]
        suffix = layout.get("ticksuffix", "")
        named = ((v, f"{round(v, 9) + 0.0:,.{decimals}f}{suffix}") for v in values)
    for value, text in named:
        at = axis.percent(value)
        if at is not None and -0.01 <= at <= 100.01:
            yield Tick(round(at, 2), text)


def _step(span: float, *, whole: bool) -> float:
    power = 10.0 ** math.floor(math.log10(span / _TICKS))
    step = min((factor * power for factor in _ROUND), key=lambda size: abs(span / size - _TICKS))
    return max(step, 1.0) if whole else step


def _decades(axis: Axis) -> Iterable[float]:
    factors = (1, 2, 5) if axis.high - axis.low < _FEW_DECADES else (1,)
    for power in range(math.floor(axis.low), math.ceil(axis.high) + 1):
        for factor in factors:
            yield factor * 10.0**power
