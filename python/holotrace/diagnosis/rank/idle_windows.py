"""Times in which no work ran on a device, and when what ended each had been launched."""

from __future__ import annotations

import re

import polars as pl

from holotrace.core.plans import done, not_null
from holotrace.core.tables import DEVICE_EVENTS, LAUNCHES, STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive.kernel_kinds import COMPUTE, IS_WORK
from holotrace.derive.names import distinct
from holotrace.derive.steps import is_from_before
from holotrace.diagnosis.rank import open_calls, rounds
from holotrace.diagnosis.rank.calls import READS as READ_CALLS
from holotrace.diagnosis.rank.calls import among, host_calls, matching, on_launching_threads
from holotrace.diagnosis.words.classes import PROFILER, is_of_program, named

WORK_EVENTS = DEVICE_EVENTS.only(
    *("event_id", "name", "kind", "device", "stream", "start_ns", "end_ns", "launch_id", "launch_ns")
)
READS = (WORK_EVENTS, LAUNCHES.only("launch_id", "device_event_id", "tid"), *rounds.READS, *READ_CALLS)
# A device begins so soon with what is launched while it has nothing else to do.
PROMPT_NS = 10_000
# A device that has nothing to do begins so soon with what is launched, and even its very first work waits for no more
# than so much of the time before it.
_SOON_NS, _WAITED_RATIO = 200_000, 0.1


def recorded(rank: RankTrace) -> pl.DataFrame:
    """What may have kept the device waiting, also before its first and after its last work.

    These are the steps; where none was marked, what the threads that launch did and whose name tells what it is, and
    what of the program's own they did before as well as after the last launch: that comes with each step.
    Returns ``start_ns``, ``end_ns`` and ``tid``, null for the main thread.
    """
    calls = rank.cached(host_calls)
    if not rank[STEPS].is_empty():
        return rank[STEPS].select("start_ns", "end_ns", tid=pl.lit(None, calls.schema["tid"]))
    launching = calls.filter(rank.cached(on_launching_threads))
    telling = [name for name in distinct(launching["name"]) if name and named(name) not in (None, PROFILER)]
    is_after = pl.col("start_ns") > pl.lit(rank[WORK_EVENTS]["launch_ns"].max(), pl.Int64())
    again = among(launching["name"], _again(launching.filter(is_after), launching.filter(~is_after)))
    is_known = pl.lit(among(launching["name"], telling)) | (is_after & pl.lit(again))
    return launching.filter(is_known).select("start_ns", "end_ns", "tid")


def _again(last: pl.DataFrame, before: pl.DataFrame) -> list[str]:
    """The names of functions and ranges of the program's own that are among both."""
    every = last.select(pl.col("name", "category").cast(pl.String)).unique()
    own = [name for name, category in every.drop_nulls().iter_rows() if is_of_program(name, category)]
    known = set(distinct(before["name"].filter(among(before["name"], own)))) if own else set()
    return sorted(known.intersection(own))


def launches_of(rank: RankTrace, pattern: re.Pattern[str]) -> pl.Series:
    """The calls that launched work whose name the pattern is found in."""
    work = rank[WORK_EVENTS]
    is_it = matching(work["name"], pattern)
    return not_null(distinct(work["launch_id"].filter(is_it))) if is_it.any() else work["launch_id"].clear()


def in_computing_queues(events: pl.DataFrame) -> pl.DataFrame:
    """The events without copies in queues of their own, which begin when launched, whatever computing waits for."""
    queues = distinct(events["stream"].filter(events["kind"] == COMPUTE))
    return events.filter(pl.col("stream").is_in(pl.lit(queues).implode()))


def idle(events: pl.DataFrame, recorded: pl.DataFrame, min_gap_ns: int) -> pl.DataFrame:
    """The gaps between work of any kind, each with the work that ends it and when that was launched.

    The first begins with what was recorded first, and the last ends with the last of that. There is none where the
    first work of a queue waited in it for much of that, see ``and_earlier``.
    """
    return and_earlier(events, recorded, min_gap_ns)[0]


