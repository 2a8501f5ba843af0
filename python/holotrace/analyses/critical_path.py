"""What limits the length of a step: the longest dependency path through its host calls and kernels."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Ranking
from holotrace.core.options import check_whole
from holotrace.core.schema import Column, Unit, empty
from holotrace.core.trace import RankTrace
from holotrace.derive import busy, critical_steps, intervals
from holotrace.derive.critical_steps import DELAY, HOST, LAUNCH, LOADING_DATA
from holotrace.derive.kernel_kinds import COMMUNICATION
from holotrace.errors import UsageError

# From half of the path on the host is what a step waits for most.
HOST_RATIO = 0.5
# Below a tenth there are larger things to win.
PART_RATIO = 0.1


@per_rank(
    columns=(
        Column("step", Unit.STEP, "Training step; null for a range, or for a rank without steps"),
        Column("bound_by", Unit.TEXT, "host, data_loading, compute, communication, memory, launch or kernel_delay"),
        Column("kind", Unit.TEXT, "operator, launch_delay, kernel_delay; by segment also dependency and sync"),
        Column("name", Unit.TEXT, "Operator, call or kernel whose time it is; null for the delay of a launch"),
        Column("count", Unit.COUNT, "Number of edges of the path"),
        Column("duration_ns", Unit.NS, "Time of these edges"),
        Column(
            "idle_ns",
            Unit.NS,
            "Part of duration_ns during which no device worked; null where the rank has no such work",
        ),
        Column("path_ratio", Unit.RATIO, "duration_ns / time of the whole path"),
        Column(
            "step_ratio",
            Unit.RATIO,
            "duration_ns / time from the start of the step to the end of its work; null if that is 0",
        ),
        Column("start_ns", Unit.NS, "Start of the first of these edges"),
        Column("end_ns", Unit.NS, "End of the last of these edges"),
        Column("event_id", Unit.EVENT, "With by_segment the event whose time it is; else null"),
        Column("thread", Unit.TEXT, "With by_segment the thread of that event; else null"),
        Column("device", Unit.NUMBER, "With by_segment its device; else null"),
        Column("stream", Unit.NUMBER, "With by_segment its stream; else null"),
    ),
    reads=critical_steps.READS,
    chart=Ranking(x="bound_by", y=("duration_ns",), title="What the critical path of one step is made of"),
    named_by=("bound_by", "kind", "name"),
)
def critical_path(
    rank: RankTrace,
    *,
    of_step: int | None = None,
    by_segment: bool = False,
    of_range: str = "",
    instance: int | None = None,
) -> pl.DataFrame:
    """What limits the length of a step: the longest dependency path through its host calls and kernels.

    A step gets shorter only if something on this path gets faster. An operator follows what its thread did before. A
    kernel follows its launch if all earlier work of its queue was done by then; otherwise it follows the work before it
    in the queue. A call that synchronises follows the work that it waited for. Time in which a thread runs no operator,
    and time of calls that wait for a device, counts as zero, so the path may be shorter than the step. Work of a queue
    that overlaps counts as long as it lasts, so the path may also be longer. A kernel that starts more than 1.5 ms
    after its launch and after the work before it waited for something unknown. Time in a collective may include waiting
    for other ranks, which the trace of one rank does not show; `job_path` does.

    Which queue waited for which is known where the profiler recorded it (`enable_cuda_sync_events=True`). Where not,
    it is inferred from times: work that began within 10 µs of the end of another queue's work, and more than 20 µs
    after its own launch and the work before it, waited for that; so did a synchronising call or copy that took longer
    than 20 µs and returned within 10 µs of the end of work. In XLA profiles, a call that reads a result back waited for
    the last program that ended before the result was copied, or before the call returned.

    Args:
        of_step: Training step; by default the last complete one (the second to last recorded).
        by_segment: One row per edge of the path, in its order, instead of one per name.
        of_range: Of a named range instead of a step: one of those on the host whose names contain this.
        instance: Which of these ranges, by their starts from 0; by default the first.
    """
    if of_range or instance is not None:
        if of_step is not None:
            raise UsageError("of_step and of_range name two parts of the rank; give one of them")
        check_whole(0, instance=instance or 0)
        found = critical_steps.of_range(rank, of_range, instance or 0)
    else:
        found = critical_steps.of(rank, of_step)
    if found is None:
        return empty(critical_path.columns).drop("rank")
    path = _with_idle(found.edges(found.graph.longest_path()), rank.cached(busy.of).working)
    return _shaped(path if by_segment else _by_name(path), found.step, found.span_ns)


def _with_idle(path: pl.DataFrame, working: pl.DataFrame) -> pl.DataFrame:
    """The edges with how much of their time no device worked."""
    if working.is_empty():
        return path.with_columns(idle_ns=pl.lit(None, pl.Int64()))
    idle_ns = intervals.uncovered_ns(path, working)
    # The time of an edge that weighs nothing is not its own.
    return path.with_columns(idle_ns=pl.when(pl.col("weight_ns") > 0).then(idle_ns).otherwise(0))


def _by_name(path: pl.DataFrame) -> pl.DataFrame:
    return (
        path.filter(pl.col("weight_ns") > 0)
        .group_by("bound_by", "kind", "name")
        .agg(
            pl.col("start_ns").min(),
            pl.col("end_ns").max(),
            pl.col("weight_ns").sum(),
            idle_ns=pl.when(pl.col("idle_ns").count() > 0).then(pl.col("idle_ns").sum()),
            count=pl.len(),
        )
        .sort(-pl.col("weight_ns"), "bound_by", "kind", "name")
        .with_columns(event_id=None, thread=None, device=None, stream=None)
    )


def _shaped(edges: pl.DataFrame, step: int | None, span_ns: int) -> pl.DataFrame:
    counted = edges if "count" in edges.columns else edges.with_columns(count=1)
    path_ns = pl.col("duration_ns").sum()
    return counted.select(
        pl.lit(step, pl.Int64()).alias("step"),
        "bound_by",
        "kind",
        "name",
        "count",
        "start_ns",
        "end_ns",
        "event_id",
        "thread",
        "device",
        "stream",
        "idle_ns",
        duration_ns="weight_ns",
    ).with_columns(
        path_ratio=pl.when(path_ns > 0).then(pl.col("duration_ns") / path_ns),
        step_ratio=pl.col("duration_ns") / span_ns if span_ns else pl.lit(None, pl.Float64()),
    )


@critical_path.rule
def host_on_critical_path(table: pl.DataFrame) -> Iterator[Finding]:
    """The host's own work is more than half of the critical path of a step, and devices idle for a tenth of it.

    The device is faster than the host can feed it: faster kernels or a faster device would gain little. The cost is the
    part of the host's time on the path during which no device worked, on the average rank concerned: a host that is
    never late would save that at most.

    Launch less: capture the step in a CUDA graph, compile the model with `torch.compile`, use fused or foreach
    optimizers, enlarge the batch.
    """
    path_ns = pl.col("duration_ns").sum().over("rank")
    idle_ns = pl.col("idle_ns").filter(bound_by=HOST).sum().over("rank")
    fed_late = table.filter(idle_ns > PART_RATIO * path_ns)
    message = "the host takes {ratio:percent} of the critical path of a step"
    yield from _part(fed_late, HOST, HOST_RATIO, message, cost="idle_ns")


@critical_path.rule
def loading_on_critical_path(table: pl.DataFrame) -> Iterator[Finding]:
    """Waiting for the next batch is more than a tenth of the critical path of a step.

    During that time nothing else runs that the step waits for. The cost is this time on an average affected rank.

    Load data in more workers (`num_workers`), prefetch more batches, and move decoding out of the training process.
    """
    yield from _part(
        table,
        LOADING_DATA,
        PART_RATIO,
        "waiting for the next batch takes {ratio:percent} of the critical path of a step",
    )


@critical_path.rule
def communication_on_critical_path(table: pl.DataFrame) -> Iterator[Finding]:
    """Communication is more than a tenth of the critical path of a step on every rank.

    The step waits for this communication, even if most of the other communication is hidden. A rank that waits for a
    late rank spends that time in communication too, but the late rank does not. So the share and the cost are those of
    the rank with the least communication on its path.

    Start collectives earlier or in smaller buckets, overlap them with computing, send less (gradient accumulation,
    lower precision), and look for stragglers.
    """
    ranks = (
        table.group_by("rank")
        .agg(pl.col("duration_ns", "path_ratio").filter(bound_by=COMMUNICATION).sum(), pl.col("step").first())
        .sort("path_ratio", "rank")
    )
    least = ranks.head(1)
    if ranks.is_empty() or least["path_ratio"][0] <= PART_RATIO:
        return
    message = "communication takes at least {ratio:percent} of the critical path of a step on every rank"
    if ranks.height == 1:
        message = (
            "communication, or waiting for other ranks in it, takes {ratio:percent} of the critical path of a step"
        )
    # A rank may have recorded other steps than the others.
    cost_ns = int(ranks["duration_ns"].min())  # type: ignore[arg-type]  # an Int64 column
    yield _finding(message, least, cost_ns, ranks=(), within="exposed_comm_ns")


@critical_path.rule
def launches_on_critical_path(table: pl.DataFrame) -> Iterator[Finding]:
    """Launch delays and pauses between kernels are more than a tenth of the critical path of a step.

    Kernels are so short that starting them takes a good part of the time. The cost is that time of the average rank
    concerned.

    Capture the step in a CUDA graph, fuse kernels with `torch.compile`, or enlarge the batch.
    """
    starting = table.with_columns(
        bound_by=pl.when(pl.col("bound_by").is_in((LAUNCH, DELAY))).then(pl.lit(LAUNCH)).otherwise("bound_by")
    )
    yield from _part(
        starting, LAUNCH, PART_RATIO, "starting kernels takes {ratio:percent} of the critical path of a step"
    )


def _part(
    table: pl.DataFrame, bound_by: str, ratio: float, message: str, cost: str = "duration_ns"
) -> Iterator[Finding]:
    ranks = (
        table.filter(bound_by=bound_by)
        .group_by("rank")
        .agg(pl.col(cost, "path_ratio").sum(), pl.col("step").first())
        .filter(pl.col("path_ratio") > ratio)
        .sort("rank")
    )
    if not ranks.is_empty():
        cost_ns = int(ranks[cost].sum()) // ranks.height
        yield _finding(message, ranks, cost_ns, ranks=tuple(ranks["rank"]), within="idle_ns")


def _finding(message: str, rows: pl.DataFrame, cost_ns: int, *, ranks: tuple[int, ...], within: str) -> Finding:
    """A finding from rows of ranks; its cost is that of one step, or of all where no step was looked at."""
    of_step = rows["step"].null_count() == 0
    return Finding(
        "warning",
        message,
        ranks,
        None if of_step else cost_ns,
        step_cost_ns=cost_ns if of_step else None,
        values={"ratio": float(rows["path_ratio"].sum()) / rows.height},
        within=(within,),
    )
