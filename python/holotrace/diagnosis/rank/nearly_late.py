"""Work that a host launched just in time, which no faster device begins earlier."""

from __future__ import annotations

import polars as pl

from holotrace.core.plans import done
from holotrace.core.trace import RankTrace
from holotrace.derive import intervals
from holotrace.derive.kernel_kinds import IS_WORK
from holotrace.derive.names import distinct
from holotrace.derive.steps import QUEUE_LENGTH
from holotrace.diagnosis.rank import host, idle_windows

# Work was launched just before it began if that is so little of the recording, which has so many stretches.
_SLACK_RATIO, _STRETCHES = 0.2, 512
# Times are as exact as this: older recorders write whole microseconds.
ROUNDED_NS = 1_000
# A queue is full that holds so much of what it can, as others have a part in it.
_FULL_RATIO = 0.9


def of_rank(rank: RankTrace) -> pl.DataFrame:
    """Of each stretch of time the work that was launched the least before it began: no faster device begins it earlier.

    Returns ``at_ns``, when it began, ``end_ns``, when it was launched, and ``start_ns``, when the host had last stood
    still, as in a wait for its device or for room in its queue, and launched since by itself.
    """
    ran = rank[host.WORK_EVENTS]
    begun_ns, ended_ns = (at_ns or 0 for at_ns in intervals.ends(ran))
    # What waits for an event is there as soon as it is asked for.
    work = idle_windows.in_computing_queues(ran.filter(IS_WORK))
    known = work.lazy().select("launch_ns", at_ns="start_ns", slack_ns=pl.col("start_ns") - pl.col("launch_ns"))
    few = done(
        known.filter(pl.col("slack_ns").is_between(0, _SLACK_RATIO * (ended_ns - begun_ns)))
        .with_columns(stretch=(pl.col("at_ns") - begun_ns) * _STRETCHES // max(1, ended_ns - begun_ns))
        .sort("slack_ns", "at_ns")
        .unique("stretch", keep="first", maintain_order=True)
        .sort("launch_ns")
    )
    full = _full(ran)
    if len(full):
        few = few.join(full.to_frame("launch_ns"), on="launch_ns", how="anti", maintain_order="left")
    stood = pl.concat([rank.cached(host.returns), full]).sort().to_frame("start_ns")
    # What is launched at once may seem to be so before that.
    stood = stood.hstack([(stood["start_ns"] - ROUNDED_NS).alias("rounded_ns")])
    since = few.join_asof(stood, left_on="launch_ns", right_on="rounded_ns", check_sortedness=False)
    return since.select("at_ns", pl.col("start_ns").fill_null(begun_ns), end_ns="launch_ns")


def _full(ran: pl.DataFrame) -> pl.Series:
    """When work was launched while so much had not begun that the host waited for room."""
    known = ran[:, ["launch_ns", "start_ns"]].drop_nulls()
    launched, begun = (known[name].sort() for name in ("launch_ns", "start_ns"))
    queued = pl.int_range(len(launched), eager=True) - pl.Series(begun.search_sorted(launched)).cast(pl.Int64)
    return distinct(launched.filter(queued >= _FULL_RATIO * QUEUE_LENGTH))
