"""What is recorded of each communication kernel, by itself or by the operator of the host that launched it."""

from __future__ import annotations

import polars as pl

from holotrace.core.plans import done
from holotrace.core.schema import Table
from holotrace.core.tables import COLLECTIVES, DEVICE_EVENTS, LAUNCHES
from holotrace.core.trace import RankTrace
from holotrace.derive.kernel_kinds import COMMUNICATION

_WORK = DEVICE_EVENTS.only("event_id", "kind")
_LAUNCHES = LAUNCHES.only("device_event_id", "pid", "tid", "launch_start_ns")
_OPERATORS = COLLECTIVES.only("event_id", "pid", "tid", "start_ns", "end_ns")
READS = (_WORK, _LAUNCHES, _OPERATORS)


def known(rank: RankTrace, columns: Table) -> pl.DataFrame:
    """These columns of COLLECTIVES by ``event_id``, a row for each kernel of which anything is told.

    Not every recording of PyTorch has the args of a collective at its kernel. The operator has them as well, within
    which the host launched the kernel.
    """
    told = rank[columns]
    if told.is_empty():
        return told
    told = told.unique("event_id")
    is_untold = ~pl.col("event_id").is_in(pl.lit(told["event_id"]).implode())
    untold = rank.where(_WORK, (pl.col("kind") == COMMUNICATION) & is_untold)["event_id"]
    if untold.is_empty():
        return told
    launched = rank[_LAUNCHES].filter(pl.col("device_event_id").is_in(untold.implode()))
    asked = (
        launched.lazy()
        .sort("launch_start_ns")
        .join_asof(
            rank[_OPERATORS].lazy().sort("start_ns"),
            left_on="launch_start_ns",
            right_on="start_ns",
            by=["pid", "tid"],
            check_sortedness=False,
        )
        .filter(pl.col("launch_start_ns") < pl.col("end_ns"))
        .select("event_id", kernel="device_event_id")
        .unique("kernel")
        .join(told.lazy(), on="event_id")
        .drop("event_id")
        .rename({"kernel": "event_id"})
    )
    return done(pl.concat([told.lazy(), asked.select(told.columns)]))
