"""How well a model of what waits for what reproduces each step."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_job
from holotrace.core.charts import Bar
from holotrace.core.schema import Column, Unit
from holotrace.graph import job, rank
from holotrace.graph.job import TRUSTED_RATIO, JobGraph
from holotrace.graph.stretches import Stretches


def _replayed(graph: JobGraph) -> pl.DataFrame:
    times = graph.step_times()
    over_ns = graph.rows["end_ns"][graph.told["over"] // 2]
    ends = graph.told.select(point="over", since_ns=over_ns - pl.col("recorded_ns"))
    inferred = graph.edges.with_row_index("edge").filter("is_inferred")["edge"]
    recorded, delay = pl.col("recorded_ns"), pl.col("delay_ns")
    error = (pl.col("replayed_ns") - recorded) / recorded
    return (
        times.hstack(graph.replayer.shares(ends, inferred))
        .with_columns(
            error_ratio=pl.when(recorded > 0).then(error),
            explained_ratio=pl.when(recorded > 0).then((1 - delay / recorded).clip(lower_bound=0)),
            inferred_ratio=pl.when(pl.col("edge_count") > 0).then(pl.col("marked_count") / pl.col("edge_count")),
        )
        .select("rank", "step", "recorded_ns", "replayed_ns", "error_ratio", "explained_ratio", "inferred_ratio")
    )


@per_job(
    part=rank.part,
    part_columns=rank.PART,
    joined=Stretches,
    each=_replayed,
    columns=(
        Column("step", Unit.STEP, "Training step; null where the rank has none and is looked at as a whole"),
        Column(
            "recorded_ns", Unit.NS, "From the end of the previous step to the end of this one, on the host and devices"
        ),
        Column(
            "replayed_ns",
            Unit.NS,
            "The same in the replay, in which everything begins as soon as all that it waits for is over",
        ),
        Column("error_ratio", Unit.RATIO, "(replayed_ns - recorded_ns) / recorded_ns; null where no time passes"),
        Column(
            "explained_ratio",
            Unit.RATIO,
            "Part of the step's critical path that own times and known latencies explain; null where no time passes",
        ),
        Column(
            "inferred_ratio",
            Unit.RATIO,
            "Part of the waits on that path that were not recorded but inferred; null where there are none",
        ),
    ),
    reads=job.READS,
    chart=Bar(x="step", y=("recorded_ns", "replayed_ns"), title="Steps as recorded and as replayed"),
)
def replay(graphs: Stretches) -> pl.DataFrame:
    """How well a model of what waits for what reproduces each step.

    The model is a graph of all ranks: a thread does one thing after the other, device work waits for its launch and its
    queue, a collective continues when its last rank has arrived, and a synchronising call waits for its work. A replay
    starts everything as soon as everything that it waits for is over. Any further time in the recording is a delay that
    the model cannot explain. Answers of what-if are only as good as this replay: if it differs by more than 5%, no gain
    is reported.
    """
    return pl.concat(graphs.map(_replayed)).sort("rank", maintain_order=True)


@replay.rule
def untrusted_replay(table: pl.DataFrame) -> Iterator[Finding]:
    """Steps of these ranks take more than 5% longer or shorter when they are replayed.

    Something made them wait that was not recorded, or that the model does not know. What-if does not claim to know what
    a change would gain there.

    Record synchronisations (`enable_cuda_sync_events` of PyTorch's profiler) and all ranks at once.
    """
    far = table.group_by("rank").agg(
        error=(pl.col("replayed_ns").sum() / pl.col("recorded_ns").sum() - 1).abs(),
        recorded=pl.col("recorded_ns").sum(),
    )
    far = far.filter((pl.col("recorded") > 0) & (pl.col("error") > TRUSTED_RATIO)).sort("rank")
    if not far.is_empty():
        most = float(far.select(pl.col("error").max()).item())
        message = "replayed steps are off by up to {error_ratio:percent}, so no gain of a change is claimed for them"
        yield Finding("info", message, tuple(far["rank"]), values={"error_ratio": most})
