"""How long a rank's host takes by itself: no faster device, and no faster link, makes the job shorter than that."""

from __future__ import annotations

import re

import polars as pl

from holotrace.core.plans import done
from holotrace.core.trace import RankTrace
from holotrace.derive import busy, intervals
from holotrace.derive.names import distinct
from holotrace.derive.steps import launched_in
from holotrace.diagnosis.rank import rounds
from holotrace.diagnosis.rank.calls import among, cut_off, host_calls, main_thread, matching, on_launching_threads
from holotrace.diagnosis.words.classes import FROM_OTHERS, OF_EXCHANGES, OPERATOR, RUNTIME, STALLING, STEP_RANGE, named

# A call of the runtime that lasts so long, and so much longer than most, waits for the device or for room in its queue.
_WAITS_NS, _WAITS_RATIO = 15_000, 3
# Shorter functions are many, and little.
_LONG_NS, _SHORT_NS = 100_000, 8_000
_MOST_FUNCTIONS = 64
# A host that calls nothing for so long may wait for something; Python between two calls takes less.
_NOTHING_NS = 1_000_000
_OF_OTHERS = re.compile(rf"{FROM_OTHERS}|{OF_EXCHANGES}|gloo|barrier|rendezvous")


def lasting(rank: RankTrace) -> pl.DataFrame:
    """Functions and named ranges that last, on threads that launch or hold the steps: name, start_ns, time_ns."""
    calls = rank.cached(host_calls)
    lasts = pl.col("end_ns") - pl.col("start_ns")
    is_own = rank.cached(on_launching_threads) | (pl.col("tid").to_physical() == rank.cached(main_thread))
    own = calls.lazy().filter(lasts > _LONG_NS, is_own)
    long = done(own.select("name", "category", "start_ns", time_ns=lasts))
    text = pl.col("name").cast(pl.String)
    is_function = pl.col("category").cast(pl.String).is_in(["python_function", "user_annotation"])
    # Compilers are operators, too, and their names tell what goes on.
    telling = among(long["name"], [name for name in distinct(long["name"]) if name and named(name)])
    known = long.lazy().filter(is_function | telling).select("start_ns", "time_ns", name=text)
    return done(known.filter(~pl.col("name").str.contains(rf"^nn\.Module: |{STEP_RANGE.pattern}")))


def longest(rank: RankTrace) -> pl.DataFrame:
    """Those of ``lasting`` that take longest, by name and step: time_ns, count and, as at_ns, when the last ended."""
    every = lasting(rank)
    step = launched_in(every["start_ns"], rank.cached(rounds.steps))
    ended = (pl.col("start_ns") + pl.col("time_ns")).max()
    summed = (pl.col("time_ns").sum(), ended.alias("at_ns"), pl.len().alias("count"))
    by_step = every.with_columns(step=step).lazy().group_by("step", "name").agg(summed)
    most = by_step.group_by("name").agg(pl.col("time_ns").sum()).sort("time_ns", "name", descending=[True, False])
    return done(by_step.join(most.head(_MOST_FUNCTIONS), on="name", how="semi"))


def paused(rank: RankTrace) -> pl.DataFrame:
    """How long threads that launch work call nothing that is known, as of ``longest``, by step."""
    every = rank.cached(pauses).select("start_ns", "end_ns", time_ns=pl.col("end_ns") - pl.col("start_ns"))
    step = launched_in(every["start_ns"], rank.cached(rounds.steps))
    summed = (pl.col("time_ns").sum(), pl.col("end_ns").max().alias("at_ns"), pl.len().alias("count"))
    return every.with_columns(step=step).group_by("step").agg(summed).sort("step")


def calling_nothing(rank: RankTrace) -> pl.DataFrame:
    """Functions and ranges that last and call nothing, on threads that launch work: start_ns, end_ns, tid and name."""
    own = rank.cached(host_calls).filter(rank.cached(on_launching_threads))
    is_other = (
        matching(own["category"], RUNTIME) | matching(own["category"], OPERATOR) | matching(own["name"], _OF_OTHERS)
    )
    is_whole = ~rank.cached(cut_off).filter(rank.cached(on_launching_threads))
    long = own.filter(is_whole, ~is_other, pl.col("end_ns") - pl.col("start_ns") > _LONG_NS)
    nothing = long.filter(~pl.col("event_id").is_in(pl.lit(own["parent_id"]).implode()))
    return nothing[:, ["start_ns", "end_ns", "tid", "name"]]


def calling(rank: RankTrace) -> pl.DataFrame:
    """When threads that launch work are in operators or calls of the runtime: ``start_ns`` and ``end_ns``, in order."""
    calls = rank.cached(host_calls)[:, ["category", "start_ns", "end_ns"]]
    own = calls.filter(rank.cached(on_launching_threads))
    is_called = matching(own["category"], RUNTIME) | matching(own["category"], OPERATOR)
    return intervals.union(own.filter(is_called))


def pauses(rank: RankTrace) -> pl.DataFrame:
    """When threads that launch work call nothing for longer than Python takes: ``start_ns``, ``end_ns``, in order.

    What has a name that tells what it does, such as compiling, does that all the time.
    """
    own = rank.cached(host_calls).filter(rank.cached(on_launching_threads))
    telling = [name for name in distinct(own["name"]) if name and named(name) in STALLING]
    doing = [own.filter(among(own["name"], telling)), rank.cached(calling_nothing), rank.cached(calling)]
    called = intervals.union(pl.concat([spans[:, ["start_ns", "end_ns"]] for spans in doing]))
    between = called.select(start_ns=pl.col("end_ns").shift(1), end_ns="start_ns")
    return between.filter(pl.col("end_ns") - pl.col("start_ns") > _NOTHING_NS)


def of_host(rank: RankTrace) -> int:
    """How long the threads that launch work are in operators, or in functions and ranges that call nothing.

    What they wait for is not theirs; what no call tells of may be waiting, too.
    """
    own = rank.cached(host_calls).filter(rank.cached(on_launching_threads))
    if own.is_empty():
        return 0
    lasts = pl.col("end_ns") - pl.col("start_ns")
    is_of_runtime, is_operator = (matching(own["category"], kind) for kind in (RUNTIME, OPERATOR))
    runtime = own.filter(is_of_runtime)
    usual = runtime.select(lasts.median()).item() or 0
    is_of_others = matching(own["name"], _OF_OTHERS)
    waits = [runtime.filter(lasts > max(_WAITS_NS, _WAITS_RATIO * usual)), own.filter(is_of_others)]
    # An operator that computes does so as a device.
    waits += [rank.cached(busy.of).working] if rank.computes_on_host else []
    # The shortest are mostly within others.
    operators = own.filter(is_operator, lasts > _SHORT_NS)
    doing = [operators, rank.cached(calling_nothing)]
    spans, waiting = (pl.concat([frame[:, ["start_ns", "end_ns"]] for frame in frames]) for frames in (doing, waits))
    return intervals.total_ns(intervals.subtract(spans, waiting))
