"""What a whole job would gain if some of its work were faster, made even, or gone."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import polars as pl

from holotrace.core.schema import Column, Unit, conform
from holotrace.core.tables import RANK
from holotrace.errors import MissingDataError, UsageError
from holotrace.graph import TRUSTED_RATIO, UNCHANGED, JobGraph
from holotrace.graph.job import STEP
from holotrace.graph.vocabulary import KINDS, fits, like_median, scaled, together
from holotrace.job import Job

COLUMNS = (
    Column(RANK.name, RANK.unit, "Rank; null in the row of the job, whose time is that of the rank that takes longest"),
    Column("recorded_ns", Unit.NS, "Time of all its steps as recorded"),
    Column("replayed_ns", Unit.NS, "The same when everything begins as soon as what it waits for is over"),
    Column("new_ns", Unit.NS, "The same with the changes"),
    Column("saved_ns", Unit.NS, "replayed_ns - new_ns; null where the replay is off by more than 5%"),
    Column("saved_ratio", Unit.RATIO, "saved_ns / replayed_ns; null where that is 0 or saved_ns is null"),
    Column("error_ratio", Unit.RATIO, "(replayed_ns - recorded_ns) / recorded_ns; null where no time passes"),
)


def job_what_if(
    job: Job,
    scale: Mapping[str, float] | None = None,
    *,
    ranks: Collection[int] = (),
    like: str | None = None,
    bandwidth: float = 1.0,
    step: int | None = None,
) -> pl.DataFrame:
    """How long a job would take with some changes, by replaying all ranks together: COLUMNS.

    A rank that is faster lets those go on that wait for it, so the gain of the job is not that of the rank. Own times
    change, waits follow; of a collective the own time is what it takes from when its last rank has come.

    Args:
        job: All ranks that are there take part.
        scale: What to multiply own times by, from 0: by what they are bound by (host, data_loading, compute,
            communication, memory) or by a regular expression that names of calls, spans and kernels match.
        ranks: Whose own times change; those of all by default.
        like: "median": every activity takes as long as the same one of the median rank.
        bandwidth: By how much faster collectives move data.
        step: Only what was launched in this step; by default all that was recorded.
    """
    scale = dict(scale or {})
    _check(scale, like, bandwidth)
    graph = JobGraph.of(job, step)
    if graph.steps.is_empty() and job.ranks:
        raise MissingDataError(f"no rank has step {step}; holotrace show steps says which there are")
    work = graph.activities.filter(pl.col("kind") != STEP)
    for of in scale:
        if of not in KINDS and not work.select(fits(of).any()).item():
            raise MissingDataError(f"no call, span or kernel has a name with {of!r}")
    wanted = tuple(ranks)
    parts = [like_median(graph, wanted)] if like else []
    parts += [scaled(graph, scale, wanted)] if scale else []
    parts += [scaled(graph, {"communication": 1 / bandwidth}, wanted)] if bandwidth != 1 else []
    times = graph.step_times([UNCHANGED, together(UNCHANGED, *parts)])
    return _answer(times)


def _check(scale: Mapping[str, float], like: str | None, bandwidth: float) -> None:
    for of, factor in scale.items():
        if not 0 <= factor < float("inf"):
            raise UsageError(f"{of} is scaled by {factor}; it can be any number from 0")
        try:
            pl.select(pl.lit("").str.contains(of))
        except pl.exceptions.ComputeError as error:
            kinds = ", ".join(KINDS)
            raise UsageError(f"{of!r} is no regular expression; it can be one, or one of {kinds}") from error
    if like not in {None, "median"}:
        raise UsageError(f"ranks cannot be made like {like!r}; it can be median")
    if not 0 < bandwidth < float("inf"):
        raise UsageError(f"bandwidth is multiplied by {bandwidth}; it can be any number above 0")


def _answer(times: pl.DataFrame) -> pl.DataFrame:
    of_ranks = times.group_by("case", "rank").agg(pl.col("recorded_ns", "replayed_ns").sum())
    before = of_ranks.filter(pl.col("case") == 0).drop("case")
    after = of_ranks.filter(pl.col("case") == 1).select("rank", new_ns="replayed_ns")
    ranks = before.join(after, on="rank").sort("rank")
    whole = ranks.select(pl.lit(None, pl.Int32).alias("rank"), pl.exclude("rank").max()).head(min(1, ranks.height))
    recorded, replayed = pl.col("recorded_ns"), pl.col("replayed_ns")
    error = pl.when(recorded > 0).then(replayed / recorded - 1)
    saved = pl.when((pl.col("error_ratio").abs() <= TRUSTED_RATIO).fill_null(value=True)).then(
        replayed - pl.col("new_ns")
    )
    table = (
        pl.concat([whole, ranks.select(whole.columns)])
        .with_columns(error_ratio=error)
        .with_columns(saved_ns=saved)
        .with_columns(saved_ratio=pl.when(replayed > 0).then(pl.col("saved_ns") / replayed))
    )
    return conform(table, COLUMNS, "job_what_if")
