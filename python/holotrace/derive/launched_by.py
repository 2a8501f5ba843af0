"""Which operator launched which work: the innermost around the launch, on its thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from holotrace.core.native import native
from holotrace.core.plans import columns, done, without
from holotrace.core.tables import CPU_OPS, DEVICE_EVENTS, LAUNCHES, RUNTIME_CALLS
from holotrace.core.trace import RankTrace
from holotrace.derive import call_tree
from holotrace.derive.groups import ordered
from holotrace.derive.kernel_kinds import IS_WORK
from holotrace.derive.names import are_in, distinct

_OPS = CPU_OPS.only("event_id", "name", "pid", "tid", "start_ns", "end_ns")
_CALLS = RUNTIME_CALLS.only("event_id", "name", "pid", "tid", "start_ns", "end_ns")
_STARTS = LAUNCHES.only("launch_id", "device_event_id", "launch_name", "launch_start_ns", "launch_end_ns")
_THREADS = LAUNCHES.only("tid")
_EVENTS = DEVICE_EVENTS.only("event_id", "kind", "name", "start_ns", "end_ns")
READS = (_OPS, _CALLS, _STARTS, _THREADS, _EVENTS)
# Calls of threads that launch nothing that are looked at together: trees of all would be most of the memory.
_TOGETHER = 500_000
_ROW = pl.int_range(pl.len(), dtype=pl.UInt32)
# Who launched work: an operator, a host call outside of all operators, or nobody knows.
OPERATOR, LAUNCH, UNKNOWN = "operator", "launch", "unknown"


def operators(rank: RankTrace) -> Iterator[pl.DataFrame]:
    """Every call of an operator, with what it and those below it took and launched: ``name``, ``start_ns`` and sums.

    ``self_ns`` is its time in no operator and no call of the runtime that it made, ``runtime_ns`` the time of these
    calls, as far as it made them itself; ``self_work_count`` and ``self_work_ns`` are of what they launched.
    ``self_busy_ns`` is the time in which at least one of these kernels ran.

    What only few calls have is told in rows of its own: the sums are those of all frames together.
    """
    yield from _taken(rank.cached(_nested))
    for threads in _of_others(rank):
        yield from _taken(_tree(rank, threads))
    launched = rank.cached(work)
    ops = columns(launched, "op_id", name="operator", start_ns="op_start_ns").unique("op_id")
    busy = covered_at(launched, by="op_id")[ops["op_id"]]
    yield ops[:, ["name", "start_ns"]].hstack([busy.alias("self_busy_ns")])
    if rank.computes_on_host:
        # No call that an operator makes has launched it.
        lasted = pl.col("end_ns") - pl.col("start_ns")
        yield launched.select(name="operator", start_ns="op_start_ns", self_work_count=1, self_work_ns=lasted)


def _taken(tree: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """What operators took and launched with all below them, and what calls of the runtime that each made did."""
    lasted = pl.col("end_ns") - pl.col("start_ns")
    taken = tree.select("name", "start_ns", "self_ns", "work_count", "work_ns", total_ns=lasted, count=1)
    yield taken if tree["is_op"].all() else taken.filter(tree["is_op"])
    made = tree.filter(~pl.col("is_op"), pl.col("parent_id").is_not_null())
    made = made.filter(tree["is_op"][made["parent_id"]])
    callers = tree[:, ["name", "start_ns"]][made["parent_id"]]
    yield callers.hstack(made.select(runtime_ns=lasted, self_work_count="work_count", self_work_ns="work_ns"))


def work(rank: RankTrace) -> pl.DataFrame:
    """Every kernel and copy that an operator launched: its launch, and the operator's ``op_id`` and start."""
    nested = rank.cached(_nested)
    rows = nested.lazy().with_row_index("number")
    ops = rows.filter("is_op").select(op="number", op_id="event_id", operator="name", op_start_ns="start_ns")
    calls = rows.select("is_op", launch_id="event_id", op=_operator(nested)).filter(_can_launch(rank))
    launched = _launched(rank).lazy().join(calls.drop("is_op"), on="launch_id")
    return done(launched.join(ops, on="op").drop("op"))


