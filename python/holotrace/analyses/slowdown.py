"""How much longer a job takes than it would if equal work took equally long, and which ranks make it so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil

import polars as pl

from holotrace.core.analysis import Finding, per_job
from holotrace.core.charts import Bar
from holotrace.core.native import native
from holotrace.core.schema import Column, Unit
from holotrace.derive.kernel_kinds import COMPUTE
from holotrace.graph import job
from holotrace.graph import rank as of_rank
from holotrace.graph.engine import NONE
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
    replayed = _Replayed(graph, mixed, frozenset(all_ranks.values()), frozenset(all_kinds.values()))
    labels = [*(all_ranks[rank] for rank in ranks), *(all_kinds[kind] for kind in kinds)]
    of_each = [*(replayed.ranks for _ in ranks), *(replayed.kinds for _ in kinds)]
    others = [every - {one} for every, one in zip(of_each, labels, strict=True)]
    base, best, *times = replayed.times([frozenset(), replayed.kinds, *others, *(frozenset({one}) for one in labels)])
    alone, without = times[: len(labels)], times[len(labels) :]
    by_rank = sorted(zip(alone[: len(ranks)], ranks, strict=True), key=lambda pair: (-pair[0], pair[1]))
    worst = [rank for _, rank in by_rank[: ceil(WORST_RATIO * len(all_ranks))]]
    (rest,) = replayed.times([frozenset(all_ranks[rank] for rank in worst)])
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
    work = numbered(graph).select("activity", "rank", "kind", "own_ns", "same", "step").drop_nulls("step")
    is_mean = (pl.col("kind") == COMPUTE).cast(pl.UInt8)
    usual = pl.DataFrame(native.usual_times(work.select("same", "own_ns", is_mean=is_mean)))
    return work.select("activity", "rank", "kind", "own_ns").hstack([usual["usual_ns"].alias("ideal_ns")])


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
    own = graph.rows["own_ns"]
    nothing = pl.Series([NONE], dtype=pl.UInt32()).new_from_index(0, len(own))
    labels = work.select(
        pl.col("rank").replace_strict(of_ranks, return_dtype=pl.UInt32),
        kind=pl.coalesce(pl.when(pl.col("kind") == kind).then(label) for kind, label in of_kinds.items()),
    )
    mixed = pl.DataFrame(
        {
            "usual_ns": own,
            "other_ns": own.clone().scatter(work["activity"], work["ideal_ns"]),
            "label": nothing.clone().scatter(work["activity"], labels["rank"]),
            "second_label": nothing.scatter(work["activity"], labels["kind"]),
        }
    )
    return of_ranks, of_kinds, mixed


@dataclass(frozen=True)
class _Replayed:
    """The time of the job in cases of ``Replay.mixed``, each of which is replayed once."""

    graph: JobGraph
    mixed: pl.DataFrame
    # The labels of all ranks and of all kinds: either are those of all work.
    ranks: frozenset[int]
    kinds: frozenset[int]
    known: dict[frozenset[int], float] = field(default_factory=dict)

    def times(self, cases: Sequence[frozenset[int]]) -> list[float]:
        """The time of all steps on the rank that takes longest, where what has these labels is ideal."""
        asked = [self.kinds if case == self.ranks else case for case in cases]
        new = [case for case in dict.fromkeys(asked) if case not in self.known]
        if new:
            steps = self.graph.mixed_step_times(self.mixed, [sorted(case) for case in new])
            longest = steps.group_by("case", "rank").agg(pl.col("replayed_ns").sum())
            times = longest.group_by("case").agg(pl.col("replayed_ns").max()).sort("case")["replayed_ns"]
            self.known.update(zip(new, map(float, times), strict=True))
        return [self.known[case] for case in asked]


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
