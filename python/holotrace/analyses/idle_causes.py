"""Why devices are idle: the host launched late, the device paused between kernels, or something else held it up."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Ranking
from holotrace.core.options import check_whole
from holotrace.core.plans import without
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import DEVICE_EVENTS
from holotrace.core.trace import RankTrace
from holotrace.derive import gaps
from holotrace.derive.gaps import HOST_WAIT, KERNEL_WAIT, OTHER
from holotrace.derive.kernel_kinds import IS_WORK

# Devices need 1-10 µs from one kernel to the next; three times as much is still what small kernels cost. HTA's default.
MAX_KERNEL_GAP_NS = 30_000
# As for idle devices as such: below a twentieth, gaps are what launching costs; from a half on the host is the limit.
HOST_RATIO, HOST_CRITICAL_RATIO = 0.05, 0.5
# Pauses are short, so a tenth of the time is made of very many small kernels.
PAUSE_RATIO = 0.1
OTHER_RATIO = 0.05
QUEUE = ["device", "stream"]
EVENTS = DEVICE_EVENTS.only("event_id", "kind", "device", "stream", "start_ns", "end_ns", "launch_ns")


@per_rank(
    columns=(
        Column("device", Unit.NUMBER, "Ordinal of the accelerator; null for the rank as a whole"),
        Column("stream", Unit.NUMBER, "Queue on the device; null for the rank as a whole"),
        Column("cause", Unit.TEXT, "host_wait, kernel_wait or other"),
        Column("count", Unit.COUNT, "Number of gaps with this cause"),
        Column("idle_ns", Unit.NS, "Total length of these gaps"),
        Column("idle_ratio", Unit.RATIO, "idle_ns / time from the first work to the last; null if that is 0"),
        Column("share_ratio", Unit.RATIO, "idle_ns / time of all gaps, of any cause; null if that is 0"),
        Column("mean_ns", Unit.NS, "Mean length of a gap, rounded to a nanosecond"),
        Column("std_ns", Unit.NS, "Sample standard deviation of gap length (n - 1); null for a single gap"),
        Column("min_ns", Unit.NS, "Shortest gap; 0 if work begins when earlier work ends, or before that"),
        Column("p25_ns", Unit.NS, "25th percentile of gap length (linear interpolation)"),
        Column("p50_ns", Unit.NS, "Median gap length (linear interpolation)"),
        Column("p75_ns", Unit.NS, "75th percentile of gap length (linear interpolation)"),
        Column("max_ns", Unit.NS, "Longest gap"),
    ),
    reads=(EVENTS,),
    chart=Ranking(x="cause", y=("idle_ns",), title="Idle time by cause"),
)
def idle_causes(
    rank: RankTrace, *, by_stream: bool = False, max_kernel_gap_ns: int = MAX_KERNEL_GAP_NS
) -> pl.DataFrame:
    """Why devices are idle: the host launched late, the device paused between kernels, or something else held it up.

    Before each kernel or copy but the first there is a gap, from the end of all earlier work to its start; where work
    overlaps, the gap is 0. Its cause is inferred from the work that ends it:

    - host_wait: the host launched it only after the earlier work had ended, so the device had nothing to do.
    - kernel_wait: it was launched in time and the gap is shorter than `max_kernel_gap_ns`; the device was switching
      from one kernel to the next.
    - other: it was launched in time, or its launch is unknown, and the gap is longer. Often it waited for an event, for
      another queue, or for space on a busy device.

    The gaps of a rank as a whole add up to its idle time in the time breakdown.

    Args:
        by_stream: Each queue by itself, instead of the rank as a whole. Other queues may be busy in its gaps.
        max_kernel_gap_ns: Gaps of this length and longer are not counted as pauses between kernels.
    """
    check_whole(0, max_kernel_gap_ns=max_kernel_gap_ns)
    work = rank[EVENTS].filter(IS_WORK)
    if not by_stream:
        work = work.with_columns(pl.lit(None, pl.Int64()).alias(name) for name in QUEUE)
    idle_ns, whole_ns = pl.col("idle_ns"), pl.col("whole_ns")
    all_ns = idle_ns.sum().over(QUEUE)
    found = gaps.by_cause(work, by=QUEUE, max_kernel_gap_ns=max_kernel_gap_ns).with_columns(
        idle_ratio=pl.when(whole_ns > 0).then(idle_ns / whole_ns),
        share_ratio=pl.when(all_ns > 0).then(idle_ns / all_ns),
    )
    return without(found, "whole_ns")


def _exceeding(table: pl.DataFrame, cause: str, ratio: float) -> pl.DataFrame:
    """The ranks that are idle for this cause for more than ``ratio`` of their time; single queues do not count."""
    whole = table.filter(pl.col("stream").is_null(), cause=cause)
    return whole.filter(pl.col("idle_ratio") > ratio).sort("rank")


@idle_causes.rule
def late_host(table: pl.DataFrame) -> Iterator[Finding]:
    """The device waits for the host to launch work for more than a twentieth of the time.

    It had finished all there was before the next launch. The host was loading data, in Python, launching many small
    kernels, or waiting for a result itself. The cost is the waiting time of the average rank concerned.

    Look in the timeline for what the host does in the longest gaps. Load data in more workers, avoid `.item()` and
    other synchronisations, and capture launches in a CUDA graph or fuse them with `torch.compile`.
    """
    late = _exceeding(table, HOST_WAIT, HOST_RATIO)
    if late.is_empty():
        return
    ratio = _mean_ratio(late)
    yield Finding(
        "critical" if ratio > HOST_CRITICAL_RATIO else "warning",
        "devices wait for the host for {ratio:percent} of the time",
        tuple(late["rank"]),
        _mean_ns(late),
        values={"ratio": ratio},
    )


@idle_causes.rule
def pauses_between_kernels(table: pl.DataFrame) -> Iterator[Finding]:
    """Pauses between kernels that were launched in time take more than a tenth of the time.

    Between two kernels a device needs some microseconds to finish one and start the next. That adds up where kernels
    are many and short. The cost is the time of the pauses of the average rank concerned.

    Make kernels fewer and longer: fuse them (`torch.compile`, fused optimizers), enlarge the batch, or capture them in
    a CUDA graph, which shortens the pauses.
    """
    pausing = _exceeding(table, KERNEL_WAIT, PAUSE_RATIO)
    if not pausing.is_empty():
        message = "pauses between kernels take {ratio:percent} of the time"
        values = {"ratio": _mean_ratio(pausing)}
        yield Finding("info", message, tuple(pausing["rank"]), _mean_ns(pausing), values=values)


@idle_causes.rule
def held_up_device(table: pl.DataFrame) -> Iterator[Finding]:
    """The device is idle for more than a twentieth of the time though work was launched.

    Work that is in a queue and does not start waits for something else: an event of another queue, a copy, another
    rank, or another process on the same device. If launches were not recorded, it is unknown whether the host was late.
    The cost is the idle time of the average rank concerned.

    Look in the timeline for what ends just before the longest gaps do. Remove waits for events that are not needed, and
    see that no other process shares the device.
    """
    held = _exceeding(table, OTHER, OTHER_RATIO)
    if not held.is_empty():
        message = "devices are idle for {ratio:percent} of the time although work was launched"
        yield Finding("warning", message, tuple(held["rank"]), _mean_ns(held), values={"ratio": _mean_ratio(held)})


def _mean_ratio(ranks: pl.DataFrame) -> float:
    return float(ranks["idle_ratio"].sum()) / ranks.height


def _mean_ns(ranks: pl.DataFrame) -> int:
    return int(ranks["idle_ns"].sum()) // ranks.height
