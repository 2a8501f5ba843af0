"""The graph of one rank: what its threads and queues did, and what waits for what."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import polars as pl

from holotrace.core import arrow
from holotrace.core.plans import columns, done
from holotrace.core.schema import typed
from holotrace.core.trace import RankTrace
from holotrace.derive import collectives, exchange_waits, pauses, step_graph
from holotrace.derive.epoch import base_ns
from holotrace.derive.kernel_kinds import IS_WORK
from holotrace.derive.steps import launched_in
from holotrace.graph import device, host, packed, xla

READS = (*host.READS, *device.READS, *collectives.READS)
# What a row of a part is.
ACTIVITY, LANE, EDGE, STEP, COLLECTIVE = "activity", "lane", "edge", "step", "collective"
PART = packed.PART
_I64, _POINT = pl.Int64(), pl.UInt32()
# Times of activities and ends of edges are packed; lanes are threads of the host or queues of a device.
_SCHEMAS = {
    ACTIVITY: pl.Schema(
        {
            "lane": pl.Int32(),
            "name": pl.Categorical(),
            "kind": pl.Categorical(),
            "start_ns": _I64,
            "end_ns": _I64,
            "own_ns": _I64,
            "step": _I64,
            "event_id": pl.UInt32(),
        }
    ),
    LANE: pl.Schema({"lane": pl.Int32(), "is_device": pl.Boolean(), "device": _I64, "stream": _I64}),
    EDGE: pl.Schema({"from_point": _POINT, "to_point": _POINT, "lag_ns": _I64, "is_inferred": pl.Boolean()}),
    STEP: pl.Schema({"step": _I64, "start_ns": _I64, "end_ns": _I64, "from_point": _POINT, "to_point": _POINT}),
    COLLECTIVE: pl.Schema({"activity": _I64} | {column.name: column.unit.dtype for column in collectives.CALLS}),
}
# With the meetings of ranks, which are known when all ranks are.
_MET = {**_SCHEMAS, COLLECTIVE: pl.Schema({**_SCHEMAS[COLLECTIVE], "match": _I64, "moved_ns": _I64})}


def part(rank: RankTrace) -> pl.DataFrame:
    """Activities, lanes, edges, steps and collectives of one rank, as rows of PART; ``unpacked`` says what they are.

    Calls that only ask the runtime for something it knows are time of the span around them: a third of all calls.
    """
    return _part(rank, has_queries=False)


def whole_part(rank: RankTrace) -> pl.DataFrame:
    """The same with an activity for each of these calls, too, for who asks what they cost."""
    return _part(rank, has_queries=True)


def _part(rank: RankTrace, *, has_queries: bool) -> pl.DataFrame:
    held, returned = _recorded(rank)
    is_xla = xla.is_xla(rank)
    work = xla.works(rank) if is_xla else device.works(rank)
    threads = host.of(rank, work, has_queries=has_queries)
    if is_xla:
        times, work = xla.waits(work)
        usual, can_wait = {**device.USUAL, **xla.USUAL}, xla.can_wait
    else:
        times = device.waits(work if held.is_empty() else work.clear())
        usual, can_wait = device.USUAL, device.can_wait
        if rank.computes_on_host:
            usual = {**usual, **exchange_waits.USUAL}
            returned = rank.cached(exchange_waits.of_rank).select("after_id", waits_id="event_id")
    count = threads.activities.height
    work = work.with_columns(pl.col("activity") + count)
    base = base_ns(rank.metadata)
    edges, own = device.joined(work, threads, held, times, returned, usual=usual, can_wait=can_wait)
    if not threads.is_recorded:
        waits, waiting = host.in_steps(threads, work)
        edges = pl.concat([edges, waits.select(edges.columns)]).sort("to_point", "from_point")
        own = pl.concat([own, waiting.select(own.columns)])
    steps = threads.steps if not is_xla else xla.begun(threads.steps, work, rank)
    steps = steps.sort("start_ns", "step")
    steps = columns(steps, "step", "start_ns", "end_ns", from_point="begin", to_point="end")
    # Each of these is let go when it is packed, before the next is made.
    found = [_packed(EDGE, packed.edges(edges))]
    del edges
    found += [
        _packed(STEP, steps.with_columns(pl.col("start_ns", "end_ns") + base)),
        _packed(COLLECTIVE, _collectives(rank, work)),
        _packed(LANE, _lanes(threads, work)),
    ]
    activities = _activities(rank, threads, work, own)
    del work, threads
    activities = packed.activities(activities, later_ns=base)
    return packed.part([_packed(ACTIVITY, activities), *found])


def packed_again(rank: int, kinds: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """What was unpacked of a rank and has its meetings, as rows of PART with its rank."""
    edges = kinds[EDGE].with_columns(pl.col("from_point", "to_point").cast(_POINT))
    made = {**kinds, ACTIVITY: packed.activities(kinds[ACTIVITY]), EDGE: packed.edges(edges)}
    rows = packed.part(_packed(kind, made[kind], schema) for kind, schema in _MET.items())
    return rows.select(pl.lit(rank, pl.Int32).alias("rank"), *rows.columns)


def unpacked(
    parts: pl.DataFrame, kinds: Collection[str] = tuple(_SCHEMAS), *, has_met: bool = False
) -> dict[str, pl.DataFrame]:
    """The graphs of all ranks, those of each together: activities, lanes, edges, steps and collectives, or some of it.

    Args:
        parts: Rows of PART, with rank.
        kinds: Which of them.
        has_met: Whether the rows have the meetings of ranks.
    """
    schemas = _MET if has_met else _SCHEMAS
    made = {ACTIVITY: packed.unpacked_activities(), EDGE: packed.unpacked_edges()}
    asked = parts.filter(~pl.col("row").is_in(set(schemas) - set(kinds)))
    return packed.unpacked(asked, {kind: schemas[kind] for kind in kinds}, made)


def _packed(row: str, frame: pl.DataFrame, schema: pl.Schema | None = None) -> tuple[str, int, bytes]:
    return row, frame.height, arrow.stream(_shaped(frame, schema or _SCHEMAS[row]))


def _shaped(frame: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    return pl.DataFrame([typed(frame[name], dtype) for name, dtype in schema.items()])


def _lanes(threads: host.Host, work: pl.DataFrame) -> pl.DataFrame:
    """The threads of the host, then the queues of devices."""
    of_host = threads.activities.lazy().select(lane="thread", is_device=pl.lit(False)).unique("lane").sort("lane")
    queues = work.lazy().select("device", "stream", lane=_lane(threads), is_device=pl.lit(True))
    of_device = queues.unique("lane").sort("lane")
    return pl.concat([done(of_host), done(of_device)], how="diagonal_relaxed")


def _lane(threads: host.Host) -> pl.Expr:
    """The lane of a queue."""
    lanes = threads.activities["thread"].max()
    return pl.col("queue") + (0 if lanes is None else int(str(lanes)) + 1)


def _activities(rank: RankTrace, threads: host.Host, work: pl.DataFrame, own: pl.DataFrame) -> pl.DataFrame:
    of_host = threads.activities
    of_host = of_host.select(
        "name",
        "start_ns",
        "end_ns",
        "event_id",
        lane="thread",
        kind="kind",
        own_ns=of_host["own_ns"].scatter(own["activity"], own["own_ns"]),
        step=launched_in(of_host["start_ns"], host.steps_of(rank)),
    )
    columns = ("name", "start_ns", "end_ns", "event_id", "step", "kind")
    of_device = work.select(*columns, lane=_lane(threads), own_ns=pl.col("end_ns") - pl.col("start_ns"))
    is_recorded = pl.col("event_id") < pauses.FIRST_MADE
    # Before they are put together: a new column of both would copy all others.
    both = (part.with_columns(pl.when(is_recorded).then("event_id").alias("event_id")) for part in (of_host, of_device))
    return pl.concat(both, how="diagonal_relaxed")


def _recorded(rank: RankTrace) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What waited for events as the profiler recorded it: works, and calls (after_id, waits_id)."""
    asked = device.syncs(rank).with_columns(call_id="launch_id", sync="name")
    none = pl.DataFrame(schema={"after_id": pl.UInt32(), "waits_id": pl.UInt32()})
    if asked.is_empty():
        return none, none
    work = rank[device.EVENTS_READ].filter(IS_WORK)
    both = pl.concat(
        [work.with_columns(call_id="launch_id", sync=pl.lit(None, pl.String)), asked], how="diagonal_relaxed"
    )
    found = step_graph.recorded_waits(rank[host.CALLS_READ].lazy(), both, asked, device.RULES)
    waits = asked.lazy().select("event_id", "call_id", "sync").join(found.lazy(), on="event_id")
    is_held = pl.col("sync") == step_graph.HOLDS
    pairs = done(waits.with_columns(waits_id=pl.when(is_held).then("holds_id").otherwise("call_id"))).lazy()
    held, returned = (
        done(pairs.filter(which).select(pl.col("after_id", "waits_id").cast(pl.UInt32)).drop_nulls())
        for which in (is_held, ~is_held)
    )
    return held, returned


def _collectives(rank: RankTrace, work: pl.DataFrame) -> pl.DataFrame:
    calls = rank.cached(collectives.calls)
    return calls.join(work[:, ["event_id", "activity"]], on="event_id")
