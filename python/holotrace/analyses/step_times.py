"""How the time of a step and its parts change from step to step, on each rank."""

from __future__ import annotations

import polars as pl

from holotrace.analyses.time_breakdown import EVENTS, PARTS, time_breakdown
from holotrace.core.analysis import per_rank
from holotrace.core.charts import OverSteps
from holotrace.core.schema import Column, Unit
from holotrace.core.trace import RankTrace

_COLUMNS = ("step", "total_ns", *PARTS)


@per_rank(
    columns=(
        Column("step", Unit.STEP, "Training step"),
        *(column for column in time_breakdown.columns if column.name in _COLUMNS[1:]),
    ),
    reads=(EVENTS,),
    chart=OverSteps(x="step", y=PARTS, whole="total_ns", title="Time of a step over steps"),
)
def step_times(rank: RankTrace) -> pl.DataFrame:
    """How long each step takes on each rank, and its parts: computing, waiting for communication or copies, idle.

    The parts are those of time_breakdown, and sum to the whole. A step whose time stands out on all ranks has a cause
    that they share, as a data loader that is late; one that stands out on one rank has its cause there. Ranks without
    steps have no rows.
    """
    rows = time_breakdown.source(rank, by_step=True)
    return rows.drop_nulls("step").select(_COLUMNS)
