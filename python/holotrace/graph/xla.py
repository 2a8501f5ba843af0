"""What a profile of XLA tells of a rank's graph: which spans of the host are calls, and what its devices ran.

A program is launched as a whole and runs on its devices without the host, so that its time between two operations is
its own. A CPU device runs operations on many threads: at each moment the one that began first counts.
"""

from __future__ import annotations

import polars as pl

from holotrace.core.plans import done
from holotrace.core.tables import ANNOTATIONS, CPU_OPS, DEVICE_EVENTS, MODULES, STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive import groups, host_activities, pauses
from holotrace.derive.host_activities import BACK_PRESSURE, WAITING
from holotrace.derive.kernel_kinds import COMPUTE, IS_WORK
from holotrace.derive.names import distinct
from holotrace.derive.unrecorded_waits import WAITED_NS

_SPAN = pauses.SPAN
_OPS = CPU_OPS.only(*_SPAN)
_RANGES = ANNOTATIONS.only("event_id", "pid", "tid", "start_ns", "end_ns", "on_device")
_RUNS = MODULES.only("module", "device", "plane", "start_ns", "end_ns", "launch_id", "launch_ns", "step")
_EVENTS = DEVICE_EVENTS.only(
    *("event_id", "name", "kind", "device", "stream", "start_ns", "end_ns"),
    *("launch_id", "launch_ns", "step"),
)
_PLACE = ["device", "stream"]
_STEPS = STEPS.only("step", "event_id", "start_ns", "end_ns")
READS = (_OPS, _RANGES, _RUNS, _EVENTS, _STEPS)
# A shorter wait is a look whether there is anything to wait for, and a shorter pause the device's.
_WAIT_NS, _PAUSE_NS = 10_000, 1_000
_LASTS = pl.col("end_ns") - pl.col("start_ns") >= _WAIT_NS
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
    return name == pauses.WAIT or host_activities.of_calls(pl.Series([name]))[0] in WAITING


def calls(rank: RankTrace) -> pl.Series:
    """The spans that launch programs or wait for them: event_id."""
    waits, launches = rank.cached(_waits), rank.cached(_launches)
    moved = launches.filter(pl.col("call_id") != pl.col("launch_id"))["launch_id"]
    found = pl.concat([waits["event_id"], launches["launch_id"]])
    kept: pl.Series = found.filter(~found.is_in(moved.implode())).unique()
    return kept


def unrecorded_waits(rank: RankTrace, work: pl.DataFrame) -> pl.DataFrame:
    """When threads of the program did nothing until devices had nothing more to do: event_id, name, pid, tid and times.

    JAX records nothing of ``block_until_ready``. A device that stands still when the thread goes on, and did work for
    most of the time before, is what it waited for. ``work`` is as of ``works``.
    """
    own = pl.col("tid").is_in(pl.lit(threads(rank)).implode())
    ranges = rank[_RANGES].filter(own, ~pl.col("on_device"))
    ran = groups.ordered(work.select("start_ns", "end_ns"), ["end_ns"]).lazy()
    running = ran.select("end_ns", began_ns=pl.col("start_ns").reverse().cum_min().reverse())
    found = (
        pauses.of(rank.where(_OPS, own), ranges)
        .join_asof(ran.select(ended_ns="end_ns"), left_on="end_ns", right_on="ended_ns", check_sortedness=False)
        .join_asof(running, on="end_ns", strategy="forward", allow_exact_matches=False, check_sortedness=False)
    )
    stands_still = pl.col("began_ns").is_null() | (pl.col("began_ns") >= pl.col("end_ns"))
    return done(pauses.waits(found.filter(stands_still)).select(_SPAN))


def threads(rank: RankTrace) -> pl.Series:
    """The threads of the program: those that launch or name ranges. Others belong to the runtime or to CPU devices."""
    return rank.cached(_threads)


def _threads(rank: RankTrace) -> pl.Series:
    launches = rank[_RUNS]["launch_id"].drop_nulls().implode()
    launching = rank.where(_OPS.only("tid"), pl.col("event_id").is_in(launches))["tid"]
    naming = rank[_RANGES].filter(~pl.col("on_device"))["tid"]
    return pl.concat([launching, naming]).unique()