def and_earlier(events: pl.DataFrame, recorded: pl.DataFrame, min_gap_ns: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The gaps, and apart from them that in which a device did what had been launched before the recording."""
    work = done(events.lazy().filter(IS_WORK).sort("start_ns", "end_ns", "event_id"))
    if work.is_empty():
        none = work.select(
            *("start_ns", "end_ns", "launch_ns", "launch_id"),
            next_id="event_id",
            tid=pl.lit(None, recorded.schema["tid"]),
        )
        return none, none
    begin = recorded["start_ns"].min()
    between = work.lazy().select(
        start_ns=pl.col("end_ns").cum_max().shift(1).fill_null(pl.lit(begin, pl.Int64)),
        end_ns="start_ns",
        next_id="event_id",
        launch_ns="launch_ns",
        launch_id="launch_id",
    )
    after = (
        recorded.lazy().top_k(1, by="end_ns").select("end_ns", "tid", start_ns=pl.lit(work["end_ns"].max(), pl.Int64))
    )
    both = pl.concat([between, after], how="diagonal")
    gaps = done(both.filter(pl.col("end_ns") - pl.col("start_ns") > min_gap_ns))
    is_earlier = pl.col("next_id").is_in(pl.lit(_begun_before(gaps, work)).implode()).fill_null(value=False)
    return gaps.filter(~is_earlier), gaps.filter(is_earlier)


def has_waited() -> pl.Expr:
    """Of gaps, whether what ends each had been launched long before that, and waited in its queue."""
    waited_ns, lasted_ns = pl.col("end_ns") - pl.col("launch_ns"), pl.col("end_ns") - pl.col("start_ns")
    return waited_ns > pl.max_horizontal(_SOON_NS, _WAITED_RATIO * lasted_ns)


def _begun_before(gaps: pl.DataFrame, work: pl.DataFrame) -> pl.Series:
    """The work that waited in its queue for much of a gap, though nothing of that queue was recorded before it.

    As long as that is so of all that waited: what waits for other work than that of before does so later, too.
    """
    waited = gaps.filter(has_waited(), pl.col("next_id").is_not_null())
    if waited.is_empty():
        return waited["next_id"]
    first = work.unique(["device", "stream"], keep="first", maintain_order=True)["event_id"]
    is_first = waited["next_id"].is_in(first.implode())
    begun: pl.Series = waited["next_id"].filter(is_first.cum_min())
    return begun


def timed(found: pl.DataFrame, calls: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """The gaps with the thread that launched what ends each, and when it had."""
    threads = rank[LAUNCHES].lazy().select(next_id="device_event_id", launch_tid="tid").unique("next_id")
    launch = open_calls.looked_up(calls, found["launch_id"], "end_ns")
    # Work that is being launched when the device runs dry comes too late too.
    launched = pl.min_horizontal(pl.coalesce(launch["end_ns"], "launch_ns", "queued_ns"), "end_ns")
    return done(
        found.lazy()
        .join(threads, on="next_id", how="left", maintain_order="left")
        .join(_queued_before(rank), on="next_id", how="left", maintain_order="left")
        .with_row_index("window")
        .with_columns(pl.coalesce("launch_tid", "tid").alias("tid"), launched_ns=launched)
        .drop("launch_tid", "queued_ns")
    )


def _queued_before(rank: RankTrace) -> pl.LazyFrame:
    """When work had been launched of which that was not recorded: before what comes after it in its queue.

    What came before all of that had been launched before the recording.
    """
    work = rank[WORK_EVENTS]
    unknown = work.lazy().filter(pl.col("launch_ns").is_null()).select("device", "stream").unique()
    # The earliest launch of all that comes later; only queues in which some is unknown are looked at.
    queued = pl.col("launch_ns").reverse().cum_min().reverse().backward_fill().over("device", "stream")
    return (
        work.lazy()
        .join(unknown, on=["device", "stream"], how="semi")
        .sort("start_ns", "end_ns", "event_id")
        .select(
            next_id="event_id", queued_ns=pl.when(~is_from_before()).then(queued).otherwise(0), launch_ns="launch_ns"
        )
        .filter(pl.col("launch_ns").is_null())
        .drop("launch_ns")
        .unique("next_id")
    )
