"""What limits the length of a job's steps: the longest path of waiting through all of its ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import polars as pl

from holotrace.core.analysis import Finding, per_job
from holotrace.core.charts import Stacked
from holotrace.core.on_demand import Rows
from holotrace.core.schema import Column, Unit
from holotrace.derive import groups
from holotrace.graph import job, path
from holotrace.graph import rank as of_rank
from holotrace.graph.job import JobGraph
from holotrace.graph.path import UNEXPLAINED
from holotrace.graph.stretches import Stretches

# From a fifth on the path tells too little.
UNKNOWN_RATIO = 0.2
_STEP = ("first_rank", "step", "step_ns")


def _limits(graph: JobGraph, *, of_step: int | None, by_segment: bool) -> pl.DataFrame:
    found = path.of(graph)
    if of_step is not None:
        found = found.filter(found["step"].eq_missing(of_step))
    queue = pl.format("device {} stream {}", "device", "stream")
    named = pl.when("is_device").then(queue).otherwise(pl.lit("host")).cast(pl.Categorical)
    places = found.shared["place"].select("rank", lane=named)
    found = found.with_shared(place=places)
    rows = _in_order(found) if by_segment else _by_name(found)
    began_ns = pl.lit(graph.began_ns, pl.Int64)
    return rows.with_columns(
        from_ns=pl.col("start_ns") - began_ns,
        to_ns=pl.col("end_ns") - began_ns,
        step_ratio=pl.col("duration_ns") / pl.col("step_ns"),
    )


def _in_order(parts: Rows) -> pl.DataFrame:
    """A row per part."""
    columns = (*_STEP, "rank", "lane", "name", "event_id", "start_ns", "end_ns")
    duration_ns = pl.col("end_ns") - pl.col("start_ns")
    return parts.select(*columns, bound_by="kind").with_columns(duration_ns=duration_ns, count=pl.lit(1, pl.Int64))


def _by_name(parts: Rows) -> pl.DataFrame:
    """A row per lane and name of each path, the longest first; those that take as long by their lanes and names."""
    shared, own = parts.shared, parts.own
    numbered = own.select(
        path_number=_numbered(shared["path"], ("first_rank", "step"))[own["path"]],
        # All threads of a host are one lane.
        lane_number=_numbered(shared["place"], ("rank", "lane"))[own["place"]],
        kind_number=groups.in_alphabet(own["kind"]),
        name_number=groups.in_alphabet(own["name"]),
    )
    key = pl.col("path_number")
    for name in numbered.columns[1:]:
        key = key * (pl.col(name).max() + 1) + pl.col(name)
    # Rows in order of one number are put together without being looked for.
    ordered = groups.ordered(own.hstack(numbered.select("path_number", key=key)), ["key"])
    summed = (
        ordered.with_columns(pl.col("key").set_sorted())
        .group_by("key", maintain_order=True)
        .agg(
            pl.col("path", "place", "name", "path_number").first(),
            pl.col("start_ns").min(),
            pl.col("end_ns").max(),
            bound_by=pl.col("kind").first(),
            duration_ns=(pl.col("end_ns") - pl.col("start_ns")).sum(),
            count=pl.len().cast(pl.Int64),
        )
    )
    longest_first = groups.ordered(summed.with_columns(less=-pl.col("duration_ns")), ["path_number", "less"])
    shown = ("start_ns", "end_ns", "duration_ns", "count")
    rows = replace(parts, own=longest_first).select(*_STEP, "rank", "lane", "bound_by", "name", *shown)
    return rows.with_columns(event_id=pl.lit(None, pl.UInt32))


def _numbered(table: pl.DataFrame, by: Sequence[str]) -> pl.Series:
    """The place of each row in the order of these columns, equal ones at one; what has none comes last."""
    shown = table.select(pl.col(pl.Categorical).cast(pl.String), pl.exclude(pl.Categorical)).select(by)
    places = shown.unique().sort(by, nulls_last=True).with_row_index("place")
    found = shown.join(places, on=by, how="left", nulls_equal=True, maintain_order="left")
    place: pl.Series = found["place"].cast(pl.Int64)
    return place


@per_job(
    part=of_rank.part,
    part_columns=of_rank.PART,
    joined=Stretches,
    each=partial(_limits, of_step=None, by_segment=False),
    columns=(
        Column("step", Unit.STEP, "Training step; null for ranks that have none and are looked at as a whole"),
        Column(
            "bound_by",
            Unit.TEXT,
            "host, data_loading, compute, communication, memory, launch, kernel_delay, sync, communication_or_wait, "
            "unexplained or beginning",
        ),
        Column("name", Unit.TEXT, "Call, span or device work that took the time, or that began after it"),
        Column("lane", Unit.TEXT, "host, or the queue of a device"),
        Column("count", Unit.COUNT, "Number of parts of the path"),
        Column(
            "duration_ns",
            Unit.NS,
            "Part of the step's time on the path that this rank and name take; the rows of a step sum to step_ns",
        ),
        Column(
            "step_ns",
            Unit.NS,
            "From the end of the previous step to the end of this one, on all ranks that communicate with each other",
        ),
        Column("step_ratio", Unit.RATIO, "duration_ns / step_ns"),
        Column("from_ns", Unit.NS, "Start of the first of these parts, counted from the job's first activity"),
        Column("to_ns", Unit.NS, "End of the last of these parts, counted in the same way"),
        Column(
            "first_rank",
            Unit.NUMBER,
            "Lowest rank of the ranks that wait for each other; each such set of ranks has its own path",
        ),
        Column("event_id", Unit.EVENT, "With by_segment the event whose time it is; else null"),
    ),
    reads=job.READS,
    chart=Stacked(x="step", y=("duration_ns",), by="bound_by", title="What the critical path of each step is made of"),
)
def job_path(graphs: Stretches, *, of_step: int | None = None, by_segment: bool = False) -> pl.DataFrame:
    """What limits the length of a job's steps: the longest path of waiting through all of its ranks.

    Every nanosecond of a step belongs to one rank, lane and name. The path starts at the end of the step and goes back
    from each point to what it waited for last. At a collective it continues on the rank that arrived last, so a rank
    that waits for others is not on the path, and time in collectives is time of moving data. `launch` is the time from
    a launch to the start of its work, `kernel_delay` from other work to the start of work, and `sync` from the end of
    work to the return of the call that waited for it. If no wait explains why something began so late, the time is
    `unexplained`; `beginning` is the time before the first known event. If the other ranks of a collective were not
    recorded, it is unknown how much of its time was waiting: `communication_or_wait`.

    Args:
        of_step: Only this training step.
        by_segment: One row per part of the path, in its order, instead of one per name.
    """
    rows = pl.concat(graphs.map(partial(_limits, of_step=of_step, by_segment=by_segment)))
    return rows.sort("first_rank", maintain_order=True).select(*(column.name for column in job_path.columns))


@job_path.rule
def unexplained_path(table: pl.DataFrame) -> Iterator[Finding]:
    """More than a fifth of the critical path of the job's steps is time without a known cause.

    The work that began late there waited for something that was not recorded.

    Record all ranks at once, synchronisations (`enable_cuda_sync_events` of PyTorch's profiler) and Python stacks.
    """
    lost = table.filter(pl.col("bound_by") == UNEXPLAINED)
    lost_ns, path_ns = int(lost["duration_ns"].sum()), int(table["duration_ns"].sum())
    if path_ns and lost_ns / path_ns > UNKNOWN_RATIO:
        message = "{ratio:percent} of the critical path of the job is time of which nothing is known"
        yield Finding("info", message, tuple(lost["rank"].unique().sort()), values={"ratio": lost_ns / path_ns})
