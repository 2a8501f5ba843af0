"""Which operators take the host's time, and which the devices'."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Ranking
from holotrace.core.plans import constant, done
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive import launched_by, steps

# Less would be hard to notice.
BEHIND_NS = 1_000_000
NAMED = 3  # operators in a finding
# A call of the runtime takes microseconds unless it waits; a tenth of all the time in operators is no detail.
WAIT_NS, WAIT_RATIO = 1_000_000, 0.1
_SUMS = (
    "total_ns",
    "self_ns",
    "runtime_ns",
    "work_count",
    "work_ns",
    "self_work_count",
    "self_work_ns",
    "self_busy_ns",
)


@per_rank(
    columns=(
        Column("name", Unit.TEXT, "Operator, e.g. aten::mm, or launch call; null if the profiler wrote no name"),
        Column(
            "source", Unit.TEXT, "operator; launch: a call outside of all operators; unknown: work without a launch"
        ),
        Column("step", Unit.STEP, "Training step in which it began; null for the rank as a whole"),
        Column("count", Unit.COUNT, "Calls; null where the launch is unknown"),
        Column("total_ns", Unit.NS, "Host time of all calls, with all that they called"),
        Column("self_ns", Unit.NS, "Part of total_ns outside of the operators and runtime calls that they called"),
        Column(
            "runtime_ns",
            Unit.NS,
            "Host time in runtime calls that they made themselves, such as launches and synchronisations",
        ),
        Column("work_count", Unit.COUNT, "Kernels and copies launched by them and by all that they called"),
        Column("work_ns", Unit.NS, "Sum of the device times of this work; kernels that overlap count in full"),
        Column("self_work_count", Unit.COUNT, "Kernels and copies that they launched themselves"),
        Column(
            "self_work_ns",
            Unit.NS,
            "Sum of the device times of this work; over all rows it is that of all work of the rank",
        ),
        Column(
            "self_busy_ns", Unit.NS, "Time in which at least one of these kernels and copies ran, summed over calls"
        ),
    ),
    reads=(*launched_by.READS, STEPS.only("step", "start_ns", "end_ns")),
    chart=Ranking(x="name", y=("self_work_ns",), title="Device time by the operator that launched it"),
)
def operators(rank: RankTrace, *, by_step: bool = False) -> pl.DataFrame:
    """Which operators take the host's time, and which the devices'.

    An operator calls the operators that run within its time on its thread, and a launch belongs to the innermost
    operator in which it began. Columns named `self_…` leave out the operators that an operator calls, so they add up
    over all operators; the other columns include them. The backward pass has separate operators, on a separate thread.

    Work that was launched outside of all operators, for example by compiled models, CUDA graphs and hand-written
    kernels, has one row per launch call.

    Args:
        by_step: One row per operator and step, instead of one per operator.
    """
    of_operators = _summed(launched_by.operators(rank), ["name"], rank, by_step=by_step)
    rows = of_operators.hstack([constant("source", launched_by.OPERATOR, of_operators.height)])
    left = launched_by.outside(rank)
    if not left.is_empty():
        outside = _summed([_outside(left)], ["name", "source"], rank, by_step=by_step)
        rows = pl.concat([rows[:, outside.columns], outside])
    order = {"step": False, "self_work_ns": True, "self_ns": True, "name": False, "source": False}
    return rows.sort(list(order), descending=list(order.values()))


def _summed(parts: Iterable[pl.DataFrame], keys: Sequence[str], rank: RankTrace, *, by_step: bool) -> pl.DataFrame:
    """The sums of calls by these keys, and by step if that is asked for; else the step is null."""
    step = pl.lit(None, pl.Int64()).alias("step")
    if by_step:
        parts = (
            calls.with_columns(step=steps.launched_in(calls["start_ns"], rank[STEPS])).drop_nulls("step")
            for calls in parts
        )
        keys, step = [*keys, "step"], pl.col("step")
    count = pl.when(pl.col("count").count() > 0).then(pl.col("count").sum())
    # Each by itself first: together they would be most of the memory.
    sums = [done(_sums(calls.lazy(), keys, [name for name in (*_SUMS, "count") if name in calls])) for calls in parts]
    every = pl.concat(sums, how="diagonal").lazy()
    summed = every.group_by(keys).agg(pl.col(*_SUMS).sum(), count=count)
    # As texts names of millions of calls would take most of the memory.
    return done(summed.with_columns(pl.col("name").cast(pl.String), step))


def _sums(calls: pl.LazyFrame, keys: Sequence[str], names: Sequence[str]) -> pl.LazyFrame:
    none = pl.when(pl.col(names).count() > 0)
    return calls.group_by(keys).agg(none.then(pl.col(names).cast(pl.Int64).sum()))


def _outside(work: pl.DataFrame) -> pl.DataFrame:
    """A row for each call that launched work outside of all operators, and one for all work without a known launch."""
    call_ns = (pl.col("launch_end_ns") - pl.col("launch_start_ns")).fill_null(0)
    return (
        work.group_by("launch_id")
        .agg(
            pl.col("source", "launch_name", "launch_start_ns", "launch_end_ns").first(),
            work_count=pl.len().cast(pl.Int64),
            work_ns=(pl.col("end_ns") - pl.col("start_ns")).sum(),
        )
        .join(launched_by.covered_ns(work, by="launch_id"), on="launch_id", how="left", nulls_equal=True)
        .with_columns(
            name="launch_name",
            start_ns="launch_start_ns",
            count=pl.when(pl.col("launch_id").is_not_null()).then(pl.lit(1, pl.Int64())),
            total_ns=call_ns,
            self_ns=pl.lit(0, pl.Int64()),
            runtime_ns=call_ns,
            self_work_count="work_count",
            self_work_ns="work_ns",
            self_busy_ns=pl.col("covered_ns"),
        )
        .select("name", "source", "start_ns", "count", *_SUMS)
    )


@operators.rule
def host_bound_operators(table: pl.DataFrame) -> Iterator[Finding]:
    """Operators keep the host busy for longer than what they launch keeps the devices.

    Each operator costs the host some microseconds, whatever its size. Where kernels are shorter than that, devices wait
    for the host. Calls of the device's runtime are not counted, since they may wait for the device. The finding names
    the operators whose own host time exceeds their device time most. The cost is the host's time beyond the devices',
    on the average rank concerned, and at most the time in which devices were idle.

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
    yield Finding(
        "info",
        "operators keep the host busy for longer than the devices, most of all {names:names}",
        tuple(ranks["rank"]),
        int(ranks["behind_ns"].sum()) // ranks.height,
        values={"names": most["name"].to_list()},
        # A host that is behind costs nothing while the devices still have work.
        within=("idle_ns",),
    )


@operators.rule
def waiting_operators(table: pl.DataFrame) -> Iterator[Finding]:
    """The host is held up in the device's runtime, for a millisecond or more in each call of an operator.

    Operators that need a result (`.item()`, `.cpu()`, `.nonzero()`, a copy from memory that is not pinned) wait until
    the device has done all before it. Meanwhile the host launches nothing, so the device runs dry just after. The
    runtime also takes long to use a kernel for the first time and to allocate memory. What takes less than a tenth of
    the host's time in operators is left out. What it costs shows in the idle time of the device (see late-host).

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
        message = "calls of the runtime hold up the host in {name:name} for {wait:duration}"
        yield Finding("info", message, tuple(ranks), values={"name": name, "wait": wait_ns})
