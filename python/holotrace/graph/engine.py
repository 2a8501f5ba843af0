"""Replays of activities that wait for each other, unchanged or with many changes side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from holotrace.core.native import native

# Stands for no crossing in the core.
NONE = 2**32 - 1
# The lag of an edge that a change takes away.
REMOVED = -(2**63)
# What a part of the time before a point is.
BEFORE, OWN_TIME, EDGE, UNEXPLAINED = range(4)

ACTIVITIES = pl.Schema({"own_ns": pl.Int64(), "start_ns": pl.Int64(), "end_ns": pl.Int64(), "crossing": pl.UInt32()})
EDGES = pl.Schema({"from_point": pl.UInt32(), "to_point": pl.UInt32(), "lag_ns": pl.Int64()})
MIXED = pl.Schema({"usual_ns": pl.Int64(), "other_ns": pl.Int64(), "label": pl.UInt32(), "second_label": pl.UInt32()})
OWN = pl.Schema({"activity": pl.UInt32(), "own_ns": pl.Int64()})
ENDS = pl.Schema({"point": pl.UInt32(), "since_ns": pl.Int64()})
LAGS = pl.Schema({"edge": pl.UInt32(), "lag_ns": pl.Int64()})


def start_of(activity: pl.Expr) -> pl.Expr:
    """The point at which an activity starts."""
    return (activity * 2).cast(pl.UInt32)


def end_of(activity: pl.Expr) -> pl.Expr:
    """The point at which an activity ends."""
    return (activity * 2 + 1).cast(pl.UInt32)


@dataclass(frozen=True)
class Changes:
    """What is other in one counterfactual: own times (OWN: activity, own_ns) and lags (LAGS: edge, lag_ns).

    A lag of ``REMOVED`` takes the edge away. Of several changes of one activity or edge the last counts.
    """

    own: pl.DataFrame = field(default_factory=OWN.to_frame)
    lags: pl.DataFrame = field(default_factory=LAGS.to_frame)


UNCHANGED = Changes()


class Replay:
    """Activities, what they wait for, and when everything happens then.

    An activity starts when all that its start waits for has come, and takes its own time from there; one that takes
    part in a crossing takes it from when the last of the crossing has started. An end may wait for more. Times are
    nanoseconds on one clock.

    Args:
        activities: ACTIVITIES: own time, start and end as recorded, and the crossing it takes part in; null for none.
        edges: EDGES: a point (``start_of`` and ``end_of`` a row of ``activities``) that comes at the earliest
            ``lag_ns`` after another.
    """

    def __init__(self, activities: pl.DataFrame, edges: pl.DataFrame) -> None:
        self.activity_count = activities.height
        shaped = activities.select(pl.col(name).cast(dtype) for name, dtype in ACTIVITIES.items())
        crossing = pl.col("crossing")
        dense = pl.when(crossing.is_not_null()).then(crossing.rank("dense") - 1).cast(pl.UInt32).fill_null(NONE)
        shaped_edges = edges.select(pl.col(name).cast(dtype) for name, dtype in EDGES.items())
        self._native = native.replay(shaped.with_columns(dense), shaped_edges)

    @property
    def circular_count(self) -> int:
        """Edges that were left out, as they would have closed a circle."""
        return self._native.circular_count

    @property
    def negative_count(self) -> int:
        """Edges whose lag is negative."""
        return self._native.negative_count

    @property
    def contradicted_count(self) -> int:
        """Edges whose end was recorded earlier than it could have come."""
        return self._native.contradicted_count

    def delays(self) -> pl.DataFrame:
        """What no edge explains of each activity's start and end: start_delay_ns, end_delay_ns; signed."""
        return pl.DataFrame(self._native.delays())

    def times(self, changes: Changes = UNCHANGED, *, has_delays: bool = False) -> pl.DataFrame:
        """start_ns and end_ns of each activity; unchanged and with delays they are as recorded."""
        own, lags = _columns([changes])
        return pl.DataFrame(self._native.times(own, lags, has_delays=has_delays))

    def cases(self, cases: Sequence[Changes], points: pl.Series, *, has_delays: bool = False) -> pl.DataFrame:
        """When each of some points comes in each counterfactual: case, point, time_ns; by case, then as given.

        Args:
            cases: What is other in each.
            points: Points whose times are wanted.
            has_delays: Whether what no edge explains is kept.
        """
        own, lags = _columns(cases)
        times = self._native.cases(len(cases), own, lags, _wanted(points), has_delays=has_delays)
        return _of_cases(pl.DataFrame(times), points)

    def mixed(self, activities: pl.DataFrame, cases: Sequence[Sequence[int]], points: pl.Series) -> pl.DataFrame:
        """The same for counterfactuals in which each activity takes one of two times; as of ``cases``.

        Args:
            activities: MIXED, a row per activity: usual_ns and other_ns; label and second_label: numbers of what it is
                of, below the count of activities; null for none.
            cases: The labels of what takes other_ns, of each.
            points: Points whose times are wanted.
        """
        shaped = activities.select(pl.col(name).cast(dtype).fill_null(NONE) for name, dtype in MIXED.items())
        times = self._native.mixed(shaped, [list(labels) for labels in cases], _wanted(points))
        return _of_cases(pl.DataFrame(times), points)

    def parts_to(self, ends: pl.DataFrame, changes: Changes = UNCHANGED, *, has_delays: bool = False) -> pl.DataFrame:
        """What the time before points was spent on, each moment once, one point after the other, in order of time.

        It goes back from a point to what that waited for last, and so on. Columns: path (the row of ``ends``), activity
        (whose time it is), from_activity (from which its point was reached; null for a crossing, or for none), spent
        (BEFORE all that is known, the activity's OWN_TIME, the lag of an EDGE, or UNEXPLAINED), start_ns, end_ns.

        Args:
            ends: ENDS: point, and since_ns: when its time begins.
            changes: Own times and lags that are other.
            has_delays: Whether what no edge explains is kept.
        """
        own, lags = _columns([changes])
        return pl.DataFrame(self._native.parts(_ends(ends), own, lags, has_delays=has_delays))

    def shares(self, ends: pl.DataFrame, marked: pl.Series) -> pl.DataFrame:
        """Of the chains of what came last, as recorded, a row per row of ``ends``: delay_ns, edge_count, marked_count.

        Args:
            ends: As for ``parts_to``.
            marked: Numbers of edges.
        """
        edges = marked.cast(pl.UInt32).alias("edge").to_frame()
        return pl.DataFrame(self._native.shares(_ends(ends), edges))

    def waits(
        self, activities: pl.DataFrame, *, lag: int, delay: int, beginning: int
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Visits of crossings, and what their waits consist of; see ``holotrace.graph.waits``.

        Args:
            activities: A row per activity: process, signature (numbers).
            lag: Signature of the lags of edges.
            delay: Signature of what no edge explains.
            beginning: Signature of when something began that waited for nothing.
        """
        told = activities.select(pl.col("process", "signature").cast(pl.UInt32))
        visits, causes = self._native.waits(told, lag, delay, beginning)
        return pl.DataFrame(visits), pl.DataFrame(causes)


def _wanted(points: pl.Series) -> pl.DataFrame:
    return pl.DataFrame({"point": points.cast(pl.UInt32)})


def _of_cases(times: pl.DataFrame, points: pl.Series) -> pl.DataFrame:
    number = pl.int_range(times.height, dtype=pl.Int64, eager=True)
    every = max(len(points), 1)
    of_each: pl.Series = points.cast(pl.UInt32)[number % every]
    return times.select(case=(number // every).cast(pl.UInt32), point=of_each, time_ns="time_ns")


def _ends(ends: pl.DataFrame) -> pl.DataFrame:
    return ends.select(pl.col(name).cast(dtype) for name, dtype in ENDS.items())


def _columns(cases: Sequence[Changes]) -> tuple[pl.DataFrame, pl.DataFrame]:
    def numbered(frame: pl.DataFrame, schema: pl.Schema, case: int) -> pl.DataFrame:
        columns = [pl.col(name).cast(dtype) for name, dtype in schema.items()]
        return frame.select(pl.lit(case, pl.UInt32).alias("case"), *columns)

    own = pl.concat([numbered(changes.own, OWN, case) for case, changes in enumerate(cases)])
    lags = pl.concat([numbered(changes.lags, LAGS, case) for case, changes in enumerate(cases)])
    return own, lags
