"""When devices of XLA had nothing to do, and what the host did meanwhile, by the names of its spans."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from holotrace.core.tables import HOST_CALLS, MODULES, STEPS, XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive import callers, compilations, device_time, host_time, intervals, skew
from holotrace.derive.device_time import DEVICE, ON_HOST
from holotrace.derive.host_activities import (
    COMPILATION,
    INPUT_RANGES,
    UPLOAD,
)
from holotrace.derive.names import distinct
from holotrace.derive.steps import launched_in
from holotrace.diagnosis.rank import host_parts, open_calls
from holotrace.diagnosis.rank.host_parts import ALLOCATION, QUEUED
from holotrace.diagnosis.rank.xla import sent as xla_sent

RUNS = MODULES.only(*("module", "program", "device", "plane", "start_ns", "end_ns", "launch_id", "launch_ns", "step"))
OPS = XLA_OPS.only(
    *("event_id", "device", "plane", "stream", "line", "start_ns", "end_ns"),
    *("is_wait", "is_async", "step", "launch_id", "launch_ns"),
)
BARRIERS = XLA_OPS.only("name", *(column.name for column in OPS.columns))
_TIMES = OPS.only("device", "plane", "line", "start_ns", "end_ns", "is_wait", "is_async")
READS = (OPS, RUNS, BARRIERS, *xla_sent.READS, *callers.READS, *skew.READS)
# Shorter gaps lie between the operations of a program, where no host could help.
MIN_GAP_NS = 100_000
_GPU = "/device:GPU"
# What is traced and lowered, to be looked up in a cache.
_FROM_CACHE = "{} (read from the compilation cache)"
# A program begins so soon after the last of its inputs is there.
_HANDED_NS = 1_000_000
PARTS = tuple(part for part in host_parts.PARTS if part != ALLOCATION)


def is_xla(rank: RankTrace) -> bool:
    """Whether the rank's trace is a profile of XLA, whose hosts have names of their own."""
    return bool(rank.count(OPS) or rank.count(RUNS))


def has_only_programs(rank: RankTrace) -> bool:
    """Whether programs are recorded as a whole, and none of their operations."""
    return rank.count(OPS) == 0 and rank.count(RUNS) > 0


def window(rank: RankTrace) -> pl.DataFrame:
    """The time in which gaps are looked for, as of ``device_time.window``."""
    return rank.cached(_window)


def _window(rank: RankTrace) -> pl.DataFrame:
    noted = skew.shifted(device_time.with_programs(rank[_TIMES], rank[RUNS]), rank.cached(skew.shifts))
    return device_time.window(noted, program_runs(rank), rank[STEPS])


def is_on_host(rank: RankTrace) -> bool:
    """Whether the rank's devices are threads of its host."""
    return rank[RUNS].height > 0 and bool((rank[RUNS]["plane"].cast(pl.String) == ON_HOST).all())


def are_on_gpus(ran: pl.DataFrame) -> bool:
    """Whether these operations, or programs, ran on GPUs."""
    planes = distinct(ran["plane"].cast(pl.Categorical)).cast(pl.String)
    return bool(planes.str.starts_with(_GPU).any())


def of_programs(rank: RankTrace, *, min_gap_ns: int, by_stream: bool, input_ranges: str) -> pl.DataFrame:
    """The gaps of each device, or of each of its queues, the longest first; as ``host_parts.of_gaps`` returns them.

    Besides there are ``plane``, ``idle_ns`` and ``after_ns``, since the rank's window began.
    """
    if (min_gap_ns, by_stream, input_ranges) == (MIN_GAP_NS, False, INPUT_RANGES):
        # Several analyses ask for these.
        return rank.cached(_by_default)
    return _of_programs(rank, min_gap_ns, by_stream=by_stream, input_ranges=input_ranges)


def _by_default(rank: RankTrace) -> pl.DataFrame:
    return _of_programs(rank, MIN_GAP_NS, by_stream=False, input_ranges=INPUT_RANGES)


def _of_programs(rank: RankTrace, min_gap_ns: int, *, by_stream: bool, input_ranges: str) -> pl.DataFrame:
    ops, during = executions(rank), window(rank)
    if not by_stream:
        ops = ops.with_columns(stream=pl.lit(None, pl.Int64()))
    found = device_time.gaps(ops, during, by=[*DEVICE, "stream"], min_gap_ns=min_gap_ns)
    activities = host_time.activities(rank, input_ranges)
    # The longest are what one looks for.
    explained = with_parts(found, activities, host_time.everywhere_of(rank, input_ranges), rank).sort(
        pl.col("end_ns") - pl.col("start_ns"), *DEVICE, "stream", "start_ns", descending=[True, *[False] * 4]
    )
    return explained.select(
        "device",
        pl.col("plane").cast(pl.String()),
        "stream",
        "start_ns",
        "cause",
        *(f"{part}_ns" for part in PARTS),
        step=pl.coalesce("step", launched_in(explained["end_ns"] - 1, rank[STEPS])),
        after_ns=pl.col("start_ns") - during["start_ns"].first(),
        idle_ns=pl.col("end_ns") - pl.col("start_ns"),
        detail=host_time.details(explained, named(rank, activities)),
        allocation_ns=pl.lit(0, pl.Int64),
    ).hstack(open_calls.nothing(explained))


