"""What the threads of a host did, cut where something else may depend on it."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from holotrace.core.tables import ANNOTATIONS, CPU_OPS, RUNTIME_CALLS, STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive import call_tree
from holotrace.derive.critical_steps import HOST, LOADING, LOADING_DATA
from holotrace.graph.engine import end_of, start_of

# A thread that stands still for less did not hand over to another.
_HANDED_OVER_NS = 10_000
# The other thread works for at least so much of the time that this one stands still.
_WORKED_RATIO = 0.5

_SPAN = ("event_id", "name", "pid", "tid", "start_ns", "end_ns")
STEPS_READ = STEPS.only("step", "event_id", "start_ns", "end_ns")
_OPS = CPU_OPS.only(*_SPAN)
CALLS_READ = RUNTIME_CALLS.only(*_SPAN, "correlation")
_RANGES = ANNOTATIONS.only(*_SPAN, "on_device")
READS = (STEPS_READ, _OPS, CALLS_READ, _RANGES)
_PLACE = ["pid", "tid"]


@dataclass(frozen=True)
class Host:
    """Activities of a rank's threads, and what among them waits for what.

    ``activities`` are ordered by thread and time: thread, start_ns, end_ns, own_ns, kind, name, event_id (of the call
    of the device's runtime, null between calls). ``calls`` are the calls with the activity of the outermost around
    each: event_id, name, start_ns, end_ns, thread, activity. ``edges``: from_point, to_point, lag_ns, is_inferred.
    ``steps``: step, begin (a point), end (a point).
    """

    activities: pl.DataFrame
    calls: pl.DataFrame
    edges: pl.DataFrame
    steps: pl.DataFrame


def of(rank: RankTrace) -> Host:
    """The host's part of a rank's graph."""
    ops, ranges = rank[_OPS], rank[_RANGES].filter(~pl.col("on_device")).drop("on_device")
    steps = rank[STEPS_READ]
    spans = pl.concat([ops, ranges.join(ops.select("event_id"), on="event_id", how="anti")])
    threads = pl.concat([spans.select(_PLACE), rank[CALLS_READ].select(_PLACE)]).unique().sort(_PLACE)
    threads = threads.with_row_index("thread")

    def placed(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.join(threads, on=_PLACE, nulls_equal=True)

    calls = placed(rank[CALLS_READ])
    marked = placed(spans.join(steps.select("event_id"), on="event_id", how="semi"))
    named = placed(spans.join(steps.select("event_id"), on="event_id", how="anti"))
    work = placed(ops.join(steps.select("event_id"), on="event_id", how="anti"))
    outer_calls = _outermost(calls)
    main = _main_thread(marked, calls, work)
    times = steps.join(marked.select("event_id", "thread"), on="event_id", how="left")
    times = times.with_columns(pl.col("thread").fill_null(main).cast(pl.UInt32))
    handed = _handed_over(_outermost(pl.concat([work.select(*_SPAN, "thread"), calls.select(*_SPAN, "thread")])), main)
    cuts = _cuts(outer_calls, _outermost(named), times, handed, main)
    activities = _named(_between(cuts, outer_calls), named)
    activities = _waiting_for_threads(activities, handed, main)
    within = _within(calls.select("event_id", "name", "start_ns", "end_ns", "thread"), activities)
    return Host(activities, within, _edges(activities, handed, main), _marks(times, activities))


def _outermost(spans: pl.DataFrame) -> pl.DataFrame:
    """Spans that no earlier one of their thread reaches into."""
    ordered = spans.sort("thread", "start_ns", -pl.col("end_ns"), "event_id")
    reached = pl.col("end_ns").shift(1).cum_max().over("thread")
    return ordered.filter((pl.col("start_ns") >= reached).fill_null(True))


def _main_thread(marked: pl.DataFrame, calls: pl.DataFrame, ops: pl.DataFrame) -> int:
    """The thread of most steps, else of most calls or operators."""
    for frame in (marked, calls, ops):
        if not frame.is_empty():
            return int(frame["thread"].value_counts(sort=True)["thread"][0])
    return 0


def _handed_over(busy: pl.DataFrame, main: int) -> pl.DataFrame:
    """Where the main thread stood still while another worked, as in a backward pass: thread, start_ns, end_ns.

    The other began after the main thread had stopped and was done before it went on.
    """
    of_main = busy.filter(pl.col("thread") == main).sort("start_ns")
    gaps = of_main.select(gap_start="end_ns", gap_end=pl.col("start_ns").shift(-1)).filter(
        pl.col("gap_end") - pl.col("gap_start") >= _HANDED_OVER_NS
    )
    others = busy.filter(pl.col("thread") != main).sort("start_ns")
    runs = (
        others.with_columns(before_ns=pl.col("end_ns").shift(1).over("thread"))
        .join_asof(gaps.sort("gap_start"), left_on="start_ns", right_on="gap_start", check_sortedness=False)
        .filter(pl.col("start_ns") < pl.col("gap_end"))
        .group_by("thread", "gap_start", "gap_end")
        .agg(
            pl.col("start_ns", "before_ns").first(),
            pl.col("end_ns").last(),
            worked_ns=(pl.col("end_ns") - pl.col("start_ns")).sum(),
        )
    )
    lasted = pl.col("end_ns") - pl.col("start_ns")
    return runs.filter(
        pl.col("before_ns").fill_null(pl.col("gap_start")) <= pl.col("gap_start"),
        pl.col("end_ns") <= pl.col("gap_end"),
        lasted >= _HANDED_OVER_NS,
        pl.col("worked_ns") >= _WORKED_RATIO * lasted,
    ).select("thread", "start_ns", "end_ns")


def _cuts(
    calls: pl.DataFrame, named: pl.DataFrame, steps: pl.DataFrame, handed: pl.DataFrame, main: int
) -> pl.DataFrame:
    """thread and time_ns of everything that cuts a thread, in order; none is within a call."""
    on_main = handed.with_columns(thread=pl.lit(main, pl.UInt32))
    within = pl.concat(
        frame.select("thread", time_ns=column)
        for frame in (named, steps, handed, on_main)
        for column in ("start_ns", "end_ns")
    )
    inside = _call_around(within, calls)
    ends = pl.concat(calls.select("thread", time_ns=column) for column in ("start_ns", "end_ns"))
    free = within.filter(~inside["is_inside"])
    return pl.concat([free, ends]).unique().sort("thread", "time_ns")


def _call_around(times: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Whether each time is within a call of its thread, and when that ends; in the order given."""
    around = calls.select("thread", call_start="start_ns", call_end="end_ns").sort("call_start")
    return (
        times.with_row_index("row")
        .sort("time_ns")
        .join_asof(around, left_on="time_ns", right_on="call_start", by="thread", check_sortedness=False)
        .with_columns(
            is_inside=((pl.col("time_ns") > pl.col("call_start")) & (pl.col("time_ns") < pl.col("call_end"))).fill_null(
                False
            )
        )
        .sort("row")
    )


def _between(cuts: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """What lies between two cuts of a thread."""
    spans = cuts.with_columns(end_ns=pl.col("time_ns").shift(-1).over("thread")).drop_nulls("end_ns")
    of_calls = calls.filter(pl.col("end_ns") > pl.col("start_ns")).unique(["thread", "start_ns"], keep="first")
    return (
        spans.rename({"time_ns": "start_ns"})
        .join(
            of_calls.select("thread", "start_ns", "event_id", call="name"),
            on=["thread", "start_ns"],
            how="left",
            maintain_order="left",
        )
        .with_columns(own_ns=pl.col("end_ns") - pl.col("start_ns"))
    )


def _named(activities: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """Each with its name: the call's, else that of the innermost span around it; null outside of all."""
    place = ["thread", "start_ns", "end_ns"]
    both = pl.concat([named.select(place), activities.select(place)]).with_row_index("event_id")
    tree = call_tree.nested(
        both.with_columns(pid="thread", tid=pl.lit(0, pl.UInt32)),
        pl.DataFrame(schema={"launch_id": pl.UInt32(), "start_ns": pl.Int64(), "end_ns": pl.Int64()}),
    )
    around = named["name"].gather(tree["parent_id"].tail(activities.height))
    loaders = [name for name in named["name"].unique().cast(pl.String) if name and LOADING in name]
    loading = around.is_in(pl.Series(loaders, dtype=around.dtype).implode()).fill_null(False)
    return activities.with_columns(around=around, loading=loading).select(
        pl.exclude("call", "around", "loading"),
        name=pl.coalesce("call", "around"),
        kind=pl.when("loading").then(pl.lit(LOADING_DATA)).otherwise(pl.lit(HOST)).cast(pl.Categorical),
    )


def _waiting_for_threads(activities: pl.DataFrame, handed: pl.DataFrame, main: int) -> pl.DataFrame:
    """The activities, where those that only waited for another thread take no time themselves."""
    ordered = handed.sort("start_ns").select(run_start="start_ns", run_end="end_ns")
    on_main = (
        activities.with_row_index("row")
        .filter(pl.col("thread") == main)
        .join_asof(ordered, left_on="start_ns", right_on="run_start", check_sortedness=False)
        .filter(pl.col("end_ns") <= pl.col("run_end"))["row"]
    )
    # Before it was handed something, the other thread slept.
    slept = (
        activities.with_row_index("row")
        .join(handed.select("thread", end_ns="start_ns"), on=["thread", "end_ns"])
        .filter(pl.col("event_id").is_null())["row"]
    )
    waits = pl.int_range(activities.height, eager=True).is_in(pl.concat([on_main, slept]).cast(pl.Int64).implode())
    return activities.with_columns(own_ns=pl.when(waits).then(0).otherwise("own_ns"))


def point_at(places: pl.DataFrame, activities: pl.DataFrame) -> pl.Series:
    """The point at which each place (thread, time_ns) is: the start of an activity, else the end of the last before."""
    starts = activities.select("thread", "start_ns").with_row_index("activity").sort("start_ns")
    found = (
        places.with_row_index("row")
        .sort("time_ns")
        .join_asof(starts, left_on="time_ns", right_on="start_ns", by="thread", check_sortedness=False)
        .sort("row")
    )
    activity = pl.col("activity")
    at_start = pl.col("time_ns") == pl.col("start_ns")
    return found.select(point=pl.when(at_start.fill_null(False)).then(start_of(activity)).otherwise(end_of(activity)))[
        "point"
    ]


def _edges(activities: pl.DataFrame, handed: pl.DataFrame, main: int) -> pl.DataFrame:
    numbered = activities.select("thread").with_row_index("activity")
    chain = numbered.filter(pl.col("thread") == pl.col("thread").shift(1)).select(
        from_point=end_of(pl.col("activity") - 1), to_point=start_of(pl.col("activity")), is_inferred=pl.lit(False)
    )
    start = handed.select("thread", time_ns="start_ns")
    end = handed.select("thread", time_ns="end_ns")
    on_main = pl.lit(main, pl.UInt32)
    forks = pl.DataFrame(
        {
            "from_point": point_at(start.with_columns(thread=on_main), activities),
            "to_point": point_at(start, activities),
        }
    )
    joins = pl.DataFrame(
        {
            "from_point": point_at(end, activities),
            "to_point": point_at(end.with_columns(thread=on_main), activities),
        }
    )
    inferred = pl.concat([forks, joins]).drop_nulls().with_columns(is_inferred=pl.lit(True))
    return pl.concat([chain, inferred]).with_columns(lag_ns=pl.lit(0, pl.Int64))


def _marks(steps: pl.DataFrame, activities: pl.DataFrame) -> pl.DataFrame:
    return steps.select("step", "start_ns", "end_ns").with_columns(
        begin=point_at(steps.select("thread", time_ns="start_ns"), activities),
        end=point_at(steps.select("thread", time_ns="end_ns"), activities),
    )


def _within(calls: pl.DataFrame, activities: pl.DataFrame) -> pl.DataFrame:
    """The calls, each with the activity in which it began."""
    starts = activities.select("thread", began_ns="start_ns").with_row_index("activity").sort("began_ns")
    return (
        calls.sort("start_ns")
        .join_asof(starts, left_on="start_ns", right_on="began_ns", by="thread", check_sortedness=False)
        .drop_nulls("activity")
        .drop("began_ns")
    )
