"""How many launches wait in each queue of a device, and for how long a queue is full."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Bar
from holotrace.core.options import check_whole
from holotrace.core.plans import constant, done
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import DEVICE_EVENTS
from holotrace.core.trace import RankTrace
from holotrace.derive import busy, intervals, levels
from holotrace.derive.kernel_kinds import IS_WORK

# CUDA holds 1,024 commands per queue, some of which start no work; recorded queues stop growing at 1,013 to 1,022.
FULL_COUNT = 1_000
# Now and then every queue fills that is ahead of its device; a tenth of the time is a state.
FULL_RATIO = 0.1
# A device pauses between kernels; a hundredth of the time is more than these pauses.
FULL_IDLE_RATIO = 0.01
QUEUE = ["device", "stream"]
EVENTS = DEVICE_EVENTS.only("event_id", "kind", "device", "stream", "start_ns", "end_ns", "launch_id", "launch_ns")


@per_rank(
    columns=(
        Column("device", Unit.NUMBER, "Ordinal of the accelerator"),
        Column("stream", Unit.NUMBER, "Queue on the device"),
        Column("launch_count", Unit.COUNT, "Launches from start_ns to end_ns"),
        Column(
            "mean_count",
            Unit.FLOAT,
            "Mean queue length, weighted by time; null where start_ns and end_ns are equal",
        ),
        Column("min_count", Unit.COUNT, "Shortest queue length"),
        Column("p50_count", Unit.COUNT, "Median queue length, weighted by time"),
        Column("p95_count", Unit.COUNT, "95th percentile of queue length, weighted by time"),
        Column("max_count", Unit.COUNT, "Longest queue length"),
        Column("full_ns", Unit.NS, "Time in which at least full_at launches waited"),
        Column("full_idle_ns", Unit.NS, "Part of full_ns in which no device of the rank ran any work"),
        Column("full_ratio", Unit.RATIO, "full_ns / (end_ns - start_ns); null where these are equal"),
        Column("start_ns", Unit.NS, "Start of the first launch; with over_time, when the length changed"),
        Column("end_ns", Unit.NS, "Start of the last work; with over_time, when the length changed next"),
        Column("event_id", Unit.EVENT, "With over_time the host call or device event that changed it; else null"),
    ),
    reads=(EVENTS,),
    chart=Bar(x="rank", y=("mean_count", "max_count"), title="Launches waiting in each queue"),
)
def queue_length(rank: RankTrace, *, over_time: bool = False, full_at: int = FULL_COUNT) -> pl.DataFrame:
    """How many launches wait in each queue of a device, and for how long a queue is full.

    A launch waits from the start of the host call to the start of its work. A call that starts several kernels, such as
    the launch of a CUDA graph, counts once per queue and waits until the first of them starts. Averages and shares are
    weighted by time, not by the number of launches. A host that is ahead of its device keeps queues long; an empty
    queue waits for the host.

    If the clocks of host and device differ, work may begin before its launch; the length is then below 0 for a while.

    Args:
        over_time: One row per change of a queue's length, instead of one per queue.
        full_at: Number of waiting launches from which a queue counts as full.
    """
    check_whole(1, full_at=full_at)
    # A host that computes itself puts nothing on a queue.
    events = rank[EVENTS].filter(IS_WORK & (not rank.computes_on_host))
    waiting = levels.over_time(_changes(events), by=QUEUE, levels=["waiting"])
    is_full = waiting["waiting"] >= full_at
    rows = is_full.arg_true() if is_full.any() else pl.Series(dtype=pl.UInt32())
    full = waiting[:, ["start_ns", "end_ns", "lasted_ns"]][rows]
    # Most queues are never full, and when a rank was at work takes long to find out.
    idle_ns = full["lasted_ns"] if full.is_empty() else intervals.uncovered_ns(full, rank.cached(busy.of).working)
    spans = waiting.hstack(
        [
            constant(name, 0, waiting.height).scatter(rows, part)
            for name, part in (("full_ns", full["lasted_ns"]), ("full_idle_ns", idle_ns))
        ]
    )
    table = _as_they_are(spans) if over_time else _per_queue(spans)
    lasted_ns = table["end_ns"] - table["start_ns"]
    ratio = (table["full_ns"] / lasted_ns).zip_with(lasted_ns > 0, pl.Series([None], dtype=pl.Float64()))
    return table.hstack([ratio.alias("full_ratio")])


def _changes(events: pl.DataFrame) -> pl.DataFrame:
    """One more waits when a call begins, one less when the first work begins that the call put on the queue."""
    calls = events[:, [*QUEUE, "launch_id", "launch_ns", "start_ns", "event_id"]].drop_nulls("launch_ns")
    # But for graphs, a call puts one piece of work on a queue.
    if calls["launch_id"].n_unique() < calls.height:
        ordered = calls if calls["event_id"].is_sorted() else calls.sort("event_id")
        first = pl.col("start_ns").arg_min()
        calls = ordered.group_by(*QUEUE, "launch_id", "launch_ns").agg(pl.col("start_ns", "event_id").get(first))
    # At the same time calls come first, and of each kind the event that is first in the file, as it mostly is here.
    begun, ended = (calls if calls[event].is_sorted() else calls.sort(event) for event in ("launch_id", "event_id"))
    one = constant("one", 1, calls.height)
    changes = {
        **{name: (begun[name], ended[name]) for name in QUEUE},
        "event_id": (begun["launch_id"], ended["event_id"]),
        "time_ns": (begun["launch_ns"], ended["start_ns"]),
        "waiting": (one, 0 - one),
        "launched": (one, one - 1),
    }
    return pl.DataFrame({name: pl.concat(both, rechunk=True) for name, both in changes.items()})


def _as_they_are(spans: pl.DataFrame) -> pl.DataFrame:
    counts = ("mean_count", "min_count", "p50_count", "p95_count", "max_count")
    return spans.select(
        *QUEUE,
        "start_ns",
        "end_ns",
        "event_id",
        pl.col("launched").alias("launch_count"),
        *(pl.col("waiting").alias(name) for name in counts),
        "full_ns",
        "full_idle_ns",
    )


def _per_queue(spans: pl.DataFrame) -> pl.DataFrame:
    # A queue has many changes but few lengths.
    lengths = (
        spans.lazy()
        .group_by(*QUEUE, "waiting")
        .agg(
            pl.col("start_ns").min(),
            pl.col("end_ns").max(),
            pl.col("launched", "lasted_ns", "full_ns", "full_idle_ns").sum(),
        )
    )
    return done(
        lengths.sort("waiting")
        .group_by(QUEUE)
        .agg(
            pl.col("start_ns").min(),
            pl.col("end_ns").max(),
            pl.col("full_ns", "full_idle_ns").sum(),
            event_id=None,
            launch_count=pl.col("launched").sum(),
            mean_count=levels.mean("waiting"),
            min_count=pl.col("waiting").min(),
            p50_count=levels.quantile("waiting", 0.5),
            p95_count=levels.quantile("waiting", 0.95),
            max_count=pl.col("waiting").max(),
        )
        .sort(QUEUE)
    )


@queue_length.rule
def full_queue(table: pl.DataFrame) -> Iterator[Finding]:
    """A queue is full for more than a tenth of the time, so the host waits in its launches.

    A host that is ahead of its device costs nothing by itself. But its next launch blocks the thread until a place is
    free: it can neither load data nor feed another queue, and a queue that waits for that one stands still. The cost is
    the time in which a queue was full and no work ran at all.

    Launch less: capture the step in a CUDA graph, or fuse kernels with `torch.compile`. Load data and start copies from
    another thread, and look in the timeline for what a full queue waits for while the device is idle.
    """
    queues = (
        table.group_by("rank", *QUEUE)
        .agg(pl.col("full_ns", "full_idle_ns").sum(), span_ns=pl.col("end_ns").max() - pl.col("start_ns").min())
        .filter(pl.col("full_ns") > FULL_RATIO * pl.col("span_ns"))
    )
    if queues.is_empty():
        return
    worst = queues.select(
        full=(pl.col("full_ns") / pl.col("span_ns")).max(),
        idle=(pl.col("full_idle_ns") / pl.col("span_ns")).max(),
        idle_ns=pl.col("full_idle_ns").max(),
    )
    full, idle, idle_ns = worst.row(0)
    yield Finding(
        "warning" if idle > FULL_IDLE_RATIO else "info",
        "a queue is full for up to {ratio:percent} of the time, so the host waits in its launches",
        tuple(queues["rank"].unique().sort()),
        idle_ns,
        values={"ratio": full},
        within=("idle_ns",),
    )
