"""How long host calls that launch work take, and how long after them the work begins."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Ranking
from holotrace.core.options import check_whole
from holotrace.core.plans import columns, constant, done
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import DEVICE_EVENTS, LAUNCHES
from holotrace.core.trace import RankTrace
from holotrace.derive import busy, intervals
from holotrace.derive.kernel_kinds import IS_WORK

# A launch takes a host 3-10 µs. HTA's default.
SLOW_CALL_NS = 50_000
# Work on an idle device begins 2-10 µs after its launch; with this delay earlier work was in the way. HTA's default.
LATE_NS = 100_000
# A tenth of all launching is no chance, and less than a millisecond would be hard to notice.
STALLED_RATIO, STALLED_NS = 0.1, 1_000_000
CALLS = LAUNCHES.only("launch_id", "device_event_id", "launch_name", "launch_start_ns", "launch_end_ns", "correlation")
EVENTS = DEVICE_EVENTS.only("event_id", "kind", "start_ns", "end_ns")
COLUMNS = (
    Column("call", Unit.TEXT, "Host call, e.g. cudaLaunchKernel; null if the profiler wrote no name"),
    Column("launch_id", Unit.EVENT, "event_id of the call; null in sums of calls"),
    Column("correlation", Unit.NUMBER, "Id shared by the call and its work; null in sums of calls"),
    Column("call_count", Unit.COUNT, "Calls"),
    Column("work_count", Unit.COUNT, "Kernels and copies that they launched"),
    Column("call_ns", Unit.NS, "Time of the calls"),
    Column("device_ns", Unit.NS, "Time of the work"),
    Column("p50_delay_ns", Unit.NS, "Median time from the end of a call to the start of its work"),
    Column("max_delay_ns", Unit.NS, "Longest time from the end of a call to the start of its work"),
    Column(
        "short_count", Unit.COUNT, "Kernels and copies that took less time than their call; slow calls are not counted"
    ),
    Column("slow_count", Unit.COUNT, "Calls that took longer than slow_call_ns"),
    Column("late_count", Unit.COUNT, "Kernels and copies that began later than late_ns after their call had ended"),
    Column("stalled_ns", Unit.NS, "Time of slow calls in which no work ran on any device of the rank"),
)


@per_rank(
    columns=COLUMNS,
    reads=(CALLS, EVENTS),
    chart=Ranking(x="call", y=("call_ns",), title="Time the host spends launching"),
)
def launch_stats(
    rank: RankTrace, *, each: bool = False, slow_call_ns: int = SLOW_CALL_NS, late_ns: int = LATE_NS
) -> pl.DataFrame:
    """How long host calls that launch work take, and how long after them the work begins.

    Work that begins before its call has ended has a delay of 0. Long delays are no fault by themselves: a host that is
    ahead of its device lets work wait in the queue. Work shorter than its call can keep no device busy, unless a graph
    launches much of it at once; each kernel of a graph is compared with the whole call. Where operators compute on the
    host itself, nothing is launched.

    Args:
        each: A row per kernel or copy and the call that launched it, in order of the calls, instead of one per name.
        slow_call_ns: Calls that take longer are slow.
        late_ns: Work that begins longer than this after the end of its call is late.
    """
    check_whole(0, slow_call_ns=slow_call_ns, late_ns=late_ns)
    pairs = _pairs(rank, slow_call_ns=slow_call_ns, late_ns=late_ns)
    if not each:
        return _summed(pairs)
    ordered = pairs.sort("launch_id", "start_ns", "device_event_id").drop("start_ns", "device_event_id")
    return ordered.with_columns(pl.col("call").cast(pl.String))


def _pairs(rank: RankTrace, *, slow_call_ns: int, late_ns: int) -> pl.DataFrame:
    """Each piece of work and the call that launched it, in any order."""
    work = rank[EVENTS].lazy().filter(IS_WORK & (not rank.computes_on_host))
    pairs = done(rank[CALLS].lazy().join(work, left_on="device_event_id", right_on="event_id"))
    call_ns = pairs["launch_end_ns"] - pairs["launch_start_ns"]
    device_ns = pairs["end_ns"] - pairs["start_ns"]
    delay_ns = (pairs["start_ns"] - pairs["launch_end_ns"]).clip(lower_bound=0)
    is_slow = call_ns > slow_call_ns
    stalled_ns = constant("stalled_ns", 0, pairs.height)
    if is_slow.any():
        slow = columns(pairs, start_ns="launch_start_ns", end_ns="launch_end_ns").filter(is_slow)
        stalled_ns = stalled_ns.scatter(is_slow.arg_true(), intervals.uncovered_ns(slow, rank.cached(busy.of).working))
    return pairs.select(
        "launch_id",
        "correlation",
        "start_ns",
        "device_event_id",
        call="launch_name",
        call_count=1,
        work_count=1,
        call_ns=call_ns,
        device_ns=device_ns,
        p50_delay_ns=delay_ns,
        max_delay_ns=delay_ns,
        short_count=~is_slow & (device_ns < call_ns),
        slow_count=is_slow,
        late_count=delay_ns > late_ns,
        stalled_ns=stalled_ns,
    )


def _summed(pairs: pl.DataFrame) -> pl.DataFrame:
    """One row per name of a call. What is the call's own counts once, however much work it launched."""
    of_calls = ("call_count", "call_ns", "slow_count", "stalled_ns")
    is_first = pl.col("launch_id").is_first_distinct()
    return done(
        pairs.lazy()
        .with_columns(is_first=is_first)
        .with_columns(pl.when("is_first").then(pl.col(*of_calls)))
        .group_by("call")
        .agg(
            pl.col(*of_calls, "work_count", "device_ns", "short_count", "late_count").sum(),
            pl.col("p50_delay_ns").median().round(),
            pl.col("max_delay_ns").max(),
        )
        .with_columns(pl.col("call").cast(pl.String), launch_id=None, correlation=None)
        .sort("call_ns", "call", descending=[True, False])
    )


@launch_stats.rule
def slow_launches(table: pl.DataFrame) -> Iterator[Finding]:
    """Devices are idle while the host is stuck in slow launches.

    A launch takes microseconds. It takes much longer where a kernel is loaded or a graph used for the first time, where
    a copy is from or to memory that is not pinned, or where threads of the host fight for the runtime's lock or for a
    processor. The cost is the time of slow calls in which no work ran at all, on the average rank concerned.

    Record after a warm-up, so that loading is over. Pin the memory of copies. Give each rank processors of its own,
    next to its device, and launch from one thread.
    """
    stalled = (
        table.unique(["rank", "call", "launch_id"])
        .group_by("rank")
        .agg(pl.col("call_ns", "stalled_ns").sum())
        .filter((pl.col("stalled_ns") >= STALLED_NS) & (pl.col("stalled_ns") > STALLED_RATIO * pl.col("call_ns")))
        .sort("rank")
    )
    if not stalled.is_empty():
        yield Finding(
            "info",
            "Devices are idle while the host is stuck in slow launches",
            tuple(stalled["rank"]),
            int(stalled["stalled_ns"].sum()) // stalled.height,
            within=("idle_ns",),
        )
