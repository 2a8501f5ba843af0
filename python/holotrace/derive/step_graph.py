"""What waited for what in a step: a graph of the starts and ends of its events, and the longest path through it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import polars as pl

from holotrace.core.native import native
from holotrace.core.plans import done
from holotrace.derive.names import are_in, distinct
from holotrace.derive.vendors import LOCKING, RECORDING, WAITING

# How the core numbers what device events are.
_WORK, _PROMPT = 0, 8
_SYNCS = {"Stream Sync": 1, "Context Sync": 2, "Event Sync": 3, "Stream Wait Event": 4}
HOLDS, _RETURNS = "Stream Wait Event", "Event Sync"
_COUNTS, _WAITS, _LOCKS = 1, 2, 4
_NONE = 2**32 - 1  # stands for no event and no queue in the core
_BACKWARD = "autograd"
_THREAD = ("pid", "tid")
OP, CALL, RANGE, FUNCTION = "op", "call", "range", "function"
# Host events whose starts and ends are nodes; the others only enclose them.
_COUNTED = (OP, CALL)

HOST_SCHEMA = pl.Schema(
    {
        "event_id": pl.UInt32(),
        "name": pl.String(),
        "kind": pl.String(),
        "pid": pl.String(),
        "tid": pl.String(),
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "correlation": pl.Int64(),
    }
)
DEVICE_SCHEMA = pl.Schema(
    {
        "event_id": pl.UInt32(),
        "device": pl.Int64(),
        "stream": pl.Int64(),
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "call_id": pl.UInt32(),
        "sync": pl.String(),
        "wait_on_stream": pl.Int64(),
        "wait_on_record": pl.Int64(),
        "is_prompt": pl.Boolean(),
    }
)


@dataclass(frozen=True)
class GraphRules:
    """What is taken to wait for what."""

    waiting: frozenset[str] = WAITING
    """Calls that wait for a device, so that their own time is none of the host's."""

    locking: frozenset[str] = LOCKING
    """Calls that hold the runtime's lock, which one thread has at a time."""

    recording: frozenset[str] = RECORDING
    """Calls that record an event of the device for others to wait for."""

    forward: str = "ProfilerStep"
    """The thread whose ranges have this in their names goes on in the one thread of autograd, if there is one."""

    longest_kernel_delay_ns: int = 1_500_000
    """Work that starts so long after the work before it did not wait for that; HTA's threshold."""

    has_all_launches: bool = False
    """Also draw an edge without weight from each launch to its work where that waited for something else."""


class StepGraph:
    """Starts and ends of a step's events, and which of them came after which."""

    def __init__(self, native: native.StepGraph) -> None:
        self._native = native

    @cached_property
    def nodes(self) -> pl.DataFrame:
        """A row per node, by time: event_id, time_ns, is_start."""
        return pl.DataFrame(self._native.nodes())

    @cached_property
    def edges(self) -> pl.DataFrame:
        """A row per edge: from_node, to_node (rows of nodes), kind, weight_ns, and event_id, whose time that is.

        Its kind is operator, dependency, launch_delay, kernel_delay or sync.
        """
        return pl.DataFrame(self._native.edges())

    def edges_at(self, rows: pl.Series) -> pl.DataFrame:
        """Some rows of ``edges``, of which there are many more."""
        return pl.DataFrame(self._native.edges(rows.to_frame("edge")))

    @property
    def connected(self) -> pl.Series:
        """Nodes that have edges, in the order in which these were found."""
        return pl.DataFrame(self._native.connected())["node"]

    def longest_path(self, weight_ns: pl.Series | None = None) -> pl.Series:
        """Rows of the edges on the longest path, in its order.

        Args:
            weight_ns: What each edge takes instead; by default its own weight, or 0 where clocks differ so much that it
                is negative.
        """
        given = None if weight_ns is None else weight_ns.cast(pl.Int64).clip(lower_bound=0).to_frame("weight_ns")
        path: pl.Series = pl.DataFrame(self._native.longest_path(given))["edge"]
        return path


