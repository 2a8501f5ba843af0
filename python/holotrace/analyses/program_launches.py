"""How programs are started: how often, how long for, and what devices wait for before they run."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Ranking
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import MODULES
from holotrace.core.trace import RankTrace
from holotrace.derive import callers, host_time, intervals, skew
from holotrace.derive.device_time import DEVICE
from holotrace.derive.host_activities import COMPILATION, INPUT_RANGES, TRACING

_RUNS = MODULES.only("module", "program", "device", "plane", "start_ns", "end_ns", "launch_ns", "step")
_PROGRAM = ["module", "program"]
# Starting a program takes the host tens of microseconds: below that the device is done before the next is there.
SMALL_NS = 100_000
# So often it is a habit.
MANY = 10
# Of the time that its runs take on the device.
TRACING_RATIO = 0.3


@per_rank(
    columns=(
        Column("module", Unit.TEXT, "Program, as the compiler calls it"),
        Column("program", Unit.UNSIGNED, "Id of the compiled program, which distinguishes programs of one name"),
        Column("run_count", Unit.COUNT, "How often it ran on the device that ran it most"),
        Column("step_count", Unit.COUNT, "Steps it ran in"),
        Column("run_ns", Unit.NS, "Median time of a run on a device"),
        Column("device_ns", Unit.NS, "Time of all runs, mean over the devices that ran it"),
        Column(
            "unlaunched_ns",
            Unit.NS,
            "Time for which that device had nothing to do before these runs since they were not launched yet, but for "
            "compiling",
        ),
        Column(
            "tracing_ns",
            Unit.NS,
            "Time in which PyTorch/XLA collected graphs for these runs, without compilations; null with JAX",
        ),
        Column("forced_count", Unit.COUNT, "Runs that reading a result in the middle of a step forced (PyTorch/XLA)"),
        Column("forced_ns", Unit.NS, "Time of these runs, mean over devices"),
        Column("caller", Unit.TEXT, "Range, with its line, in which most runs were started; null if unknown"),
    ),
    reads=(_RUNS, *callers.READS, *skew.READS),
    chart=Ranking(x="module", y=("unlaunched_ns",), title="Devices wait for the launch of programs"),
    needs=(MODULES,),
)
def program_launches(rank: RankTrace) -> pl.DataFrame:
    """How programs are started: how often, how long for, and what devices wait for before they run.

    If the host launched a program only after the device had finished its earlier work, the device waited for the
    launch: from the end of that work to the start of the program. A program that was launched earlier was queued, and
    did not wait for the host. Times of devices are corrected by `shift_ns` of the analysis skew. With PyTorch/XLA a
    program is a graph: all operations since the last graph, which run when a result is needed: at the end of a step, or
    earlier if a value is read.
    """
    runs = skew.shifted(rank[_RUNS], rank.cached(skew.shifts)).with_columns(pl.col("module").cast(pl.String))
    compiling = host_time.everywhere_of(rank, INPUT_RANGES)[COMPILATION]
    waited = _waited(runs, compiling)
    traced = _traced(waited, rank, compiling)
    places = pl.DataFrame(
        {"tid": [_first(host_time.stepping_threads(rank))] * traced.height, "at_ns": traced["at_ns"]},
        schema={"tid": pl.String, "at_ns": pl.Int64},
    )
    told = traced.with_columns(caller=callers.around(rank, places))
    of_device = told.group_by(*_PROGRAM, *DEVICE).agg(
        pl.col("unlaunched_ns", "tracing_ns", "run_ns").sum(),
        forced_count=pl.col("is_forced").sum(),
        forced_ns=pl.col("run_ns").filter("is_forced").sum(),
        run_count=pl.len(),
        knows_tracing=pl.col("tracing_ns").is_not_null().any(),
    )
    of_all = told.group_by(_PROGRAM).agg(
        pl.col("run_ns").median().round().cast(pl.Int64),
        step_count=pl.col("step").drop_nulls().n_unique(),
        caller=pl.col("caller").drop_nulls().mode().sort().first(),
    )
    mean = ("unlaunched_ns", "forced_ns")
    return (
        of_device.group_by(_PROGRAM)
        .agg(
            *(pl.col(name).mean().round().cast(pl.Int64) for name in mean),
            pl.col("run_count", "forced_count").max(),
            device_ns=pl.col("run_ns").mean().round().cast(pl.Int64),
            tracing_ns=pl.when(pl.col("knows_tracing").any()).then(pl.col("tracing_ns").max()),
        )
        .join(of_all, on=_PROGRAM, how="left", nulls_equal=True)
        .sort("unlaunched_ns", *_PROGRAM, descending=[True, False, False], nulls_last=True)
    )


def _first(names: pl.Series) -> str | None:
    return None if names.is_empty() else str(names.sort()[0])


def _waited(runs: pl.DataFrame, compiling: pl.DataFrame) -> pl.DataFrame:
    """Runs with ``run_ns``, and ``unlaunched_ns``, for what the device had nothing to do before them."""
    ordered = runs.sort(*DEVICE, "start_ns", "end_ns", "module", "program")
    before = pl.col("end_ns").cum_max().shift(1).over(DEVICE)
    spans = ordered.with_columns(before_ns=before, run_ns=pl.col("end_ns") - pl.col("start_ns"))
    is_late = (pl.col("launch_ns") > pl.col("before_ns")).fill_null(value=False)
    spans = spans.with_columns(
        from_ns=pl.when(is_late).then(pl.min_horizontal("before_ns", "start_ns")).otherwise("start_ns")
    )
    begun = intervals.covered_before_ns(compiling, spans["from_ns"])
    ended = intervals.covered_before_ns(compiling, spans["start_ns"])
    return spans.with_columns(unlaunched_ns=pl.col("start_ns") - pl.col("from_ns") - (ended - begun))


def _traced(runs: pl.DataFrame, rank: RankTrace, compiling: pl.DataFrame) -> pl.DataFrame:
    """Runs with ``tracing_ns``, ``is_forced`` and ``at_ns``, when the program called for them."""
    tracing = host_time.outermost(host_time.activities(rank, INPUT_RANGES).filter(activity=TRACING))
    spans = tracing.select("name", trace_ns="start_ns", traced_ns="end_ns").sort("trace_ns")
    by_launch = runs.with_row_index("run").sort("launch_ns", nulls_last=True)
    known = by_launch.filter(pl.col("launch_ns").is_not_null()).join_asof(
        spans, left_on="launch_ns", right_on="trace_ns"
    )
    until = pl.min_horizontal("launch_ns", "traced_ns")
    ends, begins = (known.select(time).to_series() for time in (until, pl.coalesce("trace_ns", until)))
    lost = intervals.covered_before_ns(compiling, ends) - intervals.covered_before_ns(compiling, begins)
    # One graph may be started on several devices; each of them waits for it.
    told = known.select(
        "run",
        at_ns=pl.coalesce("trace_ns", "launch_ns"),
        is_forced=(pl.col("name") == host_time.SYNC).fill_null(value=False),
        tracing_ns=(ends - known["trace_ns"] - lost).clip(lower_bound=0),
    )
    return (
        runs.with_row_index("run")
        .join(told, on="run", how="left")
        .with_columns(pl.col("is_forced").fill_null(value=False))
    )


@program_launches.rule
def small_programs(table: pl.DataFrame) -> Iterator[Finding]:
    """Devices wait for programs that are done in less than it takes to start one.

    Each of them runs for less than 0.1 ms, many times, and the device has nothing to do before most runs. With JAX,
    these are operations outside of `jit`, each a program of its own; with PyTorch/XLA, graphs that were cut because a
    result was read. The cost is the time that devices wait before these programs, on an average rank.

    Put what belongs to a step into one program: `jax.jit` around the whole step and around preparation of the batch,
    `jax.lax.scan` over several steps, `torch_xla.compile` around the step. Use NumPy for small work on the host.
    """
    costly = table.filter(pl.col("run_ns") < SMALL_NS, pl.col("unlaunched_ns") > pl.col("device_ns"))
    costly = costly.filter(pl.col("run_count").sum().over("rank") >= MANY)
    if costly.is_empty():
        return
    ranks = costly.group_by("rank").agg(pl.col("unlaunched_ns").sum()).sort("rank")
    cost_ns = int(ranks.select(pl.col("unlaunched_ns").mean()).item())
    message = "devices wait {took:duration} for the launch of {modules:names}, which {verb:text} less than 0.1 ms a run"
    values = {
        "took": cost_ns,
        "modules": _named(costly),
        "verb": "takes" if len(_named(costly)) == 1 else "take",
        "per_step": _per_step(costly),
        "count": costly.group_by("rank").agg(pl.col("run_count").sum())["run_count"].max(),
        "callers": _most(costly.drop_nulls("caller"), "caller"),
    }
    yield Finding("warning", message, tuple(ranks["rank"]), cost_ns, values=values)


@program_launches.rule
def forced_execution(table: pl.DataFrame) -> Iterator[Finding]:
    """PyTorch/XLA ran a part of the graph in the middle of a step, since a result was read.

    Whatever calls `.item()` or `float()`, prints a tensor, updates a metric or branches on a value needs the result.
    What was collected until then becomes a graph of its own, which is compiled, started and waited for, and the rest of
    the step begins only afterwards. The cost is the time of these runs, which the step's own graph repeats, on an
    average rank.

    Read results after the step (`xm.add_step_closure(print_loss, args=(loss,))`) and not in every step, keep metrics as
    tensors on the device, and use `torch.where` instead of branches. `PT_XLA_DEBUG_LEVEL=2` prints what forces it.
    """
    forced = table.filter(pl.col("forced_count") > 0)
    if forced.is_empty():
        return
    ranks = forced.group_by("rank").agg(pl.col("forced_ns").sum()).sort("rank")
    cost_ns = int(ranks.select(pl.col("forced_ns").mean()).item())
    callers_of = forced.drop_nulls("caller").sort("forced_ns", descending=True)["caller"].unique(maintain_order=True)
    message = "{modules:names} ran {count:plural time} in the middle of a step for {took:duration}"
    message += " since a result was read" + (" in {callers:names}" if callers_of.len() else "")
    values = {
        "modules": _named(forced),
        "count": forced.group_by("rank").agg(pl.col("forced_count").sum())["forced_count"].max(),
        "took": cost_ns,
        "callers": callers_of.to_list(),
    }
    yield Finding("warning", message, tuple(ranks["rank"]), cost_ns, values=values)


@program_launches.rule
def slow_tracing(table: pl.DataFrame) -> Iterator[Finding]:
    """Collecting a graph takes long, compared with the time that it runs for, and devices wait meanwhile.

    PyTorch/XLA builds the graph of each step anew, sorts it and looks for what was compiled for it. That grows with the
    number of operations: loops over layers, parameters or micro-batches that Python unrolls make it large. The cost is
    that time as far as devices had nothing to do, on an average rank.

    Make fewer and larger operations (`foreach` optimizers, fused attention), keep repeated layers in one loop
    (`torch_xla.experimental.scan.scan_layers`, `jax.lax.scan`), and collect ahead of the device instead of waiting for
    results.
    """
    idle = table.with_columns(cost_ns=pl.min_horizontal("tracing_ns", "unlaunched_ns"))
    slow = idle.filter(
        pl.col("tracing_ns") > TRACING_RATIO * pl.col("device_ns"), pl.col("run_count") >= 2, pl.col("cost_ns") > 0
    )
    if slow.is_empty():
        return
    ranks = slow.group_by("rank").agg(pl.col("cost_ns", "tracing_ns").sum()).sort("rank")
    cost_ns = int(ranks.select(pl.col("cost_ns").mean()).item())
    values = {"took": int(ranks.select(pl.col("tracing_ns").mean()).item()), "modules": _named(slow)}
    message = "the host takes {took:duration} to collect the graphs of {modules:names}"
    yield Finding("info", message, tuple(ranks["rank"]), cost_ns, values=values)


def _per_step(table: pl.DataFrame) -> int:
    """How many runs of these programs a step has, on the rank that has most; 0 where no steps are known."""
    counts = table.group_by("rank").agg(pl.col("run_count").sum(), pl.col("step_count").max())
    return max(
        (runs // steps for runs, steps in counts.select("run_count", "step_count").iter_rows() if steps), default=0
    )


def _named(table: pl.DataFrame) -> list[str]:
    """Programs, those that devices wait longest for first."""
    return _most(table.drop_nulls("module"), "module")


def _most(table: pl.DataFrame, name: str) -> list[str]:
    """The values of a column, those that devices wait longest for first."""
    order = table.group_by(name).agg(pl.col("unlaunched_ns").sum())
    return order.sort("unlaunched_ns", name, descending=[True, False])[name].to_list()
