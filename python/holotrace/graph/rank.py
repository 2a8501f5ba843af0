"""The graph of one rank: what its threads and queues did, and what waits for what."""

from __future__ import annotations

import polars as pl

from holotrace.core.trace import RankTrace
from holotrace.derive import collectives, step_graph
from holotrace.derive.epoch import base_ns
from holotrace.derive.kernel_kinds import WORK
from holotrace.derive.steps import launched_in
from holotrace.graph import device, host, packed
from holotrace.graph.engine import end_of

READS = (*host.READS, *device.READS, *collectives.READS)
# What a row of a part is.
ACTIVITY, EDGE, STEP, COLLECTIVE = "activity", "edge", "step", "collective"
PART = packed.PART
_I64, _POINT = pl.Int64(), pl.Int64()
# Times of activities and ends of edges are packed; lanes are threads of the host or queues of a device.
_SCHEMAS = {
    ACTIVITY: pl.Schema(
        {
            "lane": pl.Int32(),
            "is_device": pl.Boolean(),
            "device": _I64,
            "stream": _I64,
            "name": pl.Categorical(),
            "kind": pl.Categorical(),
            "start_ns": _I64,
            "end_ns": _I64,
            "own_ns": _I64,
            "step": _I64,
            "event_id": pl.UInt32(),
        }
    ),
    EDGE: pl.Schema({"from_point": _POINT, "to_point": _POINT, "lag_ns": _I64, "is_inferred": pl.Boolean()}),
    STEP: pl.Schema({"step": _I64, "start_ns": _I64, "end_ns": _I64, "from_point": _POINT, "to_point": _POINT}),
    COLLECTIVE: pl.Schema(
        {"activity": _I64} | {column.name: column.unit.dtype for column in collectives.CALLS if column.name != "step"}
    ),
}


def part(rank: RankTrace) -> pl.DataFrame:
    """Activities, edges, steps and collectives of one rank, as rows of PART; ``unpacked`` says what they are.

    Calls that only ask the runtime for something it knows are time of the span around them: a third of all calls.
    """
    return _part(rank, has_queries=False)


def whole_part(rank: RankTrace) -> pl.DataFrame:
    """The same with an activity for each of these calls, too, for who asks what they cost."""
    return _part(rank, has_queries=True)


def _part(rank: RankTrace, *, has_queries: bool) -> pl.DataFrame:
    on_host, work = host.of(rank, has_queries=has_queries), device.works(rank)
    count = on_host.activities.height
    work = work.with_columns(pl.col("activity") + count)
    since_1970 = pl.col("start_ns", "end_ns") + base_ns(rank.metadata)
    edges, waits = _edges(rank, on_host, work)
    steps = on_host.steps.sort("start_ns", "step").rename({"begin": "from_point", "end": "to_point"})
    frames = {
        ACTIVITY: packed.activities(_activities(rank, on_host, work, waits).with_columns(since_1970)),
        EDGE: packed.edges(edges),
        STEP: steps.with_columns(since_1970),
        COLLECTIVE: _collectives(rank, work),
    }
    return packed.packed({row: _shaped(frame, _SCHEMAS[row]) for row, frame in frames.items()})


