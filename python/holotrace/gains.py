"""What a job would gain if some of its work were faster, made even, hidden, or gone."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import polars as pl

from holotrace.core.schema import Column, Unit, conform, empty
from holotrace.core.tables import RANK
from holotrace.core.trace import JobTrace, RankTrace
from holotrace.derive import module_work
from holotrace.derive.kernel_kinds import COMMUNICATION
from holotrace.errors import MissingDataError, UsageError
from holotrace.graph import TRUSTED_RATIO, UNCHANGED, Changes, JobGraph, path
from holotrace.graph.job import PART, READS, STEP, whole_numbered_part
from holotrace.graph.vocabulary import BOUNDS, HOST, Draft, Within, alone, chosen, fits, together

# Changes of a job that have a name of their own.
OVERLAP, FREE, FAST, BALANCED = "perfect_overlap", "free_launches", "fast_host", "balanced_compute"
ASSUMPTIONS = (OVERLAP, FREE, FAST, BALANCED)

COLUMNS = (
    Column(RANK.name, RANK.unit, "Rank; null in the row of the job, whose time is that of the rank that takes longest"),
    Column("recorded_ns", Unit.NS, "Time of all its steps as recorded"),
    Column("replayed_ns", Unit.NS, "The same when everything begins as soon as what it waits for is over"),
    Column("new_ns", Unit.NS, "The same with the changes"),
    Column("saved_ns", Unit.NS, "replayed_ns - new_ns; null where the replay is off by more than 5%"),
    Column("saved_ratio", Unit.RATIO, "saved_ns / replayed_ns; null where that is 0 or saved_ns is null"),
    Column("low_ns", Unit.NS, "The least that is saved: kernels keep their times; null where saved_ns is"),
    Column(
        "high_ns",
        Unit.NS,
        "The most: where communication changes, kernels beside it get as fast as alone; null where saved_ns is",
    ),
    Column("error_ratio", Unit.RATIO, "(replayed_ns - recorded_ns) / recorded_ns; null where no time passes"),
    Column("bound_by", Unit.TEXT, "What most of the new critical path is bound by; null where it takes no time"),
)
PATH_COLUMNS = (
    RANK,
    Column("step", Unit.STEP, "Training step; null for ranks that have none and are looked at as a whole"),
    Column("bound_by", Unit.TEXT, "What this part of the path is bound by, as in job_path"),
    Column("name", Unit.TEXT, "Call, span, or work of a device that takes the time or begins after it"),
    Column("start_ns", Unit.NS, "Start, since the first of all parts"),
    Column("duration_ns", Unit.NS, "Time of the step that is this part's"),
    Column("event_id", Unit.EVENT, "Event whose time it is; null where it is no event's"),
)


def what_if(
    job: JobTrace,
    scale: Mapping[str, float] | None = None,
    *,
    like: str | None = None,
    bandwidth: float = 1.0,
    assume: Collection[str] = (),
    within: Within | None = None,
    step: int | None = None,
    by_segment: bool = False,
) -> pl.DataFrame:
    """How long a job would take with some changes, by replaying all of its ranks together.

    A rank that is faster lets those go on that wait for it, so the gain of the job is not that of the rank. Own times
    and lags change, waits follow; of a collective the own time is what it takes from when its last rank has come.
    Where several changes fit, all of them count.

    ``what_if(job, {"host": 0.5})`` asks for hosts that are twice as fast, ``{"^aten::conv": 0.8}`` for calls, spans and
    kernels whose names match, a fifth faster, ``like="median", within=Within(ranks=(3,))`` for a rank 3 that is like
    the others.

    Args:
        job: All ranks that are there take part; ``job.only(0)`` looks at one.
        scale: What to multiply times by, from 0: by what they are bound by (host, data_loading, compute,
            communication, memory, launch, kernel_delay) or by a regular expression that names match.
        like: "median": every activity takes as long as the same one of the median rank.
        bandwidth: By how much faster collectives move data.
        assume: Any of perfect_overlap (steps take what they would without communication, but at least as long as
            it takes by itself), free_launches (launching takes no time), fast_host (hosts take none but for loading
            data) and balanced_compute (every rank, as a stage of a pipeline, computes as long as the mean one).
        within: Which work changes: of some ranks, groups, collectives, categories or modules; all by default.
        step: Only what was launched in this step; by default all that was recorded.
        by_segment: The new critical path of the job, a row per part (PATH_COLUMNS), instead of a row per rank.

    Returns:
        A row for the job and one per rank (COLUMNS), or the parts of the new path.

    Raises:
        UsageError: a factor is negative or no number, or a change is not known.
        MissingDataError: the step is not there, or nothing has a name that ``scale`` asks for.
    """
    scale, where = dict(scale or {}), within or Within()
    _check(scale, like, bandwidth, assume)
    graph, modules = _graph(job, step, where)
    if graph.steps.is_empty() and job.ranks and step is None:
        raise MissingDataError(
            "there is nothing to replay: every file is cut off or has no times; see holotrace show problems"
        )
    if graph.steps.is_empty() and job.ranks:
        raise MissingDataError(f"no rank has step {step}; holotrace show steps says which there are")
    for of in scale if job.ranks else ():
        named = graph.rows.select("kind", "name").filter(pl.col("kind") != STEP)
        if of not in BOUNDS and not named.select(fits(of).any()).item():
            raise MissingDataError(f"no call, span or kernel has a name with {of!r}")
    fitting = chosen(graph, where, modules)
    if job.ranks and not fitting.any():
        raise MissingDataError(f"no work is {where}; holotrace show communication, modules and info say what there is")
    draft = _drafted(Draft.of(graph, fitting), scale, like, bandwidth, assume)
    changes = draft.changes()
    if by_segment:
        return _parts(graph, changes)
    return _answer(graph, changes, _floors(graph) if OVERLAP in assume else None)


def _graph(job: JobTrace, step: int | None, within: Within) -> tuple[JobGraph, pl.DataFrame | None]:
    if not within.modules:
        return JobGraph.of(job, step, has_queries=True), None
    parts = job.compared(_with_modules, (*READS, *module_work.READS))
    rows = pl.concat([empty(PART), *(part for part, _ in parts)])
    return JobGraph.from_parts(rows, step), pl.concat([modules for _, modules in parts])


def _with_modules(rank: RankTrace) -> tuple[pl.DataFrame, pl.DataFrame]:
    paths = module_work.events(rank).select(
        pl.lit(rank.rank, pl.Int32).alias("rank"), pl.col("event_id").cast(pl.UInt32), pl.col("path").cast(pl.String)
    )
    return whole_numbered_part(rank), paths


def _drafted(
    draft: Draft, scale: Mapping[str, float], like: str | None, bandwidth: float, assume: Collection[str]
) -> Draft:
    draft = draft.like_median() if like else draft
    draft = draft.balanced() if BALANCED in assume else draft
    draft = draft.launches_free() if FREE in assume else draft
    draft = draft.scaled_own(pl.col("kind") == HOST, 0) if FAST in assume else draft
    draft = draft.scaled({COMMUNICATION: 0 if OVERLAP in assume else 1 / bandwidth})
    return draft.scaled(scale)


def _check(scale: Mapping[str, float], like: str | None, bandwidth: float, assume: Collection[str]) -> None:
    for of, factor in scale.items():
        if not 0 <= factor < float("inf"):
            raise UsageError(f"{of} is scaled by {factor}; it can be any number from 0")
        try:
            # Polars' own expressions, which take time in proportion to the text, also of a pattern that means harm.
            pl.select(pl.lit("").str.contains(of))
        except pl.exceptions.ComputeError as error:
            raise UsageError(
                f"{of!r} is no regular expression; it can be one, or one of {', '.join(BOUNDS)}"
            ) from error
    if like not in {None, "median"}:
        raise UsageError(f"ranks cannot be made like {like!r}; it can be median")
    if not 0 < bandwidth < float("inf"):
        raise UsageError(f"bandwidth is multiplied by {bandwidth}; it can be any number above 0")
    if unknown := set(assume) - set(ASSUMPTIONS):
        raise UsageError(f"nothing is known of {sorted(unknown)[0]!r}; it can be {', '.join(ASSUMPTIONS)}")


def _floors(graph: JobGraph) -> pl.DataFrame:
    """How long communication takes by itself, in the queue that has most of it: rank, step, floor_ns."""
    moved = graph.rows.select("rank", "step", "lane", "kind", "own_ns").filter(pl.col("kind") == COMMUNICATION)
    of_lanes = moved.group_by("rank", "step", "lane").agg(floor_ns=pl.col("own_ns").sum())
    return of_lanes.group_by("rank", "step").agg(pl.col("floor_ns").max())


def _answer(graph: JobGraph, changes: Changes, floors: pl.DataFrame | None) -> pl.DataFrame:
    work = graph.rows.select("activity", "kind")
    moved = work.filter(pl.col("kind") == COMMUNICATION).join(changes.own, on="activity", how="semi")
    # Where communication stays as it was, so does what runs beside it; what the user changed is as they said.
    cases = [UNCHANGED, changes, UNCHANGED if moved.is_empty() else together(alone(graph), changes)]
    times = graph.step_times(cases)
    if floors is not None:
        times = times.join(floors, on=["rank", "step"], how="left", nulls_equal=True, maintain_order="left")
        least = pl.when(pl.col("case") > 0).then(pl.col("floor_ns").fill_null(0)).otherwise(0)
        times = times.with_columns(replayed_ns=pl.max_horizontal("replayed_ns", least))
    ranks = _of_ranks(times).join(_bounds(graph, changes), on="rank", how="left", maintain_order="left")
    of_job = ranks.select(
        pl.lit(None, pl.Int32).alias("rank"),
        pl.exclude("rank", "bound_by").max(),
        pl.col("bound_by").sort_by("new_ns").last(),
    )
    table = pl.concat([of_job.head(min(1, ranks.height)), ranks.select(of_job.columns)])
    return conform(_saved(table, is_same=moved.is_empty()), COLUMNS, "what_if")


def _of_ranks(times: pl.DataFrame) -> pl.DataFrame:
    """A row per rank: recorded_ns, replayed_ns, new_ns, and best_ns where kernels beside communication are as alone."""
    of_ranks = times.group_by("case", "rank").agg(pl.col("recorded_ns", "replayed_ns").sum())
    of_cases = [of_ranks.filter(pl.col("case") == case).drop("case") for case in range(3)]
    return (
        of_cases[0]
        .join(of_cases[1].select("rank", new_ns="replayed_ns"), on="rank")
        .join(of_cases[2].select("rank", best_ns="replayed_ns"), on="rank")
        .sort("rank")
    )


def _saved(table: pl.DataFrame, *, is_same: bool) -> pl.DataFrame:
    recorded, replayed, new = pl.col("recorded_ns"), pl.col("replayed_ns"), pl.col("new_ns")
    best = new if is_same else pl.min_horizontal(new, "best_ns")
    is_trusted = (pl.col("error_ratio").abs() <= TRUSTED_RATIO).fill_null(value=True)
    return (
        table.with_columns(error_ratio=pl.when(recorded > 0).then(replayed / recorded - 1))
        .with_columns(
            saved_ns=pl.when(is_trusted).then(replayed - new),
            low_ns=pl.when(is_trusted).then(replayed - new),
            high_ns=pl.when(is_trusted).then(replayed - best),
        )
        .with_columns(saved_ratio=pl.when(replayed > 0).then(pl.col("saved_ns") / replayed))
        .select(column.name for column in COLUMNS)
    )


def _bounds(graph: JobGraph, changes: Changes) -> pl.DataFrame:
    """What most of the new path to the end of each rank is bound by: rank, bound_by."""
    times = path.times_of(graph, changes)
    ends = (
        path.timed_steps(graph, times)
        .sort("rank", "over_ns")
        .group_by("rank", maintain_order=True)
        .agg(pl.col("over", "over_ns").last(), since_ns=pl.col("begin_ns").min())
        .select(pl.col("rank").alias("first_rank"), pl.lit(None, pl.Int64).alias("step"), "over", "over_ns", "since_ns")
    )
    parts = path.back_from(graph, ends, changes).select("first_rank", "kind", "start_ns", "end_ns")
    return (
        parts.group_by(rank="first_rank", bound_by="kind")
        .agg(ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
        .sort("rank", "ns", "bound_by")
        .group_by("rank", maintain_order=True)
        .agg(pl.col("bound_by").last())
    )


def _parts(graph: JobGraph, changes: Changes) -> pl.DataFrame:
    """The new critical path of the job."""
    found = (
        path.of(graph, changes)
        .select(*path.COLUMNS)
        .with_columns(
            bound_by="kind",
            duration_ns=pl.col("end_ns") - pl.col("start_ns"),
            start_ns=pl.col("start_ns") - pl.col("start_ns").min(),
        )
    )
    return conform(found.select(column.name for column in PATH_COLUMNS), PATH_COLUMNS, "what_if")
