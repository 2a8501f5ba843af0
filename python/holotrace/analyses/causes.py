"""Why the job takes as long as it does: causes of lost time, with what the job would gain without each."""

from __future__ import annotations

import math
from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_job
from holotrace.core.charts import Bar
from holotrace.core.schema import Column, Unit, empty
from holotrace.core.tables import RANK
from holotrace.diagnosis.causes import is_hidden
from holotrace.diagnosis.causes import table as found
from holotrace.diagnosis.rank import account
from holotrace.errors import UsageError

COLUMNS = (
    Column("cause", Unit.TEXT, "Class of the cause, e.g. input, slow-device, exposed-transfer"),
    Column("severity", Unit.TEXT, "critical if the cost is at least a fifth of the job's time, else warning"),
    Column("message", Unit.TEXT, "What is wrong, in a sentence"),
    Column("ranks", Unit.RANKS, "Ranks that cause it; empty where it is all of them"),
    Column("steps", Unit.STEPS, "Training steps in which the cause occurs"),
    Column("responsible", Unit.TEXT, "Operator, function, call or collective, as the trace names it; null if none"),
    Column("where_ns", Unit.NS, "Start of the longest instance, since the job began, on the clock of the job"),
    Column("event_id", Unit.EVENT, "An event to look at, in the file of the rank; null if there is none"),
    Column("cost_ns", Unit.NS, "Time by which the job would end earlier without this cause, over the whole recording"),
    Column(
        "cost_per_step_ns",
        Unit.NS,
        "The same per step; the whole where none were recorded; null if it came before them",
    ),
    Column("low_ns", Unit.NS, "Lower bound of cost_ns: the cause removed alone, or after all other causes"),
    Column("high_ns", Unit.NS, "Upper bound of cost_ns: the cause removed alone, or after all other causes"),
    Column(
        "joint_ns",
        Unit.NS,
        "Time by which the job would end earlier if all causes were removed together; the same in every row",
    ),
    Column(
        "profiler_ns",
        Unit.NS,
        "Overhead of the profiler in the steps, which no cost includes; null if unknown",
    ),
    Column("share_ratio", Unit.RATIO, "cost_ns / time of the whole job without the known overhead of the profiler"),
    Column("confidence", Unit.TEXT, "measured, or inferred where the trace does not name it"),
    Column("evidence", Unit.TEXT, "Measured values behind the message, JSON"),
    Column("advice", Unit.TEXT, "What to change"),
    Column(
        "explains",
        Unit.TEXT,
        "Rules whose findings are symptoms of this cause and are not shown; null if none were found",
    ),
    Column("to_know_more", Unit.TEXT, "What to record to know more; null if nothing"),
)


@per_job(
    part=account.account,
    part_columns=account.COLUMNS,
    columns=COLUMNS,
    reads=account.READS,
    chart=Bar(x="cause", y=("cost_ns",), title="What the job would gain without each cause"),
    named_by=("message",),
    when_empty="No cause is known that is worth more than 1% of the job's time.",
)
def causes(rows: pl.DataFrame, *, unprofiled_step_ms: float | None = None) -> pl.DataFrame:
    """Why the job takes as long as it does: causes of lost time, with what the job would gain without each.

    Time in which a device had nothing to do is assigned to what the host did then: the calls that were open on the
    thread that launched the next work. Time in collectives is assigned to the rank that arrived last, and its delay to
    what it did longer than the median rank in the same step: idle time, slower kernels, more work. The rest is transfer
    that nothing hides.

    The cost of a cause is how much earlier the job would end without it. The job is replayed from one meeting of ranks
    to the next: each rank takes its own time, minus the time of the cause; a collective ends after its last rank has
    arrived, and so does the waiting of the others. So a delay that another rank would have caused anyway costs nothing.

    Where two ranks are late to the same meetings, only the later one costs anything until it is mended. The cause of
    the other one is reported too: `high_ns` is what it costs then.

    Causes below 1% of the job's time are not reported, because equal ranks and steps differ by as much. Work that every
    healthy step has (launching, reading the loss, sending gradients) is reported only above a higher share: see the
    guide.

    A profiler slows down the host, so causes on the host cost less without the profiler. If you give the time of a step
    without the profiler, the costs are corrected for that.

    Args:
        unprofiled_step_ms: Milliseconds of a step without the profiler. By default what `holotrace.capture` measured.

    Raises:
        UsageError: it is no time, or no steps were recorded to compare it with.
    """
    if unprofiled_step_ms is not None and not 0 < unprofiled_step_ms < math.inf:
        raise UsageError(f"unprofiled_step_ms is {unprofiled_step_ms}; it is a time in milliseconds, e.g. 48.1")
    table = found(rows, None if unprofiled_step_ms is None else round(unprofiled_step_ms * 1e6))
    return table if not table.is_empty() else empty((RANK, *COLUMNS))


@causes.rule
def lost_time(table: pl.DataFrame) -> Iterator[Finding]:
    """The job would end earlier without this.

    Each cause is told apart by what the host did while the device had nothing to do, by what a rank computed longer
    than its peers, or by what communication nothing hides. The cost is what the job would gain, replayed without it.

    What to change depends on the class of the cause, and stands beside it.
    """
    for row in table.sort("cost_ns", "message", descending=[True, False]).iter_rows(named=True):
        yield Finding(
            row["severity"],
            row["message"],
            tuple(sorted(row["ranks"])),
            None if is_hidden(row) or row["severity"] == "info" else row["cost_ns"],
            rule=row["cause"],
            what_to_do=row["advice"],
        )
