"""The graph of one step of a rank, from its tables."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from holotrace.core.plans import done, not_null, without
from holotrace.core.tables import ANNOTATIONS, CPU_OPS, DEVICE_EVENTS, RUNTIME_CALLS, STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive import exchange_waits, host_activities, unrecorded_waits, xla_waits
from holotrace.derive.host_activities import BACK_PRESSURE, WAIT
from holotrace.derive.kernel_kinds import COMMUNICATION, SYNC, WORK
from holotrace.derive.names import distinct
from holotrace.derive.step_graph import CALL, HOLDS, OP, RANGE, GraphRules, StepGraph, build

# What PyTorch calls the wait for the next batch.
LOADING = "DataLoader"
HOST, LOADING_DATA, LAUNCH, DELAY = "host", "data_loading", "launch", "kernel_delay"
# A call that waits for a device does not take its time from holding the runtime's lock.
_RULES = GraphRules(locking=GraphRules.locking - GraphRules.waiting)
_BOUND_BY_KIND = {"launch_delay": LAUNCH, "kernel_delay": DELAY}

_SPAN = ("event_id", "name", "pid", "tid", "start_ns", "end_ns")
_STEPS = STEPS.only("step", "start_ns", "end_ns")
_OPS = CPU_OPS.only(*_SPAN)
_CALLS = RUNTIME_CALLS.only(*_SPAN, "correlation")
_RANGES = ANNOTATIONS.only(*_SPAN, "on_device")
_EVENTS = DEVICE_EVENTS.only(
    *("event_id", "name", "kind", "device", "stream", "start_ns", "end_ns"),
    *("launch_id", "launch_ns", "wait_on_stream", "wait_on_record"),
)
READS = (_STEPS, _OPS, _CALLS, _RANGES, _EVENTS, *exchange_waits.READS, *xla_waits.READS)
_HOST = [*_SPAN, "kind", "correlation"]
_KIND = pl.Enum([OP, CALL, RANGE])


@dataclass(frozen=True)
class StepOfRank:
    """A step: its number (None for a range, or all of a recording without steps), the host's time, and its graph."""

    step: int | None
    span_ns: int
    graph: StepGraph
    # Every event of the graph: event_id, name, what its time is bound by, tid of the host, device and stream.
    events: pl.DataFrame

    def edges(self, rows: pl.Series | None = None) -> pl.DataFrame:
        """All edges, or those in ``rows``: start_ns, end_ns, what bounds it, its event's columns; null where none."""
        time = self.graph.nodes["time_ns"]
        edges = self.graph.edges if rows is None else self.graph.edges_at(rows)
        events = self.events if rows is None else self.events.join(edges, on="event_id", how="semi")
        named = edges.join(events, on="event_id", how="left", maintain_order="left")
        return named.with_columns(
            pl.col("name").cast(pl.String),
            start_ns=time[edges["from_node"]],
            end_ns=time[edges["to_node"]],
            bound_by=pl.col("kind").replace_strict(_BOUND_BY_KIND, default=pl.col("bound_by")),
            weight_ns=pl.col("weight_ns").clip(lower_bound=0),
        )


def of(rank: RankTrace, step: int | None = None) -> StepOfRank | None:
    """A step, by default the last that another one follows; None where it is not there.

    A rank without steps is looked at as a whole.
    """
    steps = rank[_STEPS].sort("start_ns")
    if steps.is_empty() and step is None:
        return _within(rank, None, None)
    # The last step may have been cut off.
    chosen = steps.filter(step=step) if step is not None else steps.tail(2).head(1)
    return None if chosen.is_empty() else _within(rank, int(chosen["step"][0]), chosen)


def of_range(rank: RankTrace, name: str, instance: int = 0) -> StepOfRank | None:
    """A range on the host whose name contains ``name``, the first by default; None where there are not so many."""
    ranges = rank[ANNOTATIONS].filter(~pl.col("on_device"))
    named = ranges.filter(pl.col("name").cast(pl.String).str.contains(name, literal=True).fill_null(False))
    chosen = named.sort("start_ns", "event_id").slice(instance, 1)
    return None if chosen.is_empty() else _within(rank, None, chosen)


def _within(rank: RankTrace, step: int | None, window: pl.DataFrame | None) -> StepOfRank:
    """What the host began within the first row of ``window``, or ever."""
    window_ns = None if window is None else (int(window["start_ns"][0]), int(window["end_ns"][0]))
    device, exchanged = _device(rank), rank.cached(exchange_waits.of_rank)
    # What begins as the step ends is the next one's.
    within_ns = window_ns and (window_ns[0], window_ns[1] - 1)
    # What a synchronisation waits for may have been recorded long before.
    host = _host(rank, None if device["sync"].count() else within_ns)
    within = host if within_ns is None else host.filter(pl.col("start_ns").is_between(*within_ns))
    rules = replace(_RULES, waiting=_RULES.waiting | _waits_of_xla(within))
    graph = build(
        host,
        device,
        window_ns=within_ns,
        rules=rules,
        waits=pl.concat([_unrecorded(within, device), rank.cached(xla_waits.waits), _of_exchanges(exchanged)]),
    )
    begun_ns, done_ns = _span(graph)
    start_ns, end_ns = window_ns or (begun_ns, done_ns)
    # Devices may run behind the host: a step is over when its work is done.
    return StepOfRank(step, max(end_ns, done_ns) - start_ns, graph, _events(within, device))


