"""Offset and drift of each device clock against the clock of its host."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Bar
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import MODULES, XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive import device_time
from holotrace.derive import skew as clocks
from holotrace.derive.device_time import DEVICE

# What an operation takes in all runs; less than a millisecond may be a few ticks of the clock in each.
LONG_PS = 1_000_000_000
# Clocks that are mapped well agree to a thousandth.
STRETCH_RATIO = 0.01


_OPS = XLA_OPS.only("name", "device", "plane", "line", "is_wait", "is_async", "duration_ps", "device_ps")


@per_rank(
    columns=(
        Column("device", Unit.NUMBER, "Ordinal of the accelerator"),
        Column("plane", Unit.TEXT, "Plane of the profile that holds the device"),
        Column("run_count", Unit.COUNT, "Number of runs of programs on the device"),
        Column(
            "least_shift_ns",
            Unit.NS,
            "Smallest shift of the device's times with which no run begins before its launch",
        ),
        Column(
            "most_shift_ns",
            Unit.NS,
            "Largest shift with which no run ends after its completion on the host; null if unknown",
        ),
        Column("shift_ns", Unit.NS, "Smallest shift that no run contradicts; null if there is none"),
        Column(
            "least_stretch_ratio",
            Unit.RATIO,
            "Host's clock / device's own clock for the time of its runs: the smallest ratio of an operation",
        ),
        Column(
            "most_stretch_ratio",
            Unit.RATIO,
            "The same: the largest ratio of an operation; null without a clock of its own",
        ),
    ),
    reads=(
        *clocks.READS,
        _OPS,
    ),
    chart=Bar(x="rank", y=("least_shift_ns", "most_shift_ns"), title="What may be added to device times"),
    needs=(MODULES,),
)
def skew(rank: RankTrace) -> pl.DataFrame:
    """Offset and drift of each device clock against the clock of its host.

    The profiler maps the clock of a device onto that of its host. Where it does that wrongly, programs seem to begin
    before they were launched, or to go on after the host heard of their end. What must be added to the times of the
    device so that neither happens lies between two bounds; the analysis of gaps adds `shift_ns`. Where the bounds
    contradict each other the clocks drift apart, and no single number sets them right.

    Devices that are made of threads of the host have its clock and are left out.

    How much the mapping stretches durations is inferred from operations that take at least a millisecond in all runs.
    """
    clocked = device_time.executions(rank.where(_OPS, pl.col("device_ps") > 0))
    stretched = (
        clocked.group_by(*DEVICE, "name")
        .agg(pl.col("duration_ps", "device_ps").sum())
        .filter(pl.col("device_ps") >= LONG_PS)
        .with_columns(stretch=pl.col("duration_ps") / pl.col("device_ps"))
        .group_by(DEVICE)
        .agg(least_stretch_ratio=pl.col("stretch").min(), most_stretch_ratio=pl.col("stretch").max())
    )
    found = rank.cached(clocks.shifts)
    return (
        found.join(stretched, on=DEVICE, how="left")
        .with_columns(pl.col("plane").cast(pl.String()))
        .sort("plane", "device")
    )


@skew.rule
def shifted_clock(table: pl.DataFrame) -> Iterator[Finding]:
    """Devices' times, as they were written, are earlier or later than they can be.

    Programs begin before their launch, or end after the host was told of their completion. Beside host events, device
    events stand in the wrong place, by at least so much.

    Read device times with `shift_ns` added. The analysis of gaps does; durations, and comparisons among devices that
    are shifted alike, need no correction.
    """
    shifted = table.filter(pl.col("shift_ns") != 0)
    if not shifted.is_empty():
        most = int(shifted.select(pl.col("shift_ns").abs().max()).item())
        message = "device clocks are off by {shift:duration} or more against their host"
        yield Finding("info", message, tuple(shifted["rank"].unique().sort()), values={"shift": most})


@skew.rule
def drifting_clock(table: pl.DataFrame) -> Iterator[Finding]:
    """The clock of a device runs faster or slower than that of its host, or jumps.

    The profiler mapped it piece by piece and got some pieces wrong: operations are longer or shorter than the device
    itself measured, or no single shift puts launches before runs and runs before their completion.

    Trust durations by the device's own clock (`device_ps`), and no distance between host and device events shorter than
    the contradiction. Record fewer seconds at once.
    """
    contradicted = (pl.col("least_shift_ns") > pl.col("most_shift_ns")).fill_null(False)
    far = (1 - pl.min_horizontal("least_stretch_ratio", 1 / pl.col("most_stretch_ratio"))).fill_null(0)
    drifting = table.with_columns(
        contradicted=contradicted, far=far, by_ns=pl.col("least_shift_ns") - pl.col("most_shift_ns")
    ).filter(pl.col("contradicted") | (pl.col("far") > STRETCH_RATIO))
    if drifting.is_empty():
        return
    stretch = float(drifting.select(pl.col("far").max()).item())
    worst = drifting.filter("contradicted").select(pl.col("by_ns").max()).item()
    seen = ["the durations of operations are off by up to {stretch:percent}"] if stretch > STRETCH_RATIO else []
    seen += ["launches and completions contradict each other by {apart:duration}"] if worst else []
    who = "the clocks of {count:count} devices drift" if drifting.height > 1 else "the clock of a device drifts"
    message = f"{who}: {' and '.join(seen)}"
    values = {"stretch": stretch, "apart": worst, "count": drifting.height}
    yield Finding("info", message, tuple(drifting["rank"].unique().sort()), values=values)
