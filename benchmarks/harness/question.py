"""Questions: what is compared with what, and what the comparison has to come to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import nan
from statistics import median

from harness.measure import Measurement, Results


@dataclass(frozen=True)
class Quantity:
    """A number made of the median results of some programs."""

    label: str
    unit: str
    needs: tuple[Measurement, ...]
    value: Callable[[Results], float]


@dataclass(frozen=True)
class Goal:
    """What ours over theirs, or theirs over ours, has to come to."""

    text: str
    ratio: Callable[[float, float], float]
    is_met: Callable[[float], bool]


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    question: str
    ours: Quantity
    theirs: Quantity
    goal: Goal


@dataclass(frozen=True)
class Skipped:
    """A question that could not be asked here."""

    question: str
    reason: str


def times_faster(least: float) -> Goal:
    return Goal(f"≥ {least:g} times faster", lambda ours, theirs: theirs / ours, lambda ratio: ratio >= least)


def times_smaller(least: float) -> Goal:
    return Goal(f"≥ {least:g} times smaller", lambda ours, theirs: theirs / ours, lambda ratio: ratio >= least)


def faster() -> Goal:
    return Goal("faster", lambda ours, theirs: theirs / ours, lambda ratio: ratio > 1)


def at_most(most: float) -> Goal:
    return Goal(f"≤ {most:g} times", lambda ours, theirs: ours / theirs, lambda ratio: ratio <= most)


def seconds(measurement: Measurement, label: str, field: str = "seconds") -> Quantity:
    """What a program reports, or how long it ran."""
    return Quantity(label, "s", (measurement,), lambda results: typical(results, measurement, field))


def seconds_beyond(measurement: Measurement, start: Measurement, label: str) -> Quantity:
    """How much longer a program ran than another, which does all but the work."""
    return Quantity(
        label,
        "s",
        (measurement, start),
        lambda results: typical(results, measurement, "wall_s") - typical(results, start, "wall_s"),
    )


def memory_beyond(measurement: Measurement, start: Measurement, label: str) -> Quantity:
    """How much more memory a program held at its peak than another, which does all but the work."""
    return Quantity(
        label,
        "MB",
        (measurement, start),
        lambda results: (typical(results, measurement, "peak_bytes") - typical(results, start, "peak_bytes")) / 1e6,
    )


def peak_memory(measurement: Measurement, label: str) -> Quantity:
    """How much memory a program held at its peak."""
    return Quantity(label, "MB", (measurement,), lambda results: typical(results, measurement, "peak_bytes") / 1e6)


def constant(value: float, unit: str, label: str) -> Quantity:
    return Quantity(label, unit, (), lambda results: value)


def typical(results: Results, measurement: Measurement, field: str) -> float:
    """The median of what a program reports under ``field``; NaN if it reports no such thing."""
    return median(sample.get(field, nan) for sample in results.samples[measurement.name])
