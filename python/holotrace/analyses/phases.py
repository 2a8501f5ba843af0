"""How much device and host time forward, backward and update take."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Ranking
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import STEPS, XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive import host_time, scopes
from holotrace.derive.device_time import DEVICE
from holotrace.derive.scopes import BACKWARD, FORWARD, UPDATE
from holotrace.derive.steps import launched_in

# Two matrix products of the backward pass for one of the forward pass, and a half for what surrounds them.
BACKWARD_TIMES, USUAL_TIMES = 3, 2
UPDATE_RATIO = 0.2


@per_rank(
    columns=(
        Column("device", Unit.NUMBER, "Ordinal of the accelerator"),
        Column("plane", Unit.TEXT, "Plane of the profile that holds the device"),
        Column("step", Unit.STEP, "Step that launched the work; null for the rank as a whole"),
        Column("phase", Unit.TEXT, "forward, backward, accumulation (of gradients), update or other"),
        Column("op_count", Unit.COUNT, "Operations of the phase that the device executed"),
        Column(
            "work_ns", Unit.NS, "Time of the operations that do not only wait, without that of operations inside them"
        ),
        Column("wait_ns", Unit.NS, "Time of the operations that only wait for something under way"),
        Column("share_ratio", Unit.RATIO, "work_ns / that of all phases on the device; null if that is 0"),
        Column("host_ns", Unit.NS, "Time the host spent in ranges that are called after the phase"),
    ),
    reads=(
        XLA_OPS.only(
            *("device", "plane", "line", "module", "scope", "start_ns", "end_ns"),
            *("self_ns", "is_wait", "is_async", "step"),
        ),
        *host_time.READS,
    ),
    chart=Ranking(x="phase", y=("work_ns", "wait_ns"), title="Device time by phase of training"),
    needs=(XLA_OPS,),
)
def phases(rank: RankTrace, *, by_step: bool = False) -> pl.DataFrame:
    """How much device and host time forward, backward and update take.

    The phase of an operation follows from the scopes in which it was written. In JAX, transposed operations are
    backward, and operations that were only differentiated are forward. Otherwise the innermost scope with a name such
    as forward, backward, accumulation, update or optimizer decides. PyTorch/XLA gives the operations of autograd no
    scope, so in its graphs the operations with a name but without a scope are backward, if other operations have a
    scope. The rest is other.

    Times are those of the device's own clock, where the profile has it; operations that overlap add up. Waiting
    (copy-done, all-gather-done) is counted separately, as in the analysis scopes.

    On the host, ranges count that the program called so.

    Args:
        by_step: One row per step that launched work, instead of one for all.
    """
    ops = scopes.by_scope(rank, [*DEVICE, "step"]).drop_nulls("step") if by_step else rank.cached(scopes.summed)
    keys = ["step", "phase"] if by_step else ["phase"]
    group = [*DEVICE, "step"] if by_step else [*DEVICE]
    table = (
        ops.with_columns(phase=scopes.phases(ops))
        .group_by(*DEVICE, *keys)
        .agg(pl.col("op_count", "work_ns", "wait_ns").sum())
        .join(_on_host(rank, keys), on=keys, how="left")
        .with_columns(pl.col("host_ns").fill_null(0), all_ns=pl.col("work_ns").sum().over(group))
        .with_columns(share_ratio=pl.when(pl.col("all_ns") > 0).then(pl.col("work_ns") / pl.col("all_ns")))
        .with_columns(pl.col("plane").cast(pl.String()), pl.col("phase").cast(pl.Enum(scopes.PHASES)))
        .drop("all_ns")
    )
    table = table if by_step else table.with_columns(step=pl.lit(None, pl.Int64()))
    return table.sort("plane", "device", "step", "phase").with_columns(pl.col("phase").cast(pl.String()))


def _on_host(rank: RankTrace, keys: list[str]) -> pl.DataFrame:
    """Time of the ranges called after each phase; those inside others of the same phase count once."""
    ranges = host_time.ranges(rank)
    named = ranges.select(
        "tid",
        "start_ns",
        "end_ns",
        name=pl.col("name").cast(pl.String()),
        activity=scopes.phase_of_range(ranges["name"]),
    ).drop_nulls("activity")
    outer = host_time.outermost(named).rename({"activity": "phase"})
    return (
        outer.with_columns(step=launched_in(outer["start_ns"], rank[STEPS]))
        .group_by(keys)
        .agg(host_ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
    )


@phases.rule
def heavy_backward(table: pl.DataFrame) -> Iterator[Finding]:
    """The backward pass takes more than three times as long as the forward pass.

    Twice as long is usual. More is recomputation of activations, collectives of gradients that nothing hides, or an
    operator whose gradient is slow. The cost is what it takes beyond twice the forward pass, on an average device.

    Look at which scopes take the time. Recompute less (`jax.checkpoint` policies), overlap or shard the reduction of
    gradients, and write the gradient of a slow operator yourself.
    """
    times = _by_device(table).filter(pl.col(FORWARD) > 0, pl.col(BACKWARD) > BACKWARD_TIMES * pl.col(FORWARD))
    if times.is_empty():
        return
    ratio, beyond_ns = times.select(
        ratio=pl.col(BACKWARD).sum() / pl.col(FORWARD).sum(),
        beyond=(pl.col(BACKWARD) - USUAL_TIMES * pl.col(FORWARD)).mean(),
    ).row(0)
    message = "the backward pass takes {times:times} times as long as the forward pass"
    yield Finding("info", message, tuple(times["rank"].unique().sort()), int(beyond_ns), values={"times": ratio})


@phases.rule
def heavy_update(table: pl.DataFrame) -> Iterator[Finding]:
    """The update of parameters takes more than a fifth of the device time.

    It reads and writes every parameter and its state once, whatever the batch, so it weighs more the smaller the batch
    is. The cost is the time of the update on an average device.

    Enlarge the batch or accumulate gradients over several, shard the state of the optimizer, and keep it in a smaller
    type.
    """
    times = _by_device(table).filter(pl.col(UPDATE) > UPDATE_RATIO * pl.sum_horizontal(scopes.PHASES))
    if times.is_empty():
        return
    ratio = times.select(pl.col(UPDATE).sum() / pl.sum_horizontal(scopes.PHASES).sum()).item()
    message = "the update takes {ratio:percent} of the device time"
    cost_ns = int(times.select(pl.col(UPDATE).mean()).item())
    yield Finding("info", message, tuple(times["rank"].unique().sort()), cost_ns, values={"ratio": ratio})


def _by_device(table: pl.DataFrame) -> pl.DataFrame:
    """A row per device with the time of each phase."""
    ns = pl.col("work_ns")
    return (
        table.group_by("rank", *DEVICE)
        .agg(ns.filter(pl.col("phase") == phase).sum().alias(phase) for phase in scopes.PHASES)
        .sort("rank", *DEVICE)
    )