def build(
    host: pl.DataFrame,
    device: pl.DataFrame,
    *,
    window_ns: tuple[int, int] | None = None,
    rules: GraphRules | None = None,
    waits: pl.DataFrame | None = None,
) -> StepGraph:
    """The graph of what the host began within a window, and of the device work and waiting that it asked for.

    Args:
        host: HOST_SCHEMA: all host events of the rank; kind is op, call (of the device's runtime), range or function.
        device: DEVICE_SCHEMA: all device events; sync is null for work, else "Stream Sync", "Context Sync",
            "Event Sync" or "Stream Wait Event"; stream is null for waiting that is on no queue; is_prompt is whether
            work may have waited for its launch, as far as its queue tells.
        window_ns: From when to when, both included; by default always.
        rules: What is taken to wait for what.
        waits: What waited for work, besides what device events say: unrecorded_waits.SCHEMA.
    """
    rules = rules or GraphRules()
    # Only the calls within the window matter, but for what events were recorded before it.
    within = host if window_ns is None else host.filter(pl.col("start_ns").cast(pl.Int64).is_between(*window_ns))
    calls, device = _shaped(within, HOST_SCHEMA), _shaped(device, DEVICE_SCHEMA)
    told = frozenset() if waits is None else frozenset(waits["held_id"].filter(waits["is_call"]))
    asked = device.filter(pl.col("call_id").is_in(pl.lit(calls["event_id"]).implode()) | (pl.col("sync") == HOLDS))
    # Only the runtime launches and records.
    runtime = host.lazy().filter(pl.col("kind") == CALL).select(*_THREAD, "event_id", "name", "start_ns", "correlation")
    return StepGraph(
        native.step_graph(
            _host_columns(calls, rules, told),
            _device_columns(asked, recorded_waits(runtime, device, asked, rules), waits),
            longest_kernel_delay_ns=rules.longest_kernel_delay_ns,
            has_all_launches=rules.has_all_launches,
        )
    )


