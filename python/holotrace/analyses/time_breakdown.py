"""Where each rank's time goes: computing, exposed communication, exposed copies, or nothing at all."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Stacked
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import DEVICE_EVENTS
from holotrace.core.trace import RankTrace
from holotrace.derive import busy, intervals, step_windows
from holotrace.derive.busy import Busy

# Below a twentieth, gaps between kernels are what launching costs; from a half on the device is hardly used.
IDLE_RATIO, IDLE_CRITICAL_RATIO = 0.05, 0.5
# Copies seldom show beside compute; a twentieth of the time is more than the start and end of a step need.
EXPOSED_MEMORY_RATIO = 0.05
# Equal devices on equal work differ by 1-2%.
UNEVEN_RATIO = 0.03
PARTS = ("compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns")
EVENTS = DEVICE_EVENTS.only("kind", "start_ns", "end_ns", "step")
_WINDOW = {"step": pl.Int64(), "start_ns": pl.Int64(), "end_ns": pl.Int64()}


@per_rank(
    columns=(
        Column("step", Unit.STEP, "Training step; null for the rank as a whole"),
        Column(
            "total_ns",
            Unit.NS,
            "From the start of the first kernel or copy to the end of the last; the sum of the parts",
        ),
        Column("compute_ns", Unit.NS, "Time in which at least one compute kernel ran"),
        Column("exposed_comm_ns", Unit.NS, "Time in which communication ran and no compute kernel did"),
        Column("exposed_memory_ns", Unit.NS, "Time in which a copy or fill ran, and neither compute nor communication"),
        Column("idle_ns", Unit.NS, "Time in which no work ran"),
        Column("idle_ratio", Unit.RATIO, "idle_ns / total_ns; null if that is 0"),
    ),
    reads=(EVENTS,),
    chart=Stacked(x="rank", y=PARTS, title="Where the time goes"),
)
def time_breakdown(rank: RankTrace, *, by_step: bool = False) -> pl.DataFrame:
    """Where each rank's time goes: computing, waiting for communication or copies, or idle.

    Every instant belongs to exactly one part, so the parts sum to the whole. Waiting for events and other bookkeeping
    on the device's timeline is no work and counts as idle.

    Devices run behind their host, so a step is cut where its device work ends: its window begins where that of the step
    before it ends, and ends with the last work that this step or an earlier one launched. The first window begins with
    the first step's own work. Windows follow each other without gaps; whatever ran within one counts for its step.

    Args:
        by_step: One row per step that launched device work, instead of one per rank.
    """
    times = rank.cached(busy.of)
    windows = step_windows.windows(rank[EVENTS]) if by_step else _whole(times)
    boundaries = pl.concat([windows["start_ns"], windows["end_ns"].tail(1)])
    # Each kind counts only where those before it did not run already.
    compute, compute_or_comm, worked = (
        intervals.covered_between_ns(layer, boundaries)
        for layer in (times.computing, times.computing_or_communicating, times.working)
    )
    total = windows["end_ns"] - windows["start_ns"]
    parts = pl.DataFrame(
        {
            "step": windows["step"],
            "total_ns": total,
            "compute_ns": compute,
            "exposed_comm_ns": compute_or_comm - compute,
            "exposed_memory_ns": worked - compute_or_comm,
            "idle_ns": total - worked,
        }
    )
    return parts.with_columns(idle_ratio=pl.when(pl.col("total_ns") > 0).then(pl.col("idle_ns") / pl.col("total_ns")))


def _whole(times: Busy) -> pl.DataFrame:
    """One window from the first work to the last, if there is any."""
    spans = [] if times.start_ns is None else [(None, times.start_ns, times.end_ns)]
    return pl.DataFrame(spans, _WINDOW, orient="row")


def _per_rank(table: pl.DataFrame) -> pl.DataFrame:
    """Parts and whole of each rank, also where the table has a row per step."""
    return table.group_by("rank").agg(pl.col("total_ns", *PARTS).sum()).filter(pl.col("total_ns") > 0)


def _exceeding(table: pl.DataFrame, part: str, ratio: float) -> pl.DataFrame:
    """The ranks of which ``part`` is more than ``ratio``."""
    return _per_rank(table).filter(pl.col(part) / pl.col("total_ns") > ratio).sort("rank")


@time_breakdown.rule
def idle_device(table: pl.DataFrame) -> Iterator[Finding]:
    """The device has nothing to do for more than a twentieth of the time.

    Work arrives later than the device could do it: the host is busy with data loading, Python or launching many small
    kernels, or it waits for results it copies back. The cost is the idle time of the average rank concerned.

    Look at what the host does in the gaps: load data in more workers, do not wait for results (`.item()`,
    `block_until_ready`), and launch less: capture launches in a CUDA graph, fuse them with `torch.compile`, put more
    into one `jax.jit`.
    """
    idle = _exceeding(table, "idle_ns", IDLE_RATIO)
    if idle.is_empty():
        return
    ratio = _sum(idle, "idle_ns") / _sum(idle, "total_ns")
    yield Finding(
        "critical" if ratio > IDLE_CRITICAL_RATIO else "warning",
        "devices are idle for {ratio:percent} of the time",
        tuple(idle["rank"]),
        _sum(idle, "idle_ns") // idle.height,
        values={"ratio": ratio},
    )


@time_breakdown.rule
def exposed_copies(table: pl.DataFrame) -> Iterator[Finding]:
    """Copies that nothing hides take more than a twentieth of the time.

    While data moves, the device neither computes nor communicates. The cost is the exposed time of the average rank
    concerned.

    Copy from pinned memory with `non_blocking=True` on a stream of its own, prefetch the next batch, and keep on the
    device what is needed again.
    """
    copying = _exceeding(table, "exposed_memory_ns", EXPOSED_MEMORY_RATIO)
    if copying.is_empty():
        return
    ratio = _sum(copying, "exposed_memory_ns") / _sum(copying, "total_ns")
    yield Finding(
        "warning",
        "copies that no other work hides take {ratio:percent} of the time",
        tuple(copying["rank"]),
        _sum(copying, "exposed_memory_ns") // copying.height,
        values={"ratio": ratio},
    )


@time_breakdown.rule
def uneven_ranks(table: pl.DataFrame) -> Iterator[Finding]:
    """Ranks wait for slower ranks.

    In a collective all ranks end together, so a rank that needs longer for its own part (computing, copies, idle) makes
    the others wait in exposed communication. The cost is what the slowest rank needs beyond the median rank.

    Look at what the named ranks do differently: more or longer inputs, a slower device, a host that launches late.
    """
    ranks = _per_rank(table)
    if ranks.height < 2:
        return
    ranks = ranks.with_columns(own_ns=pl.col("total_ns") - pl.col("exposed_comm_ns")).sort("rank")
    median = ranks.select(pl.col("own_ns", "exposed_comm_ns", "total_ns").median()).row(0, named=True)
    # Longer work alone may be a longer recording; it slows others only if they wait while the slow one does not.
    late = ranks.filter(
        (pl.col("own_ns") - median["own_ns"] > UNEVEN_RATIO * median["total_ns"])
        & (median["exposed_comm_ns"] - pl.col("exposed_comm_ns") > UNEVEN_RATIO * median["total_ns"])
    )
    if late.is_empty():
        return
    beyond_ns = int(late.select(pl.col("own_ns").max() - median["own_ns"]).item())
    others = ranks.join(late, on="rank", how="anti")
    yield Finding(
        "warning",
        "these ranks need up to {ratio:percent} longer, and the others wait for them in communication",
        tuple(late["rank"]),
        # The others cannot wait for longer than they communicate.
        min(beyond_ns, int(others.select(pl.col("exposed_comm_ns").max()).item())),
        values={"ratio": beyond_ns / median["total_ns"]},
    )


def _sum(table: pl.DataFrame, column: str) -> int:
    return int(table[column].sum())