def outside(rank: RankTrace) -> pl.DataFrame:
    """Every kernel and copy that no operator launched: its launch, as far as it is known, and ``source``."""
    inside = rank.cached(work)[:, ["event_id"]]
    left = rank.where(_EVENTS, IS_WORK).lazy().join(inside.lazy(), on="event_id", how="anti")
    starts = rank[_STARTS].lazy().unique("device_event_id", keep="first", maintain_order=True)
    known = pl.col("launch_id").is_not_null()
    return done(
        left.join(starts, left_on="event_id", right_on="device_event_id", how="left").with_columns(
            source=pl.when(known).then(pl.lit(LAUNCH)).otherwise(pl.lit(UNKNOWN))
        )
    )


def covered_ns(work: pl.DataFrame, by: str) -> pl.DataFrame:
    """For each value of ``by`` the time in which at least one kernel or copy of it ran, ``covered_ns``."""
    covered, groups = covered_at(work, by), distinct(work[by])
    return pl.DataFrame({by: groups, "covered_ns": covered[groups.fill_null(len(covered) - 1)]})


def covered_at(work: pl.DataFrame, by: str) -> pl.Series:
    """The same in the place of each number; what has none comes last."""
    largest: Any = work[by].max()
    last = 0 if largest is None else int(largest) + 1
    place = work[by].fill_null(last) if work[by].null_count() else work[by]
    spans = ordered(work[:, ["start_ns", "end_ns"]].hstack([place.alias("place")]), ["start_ns"])
    return pl.DataFrame(native.covered_at(spans, last + 1)).to_series()


def _of_all_threads(rank: RankTrace) -> pl.DataFrame:
    """As ``_nested``, and behind that the same of all other threads."""
    launching = rank.cached(_nested)
    if not _has_others(rank):
        return launching
    others = _tree(rank, pl.concat(_of_others(rank)))
    return pl.concat([launching, others.with_columns(pl.col("parent_id") + launching.height)])


def _has_others(rank: RankTrace) -> bool:
    """Whether threads that launch nothing have operators or calls of the runtime."""
    return rank.cached(_nested).height < rank.count(_OPS) + rank.count(_CALLS)


def _nested(rank: RankTrace) -> pl.DataFrame:
    """Operators and calls of the device's runtime, of threads that launch: one tree, ``parent_id`` is a row of it."""
    return _tree(rank, None)


def _of_others(rank: RankTrace) -> list[pl.Series]:
    """The threads that launch nothing, in groups that have no more than some hundred thousand calls each."""
    if not _has_others(rank):
        return []
    launching = distinct(rank[_THREADS]["tid"])
    made = [rank[table.only("tid")]["tid"].drop_nulls().value_counts() for table in (_OPS, _CALLS)]
    others = (
        pl.concat(made)
        .group_by("tid")
        .agg(pl.col("count").sum())
        .filter(~pl.col("tid").is_in(pl.lit(launching).implode()))
    )
    group = pl.col("count").cum_sum() // _TOGETHER
    return [part["tid"] for part in others.with_columns(group=group).partition_by("group")]


def _tree(rank: RankTrace, others: pl.Series | None) -> pl.DataFrame:
    """The calls of ``others``, or of the threads that launch, in a tree."""
    place = ("event_id", "pid", "tid", "start_ns", "end_ns")
    threads = distinct(rank[_THREADS]["tid"])
    # Where whole programs are launched, most of what there is on the host is on threads that launch nothing.
    are_all = rank.count(_CALLS) > 0 or threads.null_count() > 0
    launches = pl.col("tid").is_in(pl.lit(threads).implode()).fill_null(value=True) | are_all
    is_asked = launches if others is None else pl.col("tid").is_in(pl.lit(others).implode())
    ops = rank.where(_OPS, is_asked).select("name", *place, is_op=True)
    calls = rank.where(_CALLS, is_asked)
    calls = calls.select(pl.lit(None, ops.schema["name"]).alias("name"), *place, is_op=False)
    # An operator may take no longer than the call that it makes, but no call makes an operator: so number anew.
    rows = pl.concat([ops.lazy().sort("event_id"), calls.lazy().sort("event_id")]).with_row_index("number")
    # The profiler writes the end of a launch up to some ten microseconds after that of its operator.
    both = done(rows.with_columns(is_cut=~pl.col("is_op")))
    numbers = both.lazy().filter(_can_launch(rank)).select(launch_id="event_id", launch="number")
    launched = _launched(rank).lazy().join(numbers, on="launch_id")
    work = done(launched.select("start_ns", "end_ns", launch_id="launch"))
    added = ("parent_id", "self_ns", "work_count", "work_ns")
    tree = call_tree.nested(both.with_columns(event_id="number"), work, added)
    return without(tree, "number", "pid", "tid", "is_cut").with_columns(both["event_id"])


