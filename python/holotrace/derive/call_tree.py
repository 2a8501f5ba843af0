"""Who called whom on the host, what that launched on devices, and which call another thread went on with."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import polars as pl

from holotrace.core.native import native
from holotrace.core.plans import constant, done
from holotrace.core.tables import ANNOTATIONS, CALLS, CPU_OPS, DEVICE_EVENTS, EVENTS, LAUNCHES
from holotrace.derive.kernel_kinds import IS_WORK
from holotrace.derive.names import codes

# What the table of calls is made of.
READS = (
    EVENTS,
    ANNOTATIONS.only("event_id", "on_device"),
    CPU_OPS.only("event_id", "start_ns", "end_ns", "sequence", "forward_thread"),
    LAUNCHES.only("launch_id", "device_event_id"),
    DEVICE_EVENTS.only("event_id", "name", "kind", "start_ns", "end_ns"),
)
# What ``nested`` tells of each call.
_ADDED = frozenset(
    ("parent_id", "depth", "height", "self_ns", "work_count", "work_ns", "first_work_ns", "last_work_ns")
)
# The profiler's own bracket around a recording, which is no call.
_RECORDING = "Trace"


def calls(tables: Mapping[str, pl.DataFrame], columns: Collection[str] = CALLS.column_names) -> pl.DataFrame:
    """Those columns of the table of calls: events on the host, then the device events that they launched.

    Both are in the order of their numbers, and lie apart in memory: most want only the host's, see ``on_host``.
    """
    parts = _of_both(tables, {"event_id", *columns})
    names = [name for name in CALLS.column_names if name in columns]
    ordered = (part if part["event_id"].is_sorted() else part.sort("event_id") for part in parts)
    return pl.concat([part[names] for part in ordered], rechunk=False)


def on_host(calls: pl.DataFrame) -> pl.DataFrame:
    """Those of ``calls`` that are events on the host: no copy where they stand first, as above."""
    is_work = calls["on_device"]
    return calls.head(calls.height - int(is_work.sum())) if is_work.is_sorted() else calls.filter(~is_work)


def _of_both(tables: Mapping[str, pl.DataFrame], columns: Collection[str]) -> list[pl.DataFrame]:
    """The calls, and what they launched."""
    device, annotations = tables[DEVICE_EVENTS.name], tables[ANNOTATIONS.name]
    launches = tables[LAUNCHES.name].unique("device_event_id")
    not_host = pl.concat([device["event_id"], annotations.filter("on_device")["event_id"]])
    events = tables[EVENTS.name]
    host = events.filter(
        ~pl.col("event_id").is_in(pl.lit(not_host).implode()), pl.col("category").ne_missing(_RECORDING)
    )
    work = done(device.lazy().filter(IS_WORK).join(launches.lazy(), left_on="event_id", right_on="device_event_id"))
    nested_host = nested(host, work, _ADDED.intersection(columns))
    nested_host = nested_host.hstack([constant("on_device", False, nested_host.height)])
    if "continues_id" in columns:
        continues = host[:, ["event_id"]].join(
            continued(tables[CPU_OPS.name]), on="event_id", how="left", maintain_order="left"
        )
        nested_host = nested_host.with_columns(continues["continues_id"])
    lasts = pl.col("end_ns") - pl.col("start_ns")
    is_work = pl.col("event_id").is_in(pl.lit(work["event_id"]).implode())
    depth = pl.col("depth") if "depth" in columns else pl.lit(0)
    callers = nested_host.lazy().select(depth=depth + 1, launch_id="event_id")
    launched = (
        _with_made(device, launches, events)
        .lazy()
        .join(launches.lazy(), left_on="event_id", right_on="device_event_id")
        .join(callers, on="launch_id")
        .with_columns(
            on_device=pl.lit(True),
            parent_id="launch_id",
            height=0,
            self_ns=lasts,
            continues_id=None,
            work_count=is_work.cast(pl.Int64),
            work_ns=pl.when(is_work).then(lasts).otherwise(0),
            first_work_ns=pl.when(is_work).then("start_ns"),
            last_work_ns=pl.when(is_work).then("end_ns"),
        )
    )
    return [done(_typed(rows, columns)) for rows in (nested_host.lazy(), launched)]


def _with_made(device: pl.DataFrame, launches: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """The events, and where work was launched that is none of them, as that of operators which compute on the host."""
    last = events["event_id"].max()
    made = device.filter(pl.col("event_id") > (-1 if last is None else last))
    if made.is_empty():
        return events
    where = launches.join(events.select("category", "pid", "tid", launch_id="event_id"), on="launch_id")
    placed = made.join(where, left_on="event_id", right_on="device_event_id")
    return pl.concat([events, placed.select(events.columns)])


def nested(calls: pl.DataFrame, work: pl.DataFrame, added: Collection[str] = _ADDED) -> pl.DataFrame:
    """The calls, in their order, each with its caller and the work that it and those below it launched.

    The caller is the innermost call of the same thread that spans all of a call's time; of calls that span the same
    time, the one with the lowest ``event_id``. Calls that overlap in part are siblings.

    Args:
        calls: ``event_id``, ``pid``, ``tid``, ``start_ns``, ``end_ns``; others are kept. Those that are ``is_cut``, if
            there is such a column, end at the latest with the innermost other call in which they began, whatever was
            recorded; so does their new ``end_ns``.
        work: ``launch_id``, ``start_ns``, ``end_ns``; work of calls that are not there is left out.
        added: Those of ``parent_id``, ``depth``, ``height``, ``self_ns``, ``work_count``, ``work_ns``,
            ``first_work_ns`` and ``last_work_ns`` that are wanted.
    """
    cut = [calls["is_cut"].cast(pl.UInt8)] if "is_cut" in calls.columns else []
    made = sorted({*added, "end_ns"} if cut else added)
    if not made:
        return calls
    threads = codes(calls[:, ["pid", "tid"]])
    placed = calls[:, ["event_id", "start_ns", "end_ns"]].hstack([*threads.get_columns(), *cut])
    launched = work[:, ["launch_id", "start_ns", "end_ns"]]
    if launched["launch_id"].null_count():
        launched = launched.drop_nulls("launch_id")
    found = pl.DataFrame(native.call_tree(placed, launched, made))
    return calls.hstack(found) if set(made).isdisjoint(calls.columns) else calls.with_columns(found)


def outermost(calls: pl.DataFrame, is_chosen: pl.Series) -> pl.Series:
    """For each of ``calls`` the outermost chosen call that is around it or is itself, by ``event_id``; null for none.

    Args:
        calls: ``event_id``, ``parent_id``.
        is_chosen: Which of them.
    """
    chosen = calls[:, ["event_id", "parent_id"]].hstack([is_chosen.cast(pl.UInt8).alias("is_chosen")])
    return pl.DataFrame(native.outermost_calls(chosen)).to_series()


def continued(ops: pl.DataFrame) -> pl.DataFrame:
    """Each operator of a backward pass, ``event_id``, and the forward one it belongs to, ``continues_id``.

    Autograd numbers the operators of the forward pass. One that calls another passes its number on: the innermost
    counts. Numbers of several forward threads may be the same: then the last that began before counts.
    """
    numbered = ops.lazy().drop_nulls("sequence").filter(pl.col("sequence") >= 0)
    is_backward = pl.col("forward_thread").fill_null(0) > 0
    forward = numbered.filter(~is_backward).select("sequence", "start_ns", "end_ns", continues_id="event_id")
    return done(
        numbered.filter(is_backward)
        .sort("start_ns", "event_id")
        .join_asof(
            forward.sort("start_ns", -pl.col("end_ns"), "continues_id"),
            on="start_ns",
            by="sequence",
            check_sortedness=False,
        )
        .select("event_id", "continues_id")
        .drop_nulls()
    )


def _typed(rows: pl.LazyFrame, columns: Collection[str]) -> pl.LazyFrame:
    """The rows as the table of calls."""
    return rows.select(
        pl.col(column.name).cast(column.unit.dtype) for column in CALLS.columns if column.name in columns
    )
