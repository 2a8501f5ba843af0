"""How much longer a job takes than it would if equal work took equally long, and which ranks make it so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

import polars as pl

from holotrace.core.analysis import Finding, per_job
from holotrace.core.charts import Bar
from holotrace.core.schema import Column, Unit
from holotrace.graph import job
from holotrace.graph import rank as of_rank
from holotrace.graph.job import TRUSTED_RATIO, JobGraph
from holotrace.graph.vocabulary import numbered

# So many of the ranks are the worst, after "Understanding Stragglers in Large Model Training" (OSDI 2025).
WORST_RATIO = 0.03
# From here on the paper calls a job slowed down by stragglers; a rank makes it so with half of that.
SLOW_RATIO, HALF = 1.1, 0.5
# A slowdown below this share of the ideal time is noise, whose parts say nothing.
LEAST_RATIO = 0.01

# So many ranks are replayed one by one.
_MOST_RANKS = 32


@per_job(
    part=of_rank.part,
    part_columns=of_rank.PART,
    joined=JobGraph.from_parts,
    columns=(
        Column("of", Unit.TEXT, "job, rank or kind: whose activities keep their recorded times"),
        Column("kind", Unit.TEXT, "Kind of activity, in rows about a kind"),
        Column(
            "slowdown_ratio",
            Unit.RATIO,
            "Time if only these keep their recorded times / time if all activities take their ideal times",
        ),
        Column(
            "recovered_ratio",
            Unit.RATIO,
            "Part of the job's slowdown that would disappear if only these took their ideal times",
        ),
    ),
    reads=job.READS,
    chart=Bar(x="rank", y=("slowdown_ratio",), title="Slowdown by each rank"),
)
def slowdown(graph: JobGraph) -> pl.DataFrame:
    """How much longer a job takes than it would if equal work took equally long.

    In the ideal job, every activity takes the mean time (for communication and hosts: the median) of the activities
    with the same kind, name and number in the step, over all ranks and steps. The row `job` is the time of the replayed
    job divided by the time of the ideal job (S). Rows `rank` are the same if only that rank kept its own times (S_w),
    and rows `kind` if only activities of this kind kept theirs (S_t). `recovered_ratio` of the row `job` is the share
    of the slowdown that would go away if the worst 3% of ranks were ideal (M_W), from 0 to 1; it is null if the
    slowdown is below 1%. In jobs of more than 32 ranks, only the ranks whose times are furthest above the ideal have
    rows. There is no answer if the replay differs from the recorded time by more than 5%.
    """
    work = _ideal(graph)
    if work.is_empty() or graph.steps.is_empty():
        return pl.DataFrame(schema=slowdown.nothing.schema)
    ranks, kinds = _furthest(work), work["kind"].unique().cast(pl.String).sort().to_list()
    all_ranks, all_kinds, mixed = _labelled(graph, work)
    labels = [*(all_ranks[rank] for rank in ranks), *(all_kinds[kind] for kind in kinds)]
    of_each = [*([*all_ranks.values()] for _ in ranks), *([*all_kinds.values()] for _ in kinds)]
    others = [[other for other in all_labels if other != one] for all_labels, one in zip(of_each, labels, strict=True)]
    cases = [[], [*all_kinds.values()], *others, *([label] for label in labels)]
    base, best, *times = _job_times(graph, mixed, cases)
    alone, without = times[: len(labels)], times[len(labels) :]
    by_rank = sorted(zip(alone[: len(ranks)], ranks, strict=True), key=lambda pair: (-pair[0], pair[1]))
    worst = [rank for _, rank in by_rank[: ceil(WORST_RATIO * len(all_ranks))]]
    (rest,) = _job_times(graph, mixed, [[all_ranks[rank] for rank in worst]])
    recorded = max(graph.steps.group_by("rank").agg(pl.col("recorded_ns").sum())["recorded_ns"])
    lost = base - best

    def recovered(time: float) -> float | None:
        # Ideal is a mean, so where one is faster than that, the ideal time is the longer one.
        return min(max((base - time) / lost, 0.0), 1.0) if lost > LEAST_RATIO * best else None

    table: list[tuple[int | None, str, str | None, float | None, float | None]]
    table = [(None, "job", None, base / best if best else None, recovered(rest))]
    names = [*((rank, "rank", None) for rank in ranks), *((None, "kind", kind) for kind in kinds)]
    table += [
        (*name, one / best if best else None, recovered(other))
        for name, one, other in zip(names, alone, without, strict=True)
    ]
    known = pl.DataFrame(table, schema=slowdown.nothing.schema, orient="row")
    is_trusted = recorded > 0 and abs(base / recorded - 1) <= TRUSTED_RATIO
    return known if is_trusted else known.with_columns(slowdown_ratio=None, recovered_ratio=None)


def _ideal(graph: JobGraph) -> pl.DataFrame:
    """What each activity takes and would ideally take: activity, rank, kind, own_ns, ideal_ns."""
    own = pl.col("own_ns")
    work = numbered(graph).filter(pl.col("step").is_not_null())
    usual = work.group_by("same").agg(
        ideal_ns=pl.when(pl.col("kind").first() == "compute").then(own.mean()).otherwise(own.median())
    )
    return work.join(usual, on="same", maintain_order="left").select(
        "activity", "rank", "kind", "own_ns", pl.col("ideal_ns").round().cast(pl.Int64)
    )


def _furthest(work: pl.DataFrame) -> list[int]:
    """The ranks whose times are furthest above the ideal, in order of their numbers."""
    above = work.group_by("rank").agg(above=(pl.col("own_ns") - pl.col("ideal_ns")).sum())
    return sorted(above.sort("above", "rank", descending=[True, False])["rank"].head(_MOST_RANKS))


def _labelled(graph: JobGraph, work: pl.DataFrame) -> tuple[dict[int, int], dict[str, int], pl.DataFrame]:
    """The label of each rank and of each kind of ``work``, and all activities with theirs, as for ``Replay.mixed``."""
    ranks = work["rank"].unique().sort().to_list()
    kinds = work["kind"].unique().cast(pl.String).sort().to_list()
    of_ranks = dict(zip(ranks, range(len(ranks)), strict=True))
    of_kinds = dict(zip(kinds, range(len(ranks), len(ranks) + len(kinds)), strict=True))
    own = graph.activities["own_ns"]
    is_work = pl.Series([False]).new_from_index(0, len(own)).scatter(work["activity"], True)
    mixed = graph.activities.select(
        usual_ns="own_ns",
        other_ns=own.clone().scatter(work["activity"], work["ideal_ns"]),
        label=pl.when(is_work).then(pl.col("rank").replace_strict(of_ranks, default=None, return_dtype=pl.UInt32)),
        second_label=pl.when(is_work).then(
            pl.col("kind").cast(pl.String).replace_strict(of_kinds, default=None, return_dtype=pl.UInt32)
        ),
    )
    return of_ranks, of_kinds, mixed


def _job_times(graph: JobGraph, mixed: pl.DataFrame, cases: Sequence[Sequence[int]]) -> list[float]:
    """The time of all steps on the rank that takes longest, in each case of ``Replay.mixed``."""
    longest = graph.mixed_step_times(mixed, cases).group_by("case", "rank").agg(pl.col("replayed_ns").sum())
    times = longest.group_by("case").agg(pl.col("replayed_ns").max()).sort("case")["replayed_ns"]
    return [float(time) for time in times]


@slowdown.rule
def uneven_work(table: pl.DataFrame) -> Iterator[Finding]:
    """The job takes at least a tenth longer than it would if equal work took equally long.

    Ranks wait for the one that takes longest, so unequal times add up. The finding names ranks that cause half of the
    difference by themselves. If it names none, other ranks are slow at other times.

    Look at `waits` for what the named ranks do longer than others; without any, at how inputs are spread over ranks.
    """
    of_job = table.filter(pl.col("of") == "job")["slowdown_ratio"]
    if of_job.is_empty() or of_job[0] is None or of_job[0] < SLOW_RATIO:
        return
    slow = table.filter(pl.col("of") == "rank", pl.col("slowdown_ratio") - 1 >= HALF * (of_job[0] - 1)).sort("rank")
    message = "the job takes {slowdown:times} times as long as it would if equal work took equally long"
    yield Finding("warning", message, tuple(slow["rank"]), values={"slowdown": of_job[0]})
