"""How the time of a step and its parts change from step to step, on each rank."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.analyses.time_breakdown import EVENTS, PARTS, time_breakdown
from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import OverSteps
from holotrace.core.schema import Column, Unit
from holotrace.core.trace import RankTrace

# Of fewer steps no one tells which is usual; half as long again is no jitter.
_FEWEST, _LONG = 4, 1.5
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

    The parts are those of time_breakdown, and add up to the length of the step. A step that is long on all ranks has a
    cause that they share, such as a late data loader; a step that is long on one rank has its cause there. Ranks
    without steps have no rows.
    """
    rows = time_breakdown.source(rank, by_step=True)
    return rows.drop_nulls("step")[:, _COLUMNS]


@step_times.rule
def long_step(table: pl.DataFrame) -> Iterator[Finding]:
    """A step takes at least 1.5 times as long as the median step, on the mean of the ranks.

    What happens in a few steps only is easily overlooked in sums: a late data loader, saving a checkpoint, evaluating,
    compiling a new shape, collecting garbage. The cost is the time beyond the median step.

    Look at what the hosts did in these steps; the causes name it where the trace does.
    """
    means = table.group_by("step").agg(pl.col("total_ns").mean()).sort("step")
    if means.height < _FEWEST:
        return
    usual = float(means["total_ns"].median() or 0)  # type: ignore[arg-type]  # of means
    long = means.filter(pl.col("total_ns") > _LONG * usual)
    if long.is_empty() or not usual:
        return
    most = float(long["total_ns"].max() or 0)  # type: ignore[arg-type]  # of means
    yield Finding(
        "info",
        "{steps:numbered step} took up to {times:times} times as long as the median step",
        cost_ns=int((long["total_ns"] - usual).sum()),
        values={"steps": long["step"].to_list(), "times": most / usual},
    )
