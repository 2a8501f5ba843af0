"""What the host of an XLA profile was doing during given spans of time."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import lru_cache

import polars as pl

from holotrace.core.tables import ANNOTATIONS, HOST_CALLS, MODULES, STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive import compilations, host_activities, intervals
from holotrace.derive.host_activities import (
    BACK_PRESSURE,
    CALLED_BACK,
    COMPILATION,
    DISPATCH,
    INPUT,
    INPUT_RANGES,
    PRIORITY,
    PROGRAM,
    READ_BACK,
    TRACING,
    UPLOAD,
    WAIT,
)
from holotrace.derive.names import decided, distinct

_SPANS = HOST_CALLS.only("event_id", "name", "tid", "start_ns", "end_ns", "arguments")
_LAUNCHED = MODULES.only("launch_id", "step")
READS = (
    _SPANS,
    _LAUNCHED,
    ANNOTATIONS.only("event_id", "name", "tid", "start_ns", "end_ns", "on_device"),
    STEPS,
)
# What the threads that matter do goes before what others do.
_CAUSES = (READ_BACK, UPLOAD, INPUT, TRACING)
# A call that collects a graph or starts a program returns at once, unless it needs what is still done elsewhere.
_MAY_WAIT = (TRACING, DISPATCH)
# How the profiler names functions that are built in, and so many times longer a caller of theirs may be to be named.
BUILT_IN, _MUCH = r"^\$[^:]+ \S+$", 4
# Of others it tells the name of the file: those of Python itself and of NumPy, and modules that are private.
_IN_FILE = re.compile(r"^\$(\w+)\.py:\d+ ")
_OF_NUMPY = frozenset(
    ("arraysetops", "fromnumeric", "function_base", "npyio", "numeric", "shape_base", "stride_tricks")
)
# Programs' own files may have the names of some; and who waits for another thread is told so.
_OWN, _WAITING = ("code", "profile", "sched", "test", "trace"), ("_base", "queue", "selectors", "socket", "threading")
_OF_LIBRARIES = (sys.stdlib_module_names | _OF_NUMPY).difference(_OWN, _WAITING)
# What PyTorch/XLA does within StepMarker at the end of a step; by itself, it is for a result that is read before.
SYNC = "SyncTensorsGraphInternal"


def calls(rank: RankTrace) -> pl.DataFrame:
    """The spans of the host whose names tell an ``activity``, but the steps: those are told by what is inside them.

    They are much of the memory of a long recording, and so never kept.
    """
    return _without_steps(host_activities.telling(rank, _SPANS), rank)


def ranges(rank: RankTrace) -> pl.DataFrame:
    """The ranges of the host that the program named, but the steps."""
    named = rank[ANNOTATIONS].filter(~pl.col("on_device").fill_null(False))
    return _without_steps(named, rank)


def _without_steps(spans: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    # A step that was inferred has the event of its launch, which is another span.
    marked = rank[STEPS].select("event_id", "start_ns")
    return spans.with_columns(pl.col("tid").cast(pl.String())).join(marked, on=["event_id", "start_ns"], how="anti")


def begin_with_programs(rank: RankTrace) -> bool:
    """Whether steps begin with runs of a program and no host marked them: all that one waited for came before it."""
    steps = rank[STEPS].select("event_id", "start_ns")
    begin = rank[MODULES.only("start_ns")]["start_ns"]
    if not steps["start_ns"].is_in(begin.implode()).all():
        return False
    calls = rank.where(
        _SPANS.only("event_id", "start_ns"), pl.col("event_id").is_in(pl.lit(steps["event_id"]).implode())
    )
    return steps.join(calls, on=["event_id", "start_ns"], how="semi").is_empty()


def stepping_threads(rank: RankTrace) -> pl.Series:
    """The threads that hold the steps; of steps that a device shows those that launched their programs.

    A recording of fewer than it takes to tell steps has those that launched any.
    """
    return rank.cached(_stepping)


def _stepping(rank: RankTrace) -> pl.Series:
    steps = _threads_of(rank, rank[STEPS]["event_id"])
    if not steps.is_empty():
        return steps
    launched = rank[_LAUNCHED]
    is_told = pl.col("step").is_not_null() if rank[STEPS].height else pl.lit(value=True)
    return _threads_of(rank, launched.filter(is_told)["launch_id"].drop_nulls())


def _threads_of(rank: RankTrace, events: pl.Series) -> pl.Series:
    is_one = pl.col("event_id").is_in(pl.lit(events).implode())
    threads: pl.Series = rank.where(HOST_CALLS.only("tid"), is_one)["tid"].cast(pl.String()).unique()
    return threads


def activities(rank: RankTrace, input_ranges: str) -> pl.DataFrame:
    """Spans of the host whose names tell an ``activity``: ``name`` (a label), ``tid``, ``start_ns``, ``end_ns``.

    Args:
        rank: A rank with what ``READS`` names.
        input_ranges: A pattern of the names of ranges that are the input pipeline.
    """
    return rank.cached(_by_default) if input_ranges == INPUT_RANGES else _activities(rank, input_ranges)


def _by_default(rank: RankTrace) -> pl.DataFrame:
    return _activities(rank, INPUT_RANGES)


def _activities(rank: RankTrace, input_ranges: str) -> pl.DataFrame:
    named = ranges(rank)
    of_runtime = _with_tracing_alone(calls(rank).join(named, on="event_id", how="anti"))
    columns = (pl.col("name").cast(pl.Categorical()), pl.col("tid", "start_ns", "end_ns"))
    spans = pl.concat(
        [
            of_runtime.select(*columns, "activity"),
            named.select(*columns, activity=host_activities.of_ranges(named["name"], input_ranges)),
        ]
    ).drop_nulls("activity")
    spans = _without_beside(_without_inner(_since_recorded(spans, rank)), stepping_threads(rank))
    early = outermost(spans.filter(activity=TRACING)).filter(name=SYNC).with_columns(activity=pl.lit(READ_BACK))
    return pl.concat([spans, early])


def _since_recorded(spans: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """The spans, those around a function that began the recording from its end on: until then no job is recorded."""
    names = distinct(rank[_SPANS.only("name")]["name"])
    begun = names.filter(names.cast(pl.String).str.contains(host_activities.BEGINS_RECORDING))
    if begun.is_empty():
        return spans
    calls = rank.where(_SPANS.only("name", "tid", "start_ns", "end_ns"), pl.col("name").is_in(pl.lit(begun).implode()))
    # A recording begins once, however often a file may say so.
    for call in calls.sort("start_ns").head(1).iter_rows(named=True):
        is_around = (pl.col("tid") == str(call["tid"])) & (pl.col("start_ns") <= call["start_ns"])
        is_around &= pl.col("end_ns") >= call["end_ns"]
        spans = spans.with_columns(pl.when(is_around).then(call["end_ns"]).otherwise("start_ns").alias("start_ns"))
    return spans


def _with_tracing_alone(calls: pl.DataFrame) -> pl.DataFrame:
    """The calls, tracing of what is not compiled after it as starting programs."""
    is_traced = compilations.traces(calls)
    if not is_traced.any():
        return calls
    is_alone = is_traced & (intervals.uncovered_ns(calls, intervals.union(compilations.compilations(calls))) > 0)
    return calls.with_columns(activity=pl.when(is_alone).then(pl.lit(DISPATCH)).otherwise("activity"))


def _without_inner(spans: pl.DataFrame) -> pl.DataFrame:
    """The spans without the code of the program that a library calls to move data or to compile: that tells no more."""
    placed = spans.with_row_index("place")
    programs = placed.filter(activity=PROGRAM)
    others = spans.filter(pl.col("activity").is_in((COMPILATION, *_CAUSES)))
    inner = [
        own["place"].filter(intervals.uncovered_ns(own, others.filter(pl.col("tid").eq_missing(pl.lit(tid)))) == 0)
        for (tid,), own in programs.partition_by("tid", as_dict=True).items()
    ]
    if not inner:
        return spans
    return placed.filter(~pl.col("place").is_in(pl.lit(pl.concat(inner)).implode())).drop("place")


def _without_beside(spans: pl.DataFrame, threads: pl.Series) -> pl.DataFrame:
    """The spans without code of the program that other threads run mostly beside that of ``threads``.

    Devices do not wait for that, but for what they call back themselves.
    """
    is_program = spans["activity"] == PROGRAM
    is_own = spans["tid"].is_in(threads.implode())
    called_back = spans.filter(_is_called_back(spans))["tid"].unique()
    is_other = is_program & ~is_own & ~spans["tid"].is_in(called_back.implode())
    others = spans.filter(is_other)
    if others.is_empty():
        return spans
    uncovered_ns = intervals.uncovered_ns(others, intervals.union(spans.filter(is_program & is_own)))
    alone = others.filter(2 * uncovered_ns > others["end_ns"] - others["start_ns"])
    return pl.concat([spans.filter(~is_other), alone])


def everywhere(activities: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The time in which each activity goes on, on any thread."""
    return {name: intervals.union(_going_on(activities, name)) for name in PRIORITY}


