"""Which operators take the host's time, and which the devices'."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Ranking
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive import launched_by, steps

# Less would be hard to notice.
BEHIND_NS = 1_000_000
NAMED = 3  # operators in a finding
# A call of the runtime takes microseconds unless it waits; a tenth of all the time in operators is no detail.
WAIT_NS, WAIT_RATIO = 1_000_000, 0.1


@per_rank(
    columns=(
        Column("name", Unit.TEXT, "Operator, e.g. aten::mm; null if the profiler wrote no name"),
        Column("step", Unit.STEP, "Training step in which it began; null where the rank is looked at as a whole"),
        Column("count", Unit.COUNT, "Calls"),
        Column("total_ns", Unit.NS, "Host time of all calls, with all that they called"),
        Column(
            "self_ns", Unit.NS, "Host time in which neither operators nor the device's runtime ran that they called"
        ),
        Column(
            "runtime_ns", Unit.NS, "Host time in the device's runtime that they called themselves: launches, waiting"
        ),
        Column("work_count", Unit.COUNT, "Kernels and copies launched by them and by all that they called"),
        Column("work_ns", Unit.NS, "Device time of these; those that overlap count in full"),
        Column("self_work_count", Unit.COUNT, "Kernels and copies that they launched themselves"),
        Column("self_work_ns", Unit.NS, "Device time of these; adds up to that of all that operators launched"),
    ),
    reads=(*launched_by.READS, STEPS.only("step", "start_ns", "end_ns")),
    chart=Ranking(x="name", y=("self_work_ns",), title="Device time by the operator that launched it"),
)
def operators(rank: RankTrace, *, by_step: bool = False) -> pl.DataFrame:
    """Which operators take the host's time, and which the devices'.

    An operator calls those that run within its time on its thread. What is the operator's own (`self_…`) leaves out
    what these did, so it adds up over operators; the rest counts in every operator around it. The backward pass has
    operators of its own, on a thread of its own.

    Args:
        by_step: One row per operator and step, instead of one per operator.
    """
    calls = launched_by.operators(rank)
    if by_step:
        step = steps.launched_in(calls["start_ns"], rank[STEPS])
        calls = calls.with_columns(step=step).drop_nulls("step")
    else:
        calls = calls.with_columns(step=pl.lit(None, pl.Int64()))
    sums = ("self_ns", "runtime_ns", "work_count", "work_ns", "self_work_count", "self_work_ns")
    return (
        calls.group_by("name", "step")
        .agg(pl.col(*sums).sum(), count=pl.len(), total_ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
        .with_columns(pl.col("name").cast(pl.String))
        .sort("step", "self_work_ns", "self_ns", "name", descending=[False, True, True, False])
    )


@operators.rule
def host_bound_operators(table: pl.DataFrame) -> Iterator[Finding]:
    """Operators keep the host busy for longer than what they launch keeps the devices.

    Each operator costs the host some microseconds, whatever its size. Where kernels are shorter than that, devices wait
    for the host. Calls of the device's runtime are not counted, since they may wait for the device. Named are the
    operators whose own host time exceeds their device time most. The cost is the host's time beyond the devices', on
    the average rank concerned.

    Make operators fewer and larger: fuse them with `torch.compile`, use fused and foreach optimizers, enlarge the
    batch. Or take the host out of the loop with CUDA graphs.
    """
    behind_ns = pl.col("self_ns") - pl.col("self_work_ns")
    launching = table.filter(pl.col("self_work_count") > 0).with_columns(behind_ns=behind_ns)
    ranks = (
        launching.group_by("rank").agg(pl.col("behind_ns").sum()).filter(pl.col("behind_ns") > BEHIND_NS).sort("rank")
    )
    if ranks.is_empty():
        return
    most = (
        launching.join(ranks, on="rank", how="semi")
        .group_by("name")
        .agg(pl.col("behind_ns").sum())
        .sort("behind_ns", "name", descending=[True, False])
        .head(NAMED)
    )
    names = ", ".join(name or "an operator without a name" for name in most["name"])
    message = f"operators keep the host busy for longer than the devices, most of all {names}"
    yield Finding("info", message, tuple(ranks["rank"]), int(ranks["behind_ns"].sum()) // ranks.height)


@operators.rule
def waiting_operators(table: pl.DataFrame) -> Iterator[Finding]:
    """The host is held up in the device's runtime, a millisecond and more in each call of an operator.

    Operators that need a result (`.item()`, `.cpu()`, `.nonzero()`, a copy from memory that is not pinned) wait until
    the device has done all before it. Meanwhile the host launches nothing, so the device runs dry just after. The
    runtime also takes long to use a kernel for the first time and to allocate memory. What takes less than a tenth of
    the host's time in operators is left out. What it costs is told by the idle time of the device (see late-host).

    Read losses and metrics every so many steps, not in each; copy with `non_blocking=True` from pinned memory; avoid
    shapes that depend on data. Record after a warm-up, so that kernels are loaded.
    """
    host_ns = (pl.col("self_ns") + pl.col("runtime_ns")).sum().over("rank")
    waiting = (
        table.group_by("rank", "name")
        .agg(pl.col("count", "self_ns", "runtime_ns").sum())
        .filter(pl.col("runtime_ns") > WAIT_RATIO * host_ns, pl.col("runtime_ns") >= WAIT_NS * pl.col("count"))
        .group_by("name")
        .agg(pl.col("rank").sort(), pl.col("runtime_ns").max())
        .sort("runtime_ns", "name", descending=[True, False])
    )
    for name, ranks, wait_ns in waiting.iter_rows():
        operator = name or "an operator without a name"
        message = f"the device's runtime holds the host up in {operator}, for {wait_ns / 1e6:.0f} ms"
        yield Finding("info", message, tuple(ranks))
