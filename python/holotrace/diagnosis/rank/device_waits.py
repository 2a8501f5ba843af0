"""Calls of hosts that wait for a device: which they are, when they return, and what made them."""

from __future__ import annotations

import re

import polars as pl

from holotrace.core.plans import columns, done
from holotrace.core.trace import RankTrace
from holotrace.derive import copies, exchange_waits
from holotrace.derive.names import distinct
from holotrace.derive.vendors import ALLOCATING, BLOCKING
from holotrace.diagnosis.rank import idle_windows, open_calls
from holotrace.diagnosis.rank.calls import among, call_names, host_calls, matching
from holotrace.diagnosis.words.classes import ALLOCATOR, RUNTIME, STEP_RANGE, SYNCHRONIZATION, is_of_program

# No host waits for what its device copies within itself.
_WITHIN = re.compile(copies.WITHIN)
_READING = ("aten::nonzero",)  # tells more than what needs it, as indexing with a mask


def of_calls(calls: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """The calls that wait for a device, in order of their return."""
    names = BLOCKING.intersection(rank.cached(call_names))
    return done(
        calls.lazy()
        .filter(matching(calls["category"], RUNTIME) & among(calls["name"], names))
        .filter(~pl.col("event_id").is_in(pl.lit(idle_windows.launches_of(rank, _WITHIN)).implode()))
        .select(wait_id="event_id", wait_parent="parent_id", call="name", began_ns="start_ns", returned_ns="end_ns")
        .sort("returned_ns")
    )


def awaited(rank: RankTrace) -> pl.DataFrame:
    """When threads waited for a device, or for an exchange of hosts that compute: ``began_ns``, ``returned_ns``."""
    calls = rank.cached(host_calls)
    frees = freeing(rank)
    waits = of_calls(calls, rank)[:, ["began_ns", "returned_ns"]]
    waits = waits if frees.is_empty() else pl.concat([waits, frees[:, waits.columns]]).sort("returned_ns")
    if not rank.computes_on_host:
        return waits
    found = exchange_waits.of_calls(calls, rank[idle_windows.WORK_EVENTS])
    both = pl.concat([waits, found.select(began_ns="start_ns", returned_ns="ended_ns")])
    return both.sort("returned_ns")


def freeing(rank: RankTrace) -> pl.DataFrame:
    """When threads that freed memory of a device waited for it: until the last of its work that ended meanwhile.

    Returns ``began_ns``, ``returned_ns``, and the ``event_id`` and ``name`` of the call.
    """
    ends = rank[idle_windows.WORK_EVENTS].select(returned_ns="end_ns").sort("returned_ns")
    found = frees(rank).join_asof(
        ends, left_on="ended_ns", right_on="returned_ns", coalesce=False, check_sortedness=False
    )
    return found.filter(pl.col("returned_ns") > pl.col("began_ns")).select(
        "began_ns", "returned_ns", "event_id", "name"
    )


def with_freeing(waits: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """The waits, and those of calls that free memory, each with the cause that it is."""
    frees = freeing(rank).rename({"name": "responsible"}).with_columns(cause=pl.lit(ALLOCATOR))
    return pl.concat([waits.with_columns(cause=pl.lit(SYNCHRONIZATION)), frees], how="diagonal")


def frees(rank: RankTrace) -> pl.DataFrame:
    """The calls that free memory of a device, which wait until it has nothing to do, in order of their ends.

    Returns ``event_id``, ``name``, ``began_ns`` and ``ended_ns``.
    """
    calls = rank.cached(host_calls)
    names = [name for name in rank.cached(call_names) if name.startswith(ALLOCATING) and "Free" in name]
    found = calls.filter(among(calls["name"], names)).select(
        "event_id", pl.col("name").cast(pl.String), began_ns="start_ns", ended_ns="end_ns"
    )
    return found.sort("ended_ns")


def named(waits: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Waits by what made them, ``responsible``: the outer of the two calls around each that is no step, else its own.

    A function of the program's own that waits is responsible itself. Returns ``event_id``, ``responsible``,
    ``began_ns`` and ``returned_ns``, in their order.
    """

    def those(ids: pl.Series, **names: str) -> pl.DataFrame:
        found = open_calls.looked_up(calls, distinct(ids), "event_id", "name", "category", "parent_id")
        rows = found.lazy().drop_nulls("event_id")
        text = pl.col("name").cast(pl.String)
        is_step = text.str.contains(STEP_RANGE.pattern)
        is_function = pl.col("category") == "python_function"
        told = done(
            rows.with_columns(pl.when(~is_step).then(text).alias("name"), function=pl.when(is_function).then(text))
        )
        # Not in a thread of Polars, where it would wait for the interpreter while others wait for that thread.
        own = {name: is_of_program(name, "python_function") for name in distinct(told["function"]) if name is not None}
        is_own = pl.Series("own", [own.get(name) for name in told["function"].to_list()], pl.Boolean)
        return columns(told.hstack([is_own]), **names)

    parents = those(waits["wait_parent"], wait_parent="event_id", wait_name="name", around_id="parent_id", own="own")
    parents = parents.with_columns(around_id=pl.when(~pl.col("own").fill_null(value=False)).then("around_id"))
    around = those(parents["around_id"], around_id="event_id", around_name="name")
    return done(
        waits.lazy()
        .join(parents.lazy(), on="wait_parent", how="left", maintain_order="left")
        .join(around.lazy(), on="around_id", how="left", maintain_order="left")
        .select(
            "began_ns",
            "returned_ns",
            event_id="wait_id",
            responsible=pl.coalesce(
                pl.when(pl.col("wait_name").is_in(_READING)).then("wait_name"),
                "around_name",
                "wait_name",
                pl.col("call").cast(pl.String),
            ),
        )
    )
