"""Which sequences of kernels recur under an operator, with all that it calls."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Ranking
from holotrace.core.options import check_whole
from holotrace.core.plans import constant, done, without
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import CALLS, CPU_OPS, DEVICE_EVENTS, HOST_CALLS, LAUNCHES
from holotrace.core.trace import RankTrace
from holotrace.derive import call_tree
from holotrace.derive.kernel_kinds import IS_WORK
from holotrace.derive.names import are_in

SEPARATOR = " -> "
FEWEST_KERNELS = 2  # that make a sequence
# A layer or two of a few steps; what recurs less often is not worth a graph.
OFTEN = 10
# Launching is most of what the host does.
BOUND_RATIO = 0.5
SEQUENCE = ["operator", "kernels"]
_CALLS = CALLS.only(
    "event_id", "name", "on_device", "parent_id", "start_ns", "end_ns", "work_count"
).where_launched_singly()
_XLA_CALLS = HOST_CALLS.only("event_id", "name", "tid", "start_ns", "end_ns")
_WORK = DEVICE_EVENTS.only("event_id", "name", "kind", "start_ns", "end_ns")
_LAUNCHES = LAUNCHES.only("launch_id", "device_event_id")


@per_rank(
    columns=(
        Column(
            "sequence", Unit.NUMBER, "Number of the sequence on its rank, from 0, by device time in descending order"
        ),
        Column("operator", Unit.TEXT, "Call at the top, e.g. aten::linear; null if the profiler wrote no name"),
        Column(
            "kernels", Unit.TEXT, "Kernels and copies that it and the calls below it launched, by start, joined by ->"
        ),
        Column("kernel_count", Unit.COUNT, "Number of these kernels and copies"),
        Column("count", Unit.COUNT, "Calls that launched exactly these"),
        Column("work_ns", Unit.NS, "Sum of their device times; kernels that overlap count in full"),
        Column("call_ns", Unit.NS, "Host time of all these calls"),
        Column("event_id", Unit.EVENT, "With each=True the event of the call; else null"),
    ),
    reads=(_CALLS, CPU_OPS.only("event_id"), _XLA_CALLS, _WORK, _LAUNCHES),
    chart=Ranking(x="operator", y=("work_ns",), title="Device time of recurring sequences of kernels"),
    named_by=("operator", "kernels"),
)
def kernel_sequences(
    rank: RankTrace, *, operator: str | None = None, min_kernels: int = FEWEST_KERNELS, each: bool = False
) -> pl.DataFrame:
    """Which sequences of kernels recur under an operator, with all that it calls.

    An operator that calls others has all of their kernels; where chosen calls contain each other, the outermost counts.
    The same layer gives the same sequence in every step: one that recurs often is worth fusing, or capturing in a CUDA
    graph, once for all; a sequence that is there only now and then shows that shapes or paths differ.

    Args:
        operator: Calls of any kind whose name contains this, e.g. a module's; by default all operators.
        min_kernels: Fewest kernels and copies that are a sequence.
        each: One row per event of each of the calls, down to the kernels, instead of one per sequence.
    """
    check_whole(1, min_kernels=min_kernels)
    host, device = _of_xla(rank) if rank[_CALLS].is_empty() else _of_calls(rank)
    if not each:
        # Half of all launch nothing, nor does what they call.
        host, device = host.filter(pl.col("work_count") > 0), device.filter(pl.col("work_count") > 0)
    host = host.with_columns(top_id=call_tree.outermost(host, _chosen(host, rank, operator)))
    tops = host.filter(pl.col("event_id") == pl.col("top_id"), pl.col("work_count") >= min_kernels)
    below = host.lazy().join(tops.lazy(), on="top_id", how="semi").select("top_id", parent_id="event_id")
    launched = device.lazy().join(below, on="parent_id")
    work = done(launched.filter(pl.col("work_count") > 0).sort("start_ns", "event_id"))
    # Numbers stand for names: some are thousands of characters long.
    lasted = pl.col("end_ns") - pl.col("start_ns")
    sequences = work.lazy().group_by("top_id").agg(numbers=pl.col("name").to_physical(), work_ns=lasted.sum())
    called = tops.lazy().select("name", top_id="event_id", call_ns=lasted).join(sequences, on="top_id")
    alike = done(
        called.group_by("name", "numbers").agg(
            pl.col("work_ns", "call_ns").sum(), count=pl.len(), example_id=pl.col("top_id").min()
        )
    ).lazy()
    names = (
        work.lazy()
        .join(alike, left_on="top_id", right_on="example_id", how="semi", maintain_order="left")
        .group_by("top_id")
        .agg(kernels=pl.col("name").cast(pl.String).fill_null("").str.join(SEPARATOR), kernel_count=pl.len())
    )
    ordered = done(
        alike.join(names, left_on="example_id", right_on="top_id")
        .with_columns(operator=pl.col("name").cast(pl.String))
        .sort("work_ns", "count", *SEQUENCE, descending=[True, True, False, False])
        .with_row_index("sequence")
    )
    if not each:
        return without(ordered, "name", "numbers", "example_id").hstack([constant("event_id", None, ordered.height)])
    of_call = called.select("name", "numbers", "top_id").join(ordered.lazy(), on=["name", "numbers"], nulls_equal=True)
    every = pl.concat([events.select("top_id", "event_id") for events in (host.lazy(), launched)])
    events = every.join(of_call, on="top_id").sort("sequence", "top_id", "event_id")
    return done(events.drop("top_id", "name", "numbers", "example_id"))


def _of_calls(rank: RankTrace) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The calls of hosts, and what they launched."""
    calls = rank[_CALLS]
    host = calls.filter(~pl.col("on_device"))
    return host, calls.filter("on_device")