def everywhere_of(rank: RankTrace, input_ranges: str) -> dict[str, pl.DataFrame]:
    """The same of the ``activities`` of a rank, for which the arguments are the same."""
    return rank.cached(_everywhere) if input_ranges == INPUT_RANGES else everywhere(_activities(rank, input_ranges))


def _everywhere(rank: RankTrace) -> dict[str, pl.DataFrame]:
    return everywhere(rank.cached(_by_default))


def _of(activities: pl.DataFrame, activity: str, *columns: str) -> pl.DataFrame:
    """These columns of one activity, and the times: of millions of rows all columns of all would be much."""
    return activities.select(*columns, "start_ns", "end_ns").filter(activities["activity"] == activity)


def shares(
    spans: pl.DataFrame, activities: pl.DataFrame, anywhere: Mapping[str, pl.DataFrame], threads: pl.Series
) -> pl.DataFrame:
    """Each of ``spans`` with ``<activity>_ns`` for each activity and ``unattributed_ns``, which sum to its length.

    An instant in which several activities go on belongs to the first in order of priority; of transfers, input and
    tracing, what ``threads`` do goes before what other threads do. Threads that have calls of their own for input wait
    for it in these only: others load the next batches meanwhile.

    Args:
        spans: Rows of ``start_ns`` and ``end_ns``.
        activities: As from ``activities``.
        anywhere: As from ``everywhere``, of these activities.
        threads: The threads that matter.
    """
    own = activities.filter(pl.col("tid").is_in(pl.lit(threads).implode()))
    if (own["activity"] == INPUT).any():
        anywhere = {**anywhere, INPUT: anywhere[INPUT].clear()}
    layers = [
        # Whoever compiles does it for a thread that waits, in whatever it called.
        (COMPILATION, anywhere[COMPILATION]),
        *((activity, _going_on(own, activity)) for activity in _CAUSES),
        # What the threads that matter did in it is known already, so only what others do is added.
        *((activity, anywhere[activity]) for activity in (*_CAUSES, BACK_PRESSURE, DISPATCH, WAIT, PROGRAM)),
    ]
    added = dict.fromkeys(PRIORITY, pl.repeat(0, spans.height, dtype=pl.Int64, eager=True))
    left = spans["end_ns"] - spans["start_ns"]
    covered = intervals.first_covered_ns(spans, [layer for _, layer in layers])
    for (activity, _), first_ns in zip(layers, covered, strict=True):
        added[activity] += first_ns
        left -= first_ns
    return spans.with_columns(
        *(part.alias(f"{activity}_ns") for activity, part in added.items()), left.alias("unattributed_ns")
    )


