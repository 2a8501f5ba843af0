"""How much of the time each device worked, only waited, or had nothing to do."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Stacked
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import DEVICES, MODULES, STEPS, XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive import device_time, intervals
from holotrace.derive.device_time import DEVICE

# Where copies and collectives are hidden well, waiting for them is a few percent of the busy time.
WAIT_RATIO = 0.1


_OPS = XLA_OPS.only("device", "plane", "line", "start_ns", "end_ns", "is_wait", "is_async", "is_container")


@per_rank(
    columns=(
        Column("device", Unit.NUMBER, "Ordinal of the accelerator"),
        Column("plane", Unit.TEXT, "Plane of the profile that holds the device"),
        Column("device_kind", Unit.TEXT, "TPU, GPU, CPU or SparseCore"),
        Column("op_count", Unit.COUNT, "Operations it executed"),
        Column("program_count", Unit.COUNT, "Programs it ran"),
        Column(
            "window_ns",
            Unit.NS,
            "From the start of the rank's first step, program or operation to the last end; sum of the three parts",
        ),
        Column(
            "work_ns",
            Unit.NS,
            "Time in which an operation ran that does not only wait, or a program without recorded operations",
        ),
        Column("wait_ns", Unit.NS, "Time in which it only waited: copy-done, all-gather-done, barrier-cores, infeed"),
        Column("idle_ns", Unit.NS, "The rest of the window"),
        Column("work_ratio", Unit.RATIO, "work_ns / window_ns; null if that is 0"),
        Column("busy_ns", Unit.NS, "Time in which at least one operation ran, including operations that only wait"),
        Column(
            "hull_ns",
            Unit.NS,
            "From the start of its own first operation or program to the end of its last; null without any",
        ),
        Column(
            "duty_ratio",
            Unit.RATIO,
            "busy_ns / hull_ns, the duty cycle as XProf defines it; null if the device ran nothing",
        ),
    ),
    reads=(
        _OPS,
        MODULES.only("device", "plane", "start_ns", "end_ns"),
        DEVICES.only("device", "plane", "device_kind"),
        STEPS.only("start_ns", "end_ns"),
    ),
    chart=Stacked(x="rank", y=("work_ns", "wait_ns", "idle_ns"), title="What devices did"),
    needs=(XLA_OPS, MODULES, DEVICES),
)
def duty_cycle(rank: RankTrace) -> pl.DataFrame:
    """How much of the time each device worked, only waited, or had nothing to do.

    Operations that overlap count once. An operation that contains others (a loop, a call) counts as work while none of
    these is running. Waiting that a TPU records beside its operations (barrier-cores) is waiting, but not busy. If the
    operations of a device were not recorded, the runs of programs count as work.

    The duty cycle looks at the time from a device's first operation to its last and counts waiting as busy; the share
    of work looks at the whole window of the rank and does not.
    """
    modules = rank[MODULES]
    ops = device_time.with_programs(rank[_OPS], modules)
    during = device_time.window(ops, modules, rank[STEPS])
    window_ns = intervals.total_ns(during)
    rows = [_of_device(group) for group in ops.partition_by(DEVICE, maintain_order=True)]
    measured = pl.concat([_of_device(ops.clear()).clear(), *rows])
    spans = pl.concat([frame.select(*DEVICE, "start_ns", "end_ns") for frame in (device_time.executions(ops), modules)])
    hulls = spans.group_by(DEVICE).agg(hull_ns=pl.col("end_ns").max() - pl.col("start_ns").min())
    devices = pl.concat([rank[DEVICES], measured.select(DEVICE)], how="diagonal").unique(
        DEVICE, keep="first", maintain_order=True
    )
    return (
        devices.select(*DEVICE, "device_kind")
        .join(measured, on=DEVICE, how="left")
        .join(hulls, on=DEVICE, how="left")
        .join(modules.group_by(DEVICE).agg(program_count=pl.len()), on=DEVICE, how="left")
        .with_columns(
            pl.col("op_count", "program_count", "work_ns", "wait_ns", "busy_ns").fill_null(0),
            window_ns=pl.lit(window_ns),
        )
        .with_columns(
            pl.col("plane").cast(pl.String()),
            idle_ns=pl.col("window_ns") - pl.col("work_ns") - pl.col("wait_ns"),
            work_ratio=pl.when(pl.col("window_ns") > 0).then(pl.col("work_ns") / pl.col("window_ns")),
            duty_ratio=pl.when(pl.col("hull_ns") > 0).then(pl.col("busy_ns") / pl.col("hull_ns")),
        )
        .sort("plane", "device")
    )


def _of_device(ops: pl.DataFrame) -> pl.DataFrame:
    """One row for a device from all its operations."""
    ran = device_time.executions(ops)
    occupied = device_time.on_device(ops)
    waits_ns = intervals.total_ns(device_time.waits(occupied))
    return (
        ops.select(DEVICE)
        .head(1)
        .with_columns(
            op_count=pl.lit(ran.height - ran["is_program"].sum(), pl.Int64()),
            work_ns=pl.lit(intervals.total_ns(occupied) - waits_ns, pl.Int64()),
            wait_ns=pl.lit(waits_ns, pl.Int64()),
            busy_ns=pl.lit(intervals.total_ns(ran), pl.Int64()),
        )
    )


@duty_cycle.rule
def waiting_device(table: pl.DataFrame) -> Iterator[Finding]:
    """Devices are busy waiting for more than a tenth of the time they are busy.

    Copies to the host, transfers between devices and collectives run beside the work, but the program needs their
    results before they are done. A duty cycle counts that as busy. The cost is the waiting of the device that waits
    longest, on an average rank.

    Start copies and collectives earlier in the program, or make them smaller: keep in the device's memory what is
    offloaded too eagerly, shard differently, and let XLA's latency-hiding scheduler move work between start and done.
    """
    waiting = table.filter(pl.col("wait_ns") > WAIT_RATIO * (pl.col("wait_ns") + pl.col("work_ns")))
    if waiting.is_empty():
        return
    ratio = waiting.select(pl.col("wait_ns").sum() / (pl.col("wait_ns") + pl.col("work_ns")).sum()).item()
    ranks = waiting.group_by("rank").agg(pl.col("wait_ns").max()).sort("rank")
    yield Finding(
        "warning",
        "devices wait for {ratio:percent} of the time they are busy",
        tuple(ranks["rank"]),
        int(ranks.select(pl.col("wait_ns").mean()).item()),
        values={"ratio": ratio},
    )


@duty_cycle.rule
def silent_device(table: pl.DataFrame) -> Iterator[Finding]:
    """A device is in the profile, but executed nothing.

    Either the program does not use it, or the profiler did not record it: profiles lose the devices first when they
    grow too large, and some runtimes record only the devices of one process.

    Compare with the devices the program was given (`jax.local_devices()`). If it should have worked, record fewer
    steps, and each process by itself.
    """
    silent = table.filter(op_count=0, program_count=0)
    if silent.is_empty():
        return
    message = "{silent:count} of {all:plural device} recorded no operation"
    values = {"silent": silent.height, "all": table.height}
    yield Finding("info", message, tuple(silent["rank"].unique().sort()), values=values)