def _shaped(frame: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """The columns with their types; labels stay labels, since as texts those of all events take as much as all else."""
    columns = ((frame[name], dtype) for name, dtype in schema.items())
    is_label = (pl.Categorical, pl.Enum)
    return pl.DataFrame(
        [each if dtype == pl.String and each.dtype in is_label else each.cast(dtype) for each, dtype in columns]
    )


def _host_columns(calls: pl.DataFrame, rules: GraphRules, told: frozenset[int]) -> pl.DataFrame:
    def flag(names: frozenset[str], value: int) -> pl.Expr:
        return pl.col("name").is_in(list(names)).fill_null(False).cast(pl.UInt8) * value

    counts = pl.col("kind").is_in(_COUNTED).cast(pl.UInt8)
    waits = pl.col("name").is_in(list(rules.waiting)).fill_null(False) | pl.col("event_id").is_in(list(told))
    role = counts * (_COUNTS + waits.cast(pl.UInt8) * _WAITS + flag(rules.locking, _LOCKS))
    return calls.select("event_id", "start_ns", "end_ns", role=role.cast(pl.UInt8), thread=_threads(calls, rules))


def _threads(calls: pl.DataFrame, rules: GraphRules) -> pl.Series:
    """Numbers of the threads; that of autograd is the one it goes on for, if both are unmistakable."""
    # As for nodes, events without duration do not count.
    lasting = calls.filter(pl.col("kind").is_in((OP, RANGE)) & (pl.col("end_ns") > pl.col("start_ns")))
    names = distinct(lasting["name"])
    forward, backward = (
        distinct(lasting["tid"].filter(are_in(lasting["name"], _containing(names, part))))
        for part in (rules.forward, _BACKWARD)
    )
    pairs = calls[:, list(_THREAD)].lazy().unique()
    told = pairs.with_columns(*(pl.col(name).cast(pl.String).fill_null("").alias(f"{name}_told") for name in _THREAD))
    if len(forward) == len(backward) == 1 and None not in (forward[0], backward[0]):
        told = told.with_columns(pl.col("tid_told").replace(str(backward[0]), str(forward[0])))
    # Numbers are written without leading zeros, so that they are in order by length and then as text.
    told = done(told).lazy()
    keys = [f"{name}_told" for name in _THREAD]
    order = [key for name in keys for key in (pl.col(name).str.len_bytes(), pl.col(name))]
    numbered = told.select(keys).unique().sort(order).with_row_index("thread")
    of_pairs = told.join(numbered, on=keys).select(*_THREAD, "thread")
    of_calls = (
        calls[:, list(_THREAD)].lazy().join(of_pairs, on=_THREAD, how="left", nulls_equal=True, maintain_order="left")
    )
    return done(of_calls)["thread"]


def _containing(names: pl.Series, part: str) -> pl.Series:
    return pl.Series([name for name in names if name and part in name], dtype=names.dtype)


def _device_columns(asked: pl.DataFrame, waits: pl.DataFrame, more: pl.DataFrame | None) -> pl.DataFrame:
    role = (
        pl.when(pl.col("sync").is_null())
        .then(pl.col("is_prompt").fill_null(False).cast(pl.UInt8) * _PROMPT + _WORK)
        .otherwise(pl.col("sync").replace_strict(_SYNCS, default=_SYNCS[_RETURNS], return_dtype=pl.UInt8))
    )
    on = pl.col("device").fill_null(0)
    queue = pl.when(pl.col("stream").is_not_null()).then(pl.struct(on, "stream").rank("dense") - 1)
    columns = asked.join(waits, on="event_id", how="left", maintain_order="left").select(
        "event_id",
        "start_ns",
        "end_ns",
        device=on.rank("dense").cast(pl.UInt32),
        queue=queue.cast(pl.UInt32).fill_null(_NONE),
        call_id=pl.col("call_id").fill_null(_NONE),
        role=role.cast(pl.UInt8),
        after_id=pl.col("after_id").fill_null(_NONE),
        holds_id=pl.col("holds_id").fill_null(_NONE),
    )
    if more is None or more.is_empty():
        return columns
    none = pl.lit(_NONE, pl.UInt32)
    is_call = pl.col("is_call")
    role = pl.when(is_call).then(_SYNCS[_RETURNS]).otherwise(_SYNCS[HOLDS])
    held = more.select(
        pl.lit(0, pl.UInt32).alias("event_id"),
        *(pl.col("ended_ns").alias(name) for name in ("start_ns", "end_ns")),
        *(none.alias(name) for name in ("device", "queue")),
        call_id=pl.when(is_call).then("held_id").otherwise(none),
        role=role.cast(pl.UInt8),
        after_id="after_id",
        holds_id=pl.when(is_call).then(none).otherwise("held_id"),
    )
    return pl.concat([held, columns])


def recorded_waits(runtime: pl.LazyFrame, device: pl.DataFrame, asked: pl.DataFrame, rules: GraphRules) -> pl.DataFrame:
    """For waiting for an event: the work before the event was recorded, and the work that had to wait with it.

    Args:
        runtime: Calls of the device's runtime: pid, tid, event_id, name, start_ns, correlation.
        device: DEVICE_SCHEMA.
        asked: Those of ``device`` that the host asked for.
        rules: Which calls record.
    """
    waiting = asked.filter(pl.col("sync").is_in((_RETURNS, HOLDS)))
    if waiting.is_empty():
        return pl.DataFrame(schema={"event_id": pl.UInt32, "after_id": pl.UInt32, "holds_id": pl.UInt32})
    # Texts stay as they are: these are all events of the rank.
    event_id, start_ns = pl.col("event_id").cast(pl.UInt32), pl.col("start_ns").cast(pl.Int64)
    caller = runtime.select("pid", "tid", call_id=event_id, call_ns=start_ns)
    launched = done(
        device.lazy()
        .filter(pl.col("sync").is_null())
        .join(caller, on="call_id")
        .select("device", "stream", "pid", "tid", "call_ns", work_id="event_id")
        .sort("call_ns", "work_id")
    ).lazy()
    records = (
        runtime.filter(pl.col("name").is_in(list(rules.recording)))
        .sort("start_ns")
        .unique("correlation", keep="first", maintain_order=True)
        .select(wait_on_record=pl.col("correlation").cast(pl.Int64), recorded_ns=start_ns)
    )
    after = (
        waiting.lazy()
        .join(records, on="wait_on_record")
        .sort("recorded_ns")
        .join_asof(
            launched.select("device", "call_ns", "work_id", wait_on_stream="stream"),
            left_on="recorded_ns",
            right_on="call_ns",
            by=["device", "wait_on_stream"],
            strategy="backward",
            allow_exact_matches=False,
            check_sortedness=False,
        )
        .select("event_id", after_id="work_id")
    )
    holds = (
        waiting.lazy()
        .filter(pl.col("sync") == HOLDS)
        .join(caller, on="call_id")
        .sort("call_ns")
        .join_asof(
            launched,
            on="call_ns",
            by=["device", "stream", "pid", "tid"],
            strategy="forward",
            allow_exact_matches=False,
            check_sortedness=False,
        )
        .select("event_id", holds_id="work_id")
    )
    return done(after.join(holds, on="event_id", how="left"))
