"""What a profile of XLA tells of a rank's graph: which spans of the host are calls, and what its devices ran.

A program is launched as a whole and runs on its devices without the host, so that its time between two operations is
its own. A CPU device runs operations on many threads: at each moment the one that began first counts.
"""

from __future__ import annotations

import polars as pl

from holotrace.core.plans import done
from holotrace.core.tables import ANNOTATIONS, CPU_OPS, DEVICE_EVENTS, MODULES, STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive import host_activities
from holotrace.derive.host_activities import BACK_PRESSURE, READ_BACK, WAIT
from holotrace.derive.kernel_kinds import COMPUTE, WORK
from holotrace.derive.unrecorded_waits import WAITED_NS

_SPAN = ("event_id", "name", "pid", "tid", "start_ns", "end_ns")
_OPS = CPU_OPS.only(*_SPAN)
_RANGES = ANNOTATIONS.only("event_id", "tid", "on_device")
_RUNS = MODULES.only("module", "device", "plane", "start_ns", "end_ns", "launch_id", "launch_ns", "step")
_EVENTS = DEVICE_EVENTS.only(
    *("event_id", "name", "kind", "device", "stream", "start_ns", "end_ns"),
    *("launch_id", "launch_ns", "step"),
)
_STEPS = STEPS.only("step", "event_id", "start_ns", "end_ns")
READS = (_OPS, _RANGES, _RUNS, _EVENTS, _STEPS)
# A shorter wait is a look whether there is anything to wait for, and a shorter pause the device's.
_WAIT_NS, _PAUSE_NS = 10_000, 1_000
_WAITING = (WAIT, READ_BACK, BACK_PRESSURE)
# Runtimes hand programs and results from thread to thread, and results are copied when a program is over.
_HANDED_NS = 1_000_000
USUAL = {"returned_ns": 1_000_000_000, "waited_ns": 2_000_000, "handed_ns": _HANDED_NS}
# What a program does between its operations has no event.
NO_EVENT = 2**32 - 1


def is_xla(rank: RankTrace) -> bool:
    """Whether the rank's trace is a profile of XLA."""
    return not rank[_RUNS].is_empty()


def can_wait(name: str) -> bool:
    """Whether a call of the runtime returns when work of a device is over."""
    return host_activities.of_calls(pl.Series([name]))[0] in _WAITING


def calls(rank: RankTrace) -> pl.Series:
    """The spans that launch programs or wait for them: event_id."""
    waits, launches = _waits(rank), _launches(rank)
    moved = launches.filter(pl.col("call_id") != pl.col("launch_id"))["launch_id"]
    found = pl.concat([waits["event_id"], launches["launch_id"]])
    return found.filter(~found.is_in(moved.implode())).unique()


def threads(rank: RankTrace) -> pl.Series:
    """The threads of the program: those that launch or name ranges. Others belong to the runtime or to CPU devices."""
    launching = rank[_OPS].filter(pl.col("event_id").is_in(rank[_RUNS]["launch_id"].drop_nulls().implode()))["tid"]
    naming = rank[_RANGES].filter(~pl.col("on_device"))["tid"]
    return pl.concat([launching, naming]).unique()


def steps(rank: RankTrace) -> pl.DataFrame:
    """The steps as the host launched them, also where only devices tell them: step, event_id, start_ns, end_ns."""
    told = rank[_STEPS]
    if not _are_of_devices(rank):
        return told
    launched = rank[_RUNS].drop_nulls(["step", "launch_ns"]).group_by("step")
    ends = launched.agg(start_ns=pl.col("launch_ns").min(), end_ns=pl.col("launch_ns").max())
    return told.select("step", "event_id").join(ends, on="step", maintain_order="left")