def _going_on(activities: pl.DataFrame, activity: str) -> pl.DataFrame:
    """The spans of an activity, without the time in which their threads are called back, or wait to go on with it."""
    if activity not in _MAY_WAIT:
        return _of(activities, activity)
    is_waiting = activities["activity"].is_in((WAIT, BACK_PRESSURE))
    others = activities.select("tid", "start_ns", "end_ns").filter(is_waiting | _is_called_back(activities))
    working = [
        intervals.subtract(spans, others.filter(pl.col("tid").eq_missing(pl.lit(tid))))
        for (tid,), spans in _of(activities, activity, "tid").partition_by("tid", as_dict=True).items()
    ]
    return pl.concat([activities.select("start_ns", "end_ns").clear(), *working])


@lru_cache(maxsize=1 << 14)
def of_library(name: str) -> str | None:
    """The name, if it is of a function that the program only calls."""
    in_file = _IN_FILE.search(name)
    module = in_file[1] if in_file else ""
    is_private = module.startswith("_") and module not in _WAITING
    return name if is_private or module in _OF_LIBRARIES or re.search(BUILT_IN, name) else None


@lru_cache(maxsize=1 << 14)
def _called_back(name: str) -> str | None:
    return name if re.search(CALLED_BACK, name) else None


def _is_called_back(activities: pl.DataFrame) -> pl.Series:
    is_program = activities["activity"] == PROGRAM
    return is_program & decided(activities["name"], _called_back).is_not_null()


