"""What the threads of a host did, cut where something else may depend on it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import polars as pl

from holotrace.core.native import native
from holotrace.core.plans import done, without
from holotrace.core.tables import ANNOTATIONS, CPU_OPS, RUNTIME_CALLS, STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive import exchange_waits
from holotrace.derive.critical_steps import HOST, LOADING, LOADING_DATA
from holotrace.derive.names import distinct, distinct_pairs, pair
from holotrace.derive.vendors import ASKING
from holotrace.graph import xla

_SPAN = ("event_id", "name", "pid", "tid", "start_ns", "end_ns")
STEPS_READ = STEPS.only("step", "event_id", "start_ns", "end_ns")
_OPS = CPU_OPS.only(*_SPAN)
CALLS_READ = RUNTIME_CALLS.only(*_SPAN, "correlation")
_RANGES = ANNOTATIONS.only(*_SPAN, "on_device")
READS = (STEPS_READ, _OPS, CALLS_READ, _RANGES, *exchange_waits.READS, *xla.READS)
_PLACE = ["pid", "tid"]
# What spans are to the core, which cuts threads by them: work, ranges that only have names, calls of the runtime,
# those that only ask, which are a third of all and cut nothing, and steps, which it is told of apart.
_OPERATOR, _RANGE, _CALL, _QUERY, _STEP = 0, 1, 2, 3, 4


@dataclass(frozen=True)
class Host:
    """Activities of a rank's threads, and what among them waits for what.

    ``activities`` are ordered by thread and time: thread, start_ns, end_ns, own_ns (0 where it only waited for another
    thread), kind, name (the call's, else that of the innermost span around it; null outside of all), event_id (of the
    call of the device's runtime, null between calls). ``calls`` are the calls with the activity in which each began:
    event_id, name, start_ns, end_ns, thread, activity. ``edges``, by to_point and from_point: from_point, to_point,
    is_inferred. ``steps``: step, start_ns, end_ns, begin (a point), end (a point). ``is_recorded``: whether more than
    steps is known of it.
    """

    activities: pl.DataFrame
    calls: pl.DataFrame
    edges: pl.DataFrame
    steps: pl.DataFrame
    is_recorded: bool


def of(rank: RankTrace, work: pl.DataFrame, *, has_queries: bool) -> Host:
    """The host's part of a rank's graph, in which calls that only ask are activities or time of what is around them.

    ``work`` is what devices ran.
    """
    steps = steps_of(rank)
    asking = ASKING if not has_queries else frozenset()
    kinds = _of_xla(rank, work) if xla.is_xla(rank) else _spans(rank, asking, work)
    is_step = pl.col("event_id").is_in(pl.lit(steps["event_id"]).implode())
    # To take steps out would copy all other columns, as would a new column of all kinds of spans together.
    spans = _placed([frame.with_columns(role=_role(role, is_step).cast(pl.UInt8)) for frame, role in kinds])
    main = _main_thread(spans)
    threads_of = spans.lazy().filter(pl.col("role") == _STEP).select("event_id", "thread").unique("event_id")
    of_steps = steps.lazy().join(threads_of, on="event_id", how="left")
    steps = done(of_steps.with_columns(pl.col("thread").fill_null(main)))
    threads = 1 + max(main, *(int(frame["thread"].max() or 0) for frame in (spans, steps)))  # type: ignore[arg-type]
    tables = native.host_graph(
        spans[:, ["thread", "start_ns", "end_ns", "role"]],
        steps[:, ["thread", "start_ns", "end_ns"]],
        threads,
        main,
    )
    cut, edges, begun, points = (pl.DataFrame(table) for table in tables)
    called = spans[:, ["event_id", "name", "start_ns", "end_ns", "thread"]].hstack([begun["activity"]])
    calls = called.filter(spans["role"] == _CALL, pl.col("activity").is_not_null())
    return Host(
        activities=_named(cut, spans),
        calls=calls,
        edges=edges,
        steps=steps[:, ["step", "start_ns", "end_ns"]].hstack(points),
        is_recorded=not spans.is_empty(),
    )


def in_steps(threads: Host, work: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What a host of which nothing but its steps was recorded did in them: it waited for its devices.

    Returns edges (from_point, to_point, lag_ns, is_inferred) from the begin of each step to its first work, and from
    the last of it to its end; and what the host takes by itself (activity, own_ns).

    Args:
        threads: The host's part of a graph.
        work: What devices ran, with step and its activity in the whole graph.
    """
    number = pl.col("activity").cast(pl.Int64)
    ends = (
        work.drop_nulls("step")
        .group_by("step")
        .agg(
            at_ns=pl.col("start_ns").min(),
            over_ns=pl.col("end_ns").max(),
            first=number.sort_by("start_ns", number).first(),
            last=number.sort_by("end_ns", number).last(),
        )
    )
    # A step begins with the activity that it is.
    found = threads.steps.join(ends, on="step").with_columns(step_is=pl.col("begin").cast(pl.Int64) // 2)
    before_ns, after_ns = (pl.col("at_ns") - pl.col("start_ns"), pl.col("end_ns") - pl.col("over_ns"))
    first, last = 2 * pl.col("first"), 2 * pl.col("last") + 1
    begun = found.select(from_point=2 * pl.col("step_is"), to_point=first, lag_ns=before_ns.clip(lower_bound=0))
    over = found.select(from_point=last, to_point=2 * pl.col("step_is") + 1, lag_ns=after_ns.clip(lower_bound=0))
    edges = pl.concat([begun, over]).with_columns(pl.col("from_point", "to_point").cast(pl.UInt32), is_inferred=True)
    return edges, found.select(activity=pl.col("step_is").cast(pl.UInt32), own_ns=pl.lit(0, pl.Int64))


def steps_of(rank: RankTrace) -> pl.DataFrame:
    """The steps as the host went through them: step, event_id, start_ns, end_ns."""
    return xla.steps(rank) if xla.is_xla(rank) else rank[STEPS_READ]


def _role(role: pl.Expr, is_step: pl.Expr) -> pl.Expr:
    return pl.when(is_step & (role < _CALL)).then(_STEP).otherwise(role)


def _of_xla(rank: RankTrace, work: pl.DataFrame) -> Sequence[tuple[pl.DataFrame, pl.Expr]]:
    """The spans of the program's threads, with what each is."""
    own = pl.col("tid").is_in(pl.lit(xla.threads(rank)).implode())
    ops, ranges = rank.where(_OPS, own), rank.where(_RANGES, own & ~pl.col("on_device")).drop("on_device")
    is_call = pl.col("event_id").is_in(pl.lit(xla.calls(rank)).implode())
    role = pl.when(is_call).then(_CALL).otherwise(_OPERATOR)
    waits = pl.concat([xla.handed(rank), xla.unrecorded_waits(rank, work)])
    return ((ops, role), (ranges, pl.lit(_RANGE)), (waits, pl.lit(_CALL)))


def _spans(rank: RankTrace, asking: Collection[str], work: pl.DataFrame) -> Sequence[tuple[pl.DataFrame, pl.Expr]]:
    """The spans of all threads, with what each is."""
    ops, ranges = rank[_OPS], without(rank[_RANGES].filter(~pl.col("on_device")), "on_device")
    both = ops.filter(pl.col("event_id").is_in(pl.lit(ranges["event_id"]).implode()))["event_id"]
    ranges = ranges.filter(~pl.col("event_id").is_in(pl.lit(both).implode()))
    calls = rank[CALLS_READ][:, _SPAN]
    names = [name for name in distinct(calls["name"]) if name in asking]
    asks = pl.col("name").is_in(pl.lit(pl.Series(names, dtype=calls.schema["name"])).implode())
    of_calls = pl.when(asks.fill_null(False)).then(_QUERY).otherwise(_CALL)
    if rank.computes_on_host:
        is_launch = pl.col("event_id").is_in(pl.lit(work["launch_id"].drop_nulls()).implode())
        waits = rank.cached(exchange_waits.of_rank).select(_SPAN)
        role = pl.when(is_launch).then(_CALL).otherwise(_OPERATOR)
        return ((ops, role), (ranges, pl.lit(_RANGE)), (pl.concat([calls, waits]), pl.lit(_CALL)))
    return ((ops, pl.lit(_OPERATOR)), (ranges, pl.lit(_RANGE)), (calls, of_calls))


def _placed(kinds: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """All of these spans with the number of their thread, which counts from 0."""
    places = pl.concat(distinct_pairs(spans[_PLACE]) for spans in kinds)
    threads = distinct_pairs(places).sort(_PLACE).with_row_index("thread")
    numbers = threads.lazy().select("thread", place=pair(*_PLACE))

    def placed(spans: pl.DataFrame) -> pl.DataFrame:
        places = spans.lazy().select(place=pair(*_PLACE))
        thread = done(places.join(numbers, on="place", how="left", maintain_order="left"))["thread"]
        return spans[:, [name for name in spans.columns if name not in _PLACE]].hstack([thread])

    return pl.concat(placed(spans) for spans in kinds)


def _main_thread(spans: pl.DataFrame) -> int:
    """The thread of most steps, else of most calls or operators."""
    for roles in ([_STEP], [_CALL, _QUERY], [_OPERATOR]):
        threads = spans["thread"].filter(spans["role"].is_in(roles))
        if len(threads):
            return int(threads.value_counts(sort=True)["thread"][0])
    return 0


def _named(activities: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """The activities with kind, name and event_id for the rows of spans that each is and is in."""
    names = spans["name"]
    around, called = names[activities["around"]], activities["call"]
    loaders = [name for name in distinct(around) if name and LOADING in name]
    loading = pl.Series(loaders, dtype=around.dtype).implode()
    kind = (
        pl.when(around.is_in(loading) if loaders else pl.lit(value=False))
        .then(pl.lit(LOADING_DATA, pl.Categorical()))
        .otherwise(pl.lit(HOST, pl.Categorical()))
    )
    return activities.select(
        *("thread", "start_ns", "end_ns", "own_ns"),
        event_id=spans["event_id"][called],
        name=pl.coalesce(names[called], around),
        kind=kind,
    )