def steps(rank: RankTrace) -> pl.DataFrame:
    """The steps as the host launched them, also where only devices tell them: step, event_id, start_ns, end_ns."""
    told = rank[_STEPS]
    if not _are_of_devices(rank):
        return told
    launched = rank[_RUNS].drop_nulls(["step", "launch_ns"]).group_by("step")
    ends = launched.agg(first_ns=pl.col("launch_ns").min(), last_ns=pl.col("launch_ns").max())
    return told.join(ends, on="step", how="left", maintain_order="left").select(
        "step", "event_id", start_ns=pl.coalesce("first_ns", "start_ns"), end_ns=pl.coalesce("last_ns", "end_ns")
    )


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
    points = first.select("step", first=pl.col("activity").cast(marks.schema["begin"]) * 2)
    known = marks.join(points, on="step", how="left", maintain_order="left")
    return known.with_columns(pl.coalesce("first", name).alias(name) for name in ("begin", "end")).drop("first")


def _are_of_devices(rank: RankTrace) -> bool:
    """Whether the host marked no steps."""
    ranges = rank[_RANGES].filter(~pl.col("on_device"))
    # A step that devices tell may name the call that launched it.
    is_span = ["event_id", "start_ns"]
    return all(
        rank[_STEPS].join(spans, on=is_span, how="semi").is_empty() for spans in (ranges, rank[_OPS.only(*is_span)])
    )


def works(rank: RankTrace) -> pl.DataFrame:
    """What the devices ran in the order of their queues, each moment once, as of ``device.works``."""
    runs = rank[_RUNS].with_columns(pl.col("device").fill_null(0))
    on_cpu = runs.filter(pl.col("plane").cast(pl.String).str.starts_with("/host"))["device"].unique()
    stream = pl.when(pl.col("device").is_in(pl.lit(on_cpu).implode())).then(0).otherwise("stream").alias("stream")
    reached = pl.col("end_ns").cum_max().shift(1).over(_PLACE)
    placed = done(rank[_EVENTS].lazy().filter(IS_WORK).with_columns(pl.col("device").fill_null(0)).with_columns(stream))
    # Each of these is most of the memory, so that none waits for the next.
    placed = groups.ordered(placed, [*_PLACE, "start_ns", "end_ns", "event_id"])
    placed = done(
        placed.lazy().with_columns(pl.max_horizontal("start_ns", reached)).filter(pl.col("end_ns") > pl.col("start_ns"))
    )
    placed = pl.concat([placed, _between(placed, runs)], how="diagonal_relaxed")
    placed = groups.ordered(placed, [*_PLACE, "start_ns", "event_id"])
    calls = placed[:, ["launch_id"]].join(rank.cached(_launches), on="launch_id", how="left", maintain_order="left")
    return placed.with_columns(
        launch_id=calls["call_id"],
        launch_ns=pl.when(calls["call_id"].is_not_null()).then("launch_ns"),
        queue=pl.struct(_PLACE).rle_id().cast(pl.UInt32),
    ).with_row_index("activity")


