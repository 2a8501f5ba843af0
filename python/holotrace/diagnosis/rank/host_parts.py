"""What a host did in gaps of devices and in steps, part by part, where calls of the host were recorded."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from holotrace.core.plans import constant, done
from holotrace.core.tables import STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive import host_activities as xla
from holotrace.derive.kernel_kinds import IS_WORK
from holotrace.derive.steps import launched_in
from holotrace.diagnosis.rank import host, idle_windows, open_calls
from holotrace.diagnosis.rank.calls import host_calls, main_thread, matching, telling_nothing
from holotrace.diagnosis.words import classes

READS = host.READS
WORK_EVENTS = idle_windows.WORK_EVENTS
ALLOCATION, QUEUED, UNATTRIBUTED = "allocation", classes.QUEUED, "unattributed"
ACTIVITIES = (*xla.PRIORITY, ALLOCATION)
PARTS = (*ACTIVITIES, QUEUED, UNATTRIBUTED)
# What each class of the diagnosis is called among the parts of a gap; all others are code of the program.
_IN_GAPS: Mapping[str, str] = {
    classes.COMPILATION: xla.COMPILATION,
    classes.SYNCHRONIZATION: xla.READ_BACK,
    classes.COPY: xla.UPLOAD,
    classes.INPUT: xla.INPUT,
    classes.ALLOCATOR: ALLOCATION,
    classes.LAUNCH: xla.DISPATCH,
    classes.FULL_QUEUE: xla.DISPATCH,
    classes.QUEUED: QUEUED,
    classes.PAUSE: UNATTRIBUTED,
    classes.UNRECORDED: UNATTRIBUTED,
}
# In a step the host waits for devices that work; in a gap nothing works, and reading back takes its own time.
_IN_STEPS = {**_IN_GAPS, classes.SYNCHRONIZATION: xla.WAIT, classes.FULL_QUEUE: xla.BACK_PRESSURE}
_DEVICE = ("device", "stream")
# Made once: a rank takes as long to make them as to sum by them.
_SUMS = tuple(pl.col("share_ns").filter(pl.col("part") == each).sum().alias(f"{each}_ns") for each in PARTS)
_TAKEN = tuple(pl.col(f"{each}_ns").fill_null(0) for each in PARTS)


def of_gaps(rank: RankTrace, *, min_gap_ns: int, by_stream: bool) -> pl.DataFrame:
    """The gaps of each device, or of each of its queues.

    Returns ``device``, ``stream`` (null for a whole device), ``start_ns``, ``end_ns``, ``step``, ``<part>_ns`` for each
    of PARTS, which add up to the gap, ``cause`` (the largest of them), ``detail`` (what most of that went by), and what
    ``open_calls.Found.names`` has.
    """
    work = rank[idle_windows.WORK_EVENTS].filter(IS_WORK)
    lanes = _DEVICE if by_stream else _DEVICE[:1]
    every = work.partition_by(lanes, maintain_order=True) if work.height else []
    found = [_rows(_gaps(rank, events, len(every), min_gap_ns), events, rank, by_stream) for events in every]
    return pl.concat(found) if found else _rows(_gaps(rank, work, 0, min_gap_ns), work, rank, by_stream)


def _gaps(rank: RankTrace, events: pl.DataFrame, lane_count: int, min_gap_ns: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The gaps with their names, and their shares."""
    if lane_count > 1 or min_gap_ns <= host.MIN_GAP_NS:
        gaps = host.explained(rank, events, min_gap_ns - 1)
    else:
        # What the search for causes asks too.
        gaps = rank.cached(host.of_all_devices)
    found = gaps.named().filter(pl.col("end_ns") - pl.col("start_ns") >= min_gap_ns)
    return found, gaps.shares.join(found, on="window", how="semi")