def _of_xla(rank: RankTrace) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The calls of an XLA profile's threads that launch, and what they launched."""
    work, launches = rank[_WORK], rank[_LAUNCHES]
    if work["event_id"].equals(launches["device_event_id"]):
        # As a rule all work was launched: a join of some million rows would take much memory.
        made = work.with_columns(launches["launch_id"])
    else:
        made = work.join(launches.unique("device_event_id"), left_on="event_id", right_on="device_event_id")
    is_launch = pl.col("event_id").is_in(pl.lit(launches["launch_id"].unique()).implode())
    del work, launches
    launching = rank.where(_XLA_CALLS.only("tid"), is_launch)["tid"].unique()
    spans = rank.where(_XLA_CALLS, pl.col("tid").is_in(pl.lit(launching).implode()))
    made = made.select("event_id", "name", "start_ns", "end_ns", "launch_id", work_count=IS_WORK.cast(pl.UInt8))
    host = call_tree.nested(spans.with_columns(pid="tid"), made.filter(work_count=1), ("parent_id", "work_count"))
    return host, made.rename({"launch_id": "parent_id"})


def _chosen(host: pl.DataFrame, rank: RankTrace, operator: str | None) -> pl.Series:
    """Which calls may be at the top."""
    if operator is None:
        # Of some million operators few are asked for.
        ops = rank.where(CPU_OPS.only("event_id"), pl.col("event_id").is_in(host["event_id"].implode()))["event_id"]
        return are_in(host["event_id"], ops)
    named: pl.Series = host["name"].cast(pl.String).str.contains(operator, literal=True).fill_null(False)
    return named


@kernel_sequences.rule
def launch_bound_sequences(table: pl.DataFrame) -> Iterator[Finding]:
    """More than half of the host's time in sequences goes into ones that recur, and take it longer than the device.

    Such a sequence was launched at least ten times, kernel by kernel, and each time the host needed longer for it than
    the kernels ran. A device that has nothing else in its queue waits for the next launch; a faster device would change
    nothing.

    Capture what recurs in a CUDA graph (`torch.cuda.graph`, `torch.compile(mode="reduce-overhead")`), or let
    `torch.compile` fuse it, so that one launch stands for all.
    """
    is_bound = (pl.col("count") >= OFTEN) & (pl.col("call_ns") > pl.col("work_ns"))
    ratio = (pl.col("call_ns").filter(is_bound).sum() / pl.col("call_ns").sum()).over("rank")
    bound = table.with_columns(ratio=ratio).filter(is_bound, pl.col("ratio") > BOUND_RATIO)
    if bound.is_empty():
        return
    worst = bound.sort("call_ns", "operator", "kernels", descending=[True, False, False]).row(0, named=True)
    yield Finding(
        "info",
        "{name:name} launches the same {kernels:plural kernel} {count:plural time}, which takes the host {times:times} "
        "times as long as they run",
        tuple(bound["rank"].unique().sort()),
        values={
            "name": worst["operator"],
            "kernels": worst["kernel_count"],
            "count": worst["count"],
            "times": worst["call_ns"] / max(worst["work_ns"], 1),
        },
    )
