"""Why a step of one job takes longer than one of another: its parts, and causes of lost time that came or went."""

from __future__ import annotations

import polars as pl

from holotrace.analyses.causes import causes
from holotrace.analyses.time_breakdown import PARTS, time_breakdown
from holotrace.core.problems import spelled
from holotrace.core.trace import JobTrace

# Of parts of a step, which add up to it, and of causes, which overlap.
STEP, CAUSE = "step", "cause"
_NAMES = {
    "compute_ns": "computing",
    "exposed_comm_ns": "exposed communication",
    "exposed_memory_ns": "exposed copies",
    "idle_ns": "idle devices",
}


def of(job: JobTrace) -> pl.DataFrame:
    """Rows with ``name``, ``category``, ``count`` of steps and ``total_ns``, the time in one step.

    Parts of the step are means over ranks; a cause is worth what the job would gain without it. Without steps all is of
    the whole recording.
    """
    return pl.concat([_parts(job), _causes(job)])


def _parts(job: JobTrace) -> pl.DataFrame:
    spent = job.ask(time_breakdown, {"by_step": True})
    # Work that no step launched belongs to none, but where no steps were marked.
    marked = spent.drop_nulls("step")
    counted = marked if not marked.is_empty() else spent
    mean = counted.select(pl.col(PARTS).mean().round().cast(pl.Int64))
    steps = max(1, marked["step"].n_unique())
    return pl.DataFrame(
        [(_NAMES[part], STEP, steps, mean[part][0] or 0) for part in PARTS],
        schema={"name": pl.String, "category": pl.String, "count": pl.Int64, "total_ns": pl.Int64},
        orient="row",
    )


def _causes(job: JobTrace) -> pl.DataFrame:
    found = job.ask(causes, {})
    rows = [
        (_called(cause, responsible, tuple(ranks)), CAUSE, max(1, len(steps)), cost)
        for cause, responsible, ranks, steps, cost in found.select(
            "cause", "responsible", "ranks", "steps", "cost_per_step_ns"
        ).iter_rows()
    ]
    schema = {"name": pl.String, "category": pl.String, "count": pl.Int64, "total_ns": pl.Int64}
    table = pl.DataFrame(rows, schema=schema, orient="row")
    return table.group_by("name", "category", maintain_order=True).agg(pl.col("count").max(), pl.col("total_ns").sum())


def _called(cause: str, responsible: str | None, ranks: tuple[int, ...]) -> str:
    where = f", rank {spelled(ranks)}" if ranks else ""
    return f"{cause}{f' in {responsible}' if responsible else ''}{where}"
