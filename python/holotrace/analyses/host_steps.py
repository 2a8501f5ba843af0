"""What the host did in each step."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Stacked
from holotrace.core.plans import without
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import HOST_CALLS, STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive import callers, host_time
from holotrace.derive.host_activities import INPUT, INPUT_RANGES, READ_BACK
from holotrace.derive.steps import launched_in
from holotrace.diagnosis.rank import host_parts
from holotrace.diagnosis.rank.host_parts import ACTIVITIES

PARTS = (*(f"{activity}_ns" for activity in ACTIVITIES), "unattributed_ns")
MEANINGS = {
    "compilation": "traced, lowered or compiled a program",
    "read_back": "read results from a device, or ran what they depend on",
    "upload": "sent data to a device",
    "input": "read or prepared input",
    "allocation": "allocated or freed memory of a device",
    "tracing": "collected a graph to run (PyTorch/XLA); null where operators run one by one",
    "back_pressure": "waited to start a program until a device had finished one",
    "dispatch": "started programs or kernels",
    "wait": "waited and did none of the above",
    "program": "ran code of the program that it named, which in PyTorch/XLA builds the graph",
}
# A stall is a step whose input takes several times that of the middle step, and long enough to matter.
STALL_TIMES, STALL_NS = 3, 1_000_000
# From half of the time on devices are the limit.
AHEAD_RATIO = 0.5
# Reading input that is ready takes next to nothing.
INPUT_RATIO = 0.1


@per_rank(
    columns=(
        Column("step", Unit.STEP, "Training step"),
        Column("step_ns", Unit.NS, "Length of the step on the host; sum of the parts"),
        *(Column(f"{activity}_ns", Unit.NS, f"Time the host {MEANINGS[activity]}") for activity in ACTIVITIES),
        Column("unattributed_ns", Unit.NS, "Time that no span of the host explains"),
        Column("input_name", Unit.TEXT, "Range or call that took most of input_ns; null without any"),
        Column(
            "read_back_name",
            Unit.TEXT,
            "Range, with its line, in which results were read back, else the call; null without any",
        ),
    ),
    reads=(*callers.READS, *host_parts.READS),
    chart=Stacked(x="step", y=PARTS, title="What the host did in each step"),
)
def host_steps(rank: RankTrace, *, input_ranges: str = INPUT_RANGES) -> pl.DataFrame:
    """What the host did in each step.

    A marked step lasts as long as the host took for it; the devices run later. The parts of a step add up to its
    length.

    **PyTorch.** Time is assigned to the calls that were open on the thread that has the steps: to the outermost call
    whose name shows what the host does (a data loader, a compiler), else to the innermost call. Waiting for a device is
    always wait; read_back_name is the call that waited. Launches of more than 0.1 ms wait for room in the queue:
    back_pressure. While this thread has no open call, the thread with the most calls is used, such as autograd's in the
    backward pass.

    **XLA.** If no steps were marked, a step lasts as long as on the first device. What the host did is inferred from
    the names of spans. Each moment belongs to the first of these activities that is running: compilation; read_back,
    upload, input and tracing on the thread that has the steps; the same activities on other threads, but input only
    where the former has no call for it at all; back_pressure, which is waiting for a device whose queue is full;
    dispatch, except waiting inside it. If none of them is running, the host waited, ran the program's own code, or did
    something that no span explains.

    Args:
        input_ranges: Names of ranges that are the input pipeline, as a regular expression.
    """
    if not rank.count(HOST_CALLS):
        return without(host_parts.of_steps(rank), "queued_ns")
    activities = host_time.activities(rank, input_ranges)
    steps = rank[STEPS].sort("start_ns", "step")
    stepping = activities.filter(pl.col("tid").is_in(pl.lit(host_time.stepping_threads(rank)).implode()))
    names = {
        activity: host_time.details(steps.with_columns(cause=pl.lit(activity)), stepping)
        for activity in (INPUT, READ_BACK)
    }
    anywhere = host_time.everywhere_of(rank, input_ranges)
    return host_time.shares(steps, activities, anywhere, host_time.stepping_threads(rank)).select(
        "step",
        *(part for part in PARTS if part != "allocation_ns"),
        allocation_ns=pl.lit(0, pl.Int64),
        step_ns=pl.col("end_ns") - pl.col("start_ns"),
        input_name=names[INPUT],
        read_back_name=pl.coalesce(_readers(steps, stepping, rank), names[READ_BACK]),
    )


def _readers(steps: pl.DataFrame, activities: pl.DataFrame, rank: RankTrace) -> pl.Series:
    """The innermost named range, and line, around the longest reading of a result in each step."""
    reads = host_time.outermost(activities.filter(activity=READ_BACK)).select(
        "tid", at_ns="start_ns", took_ns=pl.col("end_ns") - pl.col("start_ns")
    )
    known = reads.with_columns(step=launched_in(reads["at_ns"], steps), name=callers.of_reads(rank, reads)).drop_nulls(
        ["step", "name"]
    )
    longest = known.sort("took_ns", "name", descending=[True, False]).unique("step", keep="first", maintain_order=True)
    found = steps.select("step").join(longest.select("step", "name"), on="step", how="left", maintain_order="left")
    return found["name"]


@host_steps.rule
def slow_input(table: pl.DataFrame) -> Iterator[Finding]:
    """The host prepares input for more than a tenth of its time.

    Nothing of the next step is launched meanwhile, so that devices run out of work unless they are far behind. The
    cost is the time an average rank spends on input.

    Load and transform data in other processes (`num_workers`, grain, tf.data) and keep several batches ready; the step
    should only take one that is there.
    """
    table = _of_xla(table)
    usual = table.join(_stalls(table), on=["rank", "step"], how="anti")
    ranks = usual.group_by("rank").agg(pl.col("step_ns", "input_ns", "compilation_ns").sum()).sort("rank")
    # Compiling happens once, and may take longer than a short recording.
    spent = pl.col("step_ns") - pl.col("compilation_ns")
    slow = ranks.filter(pl.col("input_ns") > INPUT_RATIO * spent)
    if not slow.is_empty():
        ratio = slow.select(pl.col("input_ns").sum() / spent.sum()).item()
        message = "the host spends {ratio:percent} of its time on input"
        cost_ns = int(slow.select(pl.col("input_ns").mean()).item())
        yield Finding("warning", message, tuple(slow["rank"]), cost_ns, values={"ratio": ratio})


@host_steps.rule
def input_stall(table: pl.DataFrame) -> Iterator[Finding]:
    """In some steps input takes much longer than in others.

    The pipeline had nothing ready: a file was opened, a shard was fetched, a buffer was filled again, a worker was
    slow. The cost is what these steps took beyond the median step, on an average rank.

    Prefetch more batches than the longest stall takes steps, shuffle and open files in the background, and look at what
    the loader does in the steps named.
    """
    yield from _in_steps(
        _stalls(_of_xla(table)),
        "input_name",
        "beyond_ns",
        "input takes {took:duration} longer than usual in {steps:numbered step}",
    )


@host_steps.rule
def host_ahead_of_devices(table: pl.DataFrame) -> Iterator[Finding]:
    """The host waits for a place in a device's queue for more than half of its time.

    It is ahead of its devices by as many programs as they take: they are the limit, and a faster host would gain
    nothing.

    Look at what devices do in a step (duty_cycle, hlo_ops), not at the host.
    """
    ranks = _of_xla(table).group_by("rank").agg(pl.col("back_pressure_ns", "step_ns").sum()).sort("rank")
    full = ranks.filter(pl.col("back_pressure_ns") > AHEAD_RATIO * pl.col("step_ns"))
    if not full.is_empty():
        ratio = full.select(pl.col("back_pressure_ns").sum() / pl.col("step_ns").sum()).item()
        message = "the host waits for a place in the queue of a busy device for {ratio:percent} of its time"
        yield Finding("info", message, tuple(full["rank"]), values={"ratio": ratio})


@host_steps.rule
def early_read(table: pl.DataFrame) -> Iterator[Finding]:
    """The host reads a result back in the middle of a step.

    What calls `.item()`, `float()` or `print()`, or branches on a value, needs the result now: what was collected has
    to run (in PyTorch/XLA as a graph of its own, which is compiled too), and the host can prepare nothing meanwhile.
    What devices lose by that is a cause (synchronization), which this explains; without that cause, the host waited for
    devices that worked, and reading cost nothing.

    Read results one step later or every hundredth step, keep running sums on the device, and log from a callback
    (`xm.add_step_closure`, `jax.debug.callback`).
    """
    # What other threads read back is no reading of a result.
    reads = _of_xla(table).filter(pl.col("read_back_ns") > 0).drop_nulls("read_back_name")
    yield from _in_steps(
        reads, "read_back_name", "read_back_ns", "reading results takes {took:duration} in {steps:numbered step}"
    )


def _of_xla(table: pl.DataFrame) -> pl.DataFrame:
    """The steps of XLA; of others the analysis of causes tells what the host's time costs."""
    return table.filter(pl.col("tracing_ns").is_not_null())


def _stalls(table: pl.DataFrame) -> pl.DataFrame:
    """The steps whose input takes much longer than that of the rank's middle step, and ``beyond_ns``, how much."""
    usual = pl.col("input_ns").median().over("rank")
    return table.with_columns(beyond_ns=(pl.col("input_ns") - usual).cast(pl.Int64())).filter(
        pl.col("beyond_ns") > (STALL_TIMES - 1) * usual, pl.col("beyond_ns") > STALL_NS
    )


def _in_steps(rows: pl.DataFrame, name: str, part: str, what: str) -> Iterator[Finding]:
    """One finding for all ``rows``: what happens, for how long, in which steps and in which range."""
    if rows.is_empty():
        return
    named = rows.drop_nulls(name).group_by(name).agg(pl.col(part).sum())
    names = named.sort(part, name, descending=[True, False])[name].to_list()
    ranks = rows.group_by("rank").agg(pl.col(part).sum()).sort("rank")
    cost_ns = int(ranks.select(pl.col(part).mean()).item())
    values = {"took": cost_ns, "steps": rows["step"].unique().sort().to_list(), "names": names}
    message = what + (" ({names:names})" if names else "")
    yield Finding("warning", message, tuple(ranks["rank"]), cost_ns, values=values)