def executions(rank: RankTrace) -> pl.DataFrame:
    """What ran on devices, on the clock of the host; it is most of the memory, and so never kept."""
    ran = device_time.with_programs(rank.where(OPS, device_time.IS_EXECUTED), rank[RUNS])
    return skew.shifted(ran.drop("line", "is_wait", "is_async", "is_program"), rank.cached(skew.shifts))


def program_runs(rank: RankTrace) -> pl.DataFrame:
    """The runs of programs, on the clock of the host."""
    return skew.shifted(rank[RUNS], rank.cached(skew.shifts))


def named(rank: RankTrace, activities: pl.DataFrame) -> pl.DataFrame:
    """The activities, compilations by their programs: those say more than the call that compiled them."""
    name = pl.when("is_cached").then(pl.format(_FROM_CACHE, "module")).otherwise("module")
    programs = rank.cached(_compilations).select(
        "start_ns",
        "end_ns",
        name=name.cast(pl.Categorical),
        activity=pl.lit(COMPILATION),
        tid=pl.lit(""),
    )
    return pl.concat([programs, activities.filter(pl.col("activity") != COMPILATION)], how="diagonal")


def _compilations(rank: RankTrace) -> pl.DataFrame:
    return compilations.named_by_runs(compilations.compilations(host_time.calls(rank)), rank[RUNS])


def with_parts(
    found: pl.DataFrame, activities: pl.DataFrame, anywhere: Mapping[str, pl.DataFrame], rank: RankTrace
) -> pl.DataFrame:
    """The gaps with their parts, seen from the threads that hold the steps or launch what ends each, and the cause.

    Args:
        found: As of ``device_time.gaps``.
        activities: As of ``host_time.activities``.
        anywhere: As of ``host_time.everywhere``, of these activities.
        rank: The rank.
    """
    launches = found["launch_id"].unique().implode()
    calls = rank.where(HOST_CALLS.only("event_id", "tid"), pl.col("event_id").is_in(launches))
    threads = calls.select(launch_id="event_id", tid=pl.col("tid").cast(pl.String()))
    stepping = host_time.stepping_threads(rank)
    launched = found.join(threads, on="launch_id", how="left").sort(*DEVICE, "stream", "start_ns")
    anywhere = {**anywhere, UPLOAD: intervals.intersect(anywhere[UPLOAD], _awaited(activities, found))}
    shared = [
        host_time.shares(group, activities, anywhere, pl.concat([stepping, group["tid"].head(1)]))
        for group in [launched.clear(), *launched.partition_by("tid", maintain_order=True)]
    ]
    in_time = (pl.col("launch_ns") <= pl.col("start_ns")).fill_null(False)
    host = [f"{cause}_ns" for cause in PARTS if cause != QUEUED]
    parts = pl.concat(shared).sort(*DEVICE, "stream", "start_ns")
    return (
        parts.with_columns(sent_ns(parts, activities, rank.cached(xla_sent.sent)))
        .with_columns(pl.when(in_time).then(0).otherwise(pl.col(part)).alias(part) for part in host)
        .with_columns(upload_ns=pl.when(in_time).then("sent_ns").otherwise("upload_ns"))
        .with_columns(queued_ns=pl.col("end_ns") - pl.col("start_ns") - pl.sum_horizontal(host))
        .with_columns(
            cause=pl.concat_list(f"{cause}_ns" for cause in PARTS)
            .list.arg_max()
            .replace_strict(range(len(PARTS)), PARTS, return_dtype=pl.String())
        )
    )


def _awaited(activities: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame:
    """When what is sent may be waited for: not in gaps that end while it is still on its way, as for a next batch."""
    sending = activities.filter(activity=UPLOAD).select("start_ns", "end_ns").sort("end_ns")
    # A call may return a little later than what it has sent is there.
    ends = gaps.select(until_ns="end_ns", over_ns=pl.col("end_ns") + MIN_GAP_NS).unique().sort("over_ns")
    known = sending.join_asof(ends, left_on="end_ns", right_on="over_ns", check_sortedness=False)
    return intervals.union(known.select(pl.max_horizontal("start_ns", "until_ns"), "end_ns"))


def sent_ns(gaps: pl.DataFrame, activities: pl.DataFrame, copied: pl.DataFrame) -> pl.Series:
    """How long data was on its way to the device in gaps that end when it is there: programs wait for their inputs."""
    sending = activities.filter(activity=UPLOAD)
    sent = pl.concat(each.select("start_ns", "end_ns") for each in (sending, copied))
    ended = sent.select(sent_ns="end_ns").sort("sent_ns")
    last = (
        gaps.with_row_index("place")
        .sort("end_ns")
        .join_asof(ended, left_on="end_ns", right_on="sent_ns", check_sortedness=False)
    )
    is_awaited = last.sort("place")["sent_ns"] > gaps["end_ns"] - _HANDED_NS
    under_way = gaps["end_ns"] - gaps["start_ns"] - intervals.uncovered_ns(gaps, intervals.union(sent))
    sent_ns: pl.Series = under_way * is_awaited.fill_null(value=False).cast(pl.Int64)
    return sent_ns.alias("sent_ns")