def details(spans: pl.DataFrame, activities: pl.DataFrame) -> pl.Series:
    """The name that most of each span's ``cause`` goes by; null where no activity of that kind goes on in it."""
    return told(spans, activities)["name"]


def told(spans: pl.DataFrame, activities: pl.DataFrame) -> pl.DataFrame:
    """Of each span the ``name`` that most of its ``cause`` goes by, how long it does, ``took_ns``, and ``until_ns``.

    Of code of the program it is the innermost range or function that holds half of it: outer ones say less, and so do
    functions that are built in or of a library, unless what calls them holds much more. Null where no activity of that
    kind goes on.

    Args:
        spans: Rows of ``start_ns``, ``end_ns``, ``cause``.
        activities: As from ``activities``, or any other spans with a ``name``, ``tid`` and an ``activity``.
    """
    numbered = spans.select("start_ns", "end_ns", "cause").with_row_index("span")
    nothing = activities.rename({"start_ns": "from_ns", "end_ns": "until_ns"}).clear()
    met = [
        numbered.clear().join(nothing, how="cross"),
        *(
            _met(own, activities.filter(activity=cause))
            for (cause,), own in numbered.partition_by("cause", as_dict=True).items()
        ),
    ]
    last = pl.min_horizontal("until_ns", "end_ns")
    # A gap may end just after the next call of the same name began, which has hardly any of it.
    has_much = pl.col("took_ns") * 2 >= pl.col("took_ns").max()
    beside = (
        pl.concat(met)
        .with_columns(took_ns=last - pl.max_horizontal("from_ns", "start_ns"), last_ns=last)
        .group_by("span", "name", "activity")
        .agg(
            pl.col("took_ns").sum(),
            length_ns=(pl.col("until_ns") - pl.col("from_ns")).max(),
            until_ns=pl.col("last_ns").filter(has_much).max(),
        )
    )
    is_program = pl.col("activity") == PROGRAM
    half = pl.col("took_ns") * 2 >= pl.col("took_ns").max().over("span")
    beside = beside.with_columns(is_of_library=decided(beside["name"], of_library).is_not_null())
    # Short ones that are called all the time are as much of their caller as one long one.
    enough = _MUCH * pl.max_horizontal("length_ns", "took_ns")
    length = pl.when("is_of_library").then(enough).otherwise("length_ns")
    named = (
        beside.filter(~is_program | half)
        .with_columns(order=pl.when(is_program).then(length).otherwise(-pl.col("took_ns")))
        .sort("span", "order", "name")
        .group_by("span", maintain_order=True)
        .agg(pl.col("name", "took_ns", "until_ns").first())
    )
    found = numbered.select("span").join(named, on="span", how="left", maintain_order="left")
    return found.select(pl.col("name").cast(pl.String()), "took_ns", "until_ns")


def _met(spans: pl.DataFrame, activities: pl.DataFrame) -> pl.DataFrame:
    """Each of ``spans`` with each of the activities, of one kind, that go on in it."""
    # Code of the program is told by its innermost spans, so that all are needed.
    is_program = not activities.is_empty() and activities["activity"][0] == PROGRAM
    told = activities if is_program else outermost(activities)
    return spans.join_where(
        told.rename({"start_ns": "from_ns", "end_ns": "until_ns"}),
        pl.col("from_ns") < pl.col("end_ns"),
        pl.col("until_ns") > pl.col("start_ns"),
    )


def outermost(activities: pl.DataFrame) -> pl.DataFrame:
    """Spans that are in no other of the same activity on their thread."""
    reached = pl.col("end_ns").cum_max().shift(1).over("tid", "activity")
    ordered = activities.sort("start_ns", "end_ns", "name", descending=[False, True, False])
    return ordered.filter(reached.is_null() | (pl.col("start_ns") >= reached))
