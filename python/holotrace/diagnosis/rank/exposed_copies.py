"""Copies beside which a device neither computed nor communicated, and what of them stalls of the host exposed."""

from __future__ import annotations

import polars as pl

from holotrace.core.plans import done, without
from holotrace.core.trace import RankTrace
from holotrace.derive import busy, intervals
from holotrace.derive.kernel_kinds import MEMORY
from holotrace.derive.steps import is_from_before
from holotrace.diagnosis.rank import device_waits, host, idle_windows, kernels, lead, open_calls, own_code
from holotrace.diagnosis.rank.calls import contexts, host_calls
from holotrace.diagnosis.rank.xla import gaps as xla_gaps
from holotrace.diagnosis.rank.xla import sent as xla_sent
from holotrace.diagnosis.rank.xla import slow_work as xla_slow_work
from holotrace.diagnosis.words.classes import ALLOCATOR, COPY

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
    others = [rank.cached(busy.of).computing_or_communicating, _until_earlier_work_was_over(rank, copies)]
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


def _until_earlier_work_was_over(rank: RankTrace, copies: pl.DataFrame) -> pl.DataFrame:
    """When its devices may have done what had been launched before the recording: ``start_ns`` and ``end_ns``."""
    spans = copies.select("start_ns", "end_ns").clear() if xla_gaps.is_xla(rank) else host.earlier(rank)
    return spans.select(start_ns=pl.lit(copies["start_ns"].min(), pl.Int64), end_ns=pl.col("end_ns").max()).drop_nulls()


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

    A copy in a queue of its own begins when it is launched: earlier by as long as the host stood still while its device
    worked, which hides it. What the device had to wait for meanwhile is that much less of a lead.
    """
    beside = copies.join(idle_windows.in_computing_queues(rank[host.WORK_EVENTS]), on="event_id", how="anti")
    launched_ns = open_calls.looked_up(rank.cached(host_calls), beside["launch_id"], "end_ns")["end_ns"]
    is_prompt = beside["start_ns"] - launched_ns <= idle_windows.PROMPT_NS
    prompt = beside.filter(is_prompt).sort("launch_ns").with_row_index("place")
    stops = _stops(rank).join_asof(
        prompt.select("place", "launch_ns"),
        left_on="returned_ns",
        right_on="launch_ns",
        strategy="forward",
        check_sortedness=False,
    )
    longest = pl.col("cause", "responsible", "event_id").sort_by("lead_ns", descending=True).first()
    before = (
        stops.drop_nulls("place")
        .group_by("place")
        .agg(pl.col("lead_ns").sum(), longest, since_ns=pl.col("returned_ns").min())
    )
    held = prompt.join(
        before.rename({"cause": "by", "responsible": "whose", "event_id": "stop_id"}),
        on="place",
        how="left",
        maintain_order="left",
    )
    # Until it stands still again, the host has what it lost.
    held = held.with_columns(pl.col("since_ns", "lead_ns", "by", "whose", "stop_id").forward_fill())
    held = held.drop_nulls("since_ns")
    gaps = rank.cached(host.of_all_devices).found
    at, since = (intervals.covered_before_ns(gaps, held[name]) for name in ("start_ns", "since_ns"))
    hidden_ns = pl.col("time_ns").cum_sum().over("since_ns") - pl.col("time_ns")
    left_ns = (pl.col("lead_ns") - pl.col("late_ns") - hidden_ns).clip(lower_bound=0)
    delayed = held.hstack([(at - since).alias("late_ns")]).select(
        "event_id", "by", "whose", "stop_id", delay_ns=pl.min_horizontal("time_ns", left_ns)
    )
    split = copies.join(delayed, on="event_id", how="left", maintain_order="left")
    own = split.with_columns(pl.col("time_ns") - pl.col("delay_ns").fill_null(0))
    theirs = split.drop_nulls("delay_ns").with_columns(
        cause="by", name="whose", event_id="stop_id", time_ns="delay_ns", detail=pl.lit(None, pl.String)
    )
    return pl.concat([own, theirs]).filter(pl.col("time_ns") > 0).drop("by", "whose", "stop_id", "delay_ns")


def _stops(rank: RankTrace) -> pl.DataFrame:
    """What hosts stand still in, with how long they did while their devices worked: what they could be ahead by."""
    told = ("event_id", "cause", "responsible", "began_ns", "returned_ns")
    frees = device_waits.freeing(rank).with_columns(cause=pl.lit(ALLOCATOR), responsible="name")
    waits = (lead.long(each)[:, [*told]] for each in (host.named_waits(rank), frees))
    every = pl.concat([rank.cached(host.stalls)[:, [*told]], *waits]).sort("returned_ns", "began_ns")
    # Of what is within another none counts twice.
    began_ns = pl.max_horizontal("began_ns", pl.col("returned_ns").cum_max().shift(1))
    spans = every.select(start_ns=began_ns, end_ns="returned_ns").with_columns(pl.min_horizontal("start_ns", "end_ns"))
    # What it only copied meanwhile would hide no copy.
    hiding = rank.cached(busy.of).computing_or_communicating
    lead_ns = spans["end_ns"] - spans["start_ns"] - intervals.uncovered_ns(spans, hiding)
    return every.hstack([lead_ns.alias("lead_ns")]).filter(lead_ns > 0)
