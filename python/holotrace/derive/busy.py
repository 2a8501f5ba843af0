"""When the devices of a rank were at work, and at which kind."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from holotrace.core.tables import DEVICE_EVENTS
from holotrace.core.trace import RankTrace
from holotrace.derive import intervals
from holotrace.derive.kernel_kinds import COMMUNICATION, COMPUTE, IS_WORK, WORK

EVENTS = DEVICE_EVENTS.only("kind", "start_ns", "end_ns")


@dataclass(frozen=True)
class Busy:
    """The time in which at least one kernel or copy of these kinds ran, as sorted disjoint spans."""

    computing: pl.DataFrame
    communicating: pl.DataFrame
    computing_or_communicating: pl.DataFrame
    working: pl.DataFrame
    # When the first work began and the last ended; null without any.
    start_ns: int | None
    end_ns: int | None


def of(rank: RankTrace) -> Busy:
    """When a rank's devices were at work; several analyses ask, so by ``rank.cached(busy.of)``."""
    work = rank[EVENTS].filter(IS_WORK)
    kinds = ([COMPUTE], [COMMUNICATION], [COMPUTE, COMMUNICATION], WORK)
    computing, communicating, either, working = intervals.unions(work, kinds)
    return Busy(computing, communicating, either, working, *intervals.ends(work))
