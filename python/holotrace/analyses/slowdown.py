"""How much longer a job takes than it would if equal work took equally long, and which ranks make it so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import polars as pl

from holotrace.core.analysis import Finding, per_job
from holotrace.core.charts import Bar
from holotrace.core.native import native
from holotrace.core.plans import constant
from holotrace.core.schema import Column, Unit
from holotrace.derive.kernel_kinds import COMPUTE
from holotrace.graph import job
from holotrace.graph import rank as of_rank
from holotrace.graph.engine import NONE
from holotrace.graph.job import TRUSTED_RATIO, JobGraph
from holotrace.graph.stretches import Stretches
from holotrace.graph.vocabulary import KINDS, numbered

# So many of the ranks are the worst, after "Understanding Stragglers in Large Model Training" (OSDI 2025).
WORST_RATIO = 0.03
# From here on the paper calls a job slowed down by stragglers; a rank makes it so with half of that.
SLOW_RATIO, HALF = 1.1, 0.5
# A slowdown below this share of the ideal time is noise, whose parts say nothing.
LEAST_RATIO = 0.01

# So many ranks are replayed one by one.
_MOST_RANKS = 32

# What takes its ideal times: all that has one of these labels.
_Case = frozenset[int]
_NOTHING: _Case = frozenset()


@dataclass(frozen=True)
class _Labels:
    """The numbers with which activities are marked: that of their rank and, after those, that of their kind."""

    ranks: tuple[int, ...]

    def of_rank(self, rank: int) -> int:
        return self.ranks.index(rank)

    def of_kind(self, kind: str) -> int:
        return len(self.ranks) + KINDS.index(kind)

    @property
    def everything(self) -> _Case:
        return frozenset(map(self.of_kind, KINDS))

    def only(self, label: int) -> _Case:
        """All that has this one is ideal."""
        return self.everything if len(self.ranks) == 1 and label == 0 else frozenset({label})

    def but(self, label: int) -> _Case:
        """All that has another one is ideal: of another rank if it is that of a rank, else of another kind."""
        count = len(self.ranks)
        return frozenset(range(count) if label < count else self.everything) - {label}

    def cases(self, ranks: Iterable[int]) -> list[_Case]:
        """What has to be replayed to know what each of these ranks, and each kind, makes of the time."""
        labels = [*map(self.of_rank, ranks), *map(self.of_kind, KINDS)]
        return [_NOTHING, self.everything, *map(self.but, labels), *map(self.only, labels)]

    def worst(self, most: Mapping[int, float], count: int) -> _Case:
        """The worst of so many ranks are ideal: those of which there is most."""
        ranks = sorted(most, key=lambda rank: (-most[rank], rank))[: ceil(WORST_RATIO * count)]
        return self.only(self.of_rank(ranks[0])) if len(ranks) == 1 else frozenset(map(self.of_rank, ranks))


@dataclass(frozen=True)
class _Sums:
    """What is known from the steps of a graph: nanoseconds by rank."""

    # Own times less ideal times.
    above: Counter[int]
    recorded: Counter[int]
    kinds: frozenset[str]
    # Replayed steps in some cases.
    replayed: Mapping[_Case, Counter[int]]


def _summed(graph: JobGraph) -> _Sums:
    """The sums of a graph, with its replays as far as it can be known here which ranks are asked for."""
    work, labels = _ideal(graph), _Labels(tuple(graph.sets["rank"].sort()))
    told = work.filter(graph.tells(pl.col("step"))).group_by("rank")
    above = Counter(dict(told.agg((pl.col("own_ns") - pl.col("ideal_ns")).sum()).iter_rows()))
    recorded = Counter(dict(graph.told.group_by("rank").agg(pl.col("recorded_ns").sum()).iter_rows()))
    kinds = frozenset(work["kind"].unique().cast(pl.String))
    cases: list[_Case] = []
    if graph.is_whole:
        cases = _asked(labels, above) if above else []
    elif len(labels.ranks) <= _MOST_RANKS:
        cases = labels.cases(labels.ranks)
    # While all is replayed, each column is much of the memory.
    mixed = _mixed(graph, work, labels)
    del work
    return _Sums(above, recorded, kinds, _replayed(graph, mixed, cases))


def _asked(labels: _Labels, above: Mapping[int, int]) -> list[_Case]:
    """What is replayed where ranks are so far above the ideal; the worst ranks are mostly those furthest above it."""
    return [*labels.cases(_furthest(above)), labels.worst(above, len(above))]


def _furthest(above: Mapping[int, int]) -> list[int]:
    """The ranks whose times are furthest above the ideal, in order of their numbers."""
    return sorted(sorted(above, key=lambda rank: (-above[rank], rank))[:_MOST_RANKS])


def _ideal(graph: JobGraph) -> pl.DataFrame:
    """What each activity takes and would ideally take: activity, rank, kind, step, own_ns, ideal_ns."""
    work = numbered(graph).select("activity", "rank", "kind", "own_ns", "same", "step").drop_nulls("step")
    is_mean = (pl.col("kind") == COMPUTE).cast(pl.UInt8)
    usual = pl.DataFrame(native.usual_times(work.select("same", "own_ns", is_mean=is_mean)))
    return work.select("activity", "rank", "kind", "step", "own_ns").hstack([usual["usual_ns"].alias("ideal_ns")])


def _replayed(graph: JobGraph, mixed: pl.DataFrame, cases: Iterable[_Case]) -> dict[_Case, Counter[int]]:
    """The time of the steps of each rank in each case."""
    found: dict[_Case, Counter[int]] = {case: Counter() for case in cases}
    if found:
        of_number = list(found)
        times = graph.mixed_step_times(mixed, [sorted(case) for case in found])
        for case, rank, ns in times.group_by("case", "rank").agg(pl.col("replayed_ns").sum()).iter_rows():
            found[of_number[case]][rank] = ns
    return found


def _mixed(graph: JobGraph, work: pl.DataFrame, labels: _Labels) -> pl.DataFrame:
    """All activities with their two times and their labels, as for ``Replay.mixed``."""
    own = graph.rows["own_ns"]
    nothing = constant("", NONE, len(own), pl.UInt32())
    of_ranks = {rank: labels.of_rank(rank) for rank in labels.ranks}
    of_work = work.select(pl.col("rank").replace_strict(of_ranks, return_dtype=pl.UInt32))
    second = nothing.clone()
    # One after the other: of some million activities each column is much.
    for kind in KINDS:
        second = second.scatter(work["activity"].filter(work["kind"] == kind), labels.of_kind(kind))
    return pl.DataFrame(
        {
            "usual_ns": own,
            "other_ns": own.clone().scatter(work["activity"], work["ideal_ns"]),
            "label": nothing.clone().scatter(work["activity"], of_work["rank"]),
            "second_label": second,
        }
    )


def _times(
    graphs: Stretches, labels: _Labels, cases: Sequence[_Case], known: Sequence[Mapping[_Case, Counter[int]]]
) -> dict[_Case, float]:
    """The time of all steps on the rank that takes longest in each case, replayed where it is not known."""
    new = [case for case in dict.fromkeys(cases) if any(case not in of_graph for of_graph in known)]
    more = (
        [_replayed(graph, _mixed(graph, _ideal(graph), labels), new) for graph in graphs]
        if new
        else [{} for _ in known]
    )
    all_known = [{**of_graph, **added} for of_graph, added in zip(known, more, strict=True)]
    return {case: float(max(_added(of_graph[case] for of_graph in all_known).values(), default=0)) for case in cases}


def _added(sums: Iterable[Counter[int]]) -> Counter[int]:
    total = Counter[int]()
    for one in sums:
        total.update(one)
    return total


@per_job(
    part=of_rank.part,
    part_columns=of_rank.PART,
    joined=Stretches,
    each=_summed,
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
def slowdown(graphs: Stretches) -> pl.DataFrame:
    """How much longer a job takes than it would if equal work took equally long.

    In the ideal job, every activity takes the mean time (for communication and hosts: the median) of the activities
    with the same kind, name and number in the step, over all ranks and steps (of a job with more than 4 million
    activities, over the steps that are looked at together). The row `job` is the time of the replayed job divided by
    the time of the ideal job (S). Rows `rank` are the same if only that rank kept its own times (S_w), and rows `kind`
    if only activities of this kind kept theirs (S_t). `recovered_ratio` of the row `job` is the share of the slowdown
    that would go away if the worst 3% of ranks were ideal (M_W), from 0 to 1; it is null if the
    slowdown is below 1%. In jobs of more than 32 ranks, only the ranks whose times are furthest above the ideal have
    rows. There is no answer if the replay differs from the recorded time by more than 5%.
    """
    sums = graphs.map(_summed)
    above, recorded = _added(one.above for one in sums), _added(one.recorded for one in sums)
    if not above or not recorded:
        return pl.DataFrame(schema=slowdown.nothing.schema)
    labels, known = _Labels(graphs.ranks), [one.replayed for one in sums]
    times = _times(graphs, labels, _asked(labels, above), known)
    base, best = times[_NOTHING], times[labels.everything]
    ranks = {rank: labels.of_rank(rank) for rank in _furthest(above)}
    kinds = {kind: labels.of_kind(kind) for kind in sorted(frozenset[str]().union(*(one.kinds for one in sums)))}
    worst = labels.worst({rank: times[labels.but(label)] for rank, label in ranks.items()}, len(above))
    if worst not in times:
        times |= _times(graphs, labels, [worst], known)
    lost = base - best

    def recovered(ideal: _Case) -> float | None:
        # Ideal is a mean, so where one is faster than that, the ideal time is the longer one.
        return min(max((base - times[ideal]) / lost, 0.0), 1.0) if lost > LEAST_RATIO * best else None

    def ratio(ideal: _Case) -> float | None:
        return times[ideal] / best if best else None

    table: list[tuple[int | None, str, str | None, float | None, float | None]]
    table = [(None, "job", None, ratio(_NOTHING), recovered(worst))]
    for rank, label in ranks.items():
        table.append((rank, "rank", None, ratio(labels.but(label)), recovered(labels.only(label))))
    for kind, label in kinds.items():
        table.append((None, "kind", kind, ratio(labels.but(label)), recovered(labels.only(label))))
    found = pl.DataFrame(table, schema=slowdown.nothing.schema, orient="row")
    longest = max(recorded.values())
    is_trusted = longest > 0 and abs(base / longest - 1) <= TRUSTED_RATIO
    return found if is_trusted else found.with_columns(slowdown_ratio=None, recovered_ratio=None)


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