def _operator(nested: pl.DataFrame) -> pl.Series:
    """The number of the innermost operator around each row, or of itself; null where there is none."""
    # A call of the runtime may be made by another: each round goes up twice as far as the one before.
    reached = nested.select(at=pl.when("is_op").then(_ROW).otherwise("parent_id"))["at"]
    while not (further := reached[reached]).equals(reached, null_equal=True):
        reached = further
    return reached


def _launched(rank: RankTrace) -> pl.DataFrame:
    """Work with its launch, where that may be a call of the device's runtime, or an operator that computes itself."""
    is_work = IS_WORK & (rank.count(_CALLS) > 0 or rank.computes_on_host)
    return done(
        rank.where(_EVENTS, is_work).lazy().join(rank[_STARTS].lazy(), left_on="event_id", right_on="device_event_id")
    )


def _can_launch(rank: RankTrace) -> pl.Expr:
    """Which operators and calls of the runtime may have launched work."""
    return ~pl.col("is_op") | rank.computes_on_host


def around(rank: RankTrace, ops: pl.Series) -> pl.Series:
    """The ``op_id`` of every operator around one of these, given by theirs."""
    nested = _of_all_threads(rank)
    above = nested.filter("is_op", pl.col("event_id").is_in(pl.lit(ops).implode()))["parent_id"].drop_nulls().unique()
    found = above
    while not above.is_empty():
        above = nested["parent_id"][above].drop_nulls().unique()
        above = above.filter(~above.is_in(found.implode()))
        found = pl.concat([found, above])
    return nested["event_id"][found]


def outermost(rank: RankTrace, chosen: pl.Series) -> pl.DataFrame:
    """Every operator that is one of these, given by ``event_id``, or within one.

    Returns ``op_id`` and of the outermost ``around_id`` and its name, ``around``.
    """
    if chosen.is_empty():
        return pl.DataFrame(schema={"op_id": pl.UInt32(), "around_id": pl.UInt32(), "around": pl.String()})
    nested = _of_all_threads(rank)
    is_chosen = are_in(nested["event_id"], chosen) & nested["is_op"]
    found = call_tree.outermost(nested.select("parent_id", event_id=_ROW), is_chosen)
    rows = nested.lazy().with_row_index("number")
    named = rows.select(around="number", around_id="event_id", around_name="name")
    return done(
        rows.select("is_op", op_id="event_id", around=found)
        .filter("is_op", pl.col("around").is_not_null())
        .join(named, on="around")
        .select("op_id", "around_id", around=pl.col("around_name").cast(pl.String))
    )


def within(rank: RankTrace, names: pl.Series) -> pl.Series:
    """The ``event_id`` of every operator of these names, or within one."""
    nested = _of_all_threads(rank)
    is_its = pl.col("name").is_in(pl.lit(names).implode()).fill_null(value=False)
    is_chosen = nested.select(pl.col("is_op") & is_its).to_series()
    around = call_tree.outermost(nested.select("parent_id", event_id=_ROW), is_chosen)
    found: pl.Series = nested["event_id"].filter(nested["is_op"] & around.is_not_null())
    return found


def named(rank: RankTrace, pattern: str) -> pl.Series:
    """The ``event_id`` of every operator of such a name."""
    ops = rank[_OPS.only("event_id", "name")]
    names = distinct(ops["name"]).to_frame("name")
    chosen = names.filter(pl.col("name").cast(pl.String).str.contains(pattern))["name"]
    return ops["event_id"].filter(are_in(ops["name"], chosen)) if len(chosen) else ops["event_id"].clear()
