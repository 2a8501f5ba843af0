"""When threads of a host that computes waited for exchanges with others, of which nothing is recorded.

Operations between hosts run on threads of their own, as on a queue.
"""

from __future__ import annotations

from functools import lru_cache

import polars as pl

from holotrace.core.plans import done
from holotrace.core.tables import ANNOTATIONS, CPU_OPS, DEVICE_EVENTS
from holotrace.core.trace import RankTrace
from holotrace.derive import groups, pauses
from holotrace.derive.kernel_kinds import COMMUNICATION

_PLACE = ("event_id", "pid", "tid", "start_ns", "end_ns")
_OPS, _RANGES = CPU_OPS.only(*_PLACE), ANNOTATIONS.only(*_PLACE)
_WORK = DEVICE_EVENTS.only("event_id", "kind", "launch_id", "start_ns", "end_ns")
READS = (_OPS, _RANGES, _WORK)
# A thread that waits is woken by another, which has to get a CPU.
USUAL = {"returned_ns": 1_000_000_000}


def of_calls(calls: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame:
    """When threads computed nothing until an exchange was over: ``pauses.SPAN``, and the exchange: after_id, ended_ns.

    Args:
        calls: Operators, and ranges around them: event_id, pid, tid, start_ns, end_ns.
        work: What the device ran: event_id, kind, launch_id, start_ns, end_ns.
    """
    is_exchange = pl.col("kind") == COMMUNICATION
    computed = work.filter(~is_exchange).select("launch_id", "start_ns", "end_ns")
    threads = calls.select("pid", "tid", launch_id="event_id")
    spans = computed.join(threads, on="launch_id").drop("launch_id")
    # Exchanges have threads of their own.
    around = calls.join(spans.select("pid", "tid").unique(), on=["pid", "tid"], how="semi")
    exchanges = work.filter(is_exchange).select("end_ns", after_id="event_id")
    ended = groups.ordered(exchanges, ["end_ns"]).lazy().rename({"end_ns": "ended_ns"})
    found = pauses.of(spans, around).join_asof(ended, left_on="end_ns", right_on="ended_ns", check_sortedness=False)
    return done(pauses.waits(found).select(*pauses.SPAN, "after_id", "ended_ns"))


@lru_cache
def _nothing() -> pl.DataFrame:
    return of_calls(_OPS.empty(), _WORK.empty())


def of_rank(rank: RankTrace) -> pl.DataFrame:
    """The same of a rank; none where accelerators compute."""
    if not rank.computes_on_host:
        # Of other ranks nothing is even put together.
        return _nothing().clone()
    return of_calls(pl.concat([rank[_OPS], rank[_RANGES]]), rank[_WORK])