def waits(work: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Work that waited for what other queues of the rank had ended, and all work with what was launched with it.

    A program begins when its inputs are there, which other devices may have made, and the runtime copies a result when
    its program is over: whoever asked for the result waits for both.

    Returns after_id, waits_id; and ``work``, in which a copy is launched when the program was that made its result.
    """
    free = pl.max_horizontal("launch_ns", pl.col("end_ns").shift(1).over("queue")).fill_null(0)
    is_held = (pl.col("event_id") != NO_EVENT) & (pl.col("start_ns") - free > WAITED_NS)
    known = work.select("end_ns", "event_id", "launch_ns", "queue").filter(pl.col("event_id") != NO_EVENT)
    ended = groups.ordered(known, ["end_ns", "event_id"]).lazy()
    found = done(
        work.lazy()
        .select("start_ns", "end_ns", "launch_ns", "queue", "event_id")
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
    since = work[:, ["event_id", "launch_ns"]].join(made, on="event_id", how="left", maintain_order="left")
    told = work.with_columns(since.select(launch_ns=pl.coalesce("launch_ns", "made_ns")))
    return found.select("after_id", "waits_id"), told


def _between(alone: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """The pauses within runs of programs, between their operations: those on a GPU wait for launches of their own."""
    whole = runs.filter(~pl.col("plane").cast(pl.String).str.contains("GPU")).sort("start_ns").with_row_index("run")
    # Of the queues of a device the one that does most is that of its programs.
    lasted = alone.group_by(_PLACE).agg(ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
    main = lasted.sort("ns", "stream").group_by("device").agg(pl.col("stream").last())
    of_runs = (
        groups.ordered(alone.select(*_PLACE, "start_ns", "end_ns").join(main, on=_PLACE), ["start_ns"])
        .lazy()
        .join_asof(
            whole.lazy().select("run", "device", "start_ns", until_ns="end_ns"),
            on="start_ns",
            by="device",
            check_sortedness=False,
        )
        .filter(pl.col("start_ns") < pl.col("until_ns"))
        .select("run", "start_ns", "end_ns")
    )
    ends = whole.lazy().select("run", start_ns="end_ns", end_ns="end_ns")
    # What runs has no two operations at once, so that the one before is the last that ended.
    between = (
        groups.ordered(done(pl.concat([of_runs, ends])), ["run", "start_ns"])
        .lazy()
        .select("run", from_ns=pl.col("end_ns").shift(1).over("run"), until_ns="start_ns")
        .filter(pl.col("from_ns").is_null() | (pl.col("until_ns") - pl.col("from_ns") >= _PAUSE_NS))
    )
    return done(
        between.join(whole.lazy(), on="run")
        .join(main.lazy(), on="device", how="left")
        .with_columns(from_ns=pl.coalesce("from_ns", "start_ns"), until_ns=pl.min_horizontal("until_ns", "end_ns"))
        .filter(pl.col("until_ns") - pl.col("from_ns") >= _PAUSE_NS)
        .select(
            "device",
            pl.col("stream").fill_null(0),
            "launch_id",
            "launch_ns",
            "step",
            event_id=pl.lit(NO_EVENT, pl.UInt32),
            name="module",
            kind=pl.lit(COMPUTE, pl.Categorical()),
            start_ns="from_ns",
            end_ns="until_ns",
        )
    )


def handed(rank: RankTrace) -> pl.DataFrame:
    """Waits for a place in a device's queue on threads of the runtime, on the thread that stands in a launch meanwhile.

    A TPU's programs are handed to another thread, and the call that launches one returns when that thread goes on.
    Returns event_id, name, pid, tid, start_ns and end_ns.
    """
    return rank.cached(_handed)


def _handed(rank: RankTrace) -> pl.DataFrame:
    own = threads(rank).implode()
    names = distinct(rank[_OPS.only("name")]["name"]).drop_nulls()
    full = names.filter(host_activities.of_calls(names) == BACK_PRESSURE).implode()
    waiting = rank.where(_OPS, pl.col("name").is_in(full) & ~pl.col("tid").is_in(own)).filter(_LASTS)
    launches = rank.where(
        _OPS, pl.col("event_id").is_in(pl.lit(rank.cached(_launched)).implode()) & pl.col("tid").is_in(own)
    )
    around = launches.select("pid", "tid", from_ns="start_ns", until_ns="end_ns").sort("from_ns")
    return (
        waiting.drop("pid", "tid")
        .sort("start_ns")
        .join_asof(around, left_on="start_ns", right_on="from_ns", check_sortedness=False)
        .filter(pl.col("end_ns") <= pl.col("until_ns"))
        .select(_SPAN)
    )


def _launched(rank: RankTrace) -> pl.Series:
    """The calls that launch programs and other work of devices."""
    return pl.concat([rank[_RUNS]["launch_id"], rank[_EVENTS]["launch_id"]]).drop_nulls().unique()


def _waits(rank: RankTrace) -> pl.DataFrame:
    """Calls on the program's threads that wait for devices, or for others that do: event_id, tid, start_ns, end_ns."""
    lasting = rank.where(_OPS, _LASTS & pl.col("tid").is_in(pl.lit(threads(rank)).implode()))
    activity = host_activities.of_calls(lasting["name"])
    waiting = lasting.filter(activity.is_in(WAITING))
    return pl.concat(frame.select("event_id", "tid", "start_ns", "end_ns") for frame in (waiting, handed(rank)))


def _launches(rank: RankTrace) -> pl.DataFrame:
    """Calls on the program's threads that launch work (launch_id), and what the graph takes for the launch (call_id).

    That is the call itself, or the first one within it that waits: what is around a call is cut where that begins.
    """
    is_launch = pl.col("event_id").is_in(pl.lit(rank.cached(_launched)).implode()) & pl.col("tid").is_in(
        pl.lit(threads(rank)).implode()
    )
    spans = rank.where(_OPS, is_launch).sort("start_ns")
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
