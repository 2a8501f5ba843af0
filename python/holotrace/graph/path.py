"""The critical path of a job: what each moment of its steps was waited for, on whichever rank that was."""

from __future__ import annotations

import polars as pl

from holotrace.core.on_demand import Rows
from holotrace.derive.kernel_kinds import COMMUNICATION
from holotrace.graph import engine
from holotrace.graph.engine import UNCHANGED, Changes
from holotrace.graph.job import JobGraph

# Time on the path that is no activity's own: until work starts after its launch or after other work, until a call
# returns after the work it waited for, what no edge explains, and when something began that waited for nothing.
LAUNCH, KERNEL_DELAY, SYNC, UNEXPLAINED, BEGINNING = "launch", "kernel_delay", "sync", "unexplained", "beginning"
# A collective whose other ranks are not there: nobody knows how much of it is waiting for them.
MAYBE_WAITING = "communication_or_wait"
_STEP = ("first_rank", "step", "step_ns")
_PLACE = ("rank", "is_device", "device", "stream", "lane")
COLUMNS = (*_STEP, *_PLACE, "name", "event_id", "kind", "start_ns", "end_ns")


def of(graph: JobGraph, changes: Changes | None = None) -> Rows:
    """The parts of the paths through all steps, each in order of time; those of a step sum to it.

    Args:
        graph: Of the job.
        changes: As the job would be when it is replayed with them; as it was recorded by default.

    The path of a step goes back from the last moment of the rank that was done last, from each point to what it waited
    for last, until the step before was over. At a collective it goes on at the rank that came last, so that waiting is
    not on it.

    Returns a row per part, with COLUMNS: first_rank (the lowest of the ranks that meet, as ranks that never meet have
    paths of their own), step, step_ns (how long the step took for all of these ranks), rank, is_device, device, stream,
    lane, name, event_id (of what the time is), kind (what its time is bound by), start_ns, end_ns. Nothing takes no
    time.
    """
    if changes is not None:
        return back_from(graph, _steps(graph, times_of(graph, changes)), changes)
    with graph.lock:
        if graph.recorded_path is None:
            graph.recorded_path = back_from(graph, _steps(graph, times_of(graph, None)), None)
        return graph.recorded_path


def times_of(graph: JobGraph, changes: Changes | None) -> pl.DataFrame:
    """When each activity was, or would be with changes: start_ns, end_ns."""
    if changes is None:
        return graph.rows.select("start_ns", "end_ns")
    return graph.replay(changes)


def back_from(graph: JobGraph, steps: pl.DataFrame, changes: Changes | None) -> Rows:
    """The same for other ends of paths: first_rank, step, over (a point), over_ns, since_ns."""
    ends = steps.select(point="over", since_ns="since_ns")
    parts = graph.replayer.parts_to(ends, changes or UNCHANGED, has_delays=changes is None)
    of_activities = graph.rows.own
    own = [
        parts["path"],
        *(of_activities[name][parts["activity"]] for name in ("place", "name", "event_id")),
        _kinds(parts, graph),
        *parts["start_ns", "end_ns"],
    ]
    shown = steps.select("first_rank", "step", step_ns=pl.col("over_ns") - pl.col("since_ns"))
    return Rows(pl.DataFrame(own), {"path": shown, "place": graph.rows.shared["place"]})


def _steps(graph: JobGraph, at: pl.DataFrame) -> pl.DataFrame:
    """Each step of ranks that meet: first_rank, step, over (the last point), over_ns, since_ns (when it began)."""
    steps = (
        timed_steps(graph, at)
        .join(graph.sets, on="rank")
        .sort("first_rank", "over_ns", "rank")
        .group_by("first_rank", "step", maintain_order=True)
        .agg(pl.col("over", "over_ns").last(), pl.col("begin_ns").min())
        .sort("first_rank", "over_ns")
    )
    # What was recorded of a rank without steps is no step after those of others.
    before = pl.col("over_ns").shift(1).over("first_rank", pl.col("step").is_null())
    since = pl.coalesce(before, "begin_ns").clip(upper_bound=pl.col("over_ns"))
    known = steps.with_columns(since_ns=since).select("first_rank", "step", "over", "over_ns", "since_ns")
    return known.filter(graph.tells(pl.col("step")))


def timed_steps(graph: JobGraph, at: pl.DataFrame) -> pl.DataFrame:
    """The steps of the graph with begin_ns and over_ns, from the times of activities."""
    begin, over = graph.steps["begin"], graph.steps["over"]
    starts, ends = at["start_ns"][begin // 2], at["end_ns"][begin // 2]
    # A step may begin where an activity ends.
    return graph.steps.with_columns(begin_ns=starts.zip_with(begin % 2 == 0, ends), over_ns=at["end_ns"][over // 2])


def _kinds(parts: pl.DataFrame, graph: JobGraph) -> pl.Series:
    """What the time of each part is bound by."""
    rows, at = graph.rows, parts["activity"]
    is_cut = (rows["kind"] == COMMUNICATION) & rows["crossing"].is_null()
    is_device = rows["is_device"]
    told = parts.select("spent").with_columns(
        kind=rows["kind"][at],
        is_cut=is_cut[at],
        is_device=is_device[at],
        from_device=is_device[parts["from_activity"]],
    )
    words = (MAYBE_WAITING, SYNC, KERNEL_DELAY, LAUNCH, BEGINNING, UNEXPLAINED)
    maybe, sync, delay, launch, beginning, unexplained = (pl.lit(word, pl.Categorical) for word in words)
    of_kind = pl.when("is_cut").then(maybe).otherwise("kind")
    of_edge = (
        pl.when(~pl.col("is_device"))
        .then(pl.when("from_device").then(sync).otherwise(of_kind))
        .when("from_device")
        .then(delay)
        .otherwise(launch)
    )
    kind = (
        pl.when(pl.col("spent") == engine.BEFORE)
        .then(beginning)
        .when(pl.col("spent") == engine.OWN_TIME)
        .then(of_kind)
        .when(pl.col("spent") == engine.EDGE)
        .then(of_edge)
        .otherwise(unexplained)
    )
    return told.select(kind=kind)["kind"]
