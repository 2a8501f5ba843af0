"""What each device did in each step, and what kept it from working."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Stacked
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import DEVICES, MODULES, XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive import device_steps as derived
from holotrace.derive import device_time, host_time, intervals
from holotrace.derive.device_steps import COMPUTING, PARTS
from holotrace.derive.device_time import DEVICE
from holotrace.derive.host_activities import BACK_PRESSURE, INPUT_RANGES, PRIORITY
from holotrace.derive.kernel_kinds import COMMUNICATION, MEMORY

QUEUED, UNATTRIBUTED = "queued", "unattributed"
_CAUSES = (*PRIORITY, QUEUED, UNATTRIBUTED)
_OPS = XLA_OPS.only(
    *("device", "plane", "line", "category", "kind", "start_ns", "end_ns", "flops"),
    *("is_wait", "is_async", "is_container"),
)
_DEVICES = DEVICES.only("device", "plane", "peak_flops")
_RUNS = MODULES.only("device", "plane", "step", "start_ns", "end_ns", "launch_ns")
MEANINGS = {
    "compute": "an operation computed",
    "exposed_comm": "no operation computed, and a collective or a wait for one was under way",
    "copy": "none of these, and data was copied, or a copy was waited for",
    "feed": "none of these, and data was exchanged with the host (infeed, outfeed)",
    "core_wait": "none of these, and it waited for other cores (barrier-cores)",
    "other": "a loop or program was under way, but none of its operations",
    "idle": "no program ran",
}
# Cores of one host that do equal work come within some percent.
CORE_WAIT_RATIO = 0.1


@per_rank(
    columns=(
        Column("device", Unit.NUMBER, "Ordinal of the accelerator"),
        Column("plane", Unit.TEXT, "Plane of the profile that holds the device"),
        Column("step", Unit.STEP, "Training step"),
        Column(
            "step_ns", Unit.NS, "From the end of the previous step's programs to the end of its own; sum of the parts"
        ),
        *(Column(f"{part}_ns", Unit.NS, f"Part of it in which {MEANINGS[part]}") for part in PARTS),
        Column("compute_ratio", Unit.RATIO, "compute_ns / step_ns"),
        Column("hidden_comm_ns", Unit.NS, "Time in which a collective was under way while it computed"),
        Column("hidden_copy_ns", Unit.NS, "Time in which a copy was under way while it computed"),
        Column("back_pressure_ns", Unit.NS, "Time in which the host waited until a device had finished a program"),
        Column(
            "idle_cause",
            Unit.TEXT,
            "What the host did for most of idle_ns, or queued if work was already launched; null if never idle",
        ),
        Column(
            "flops_ratio",
            Unit.RATIO,
            "Floating-point operations that the compiler counted / the device's peak in step_ns",
        ),
        Column("program_count", Unit.COUNT, "Programs of the step"),
        Column("start_ns", Unit.NS, "When it began"),
    ),
    reads=(
        _OPS,
        _RUNS,
        _DEVICES,
        *host_time.READS,
    ),
    chart=Stacked(x="step", y=tuple(f"{part}_ns" for part in PARTS), title="What devices did in each step"),
    needs=(XLA_OPS, MODULES),
)
def device_steps(rank: RankTrace, *, input_ranges: str = INPUT_RANGES) -> pl.DataFrame:
    """What each device did in each step, and what kept it from working.

    A step of a device lasts from the first program that was launched for it to the first program of the next step, in
    times of the device: the host may be far ahead. When several activities run at once, the time counts for the first
    of them in the order of the columns, so that only time that nothing hides is exposed. Hidden time, and what the host
    did during the step, are in columns of their own and not part of the sum.

    Args:
        input_ranges: Names of ranges that are the input pipeline, as a regular expression.
    """
    modules = rank[_RUNS]
    steps = derived.windows(modules)
    ops = device_time.with_programs(rank[_OPS], modules)
    full = intervals.union(host_time.activities(rank, input_ranges).filter(activity=BACK_PRESSURE))
    of_devices = ops.partition_by(DEVICE, as_dict=True)
    runs = modules.partition_by(DEVICE, as_dict=True)
    rows = [
        _of_device(own, of_devices.get(key, ops.clear()), runs[key], rank)
        for key, own in steps.partition_by(DEVICE, as_dict=True, maintain_order=True).items()
    ]
    table = pl.concat([_of_device(steps.clear(), ops.clear(), modules.clear(), rank), *rows])
    causes = _idle_causes(table, modules, rank, input_ranges)
    counts = modules.drop_nulls("step").group_by(*DEVICE, "step").agg(program_count=pl.len())
    step_ns = pl.col("end_ns") - pl.col("start_ns")
    return (
        table.with_columns(derived.covered_ns(table, full).alias("back_pressure_ns"), step_ns=step_ns)
        .join(causes, on=[*DEVICE, "step"], how="left")
        .join(counts, on=[*DEVICE, "step"], how="left")
        .join(rank[_DEVICES], on=list(DEVICE), how="left")
        .with_columns(
            pl.col("plane").cast(pl.String()),
            compute_ratio=pl.when(pl.col("step_ns") > 0).then(pl.col("compute_ns") / pl.col("step_ns")),
            flops_ratio=_flops_ratio(),
        )
        .drop("end_ns", "flops", "peak_flops")
        .sort("plane", "device", "start_ns", "step")
    )


def _of_device(steps: pl.DataFrame, ops: pl.DataFrame, modules: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    spans = derived.layers(ops, modules)
    parts = derived.parts_ns(steps, spans)
    computing = spans[COMPUTING]
    return parts.with_columns(
        derived.hidden_ns(steps, ops, computing, COMMUNICATION).alias("hidden_comm_ns"),
        derived.hidden_ns(steps, ops, computing, MEMORY).alias("hidden_copy_ns"),
        *derived.sums(steps, device_time.executions(ops), ["flops"]),
    )


def _flops_ratio() -> pl.Expr:
    """Undefined where the peak is not known, and beyond it, where the count or the time is wrong."""
    ratio = pl.col("flops") / (pl.col("peak_flops") * pl.col("step_ns") / 1e9)
    return pl.when(pl.col("step_ns") > 0, ratio <= 1).then(ratio)


def _idle_causes(table: pl.DataFrame, modules: pl.DataFrame, rank: RankTrace, input_ranges: str) -> pl.DataFrame:
    """What kept each device for most of the time in which it was idle in a step."""
    idle = pl.concat([_idle(own, modules) for own in [table.clear(), *table.partition_by(DEVICE)]])
    activities = host_time.activities(rank, input_ranges)
    anywhere = host_time.everywhere_of(rank, input_ranges)
    shared = host_time.shares(idle, activities, anywhere, host_time.stepping_threads(rank))
    in_time = (pl.col("launch_ns") <= pl.col("start_ns")).fill_null(value=False)
    host = [f"{cause}_ns" for cause in _CAUSES if cause != QUEUED]
    return (
        shared.with_columns(pl.when(in_time).then(0).otherwise(pl.col(part)).alias(part) for part in host)
        .with_columns(queued_ns=pl.when(in_time).then(pl.col("end_ns") - pl.col("start_ns")).otherwise(0))
        .group_by(*DEVICE, "step")
        .agg(pl.col(f"{cause}_ns").sum() for cause in _CAUSES)
        .select(
            *DEVICE,
            "step",
            idle_cause=pl.concat_list(f"{cause}_ns" for cause in _CAUSES)
            .list.arg_max()
            .replace_strict(range(len(_CAUSES)), _CAUSES, return_dtype=pl.String()),
        )
    )


def _idle(steps: pl.DataFrame, modules: pl.DataFrame) -> pl.DataFrame:
    """The time between programs of one device, with the step it is in and the launch of the program that ends it."""
    own = modules.join(steps.select(DEVICE).head(1), on=DEVICE, how="semi")
    # No time between programs is in two steps: each step begins with one.
    idle = intervals.subtract(steps, own)
    named = idle.sort("start_ns").join_asof(
        steps.select(*DEVICE, "step", begun_ns="start_ns").sort("begun_ns"),
        left_on="start_ns",
        right_on="begun_ns",
        check_sortedness=False,
    )
    launches = own.select("launch_ns", end_ns="start_ns").sort("launch_ns").unique("end_ns", keep="first")
    return named.join(launches, on="end_ns", how="left").select(*DEVICE, "step", "start_ns", "end_ns", "launch_ns")


@device_steps.rule
def waiting_cores(table: pl.DataFrame) -> Iterator[Finding]:
    """Cores wait for other cores for more than a tenth of their steps.

    All cores of a program meet at barriers before they exchange data; those that come first stand still. The cost is
    the waiting of the core that waits most, on an average rank.

    See in the analysis of stragglers which core comes last, and give all of them equal work: even shards, even batches,
    no extra work on the first one.
    """
    cores = table.group_by("rank", "plane").agg(pl.col("core_wait_ns", "step_ns").sum())
    waiting = cores.filter(pl.col("core_wait_ns") > CORE_WAIT_RATIO * pl.col("step_ns"))
    if waiting.is_empty():
        return
    ratio = waiting.select((pl.col("core_wait_ns") / pl.col("step_ns")).max()).item()
    ranks = waiting.group_by("rank").agg(pl.col("core_wait_ns").max()).sort("rank")
    message = "cores wait for other cores for up to {ratio:percent} of their steps"
    cost_ns = int(ranks.select(pl.col("core_wait_ns").mean()).item())
    yield Finding("warning", message, tuple(ranks["rank"]), cost_ns, values={"ratio": ratio})
