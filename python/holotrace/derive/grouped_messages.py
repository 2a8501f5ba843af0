"""Sends and receives that are one kernel together, as those of ``batch_isend_irecv``, of which no kernel tells."""

from __future__ import annotations

import polars as pl

from holotrace.core.plans import done
from holotrace.core.tables import COLLECTIVES, DEVICE_EVENTS, LAUNCHES
from holotrace.core.trace import RankTrace
from holotrace.derive.kernel_kinds import COMMUNICATION

_WORK = DEVICE_EVENTS.only("event_id", "kind")
_LAUNCHES = LAUNCHES.only("device_event_id", "pid", "tid", "launch_start_ns")
_TOLD = ("group", "group_ranks", "group_description", "group_size", "element_type")
_ASKED = COLLECTIVES.only(
    *("event_id", "pid", "tid", "start_ns", "end_ns", "collective", *_TOLD),
    *("source_rank", "destination_rank", "in_elements", "out_elements"),
)
READS = (_WORK, _LAUNCHES, _ASKED)
SEND, RECEIVE = "send", "recv"
NONE = pl.DataFrame(
    schema={
        **{column.name: column.unit.dtype for column in _ASKED.columns if column.name in ("event_id", *_TOLD)},
        "source_rank": pl.Int64(),
        "destination_rank": pl.Int64(),
        "element_count": pl.Int64(),
    }
)


def of_rank(rank: RankTrace) -> pl.DataFrame:
    """A row per message: event_id of its kernel, its group, element_type, source_rank, destination_rank, element_count.

    The host asks for each, and the kernel is launched when the group ends: the next one that is launched on the thread
    and of which nothing is told.
    """
    known = rank[_ASKED]
    messages = known.filter(known["collective"].is_in((SEND, RECEIVE)))
    if messages.is_empty():
        return NONE
    communicating = rank.where(_WORK, pl.col("kind") == COMMUNICATION)["event_id"]
    asked = messages.filter(~messages["event_id"].is_in(communicating.implode()))
    if asked.is_empty() or communicating.is_in(known["event_id"].implode()).all():
        return NONE
    is_send = pl.col("collective") == SEND
    launches = rank[_LAUNCHES].filter(pl.col("device_event_id").is_in(communicating.implode()))
    launched = launches.select("pid", "tid", launched_ns="launch_start_ns", kernel="device_event_id")
    grouped = (
        asked.lazy()
        .sort("start_ns")
        .join_asof(
            launched.lazy().sort("launched_ns"),
            left_on="start_ns",
            right_on="launched_ns",
            by=["pid", "tid"],
            strategy="forward",
            check_sortedness=False,
        )
        # One that is no part of a group launches its kernel itself.
        .filter(pl.col("launched_ns") >= pl.col("end_ns"))
        .join(known.lazy().select("event_id"), left_on="kernel", right_on="event_id", how="anti")
    )
    own = pl.lit(rank.rank, pl.Int64)
    ends = grouped.select(
        *_TOLD,
        event_id="kernel",
        source_rank=pl.when(is_send).then(own).otherwise("source_rank"),
        destination_rank=pl.when(is_send).then("destination_rank").otherwise(own),
        element_count=pl.max_horizontal("in_elements", "out_elements"),
    )
    are_known = pl.col("source_rank").ne(pl.col("destination_rank"))
    return done(ends.filter(are_known).select(pl.col(name).cast(dtype) for name, dtype in NONE.schema.items()))