def unpacked(parts: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The graphs of all ranks, those of each together: activities, edges, steps and collectives."""
    made = {ACTIVITY: packed.unpacked_activities(), EDGE: packed.unpacked_edges()}
    return packed.unpacked(parts, _SCHEMAS, made)


def _shaped(frame: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    return frame.select(pl.col(name).cast(dtype) for name, dtype in schema.items())


def _activities(rank: RankTrace, on_host: host.Host, work: pl.DataFrame, waits: pl.DataFrame) -> pl.DataFrame:
    steps = rank[host.STEPS_READ]
    own = waits.drop_nulls("own_ns").group_by("activity").agg(waits_ns=pl.col("own_ns").min())
    of_host = on_host.activities.with_row_index("activity").join(own, on="activity", how="left", maintain_order="left")
    of_host = of_host.select(
        "name",
        "start_ns",
        "end_ns",
        "event_id",
        lane="thread",
        is_device=pl.lit(False),
        kind="kind",
        own_ns=pl.coalesce("waits_ns", "own_ns"),
        step=launched_in(of_host["start_ns"], steps),
    )
    lanes = on_host.activities["thread"].max()
    of_device = work.select(
        "name",
        "start_ns",
        "end_ns",
        "event_id",
        "device",
        "stream",
        lane=pl.col("queue") + (0 if lanes is None else int(str(lanes)) + 1),
        is_device=pl.lit(True),
        kind=pl.col("kind").cast(pl.String).cast(pl.Categorical),
        own_ns=pl.col("end_ns") - pl.col("start_ns"),
        step=launched_in(work["launch_ns"], steps),
    )
    # Names of the host stay numbers, where texts would take as long as all else.
    return pl.concat([of_host, of_device.cast({"name": pl.Categorical})], how="diagonal_relaxed")


def _edges(rank: RankTrace, on_host: host.Host, work: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """All edges, and what calls waited for."""
    held, returned = _recorded(rank)
    waits = device.call_waits(on_host.calls, work, returned)
    full = device.full_queue(work, on_host.calls)
    columns = ["from_point", "to_point", "lag_ns", "is_inferred"]
    of_waits = waits.select(
        from_point=end_of(pl.col("after")),
        to_point=end_of(pl.col("activity")),
        lag_ns="lag_ns",
        is_inferred="is_inferred",
    )
    of_room = full.select(
        from_point=(pl.col("after") * 2).cast(pl.UInt32),
        to_point=end_of(pl.col("activity")),
        lag_ns="lag_ns",
        is_inferred="is_inferred",
    )
    others = [
        device.queue_edges(work),
        device.launch_edges(work, on_host.calls),
        device.event_edges(work, held, device.called_waits(on_host.calls, work)),
        of_waits,
        of_room,
    ]
    # Most edges are of threads, and in order already.
    order = pl.col("to_point").cast(pl.Int64) * 2**32 + pl.col("from_point")
    of_host, of_device = (
        pl.concat([part.select(columns).cast({"lag_ns": pl.Int64}) for part in parts]).with_columns(order=order)
        for parts in ([on_host.edges], others)
    )
    edges = of_host.merge_sorted(of_device.sort("order", "lag_ns", "is_inferred"), key="order").drop("order")
    return edges, pl.concat([waits.select("activity", "own_ns"), full.select("activity", "own_ns")])


def _recorded(rank: RankTrace) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What waited for events as the profiler recorded it: work (after_id, holds_id), and calls (call_id, after_id)."""
    asked = device.syncs(rank).with_columns(call_id="launch_id", sync="name")
    none = pl.DataFrame(schema={"after_id": pl.UInt32(), "holds_id": pl.UInt32(), "call_id": pl.UInt32()})
    if asked.is_empty():
        return none.select("after_id", "holds_id"), none.select("call_id", "after_id")
    work = rank[device.EVENTS_READ].filter(pl.col("kind").is_in(WORK))
    both = pl.concat(
        [work.with_columns(call_id="launch_id", sync=pl.lit(None, pl.String)), asked], how="diagonal_relaxed"
    )
    found = step_graph.recorded_waits(rank[host.CALLS_READ], both, asked, device.RULES)
    waits = asked.select("event_id", "call_id", "sync").join(found, on="event_id")
    is_held = pl.col("sync") == step_graph.HOLDS
    return waits.filter(is_held).select("after_id", "holds_id"), waits.filter(~is_held).select("call_id", "after_id")


def _collectives(rank: RankTrace, work: pl.DataFrame) -> pl.DataFrame:
    calls = rank.cached(collectives.calls)
    return calls.drop("step").join(work.select("event_id", "activity"), on="event_id")