def _waits_of_xla(host: pl.DataFrame) -> frozenset[str]:
    """Spans of the runtimes of XLA that wait for a device, or for what others do for it."""
    names = not_null(distinct(host["name"])).cast(pl.String)
    is_wait = host_activities.of_calls(names).is_in([WAIT, BACK_PRESSURE])
    return frozenset(names.filter(is_wait))


def _span(graph: StepGraph) -> tuple[int, int]:
    time = graph.nodes["time_ns"]
    return (0, 0) if time.is_empty() else (int(time[0]), int(time[-1]))


def _host(rank: RankTrace, within_ns: tuple[int, int] | None) -> pl.DataFrame:
    """What the host began, ever or within that time."""
    op, call, span = (pl.lit(kind, _KIND) for kind in (OP, CALL, RANGE))
    none = pl.lit(None, pl.Int64())
    begins = pl.lit(value=True) if within_ns is None else pl.col("start_ns").is_between(*within_ns)
    ops, calls = (rank[table] if within_ns is None else rank.where(table, begins) for table in (_OPS, _CALLS))
    ranges = without(rank[_RANGES].filter(begins, ~pl.col("on_device")), "on_device")
    # Old releases wrote steps as operators; one event is one row.
    both = ops.lazy().join(ranges.lazy(), on="event_id", how="semi")
    once = done(ranges.lazy().join(both, on="event_id", how="anti"))
    parts = [
        ops.with_columns(kind=op, correlation=none),
        calls.with_columns(kind=call),
        once.with_columns(kind=pl.when(_is_loading()).then(op).otherwise(span), correlation=none),
    ]
    exchanged = rank.cached(exchange_waits.of_rank)
    if not exchanged.is_empty():
        parts.append(exchanged.filter(begins).with_columns(kind=call, correlation=none))
    return pl.concat(part[:, _HOST] for part in parts)


def _of_exchanges(waits: pl.DataFrame) -> pl.DataFrame:
    """Waits for exchanges of a host that computes, as ``unrecorded_waits`` tells of others."""
    return waits.select(
        pl.col("event_id").cast(pl.UInt32).alias("held_id"), "after_id", "ended_ns", is_call=pl.lit(value=True)
    )


def _device(rank: RankTrace) -> pl.DataFrame:
    is_sync = pl.col("kind") == SYNC
    # An operator of a host that computes takes its own time.
    kinds = [COMMUNICATION] if rank.computes_on_host else [*WORK, SYNC]
    return done(
        rank[_EVENTS]
        .lazy()
        .filter(pl.col("kind").is_in(kinds))
        .with_columns(
            call_id="launch_id",
            sync=pl.when(is_sync).then(pl.col("name").cast(pl.String).fill_null("")),
            stream=pl.when(pl.col("stream") >= 0).then("stream"),
            # What starts later was held up by something that was not recorded.
            is_prompt=pl.col("start_ns") - pl.col("launch_ns") < _RULES.longest_kernel_delay_ns,
        )
    )


def _unrecorded(host: pl.DataFrame, device: pl.DataFrame) -> pl.DataFrame:
    """What waited for work where the profiler does not say so.

    It records synchronisations if asked to, and never that a copy from pageable memory waits until it is done.
    """
    work = device.filter(pl.col("sync").is_null())
    syncs = device.filter(pl.col("sync").is_not_null())
    calls = host.lazy().filter(pl.col("kind") == CALL, pl.col("name").is_in(list(_RULES.waiting)))
    untold = done(calls.join(syncs.lazy(), left_on="event_id", right_on="call_id", how="anti"))
    of_calls = unrecorded_waits.of_calls(untold, work)
    if (syncs["sync"] == HOLDS).any():
        return of_calls
    return pl.concat([of_calls, unrecorded_waits.of_work(work)])


def _events(host: pl.DataFrame, device: pl.DataFrame) -> pl.DataFrame:
    on_host = host.select(
        "event_id",
        "name",
        bound_by=pl.when(_is_loading()).then(pl.lit(LOADING_DATA)).otherwise(pl.lit(HOST)),
        thread=pl.col("tid").cast(pl.String),
        device=pl.lit(None, pl.Int64()),
        stream=pl.lit(None, pl.Int64()),
    )
    on_device = device.select(
        "event_id",
        "name",
        bound_by=pl.col("kind").cast(pl.String),
        thread=pl.lit(None, pl.String()),
        device="device",
        stream="stream",
    )
    return pl.concat([on_host, on_device])


def _is_loading() -> pl.Expr:
    return pl.col("name").cast(pl.String).str.contains(LOADING, literal=True).fill_null(False)
