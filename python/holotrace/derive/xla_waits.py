"""Which calls of the host wait for programs of XLA: those that read their results back."""

from __future__ import annotations

import polars as pl

from holotrace.core.plans import done
from holotrace.core.tables import CPU_OPS, DEVICE_EVENTS, MODULES
from holotrace.core.trace import RankTrace
from holotrace.derive import host_activities
from holotrace.derive.host_activities import READ_BACK, WAIT
from holotrace.derive.kernel_kinds import IS_WORK, MEMORY
from holotrace.derive.names import distinct
from holotrace.derive.unrecorded_waits import SCHEMA, WAITED_NS

_CALLS = CPU_OPS.only("event_id", "name", "pid", "tid", "start_ns", "end_ns")
_EVENTS = DEVICE_EVENTS.only("event_id", "name", "kind", "device", "start_ns", "end_ns")
_RUNS = MODULES.only("device", "start_ns", "end_ns")
READS = (_CALLS, _EVENTS, _RUNS)
# How runtimes and profilers call copies from a device to its host.
_TO_HOST = r"(?i)d2h|dtoh|device_to_host|TransferFrom"


def waits(rank: RankTrace) -> pl.DataFrame:
    """Calls that took long to read a result back, and the work that ended the program whose result it was.

    That is the last program that was over before the result was copied, or where nothing was copied, before the call
    returned. If no program ended while the call lasted, it waited for none.

    Returns unrecorded_waits.SCHEMA; empty for ranks that run no programs of XLA.
    """
    runs = rank[_RUNS]
    if runs.is_empty():
        return pl.DataFrame(schema=SCHEMA)
    work = _work(rank)
    copies = _within(_long_calls(rank), _copies(work), "copied_ns")
    until = pl.coalesce("copied_ns", "end_ns")
    found = _within(copies.with_columns(end_ns=until), _last_work(runs, work), "ended_ns", "after_id")
    return found.drop_nulls("after_id").select(
        pl.col("event_id").cast(pl.UInt32).alias("held_id"), "after_id", "ended_ns", is_call=pl.lit(value=True)
    )


def _work(rank: RankTrace) -> pl.DataFrame:
    return rank.where(_EVENTS, IS_WORK).with_columns(pl.col("device").fill_null(0))


def _long_calls(rank: RankTrace) -> pl.DataFrame:
    """The outermost calls that read back or wait, if they took long: event_id, start_ns, end_ns."""
    names = distinct(rank[_CALLS.only("name")]["name"])
    waiting = names.filter(host_activities.of_calls(names).is_in([READ_BACK, WAIT]))
    told = rank.where(_CALLS, pl.col("name").is_in(pl.lit(waiting).implode()))
    thread = ["pid", "tid"]
    reached = pl.col("end_ns").cum_max().shift(1).over(thread)
    ordered = told.sort("start_ns", "end_ns", "event_id", descending=[False, True, False])
    outermost = ordered.filter(reached.is_null() | (pl.col("start_ns") >= reached))
    return outermost.filter(pl.col("end_ns") - pl.col("start_ns") > WAITED_NS).select("event_id", "start_ns", "end_ns")


def _copies(work: pl.DataFrame) -> pl.DataFrame:
    """Copies to the host: when each was over, and when it began."""
    return work.filter(_is_copy(work)).select(over_ns="end_ns", copied_ns="start_ns")


def _is_copy(work: pl.DataFrame) -> pl.Expr:
    names = distinct(work["name"])
    copies = names.filter(names.cast(pl.String).str.contains(_TO_HOST).fill_null(value=False))
    return ((pl.col("kind") == MEMORY) & pl.col("name").is_in(pl.lit(copies).implode())).fill_null(value=False)


def _last_work(runs: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame:
    """The work that ended last in each run of a program: when, and its event."""
    ended = work.filter(~_is_copy(work)).select("device", "end_ns", after_id="event_id")
    by_end = ended.with_columns(ended_ns="end_ns").sort("end_ns", "after_id")
    last = (
        runs.lazy()
        .with_columns(pl.col("device").fill_null(0))
        .unique(["device", "end_ns"], keep="last", maintain_order=True)
        .sort("end_ns")
        .join_asof(by_end.lazy(), on="end_ns", by="device", strategy="backward", check_sortedness=False)
        .filter(pl.col("ended_ns") > pl.col("start_ns"))
    )
    return done(last.select("ended_ns", "after_id", over_ns="ended_ns"))


def _within(calls: pl.DataFrame, ends: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Each call with the ``columns`` of what was over last while it lasted; null where nothing was."""
    met = calls.sort("end_ns").join_asof(
        ends.sort("over_ns"), left_on="end_ns", right_on="over_ns", strategy="backward", check_sortedness=False
    )
    is_met = pl.col("over_ns") > pl.col("start_ns")
    return met.select(*calls.columns, *(pl.when(is_met).then(name).alias(name) for name in columns))