def begun(marks: pl.DataFrame, work: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """Steps with their points, ``begin`` and ``end``: those that only devices tell begin with the first work of theirs.

    Args:
        marks: Steps with the points of the host: step, start_ns, end_ns, begin, end.
        work: As of ``works``, with the numbers that its activities have in the graph.
        rank: The rank.
    """
    if not _are_of_devices(rank):
        return marks
    first = work.drop_nulls("step").sort("start_ns").unique("step", keep="first", maintain_order=True)
    points = first.select("step", begin=pl.col("activity") * 2).with_columns(end="begin")
    return marks.drop("begin", "end").join(points, on="step", maintain_order="left")


def _are_of_devices(rank: RankTrace) -> bool:
    """Whether the host marked no steps."""
    marked = rank[_RANGES].filter(~pl.col("on_device"))["event_id"]
    return not rank[_STEPS]["event_id"].is_in(marked.implode()).any()


def works(rank: RankTrace) -> pl.DataFrame:
    """What the devices ran in the order of their queues, each moment once, as of ``device.works``."""
    runs = rank[_RUNS].lazy().with_columns(pl.col("device").fill_null(0))
    on_cpu = runs.filter(pl.col("plane").cast(pl.String).str.starts_with("/host")).select("device").unique()
    found = rank[_EVENTS].lazy().filter(pl.col("kind").is_in(WORK)).with_columns(pl.col("device").fill_null(0))
    found = pl.concat(
        [
            found.join(on_cpu, on="device", how="anti"),
            found.join(on_cpu, on="device").with_columns(stream=pl.lit(0, pl.Int64)),
        ]
    )
    place = ["device", "stream"]
    reached = pl.col("end_ns").cum_max().shift(1).over(place)
    alone = found.sort(*place, "start_ns", "end_ns", "event_id").with_columns(
        pl.max_horizontal("start_ns", reached), name=pl.col("name").cast(pl.String)
    )
    alone = alone.filter(pl.col("end_ns") > pl.col("start_ns"))
    both = done(pl.concat([alone, _between(alone, runs)], how="diagonal_relaxed"))
    placed = both.lazy().join(_launches(rank).lazy(), on="launch_id", how="left", maintain_order="left")
    since = pl.when(pl.col("call_id").is_not_null()).then("launch_ns")
    return done(
        placed.with_columns(
            launch_id="call_id", launch_ns=since, queue=pl.struct(place).rank("dense").cast(pl.UInt32)
        )
        .drop("call_id")
        .sort("queue", "start_ns", "event_id")
        .with_row_index("activity")
    )


def waits(work: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Work that waited for what other queues of the rank had ended, and all work with what was launched with it.

    A program begins when its inputs are there, which other devices may have made, and the runtime copies a result when
    its program is over: whoever asked for the result waits for both.

    Returns after_id, waits_id; and ``work``, in which a copy is launched when the program was that made its result.
    """
    place = ["device", "stream"]
    free = pl.max_horizontal("launch_ns", pl.col("end_ns").shift(1).cum_max().over(place)).fill_null(0)
    is_held = (pl.col("event_id") != NO_EVENT) & (pl.col("start_ns") - free > WAITED_NS)
    ended = work.lazy().filter(pl.col("event_id") != NO_EVENT).sort("end_ns", "event_id")
    found = done(
        work.lazy()
        .filter(is_held)
        .sort("start_ns")
        .select("start_ns", "launch_ns", "queue", waits_id="event_id")
        .join_asof(
            ended.select(after_id="event_id", after_ns="end_ns", after_launch_ns="launch_ns", after_queue="queue"),
            left_on="start_ns",
            right_on="after_ns",
            check_sortedness=False,
            tolerance=_HANDED_NS,
        )
        .filter(pl.col("after_id").is_not_null(), pl.col("queue") != pl.col("after_queue"))
    )
    made = found.filter(pl.col("launch_ns").is_null()).select(event_id="waits_id", made_ns="after_launch_ns")
    told = work.join(made, on="event_id", how="left", maintain_order="left")
    told = told.with_columns(launch_ns=pl.coalesce("launch_ns", "made_ns")).drop("made_ns")
    return found.select("after_id", "waits_id"), told


def _between(alone: pl.LazyFrame, runs: pl.LazyFrame) -> pl.LazyFrame:
    """The pauses within runs of programs, between their operations: those on a GPU wait for launches of their own."""
    place = ["device", "stream"]
    whole = runs.filter(~pl.col("plane").cast(pl.String).str.contains("GPU"))
    whole = whole.sort("start_ns").with_row_index("run")
    # Of the queues of a device the one that does most is that of its programs.
    lasted = alone.group_by(place).agg(ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
    main = lasted.sort("ns", "stream").group_by("device").agg(pl.col("stream").last())
    of_runs = (
        alone.join(main, on=place)
        .sort("start_ns")
        .join_asof(
            whole.select("run", "device", start_ns="start_ns", until_ns="end_ns"),
            on="start_ns",
            by="device",
            check_sortedness=False,
        )
        .filter(pl.col("start_ns") < pl.col("until_ns"))
        .select("run", "start_ns", "end_ns")
    )
    ends = whole.select("run", start_ns="end_ns", end_ns="end_ns")
    pauses = (
        pl.concat([of_runs, ends])
        .sort("run", "start_ns")
        .select("run", from_ns=pl.col("end_ns").cum_max().shift(1).over("run"), until_ns="start_ns")
    )
    return (
        pauses.join(whole, on="run")
        .join(main, on="device", how="left")
        .with_columns(from_ns=pl.coalesce("from_ns", "start_ns"), until_ns=pl.min_horizontal("until_ns", "end_ns"))
        .filter(pl.col("until_ns") - pl.col("from_ns") >= _PAUSE_NS)
        .select(
            "device",
            pl.col("stream").fill_null(0),
            "launch_id",
            "launch_ns",
            "step",
            event_id=pl.lit(NO_EVENT, pl.UInt32),
            name=pl.col("module").cast(pl.String),
            kind=pl.lit(COMPUTE, pl.Categorical()),
            start_ns="from_ns",
            end_ns="until_ns",
        )
    )


def _waits(rank: RankTrace) -> pl.DataFrame:
    """Calls on the program's threads that wait for devices: event_id, tid, start_ns, end_ns."""
    lasting = rank[_OPS].filter(
        pl.col("end_ns") - pl.col("start_ns") >= _WAIT_NS, pl.col("tid").is_in(threads(rank).implode())
    )
    activity = host_activities.of_calls(lasting["name"])
    return lasting.filter(activity.is_in(list(_WAITING))).select(
        "event_id", "tid", "start_ns", "end_ns"
    )


def _launches(rank: RankTrace) -> pl.DataFrame:
    """Calls that launch programs, and the first call within each that waits, which launches then: launch_id, call_id."""
    launched = rank[_RUNS]["launch_id"].drop_nulls().unique()
    spans = rank[_OPS].filter(pl.col("event_id").is_in(launched.implode())).sort("start_ns")
    waits = rank.cached(_waits).sort("start_ns")
    within = spans.select("tid", "start_ns", "end_ns", launch_id="event_id").join_asof(
        waits.select("tid", "start_ns", wait_id="event_id", wait_end_ns="end_ns"),
        on="start_ns",
        by="tid",
        strategy="forward",
        check_sortedness=False,
    )
    is_within = pl.col("wait_end_ns") <= pl.col("end_ns")
    return within.select("launch_id", call_id=pl.when(is_within).then("wait_id").otherwise("launch_id"))
