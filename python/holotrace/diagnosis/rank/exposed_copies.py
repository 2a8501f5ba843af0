"""Copies beside which a device neither computed nor communicated, and what of them stalls of the host exposed."""

from __future__ import annotations

import polars as pl

from holotrace.core.plans import done, without
from holotrace.core.trace import RankTrace
from holotrace.derive import busy, intervals
from holotrace.derive.kernel_kinds import MEMORY
from holotrace.derive.steps import is_from_before
from holotrace.diagnosis.rank import host, idle_windows, kernels, own_code
from holotrace.diagnosis.rank.calls import contexts
from holotrace.diagnosis.rank.xla import gaps as xla_gaps
from holotrace.diagnosis.rank.xla import sent as xla_sent
from holotrace.diagnosis.rank.xla import slow_work as xla_slow_work
from holotrace.diagnosis.words.classes import COPY

# What a device copies within itself is work, as a graph of CUDA does in memcpy128 and memcpy32_post.
_WITHIN = r"(?i)DtoD|Device -> Device|memset|^memcpy\d|^copy(\.\w+)*$"


def of_rank(rank: RankTrace, *, runs_ahead: bool) -> pl.DataFrame:
    """Events that copy, with ``time_ns``, for which each was alone, ``cause``, ``name`` and ``detail``.

    Args:
        rank: Its events.
        runs_ahead: Whether hosts may be ahead of their devices, so that what they stand still for makes copies late.
    """
    is_within, every = pl.col("name").cast(pl.String).str.contains(_WITHIN), rank.cached(kernels.every).lazy()
    if xla_gaps.is_xla(rank):
        # Nothing tells which program copies within a graph that had been launched before the recording began.
        every = every.filter(~is_from_before())
        # What hosts send and read is told by what they do for that, of which the copy is a part.
        beside = pl.concat([xla_slow_work.copies(rank), rank.cached(xla_sent.copies)["event_id"]])
        is_within |= pl.col("event_id").is_in(pl.lit(beside).implode())
    copied = every.filter(kind=MEMORY).filter(~is_within).sort("start_ns", "end_ns", "event_id")
    # Of copies that run at once the first has the time that they share.
    copies = done(copied.with_columns(pl.max_horizontal("start_ns", pl.col("end_ns").cum_max().shift(1))))
    # While the device waits for its host a copy exposes nothing; when it does is asked only if anything is exposed.
    others = [rank.cached(busy.of).computing_or_communicating]
    copies = _alone(copies, others)
    if not copies.is_empty():
        copies = _alone(copies, [*others, rank.cached(host.late)[:, ["start_ns", "end_ns"]]])
    if copies.is_empty():
        return copies
    # What a checkpoint or an input pipeline copies is theirs.
    within = contexts(rank, copies["launch_id"])
    causes = [within.get(launch, (COPY, None)) for launch in copies["launch_id"]]
    told = pl.DataFrame(causes, schema={"cause": pl.String, "within": pl.String}, orient="row")
    text = pl.col("name").cast(pl.String)
    named = _with_cut_off(copies.hstack(told), rank).with_columns(name=pl.coalesce("within", text), detail=text)
    asked = named.with_columns(responsible="name", share_ns="time_ns")
    named = without(own_code.with_callers(asked, rank, "launch_id"), "responsible", "share_ns")
    return _with_delays(named, rank) if runs_ahead else named


def _alone(copies: pl.DataFrame, others: list[pl.DataFrame]) -> pl.DataFrame:
    """The copies that ran for longer than gaps are looked at while none of ``others`` did, with ``time_ns``."""
    alone = intervals.uncovered_ns(copies, pl.concat(others))
    return copies.with_columns(alone.alias("time_ns")).filter(pl.col("time_ns") > host.MIN_GAP_NS)


def _with_cut_off(copies: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """The copies, with those at both ends of the recording told as others of their name, all of which are in one thing.

    A recording has no range that it begins or ends in, such as a checkpoint, of which it then has copies only.
    """
    launched = kernels.computing(rank, "launch_ns")["launch_ns"]
    begin, end = (pl.lit(at, pl.Int64) for at in (launched.min(), launched.max()))
    known = copies.drop_nulls("within").group_by("name").agg(pl.col("within", "cause").unique())
    known = known.filter(pl.col("within").list.len() == 1).select(
        "name", its_within=pl.col("within").list.first(), its_cause=pl.col("cause").list.first()
    )
    joined = copies.join(known, on="name", how="left", maintain_order="left")
    is_end = (pl.col("launch_ns") < begin) | (pl.col("launch_ns") > end)
    is_its = (is_end & pl.col("within").is_null() & pl.col("its_within").is_not_null()).fill_null(value=False)
    told = (pl.when(is_its).then(f"its_{name}").otherwise(name).alias(name) for name in ("cause", "within"))
    return joined.with_columns(told).select(copies.columns)


def _with_delays(copies: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """The copies, and as rows of their own what of them would be hidden had the host not stood still before them.

    A copy in a queue of its own begins when it is launched: earlier by as long as the host stood still, which hides it
    if the device had work for a part of that.
    """
    beside = copies.join(idle_windows.in_computing_queues(rank[host.WORK_EVENTS]), on="event_id", how="anti")
    lasted = pl.col("returned_ns") - pl.col("began_ns")
    stood = rank.cached(host.stalls).sort("share_ns", "event_id", descending=[True, False])
    by = stood.unique("end_ns", keep="first").select(
        start_ns="end_ns", by="cause", whose="responsible", lead_ns=lasted - pl.col("share_ns")
    )
    delayed = beside.join(by, on="start_ns").select(
        "event_id", "by", "whose", delay_ns=pl.min_horizontal("time_ns", "lead_ns").clip(lower_bound=0)
    )
    split = copies.join(delayed, on="event_id", how="left", maintain_order="left")
    own = split.with_columns(pl.col("time_ns") - pl.col("delay_ns").fill_null(0))
    theirs = split.drop_nulls("delay_ns").with_columns(cause="by", name="whose", time_ns="delay_ns")
    return pl.concat([own, theirs]).filter(pl.col("time_ns") > 0).drop("by", "whose", "delay_ns")
