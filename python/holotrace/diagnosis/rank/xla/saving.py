"""Reading results back from devices of XLA within code that saves or evaluates: part of that, and still a wait."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from holotrace.derive import host_activities, host_time, intervals
from holotrace.derive.host_activities import DISPATCH, INPUT, PROGRAM, READ_BACK, TRACING, UPLOAD
from holotrace.derive.names import decided
from holotrace.diagnosis.words.classes import CHECKPOINT, EVALUATION

# Classes all of whose reading back is part of them.
READING = (CHECKPOINT, EVALUATION)
_OF_EVALUATING = (UPLOAD, INPUT, TRACING, DISPATCH)


def apart(activities: pl.DataFrame, class_of: Callable[[str], str | None]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The activities without the reading back within code of the program that saves or evaluates, and that.

    Nor are there what evaluating reads, sends and starts: it is part of it, but for what is compiled. The reading back
    has besides ``saving``, the class of the innermost such code that it is in, and ``responsible``, its
    name.
    """
    is_program = activities["activity"] == PROGRAM
    saving = activities.filter(decided(activities["name"], class_of).is_in(READING) & is_program)
    is_inside = _is_inside(activities, saving)
    is_read = is_inside & host_activities.asks_for_results(activities)
    code = saving.select(
        "start_ns", responsible=pl.col("name").cast(pl.String), saving=decided(saving["name"], class_of)
    )
    reads = activities.filter(is_read).sort("start_ns")
    evaluating = saving.filter(decided(saving["name"], class_of) == EVALUATION)
    is_evaluated = activities["activity"].is_in(_OF_EVALUATING) & _is_inside(activities, evaluating)
    left = activities.filter(~is_read & ~is_evaluated)
    return left, reads.join_asof(code.sort("start_ns"), on="start_ns", check_sortedness=False)


def _is_inside(activities: pl.DataFrame, code: pl.DataFrame) -> pl.Series:
    found: pl.Series = intervals.uncovered_ns(activities, intervals.union(code)) == 0
    return found


def waits(reads: pl.DataFrame, threads: pl.Series) -> pl.DataFrame:
    """When these threads waited so for devices: ``began_ns``, ``returned_ns``, ``responsible`` and ``saving``."""
    return host_time.outermost(
        reads.filter(pl.col("tid").is_in(pl.lit(threads).implode())).with_columns(activity=pl.lit(READ_BACK))
    ).select("responsible", "saving", began_ns="start_ns", returned_ns="end_ns")
