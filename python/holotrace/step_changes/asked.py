"""What is asked of each job whose steps are compared."""

from __future__ import annotations

from typing import Any

import polars as pl

from holotrace.analyses.causes import causes
from holotrace.analyses.factors import factors
from holotrace.analyses.time_breakdown import time_breakdown
from holotrace.core.analysis import Analysis, per_job, per_rank
from holotrace.core.charts import Bar, Ranking
from holotrace.core.schema import Column, Unit, empty
from holotrace.core.tables import CPU_OPS, DEVICE_EVENTS, PYTHON_CALLS, RANK, STEPS, XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive.kernel_kinds import COMPUTE, IS_WORK
from holotrace.diagnosis.causes import table as found
from holotrace.diagnosis.rank import account

# What XLA numbers anew with every compilation.
_NUMBER = r"\.\d+$"
_WORK = DEVICE_EVENTS.only("event_id", "name", "kind", "device", "start_ns", "end_ns", "step")
_OPERATIONS = XLA_OPS.only("event_id", "scope", "module")
_LAUNCHED = DEVICE_EVENTS.only("start_ns", "end_ns", "step")
# Of what a cause has to cost to be told: from here on it is known of a job that it has it, too.
_PART = 0.2
_FUNCTIONS, _OPERATORS = PYTHON_CALLS.only("event_id"), CPU_OPS.only("input_dims")


@per_rank(
    columns=(
        Column("name", Unit.TEXT, "Kernel, or operator of a host that computes, without the number that XLA gives it"),
        Column("total_ns", Unit.NS, "Time of its runs on the mean device of the rank, from its first step to its last"),
        Column("run_count", Unit.FLOAT, "Number of these runs on the mean device of the rank"),
        Column("first_ns", Unit.NS, "Time of those in the first step"),
        Column("first_count", Unit.FLOAT, "Number of those in the first step"),
        Column("of_hosts", Unit.BOOL, "Whether hosts compute"),
        Column("operation", Unit.TEXT, "Operation of XLA with its number; null of others"),
        Column("scope", Unit.TEXT, "Its scope; null if that was not recorded"),
        Column("module", Unit.TEXT, "Its program; null if that was not recorded"),
    ),
    reads=(_WORK, _OPERATIONS),
    chart=Ranking(x="name", y=("total_ns",), title="Computing by name"),
)
def computed(rank: RankTrace) -> pl.DataFrame:
    """How long each kernel that computes ran in steps; in the whole recording where none are marked."""
    work = rank[_WORK].filter(IS_WORK)
    own = work.drop_nulls("step").group_by("step").agg(pl.col("start_ns").min(), pl.col("end_ns").max()).sort("step")
    if not own.is_empty():
        # Steps are cut where their work ends, as those of `time_breakdown` are.
        work = work.filter(pl.col("start_ns").is_between(own["start_ns"][0], own["end_ns"].max(), closed="left"))
    is_first = pl.col("start_ns") < pl.lit(own["end_ns"].first(), pl.Int64)
    computing = work.filter(pl.col("kind") == COMPUTE)
    devices = max(1, computing["device"].n_unique())
    took = pl.col("end_ns") - pl.col("start_ns")
    operations = rank[_OPERATIONS]
    nothing = pl.lit(None, pl.String)
    told = computing.with_columns(scope=nothing, module=nothing)
    if not operations.is_empty():
        told = computing.join(operations, on="event_id", how="left")
    # A name has many runs; that of XLA has one for each number.
    named = told.group_by("name", "scope", "module").agg(
        total_ns=took.sum(), run_count=pl.len(), first_ns=took.filter(is_first).sum(), first_count=is_first.sum()
    )
    texts = named.with_columns(pl.col("name", "scope", "module").cast(pl.String))
    operation = nothing if operations.is_empty() else pl.col("name")
    return texts.group_by(pl.col("name").str.replace(_NUMBER, ""), operation.alias("operation"), "scope", "module").agg(
        (pl.col("total_ns", "first_ns").sum() / devices).round().cast(pl.Int64),
        pl.col("run_count", "first_count").sum() / devices,
        of_hosts=pl.lit(rank.computes_on_host),
    )


@per_rank(
    columns=(
        Column("step", Unit.STEP, "The first and the last step that are marked and have work on a device"),
        Column("before_ns", Unit.NS, "How long the device has nothing to do from the first mark to its first work"),
        Column("after_ns", Unit.NS, "How long the device has nothing to do from its last work to the end of the last"),
    ),
    reads=(STEPS, _LAUNCHED),
    chart=Ranking(x="rank", y=("before_ns", "after_ns"), title="Idle before and after the work of steps"),
)
def outer_idle(rank: RankTrace) -> pl.DataFrame:
    """How long devices wait for the first work of the first step, and how long the last step goes on without work."""
    work = rank[_LAUNCHED]
    own = (
        work.drop_nulls("step").group_by("step").agg(first_ns=pl.col("start_ns").min(), last_ns=pl.col("end_ns").max())
    )
    steps = rank[STEPS].select("step", "start_ns", "end_ns").join(own, on="step").sort("start_ns")
    first, last = steps.head(1), steps.tail(1)
    # Work that was launched before the first mark may still run, and other work begin after that of the last step.
    earlier = work.filter(pl.col("start_ns") < pl.lit(first["first_ns"].min(), pl.Int64))["end_ns"].max()
    later = work.filter(pl.col("start_ns") >= pl.lit(last["last_ns"].max(), pl.Int64))["start_ns"].min()
    before = pl.col("first_ns") - pl.max_horizontal("start_ns", pl.lit(earlier, pl.Int64))
    after = pl.min_horizontal("end_ns", pl.lit(later, pl.Int64)) - pl.max_horizontal("start_ns", "last_ns")
    nothing = pl.lit(0, pl.Int64)
    return pl.concat(
        [
            first.select("step", before_ns=before.clip(lower_bound=0), after_ns=nothing),
            last.select("step", before_ns=nothing, after_ns=after.clip(lower_bound=0)),
        ]
    )


@per_rank(
    columns=(
        Column("stack_count", Unit.COUNT, "Number of Python calls that were recorded"),
        Column("shape_count", Unit.COUNT, "Number of operators whose shapes were recorded"),
    ),
    reads=(_FUNCTIONS, _OPERATORS),
    chart=Ranking(x="rank", y=("stack_count",), title="Python calls"),
)
def recorded(rank: RankTrace) -> pl.DataFrame:
    """What a recording tells causes by that another may not have."""
    shapes = rank[_OPERATORS]["input_dims"]
    return pl.DataFrame({"stack_count": [rank[_FUNCTIONS].height], "shape_count": [shapes.len() - shapes.null_count()]})


@per_job(
    part=account.account,
    part_columns=account.COLUMNS,
    columns=causes.columns,
    reads=account.READS,
    chart=Bar(x="cause", y=("cost_ns",), title="What the job would gain without each cause"),
)
def small_causes(rows: pl.DataFrame) -> pl.DataFrame:
    """The causes, also those that cost too little to be told: one that is told of another job may be here, too."""
    table = found(rows, part=_PART)
    return table if not table.is_empty() else empty((RANK, *causes.columns))


# What is asked of each job, in one reading.
ASKED: tuple[Analysis[Any], ...] = (time_breakdown, outer_idle, factors, causes, small_causes, computed, recorded)
OPTIONS = {time_breakdown.name: {"by_step": True}}