def _rows(
    gaps: tuple[pl.DataFrame, pl.DataFrame], events: pl.DataFrame, rank: RankTrace, by_stream: bool
) -> pl.DataFrame:
    found, shares = gaps
    parts = _wide(shares, found["window"], _IN_GAPS)
    step = launched_in(found["launch_ns"], rank[STEPS])
    last = launched_in(found["end_ns"] - 1, rank[STEPS])
    return found.select(
        "start_ns",
        "end_ns",
        *(pl.col(name) for name in (*open_calls.NAMES, "other", "other_tid", "other_ns")),
        device=pl.lit(events["device"].first(), pl.Int64),
        stream=pl.lit(events["stream"].first() if by_stream else None, pl.Int64),
        step=step.zip_with(step.is_not_null(), last),
    ).hstack(parts)


def of_steps(rank: RankTrace) -> pl.DataFrame:
    """What the thread that holds the steps did in each.

    Returns ``step``, ``step_ns``, ``<part>_ns`` for each of PARTS, which add up to it, ``input_name`` and
    ``read_back_name``: what most input was waited for in, and what waited longest for a device.
    """
    steps = rank[STEPS].sort("start_ns", "step")
    # Of steps that overlap the first has what they share.
    reached = pl.col("end_ns").cum_max()
    apart = steps.select(
        "step",
        start_ns=pl.max_horizontal("start_ns", reached.shift(1)),
        end_ns=reached,
        step_ns=pl.col("end_ns") - pl.col("start_ns"),
    ).with_row_index("window")
    calls = rank.cached(host_calls)
    main = rank.cached(main_thread)
    # The backward pass runs on a thread of its own, while the one that holds the steps waits for it.
    of_main = apart.hstack([constant("tid", main, apart.height, pl.UInt32())])
    beside = open_calls.busiest_thread(calls, main)
    # The range of a step tells nothing of it, and no more does what is around all of them.
    of_step, around = matching(calls["name"], classes.STEP_RANGE), rank.cached(telling_nothing)
    ignored = of_step if around is None else of_step | around
    told = open_calls.of(calls, of_main, fallback=beside, ignored=ignored) if calls.height else None
    shares = told.shares if told else open_calls.NO_SHARES
    parts = _wide(shares, apart["window"], _IN_STEPS)
    known = parts.select(pl.sum_horizontal(f"{part}_ns" for part in PARTS[:-1])).to_series()
    left = apart["step_ns"] - known
    return apart[:, ["step", "step_ns"]].hstack(
        parts.select(
            *(f"{part}_ns" for part in PARTS[:-1] if part != xla.TRACING),
            # Nothing collects graphs where operators run one by one.
            pl.lit(None, pl.Int64).alias(f"{xla.TRACING}_ns"),
            left.alias("unattributed_ns"),
            _most(shares, apart["window"], classes.INPUT).alias("input_name"),
            _most(shares, apart["window"], classes.SYNCHRONIZATION).alias("read_back_name"),
        )
    )


def _wide(shares: pl.DataFrame, windows: pl.Series, names: Mapping[str, str]) -> pl.DataFrame:
    """A row per window, in their order: its parts, the largest as ``cause``, and ``detail``, what most of that was."""
    part = pl.col("cause").replace_strict(names, default=xla.PROGRAM, return_dtype=pl.String)
    told = shares.lazy().select("window", "responsible", "share_ns", part=part)
    sums = told.group_by("window").agg(_SUMS)
    largest = (
        told.group_by("window", "part")
        .agg(
            pl.col("share_ns").sum(),
            detail=pl.col("responsible").sort_by("share_ns", "responsible", descending=[True, False]).first(),
        )
        .sort("share_ns", "part", descending=[True, False])
        .unique("window", keep="first", maintain_order=True)
        .select("window", "detail", cause="part")
    )
    every = windows.alias("window").to_frame().lazy()
    return done(
        every.join(sums, on="window", how="left", maintain_order="left")
        .join(largest, on="window", how="left", maintain_order="left")
        .select(*_TAKEN, "cause", "detail")
    )


def _most(shares: pl.DataFrame, windows: pl.Series, cause: str) -> pl.Series:
    """What is responsible for most of the shares of one class, by window; null without any."""
    ordered = shares.lazy().filter(pl.col("cause") == cause).sort("share_ns", "responsible", descending=[True, False])
    first = ordered.unique("window", keep="first").select("window", "responsible")
    every = windows.alias("window").to_frame().lazy()
    return done(every.join(first, on="window", how="left", maintain_order="left"))["responsible"]
