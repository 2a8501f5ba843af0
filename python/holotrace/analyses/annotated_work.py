"""How long named ranges take, and how much device work they launch."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Ranking
from holotrace.core.plans import done
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import ANNOTATIONS, DEVICE_EVENTS, LAUNCHES
from holotrace.core.trace import RankTrace
from holotrace.derive.kernel_kinds import IS_WORK

# An outlier is a run of another order of magnitude, beyond what a scheduler may do to any run.
OUTLIER_TIMES, OUTLIER_NS, OUTLIER_COUNT = 10, 1_000_000, 4
# It matters if it takes more than a hundredth of what the longest ranges take together.
OUTLIER_RATIO = 0.01
TRACK = ["pid", "tid"]
RANGES = ANNOTATIONS.only("name", "pid", "tid", "start_ns", "end_ns", "on_device")
STARTS = LAUNCHES.only("device_event_id", "pid", "tid", "launch_start_ns")
EVENTS = DEVICE_EVENTS.only("event_id", "kind", "device", "stream", "start_ns", "end_ns")


@per_rank(
    columns=(
        Column("name", Unit.TEXT, "Name of the range"),
        Column("count", Unit.COUNT, "How often it ran"),
        Column("sum_ns", Unit.NS, "Time of all its runs"),
        Column("mean_ns", Unit.NS, "Mean time of a run, rounded to a nanosecond"),
        Column("min_ns", Unit.NS, "Time of its shortest run"),
        Column("max_ns", Unit.NS, "Time of its longest run"),
        Column("std_ns", Unit.NS, "Sample standard deviation of the time of its runs (n - 1); null for a single run"),
        Column("work_count", Unit.COUNT, "Kernels and copies that belong to it"),
        Column("work_ns", Unit.NS, "Sum of the times of this work; kernels that overlap count in full"),
    ),
    reads=(RANGES, STARTS, EVENTS),
    chart=Ranking(x="name", y=("work_ns",), title="Device work of named ranges"),
)
def annotated_work(rank: RankTrace, *, on_device: bool = False) -> pl.DataFrame:
    """How long the ranges that a user or library named take, and how much device work they launch.

    Work belongs to every range on the same thread in which its launch began: to the innermost range and to all ranges
    around it. A backward pass launches from a separate thread, so its work belongs to no range of the forward pass. A
    range on the device covers work of one queue; the work that began within it on this queue belongs to it.

    Args:
        on_device: Ranges as the profiler drew them on the device, instead of those of the host.
    """
    work = rank[EVENTS].filter(IS_WORK)
    begun = _on_queues(work) if on_device else _launched(work, rank[STARTS])
    ranges = rank[RANGES].filter(pl.col("on_device") == on_device)
    duration = pl.col("duration_ns")
    return done(
        _with_work(ranges, begun)
        .lazy()
        .select("name", "work_count", "work_ns", duration_ns=pl.col("end_ns") - pl.col("start_ns"))
        .group_by("name")
        .agg(
            pl.col("work_count", "work_ns").sum(),
            count=pl.len(),
            sum_ns=duration.sum(),
            mean_ns=duration.mean().round(),
            min_ns=duration.min(),
            max_ns=duration.max(),
            std_ns=duration.std().round(),
        )
        .with_columns(pl.col("name").cast(pl.String))
        .sort("sum_ns", "name", descending=[True, False])
    )


def _launched(work: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """When the host began to launch each piece of work, and where."""
    launched = work.lazy().join(launches.lazy(), left_on="event_id", right_on="device_event_id")
    took_ns = pl.col("end_ns") - pl.col("start_ns")
    return done(launched.select(*TRACK, time_ns="launch_start_ns", took_ns=took_ns))


def _on_queues(work: pl.DataFrame) -> pl.DataFrame:
    """When each piece of work began, and on which queue; the profiler names tracks of the device by these."""
    return work.select(
        pid=pl.col("device").cast(pl.String).cast(pl.Categorical),
        tid=pl.col("stream").cast(pl.String).cast(pl.Categorical),
        time_ns="start_ns",
        took_ns=pl.col("end_ns") - pl.col("start_ns"),
    )


def _with_work(ranges: pl.DataFrame, begun: pl.DataFrame) -> pl.DataFrame:
    """The ranges, with the count and time of the work that began within each on its track."""
    if begun.is_empty():
        return ranges.with_columns(work_count=pl.lit(0, pl.Int64()), work_ns=pl.lit(0, pl.Int64()))
    count, ns = pl.int_range(1, pl.len() + 1).over(TRACK), pl.col("took_ns").cum_sum().over(TRACK)
    before = done(begun.lazy().sort("time_ns").select(*TRACK, "time_ns", count=count, ns=ns)).lazy()
    counted = ranges.lazy()
    for edge in ("start", "end"):
        counted = (
            counted.sort(f"{edge}_ns")
            .join_asof(
                before,
                left_on=f"{edge}_ns",
                right_on="time_ns",
                by=TRACK,
                allow_exact_matches=False,
                check_sortedness=False,
            )
            .drop("time_ns")
            .rename({"count": f"count_at_{edge}", "ns": f"ns_at_{edge}"})
        )
    found = counted.with_columns(
        work_count=pl.col("count_at_end").fill_null(0) - pl.col("count_at_start").fill_null(0),
        work_ns=pl.col("ns_at_end").fill_null(0) - pl.col("ns_at_start").fill_null(0),
    )
    return done(found)


@annotated_work.rule
def outlying_range(table: pl.DataFrame) -> Iterator[Finding]:
    """A run of a named range lasted ten times longer than its other runs.

    Something happened once: a data loader had nothing ready, a file was written, memory was collected, code was
    compiled. The cost is what the longest run took beyond an average one of the others.

    Find the run in the timeline. Prefetch more batches, write checkpoints in the background, warm up before measuring.
    """
    others_ns = (pl.col("sum_ns") - pl.col("max_ns")) / (pl.col("count") - 1)
    outliers = (
        table.with_columns(longest_ns=pl.col("sum_ns").max().over("rank"))
        .filter(pl.col("count") >= OUTLIER_COUNT)
        .with_columns(beyond_ns=pl.col("max_ns") - others_ns, is_outlier=pl.col("max_ns") >= OUTLIER_TIMES * others_ns)
        .filter(
            "is_outlier", pl.col("beyond_ns") > OUTLIER_NS, pl.col("beyond_ns") > OUTLIER_RATIO * pl.col("longest_ns")
        )
        .group_by("name")
        .agg(pl.col("rank").sort(), pl.col("beyond_ns").max().cast(pl.Int64()), pl.col("max_ns").max())
        .sort("beyond_ns", "name", descending=[True, False])
    )
    for name, ranks, beyond_ns, max_ns in outliers.iter_rows():
        message = "a run of {name:name} took {longest:duration}, more than ten times as long as its other runs"
        yield Finding("info", message, tuple(ranks), beyond_ns, values={"name": name, "longest": max_ns})
