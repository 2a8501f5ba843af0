"""The critical path of a job: what each moment of its steps was waited for, on whichever rank that was."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import polars as pl

from holotrace.derive.kernel_kinds import COMMUNICATION
from holotrace.graph.engine import UNCHANGED, Changes
from holotrace.graph.job import JobGraph

# Time on the path that is no activity's own: until work starts after its launch or after other work, until a call
# returns after the work it waited for, what no edge explains, and when something began that waited for nothing.
LAUNCH, KERNEL_DELAY, SYNC, UNEXPLAINED, BEGINNING = "launch", "kernel_delay", "sync", "unexplained", "beginning"
# A collective whose other ranks are not there: nobody knows how much of it is waiting for them.
MAYBE_WAITING = "communication_or_wait"
# How a point was reached: over an edge.
_EDGE = 1
# Links that are looked at together, and those of the path that is begun with them.
_TOGETHER = 300_000
_PLACE = ("rank", "is_device", "device", "stream", "lane", "name", "event_id")


def of(graph: JobGraph, changes: Changes | None = None) -> pl.DataFrame:
    """The parts of the paths through all steps, each in order of time; those of a step sum to it.

    Args:
        graph: Of the job.
        changes: As the job would be when it is replayed with them; as it was recorded by default.

    The path of a step goes back from the last moment of the rank that was done last, from each point to what it waited
    for last, until the step before was over. At a collective it goes on at the rank that came last, so that waiting is
    not on it.

    Returns a row per part: first_rank (the lowest of the ranks that meet, as ranks that never meet have paths of their
    own), step, step_ns (how long the step took for all of these ranks), rank, is_device, device, stream, lane, name,
    event_id (of what the time is), kind (what its time is bound by), start_ns, end_ns; nothing takes no time.
    """
    if changes is not None:
        return back_from(graph, _steps(graph, times_of(graph, changes)), changes)
    with graph.lock:
        if graph.recorded_path is None:
            graph.recorded_path = back_from(graph, _steps(graph, times_of(graph, None)), None)
        return graph.recorded_path


def times_of(graph: JobGraph, changes: Changes | None) -> pl.DataFrame:
    """When each activity was, or would be with changes: activity, start_ns, end_ns."""
    at = graph.activities.select("activity", "start_ns", "end_ns")
    return at if changes is None else at.select("activity").hstack(graph.replay(changes))


def back_from(graph: JobGraph, steps: pl.DataFrame, changes: Changes | None) -> pl.DataFrame:
    """The same for other ends of paths: first_rank, step, over (a point), over_ns, since_ns."""
    ends = steps.select(point="over", since_ns="since_ns")
    links = graph.replayer.paths_to(ends, changes or UNCHANGED, has_delays=changes is None)
    at = steps.with_row_index("path").select("path", "first_rank", "step", "since_ns", "over_ns")
    found = pl.concat(_named(_taken(some, at), graph) for some in _some_at_a_time(links))
    return found.sort("first_rank", "start_ns", maintain_order=True)


def _some_at_a_time(links: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The links of some paths after the others: what is made of all at once would be most of the memory."""
    begins = (links["path"] != links["path"].shift(1)).fill_null(value=True).arg_true()
    firsts = begins.filter((begins // _TOGETHER != begins.shift(1) // _TOGETHER).fill_null(value=True))
    bounds = [*firsts, links.height] if links.height else [0, 0]
    for begin, end in pairwise(bounds):
        yield links[begin:end]


def _taken(links: pl.DataFrame, at: pl.DataFrame) -> pl.DataFrame:
    """The pieces of time that links take on their paths, each once."""
    earliest = pl.col("start_ns").cum_min(reverse=True).over("path")
    later = earliest.shift(-1).over("path")
    links = links.join(at, on="path", maintain_order="left").with_columns(
        from_ns=pl.max_horizontal(earliest, "since_ns"),
        until_ns=pl.max_horizontal(pl.coalesce(later, "over_ns"), "since_ns"),
    )
    # What a link does not explain lies at its end.
    cut = pl.col("until_ns").clip(upper_bound=pl.col("end_ns") - pl.col("delay_ns").clip(lower_bound=0))
    cut = pl.max_horizontal(cut, "from_ns")
    first = pl.int_range(pl.len()).over("path") == 0
    pieces = [
        links.filter(first).with_columns(until_ns="from_ns", from_ns="since_ns", piece=pl.lit(0, pl.Int8)),
        links.with_columns(until_ns=cut, piece=pl.lit(1, pl.Int8)),
        links.with_columns(from_ns=cut, piece=pl.lit(2, pl.Int8)),
    ]
    return pl.concat(piece.filter(pl.col("until_ns") > pl.col("from_ns")) for piece in pieces)


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
    starts, ends = at["start_ns"].gather(begin // 2), at["end_ns"].gather(begin // 2)
    # A step may begin where an activity ends.
    return graph.steps.with_columns(
        begin_ns=starts.zip_with(begin % 2 == 0, ends), over_ns=at["end_ns"].gather(over // 2)
    )


def _named(taken: pl.DataFrame, graph: JobGraph) -> pl.DataFrame:
    """The parts with what they are: each is of the activity that the link leads to."""
    count = graph.activities.height
    # A link to a crossing takes no time but what no edge explains, which is the one's that came last.
    point = pl.when(pl.col("to_point") < 2 * count).then("to_point").otherwise("from_point")
    rows = taken.select(at=point // 2, of=pl.col("from_point") // 2)
    places = graph.activities.select(*_PLACE, "kind", "crossing")[rows["at"]].select(
        *_PLACE,
        of_kind=pl.when((pl.col("kind") == COMMUNICATION) & pl.col("crossing").is_null())
        .then(pl.lit(MAYBE_WAITING))
        .otherwise("kind"),
        # The place of a crossing is beyond those of activities.
        from_device=graph.activities["is_device"].gather(rows["of"].set(rows["of"] >= count, None)),
    )
    of_edge = (
        pl.when(~pl.col("is_device"))
        .then(pl.when("from_device").then(pl.lit(SYNC)).otherwise("of_kind"))
        .when("from_device")
        .then(pl.lit(KERNEL_DELAY))
        .otherwise(pl.lit(LAUNCH))
    )
    explained = pl.when(pl.col("via") == _EDGE).then(of_edge).otherwise("of_kind")
    kind = (
        pl.when(pl.col("piece") == 0)
        .then(pl.lit(BEGINNING))
        .when(pl.col("piece") == 1)
        .then(explained)
        .otherwise(pl.lit(UNEXPLAINED))
    )
    return (
        taken.hstack(places)
        .with_columns(kind=kind)
        .select(
            *("first_rank", "step", *_PLACE, "kind"),
            step_ns=pl.col("over_ns") - pl.col("since_ns"),
            start_ns="from_ns",
            end_ns="until_ns",
        )
    )
