"""What the host did while a device had nothing to do: the calls that were open on the thread that launched next."""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl

from holotrace.core.plans import columns, done, not_null
from holotrace.core.trace import RankTrace
from holotrace.derive import copies, intervals, optimizer_ranges
from holotrace.derive.kernel_kinds import COMMUNICATION
from holotrace.derive.names import distinct
from holotrace.derive.steps import is_from_before, launched_in
from holotrace.diagnosis.rank import (
    device_waits,
    idle_windows,
    interrupted,
    lead,
    lost_work,
    open_calls,
    other_thread,
    own_code,
    own_time,
    recording,
    rounds,
)
from holotrace.diagnosis.rank.calls import (
    cut_off,
    host_calls,
    main_thread,
    matching,
    on_launching_threads,
    standing_in,
    telling_nothing,
)
from holotrace.diagnosis.words.classes import (
    ALLOCATOR,
    FULL_QUEUE,
    FUNCTION,
    LAUNCH,
    PAUSE,
    PYTHON,
    QUEUED,
    RUNTIME,
    STALLING,
    STEP_RANGE,
    SYNCHRONIZATION,
    UNRECORDED,
)

WORK_EVENTS = idle_windows.WORK_EVENTS
READS = (*idle_windows.READS, *optimizer_ranges.READS, *recording.READS, *lost_work.READS)
# Shorter gaps are what a device needs from one kernel to the next.
MIN_GAP_NS = 4_000
# What a host does in a gap for so long tells that it did not launch; and of one rank so many of these are kept.
_STALL_NS, _STALL_TIMES, _MOST_STALLS = 50_000, 10, 512
# A synchronisation returns so soon after the device has nothing to do any more.
_RETURN_NS = 60_000
_SENDING = re.compile(copies.TO_DEVICE)
# What the next step begins with: reduced gradients, or parameters that were gathered.
_NEEDED_NEXT = re.compile(r"(?i)reduce|gather")
# Operators of others that never are called but by these.
_READ_BY = {"aten::_local_scalar_dense": "aten::item"}
_LAUNCHING, _LASTING = (LAUNCH, FULL_QUEUE, PYTHON), (FUNCTION, PAUSE)
# Keeps the host from being too far ahead of its device.
_OF_EVENTS = re.compile(r"EventSynchronize")
# What waits for other threads, processes or ranks, or for the device, as freeing its memory does.
_AWAITING = re.compile(
    r"(?i)acquire|poll|select\b|wait|recv|barrier|gloo|(^|\W)join\b|rendezvous|store|(cuda|hip|cu)(Mem)?Free"
)


@dataclass(frozen=True)
class Gaps:
    """Times in which no work ran, and what the host did in them."""

    found: pl.DataFrame
    """A row per gap, by time: ``window`` (its number), ``start_ns``, ``end_ns``, ``launch_id`` and ``launch_ns`` of the
    work that ends it."""
    shares: pl.DataFrame
    """Parts of gaps by what went on, as in ``open_calls.Found.shares``, or queued; those of a gap add up to it."""
    waiting: pl.DataFrame
    """The gaps before work that was launched too late."""
    told: open_calls.Found | None
    """What threads did in these; null where no call of the host was recorded."""

    def named(self) -> pl.DataFrame:
        """The gaps with what ``open_calls.Found.names`` has; null where the work was queued."""
        names = self.told.names() if self.told else open_calls.nothing(self.waiting)
        explained = self.waiting[:, ["window"]].hstack(names)
        return self.found.join(explained, on="window", how="left", maintain_order="left")


def gaps(rank: RankTrace) -> pl.DataFrame:
    """Each time in which no work ran on any of the rank's devices, with what the host did instead.

    Returns ``start_ns``, ``end_ns``, ``cause`` (see ``classes``, or queued), ``responsible``, ``where``
    (names around it, innermost first), ``event_id`` of what is responsible, ``when_ns`` (when the host did it last) and
    ``share_ns``: a gap that several things fill has a row for each, and their shares add up to its length.
    """
    every = rank.cached(of_all_devices)
    spans = every.found.lazy().select("window", "start_ns", "end_ns")
    where = open_calls.around_parts(rank.cached(host_calls), every.shares)
    is_stopped = interrupted.stopped(rank, every.shares, where)
    # Interpreting is part of launching.
    launching = pl.col("cause").replace(dict.fromkeys(_LAUNCHING, LAUNCH))
    cause = pl.when(is_stopped).then(pl.lit(PAUSE)).otherwise(launching).alias("cause")
    shares = every.shares.lazy().with_columns(cause, where)
    # Launching is told by the range that it is for, which a step is not: whatever is launched, it is one thing.
    named = every.named()
    is_step = pl.col("annotation").str.contains(STEP_RANGE.pattern)
    is_step |= optimizer_ranges.in_closure(rank, named["annotation"], named["start_ns"])
    ranges = named.lazy().select("window", pl.when(~is_step).then("annotation"))
    by_range = shares.join(ranges, on="window", how="left", maintain_order="left").with_columns(
        responsible=pl.when(pl.col("cause") == LAUNCH)
        .then("annotation")
        .otherwise(pl.col("responsible").replace(_READ_BY))
    )
    named_shares = done(by_range.drop("annotation"))
    asked = rank.cached(of_launching_threads)
    others = rank.cached(stalls).filter(pl.col("cause") != ALLOCATOR)
    launches = not_null(distinct(rank[WORK_EVENTS]["launch_ns"])).sort()
    recorded = rank.cached(recording.dense)
    if rank.computes_on_host:
        # It is never ahead of its device, so that no wait and no stall takes a lead from it.
        ratios = lead.recorded_ratio(every.found, recorded)
        told = lead.laid_to_recording_by_itself(named_shares, ratios, recording.PART)
    else:
        told = lead.laid_to_recording(named_shares, every.found, asked, recorded, recording.PARTS)
        beside = lead.laid_to_stalls(told, every.found, others, asked, launches)
        told = lead.laid_to_waits(beside, every.found, device_waits.with_freeing(asked, rank), launches)
        told = _within_what_stands(told, rank)
    is_wait = pl.col("cause") == SYNCHRONIZATION
    waits = told.select(pl.when(is_wait).then("event_id")).to_series()
    asked_by = own_code.waiting(rank.cached(host_calls), waits)
    return done(
        told.lazy()
        .with_columns(where=pl.when(is_wait).then(asked_by).otherwise("where"))
        .filter(~pl.col("window").is_in(pl.lit(_before_launches(rank)).implode()))
        .join(spans, on="window")
        .sort("start_ns", "share_ns", "cause", "responsible", descending=[False, True, False, False])
    )


def _within_what_stands(shares: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """The shares, what is lost by a wait within an evaluation or a checkpoint, for example, laid to that, and then."""
    waits = distinct(shares.filter(pl.col("cause") == SYNCHRONIZATION)["event_id"].drop_nulls())
    began = open_calls.looked_up(rank.cached(host_calls), waits, "start_ns")
    around = waits.to_frame("event_id").hstack([*standing_in(rank, waits), *began])
    known = around.select("event_id", "name", around="cause", began_ns="start_ns").drop_nulls("around")
    if known.is_empty():
        return shares
    is_within = (pl.col("cause") == SYNCHRONIZATION) & pl.col("around").is_not_null()
    joined = shares.join(known, on="event_id", how="left", maintain_order="left")
    told = joined.with_columns(
        cause=pl.when(is_within).then("around").otherwise("cause"),
        responsible=pl.when(is_within).then("name").otherwise("responsible"),
        when_ns=pl.when(is_within).then("began_ns").otherwise("when_ns"),
    )
    return told.select(shares.columns)


def named_waits(rank: RankTrace) -> pl.DataFrame:
    """The same as ``of_launching_threads``, each as the cause that it is, but for those of copies to the device."""
    work = rank[WORK_EVENTS].select("end_ns", is_sent=matching(rank[WORK_EVENTS]["name"], _SENDING)).sort("end_ns")
    ended = rank.cached(of_launching_threads).join_asof(
        work, left_on="returned_ns", right_on="end_ns", strategy="backward", check_sortedness=False
    )
    waits = ended.filter(~pl.col("is_sent").fill_null(value=False)).with_columns(
        pl.col("responsible").replace(_READ_BY), cause=pl.lit(SYNCHRONIZATION), when_ns="began_ns"
    )
    return _within_what_stands(waits, rank)


def of_launching_threads(rank: RankTrace) -> pl.DataFrame:
    """Waits of threads that launch, since the first work that was recorded; not copies to the device."""
    calls = rank.cached(host_calls)
    threads = not_null(distinct(rank.cached(of_all_devices).found["tid"]))
    sent = idle_windows.launches_of(rank, _SENDING)
    launching = calls.filter(
        pl.col("tid").is_in(pl.lit(threads).implode()), ~pl.col("event_id").is_in(pl.lit(sent).implode())
    )
    # Null where devices did nothing.
    begun_ns = pl.lit(rank[WORK_EVENTS]["start_ns"].min(), pl.Int64())
    # While it waited for what was not recorded, the host could not have launched what was.
    waits = device_waits.of_calls(launching, rank).filter(pl.col("returned_ns") > begun_ns)
    return device_waits.named(waits.with_columns(pl.max_horizontal("began_ns", begun_ns)), calls)


def stalls(rank: RankTrace) -> pl.DataFrame:
    """What else than waiting kept hosts from launching in gaps, by what is responsible.

    Returns ``event_id``, ``cause``, ``responsible``, ``began_ns`` (when that began, or the launch or the wait before it
    returned), ``returned_ns``, ``end_ns`` of the gap, ``share_ns``, its part of that, and ``is_own``: whether the host
    is known to have done something itself, and not to have waited for anybody.
    """
    every = rank.cached(of_all_devices)
    calls = rank.cached(host_calls)
    gaps = every.found.lazy().select("window", "end_ns", at_ns=pl.coalesce("launch_ns", "launched_ns"))
    # A pause lasts from one launch to the next, and so does what was not recorded.
    is_pause = pl.col("cause").is_in((PAUSE, UNRECORDED))
    stood = done(
        every.shares.lazy()
        .filter(is_pause | (pl.col("cause").is_in(STALLING) & pl.col("event_id").is_not_null()))
        .filter(pl.col("share_ns") > _STALL_NS)
        .top_k(_MOST_STALLS, by="share_ns")
        .join(gaps, on="window")
        .sort("share_ns", "window", descending=[True, False])
        .with_columns(pause=pl.when(is_pause).then("window"))
        .unique(["event_id", "pause"], keep="first", maintain_order=True)
        .sort("at_ns", "window")
    )
    call = columns(open_calls.looked_up(calls, stood["event_id"], "start_ns", "end_ns"), "start_ns", until_ns="end_ns")
    inner = open_calls.looked_up(calls, stood["inner_id"], "name")["name"]
    waits = (rank.cached(of_launching_threads), device_waits.freeing(rank))
    before = [rank[WORK_EVENTS]["launch_ns"], *(frame["returned_ns"] for frame in waits)]
    launched = not_null(pl.concat(before)).sort().alias("before_ns").to_frame().lazy()
    return done(
        stood.lazy()
        .with_columns(call, is_own=~is_pause & ~matching(inner, _AWAITING))
        .filter(is_pause | pl.col("until_ns").is_not_null())
        .join_asof(
            launched,
            left_on="at_ns",
            right_on="before_ns",
            allow_exact_matches=False,
            strategy="backward",
            check_sortedness=False,
        )
        .with_columns(
            began_ns=pl.max_horizontal("start_ns", "before_ns"), returned_ns=pl.min_horizontal("until_ns", "at_ns")
        )
        .filter(pl.col("began_ns") < pl.col("returned_ns"))
        .select("event_id", "cause", "responsible", "began_ns", "returned_ns", "end_ns", "is_own", "share_ns")
    )


def returns(rank: RankTrace) -> pl.Series:
    """When threads that launch had last stood still: in calls of the runtime that lasted, or where nothing was called.

    Whether that was to wait for their devices or for anything else is not known, unless something else has a name; nor
    is what they were in as the recording began, until they called what is on record.
    """
    calls = rank.cached(host_calls)[:, ["category", "start_ns", "end_ns"]]
    is_whole = ~rank.cached(cut_off)
    own = calls.filter(rank.cached(on_launching_threads), is_whole)
    first = own["start_ns"].sort().head(1)
    runtime = own.filter(matching(own["category"], RUNTIME))
    lasts = pl.col("end_ns") - pl.col("start_ns")
    # To launch takes a slow host long, too.
    usual = runtime.select(lasts.median()).item() or 0
    lasted = runtime.filter(lasts > max(_STALL_NS, _STALL_TIMES * usual))
    times: pl.Series = pl.concat([first, lasted["end_ns"], rank.cached(own_time.pauses)["end_ns"]]).sort()
    return times


def held_back(rank: RankTrace, events: pl.Series) -> pl.DataFrame:
    """What the host had waited for its device in before it launched each event, which began as soon as it was launched.

    Returns ``responsible``, the wait's, ``returned_ns`` and ``held_ns``, how much earlier it would have been launched
    without that, for each of the events; null where it began later, or the host had not waited. Waits for an event are
    none, as they are there to keep the host from being too far ahead.
    """
    calls = rank.cached(host_calls)
    gaps = rank.cached(of_all_devices)
    waits = rank.cached(of_launching_threads)
    names = open_calls.looked_up(calls, waits["event_id"], "name")["name"]
    waits = waits.filter(~matching(names, _OF_EVENTS)).sort("returned_ns")
    spans = columns(waits, start_ns="began_ns", end_ns="returned_ns")
    waits = waits.hstack([intervals.uncovered_ns(spans, gaps.found).alias("held_ns")])
    work = rank[WORK_EVENTS][:, ["event_id", "launch_id", "launch_ns", "start_ns"]].lazy().unique("event_id")
    asked = done(events.to_frame("event_id").lazy().join(work, on="event_id", how="left", maintain_order="left"))
    launched = open_calls.looked_up(calls, asked["launch_id"], "end_ns")["end_ns"].alias("launched_ns")
    is_prompt = pl.col("start_ns") - pl.coalesce("launched_ns", "launch_ns") <= idle_windows.PROMPT_NS
    found = (
        asked.hstack([launched])
        .lazy()
        .with_columns(at_ns=pl.when(is_prompt).then("launch_ns"))
        .with_row_index("place")
        .sort("at_ns", nulls_last=True)
        .join_asof(
            waits.lazy().select("returned_ns", "responsible", "held_ns"),
            left_on="at_ns",
            right_on="returned_ns",
            strategy="backward",
            check_sortedness=False,
        )
    )
    return done(found.sort("place").select("responsible", "returned_ns", "held_ns"))


def of_all_devices(rank: RankTrace) -> Gaps:
    """The gaps in which none of the rank's devices worked, or none computed since the host launched too late."""
    idle, _ = rank.cached(_idle)
    return _told(lost_work.without_its_gaps(_with_late(rank, idle), rank), rank)


def earlier(rank: RankTrace) -> pl.DataFrame:
    """When its devices did what had been launched before the recording: ``start_ns`` and ``end_ns``."""
    _, first = rank.cached(_idle)
    found = rank.cached(of_all_devices).found
    before = found.filter(pl.col("window").is_in(pl.lit(_before_launches(rank)).implode()))
    return pl.concat([frame[:, ["start_ns", "end_ns"]] for frame in (first, before)])


def _before_launches(rank: RankTrace) -> pl.Series:
    """The gaps before what had been launched before the recording: longer work, such as messages, may have run then."""
    from_before = rank[WORK_EVENTS].filter(is_from_before())["event_id"]
    found = rank.cached(of_all_devices).found
    windows: pl.Series = found.filter(pl.col("next_id").is_in(pl.lit(from_before).implode()))["window"]
    return windows


def _idle(rank: RankTrace) -> tuple[pl.DataFrame, pl.DataFrame]:
    return idle_windows.and_earlier(rank[WORK_EVENTS], rank.cached(idle_windows.recorded), MIN_GAP_NS)


def explained(rank: RankTrace, events: pl.DataFrame, min_gap_ns: int) -> Gaps:
    """The gaps between the work among ``events`` that are longer than ``min_gap_ns``."""
    return _told(idle_windows.idle(events, rank.cached(idle_windows.recorded), min_gap_ns), rank)


def late(rank: RankTrace) -> pl.DataFrame:
    """The gaps between computing in which the host launched too late, whatever was communicated or copied meanwhile.

    What starts as soon as it is launched has not waited for the collective beside it: that would have been hidden. So
    would a copy in a queue of its own.
    """
    events = rank[WORK_EVENTS]
    own = idle_windows.in_computing_queues(events.filter(pl.col("kind") != COMMUNICATION))
    beside = events.join(own, on="event_id", how="anti", maintain_order="left")
    others = idle_windows.idle(own, rank.cached(idle_windows.recorded), MIN_GAP_NS)
    # Where nothing comes after it, nothing was launched too late; nor is that known of what was not recorded.
    others = others.filter(pl.col("next_id").is_not_null(), pl.col("launch_ns").is_not_null())
    if beside.is_empty():
        return others.clear()
    calls = rank.cached(host_calls)
    timed = idle_windows.timed(others, calls, rank)
    is_late = (pl.col("launched_ns") > pl.col("start_ns")) & (
        pl.col("end_ns") - pl.col("launched_ns") <= idle_windows.PROMPT_NS
    )
    waited_for = _waited_for(timed, beside, device_waits.awaited(rank))
    found = timed.filter(is_late, ~pl.col("window").is_in(pl.lit(waited_for).implode()))
    found = _after_the_last(found, beside.filter(pl.col("kind") == COMMUNICATION), rank)
    is_beside = intervals.uncovered_ns(found, beside) < found["end_ns"] - found["start_ns"]
    return found.filter(is_beside)[:, others.columns]


def _after_the_last(gaps: pl.DataFrame, communicated: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """The gaps from the end of a step's last reduction on, if that ends in them: what comes next needs its result.

    So it does that of the gather of parameters that the optimizer has changed.
    """
    step = launched_in(communicated["launch_ns"], rank.cached(rounds.steps))
    ends = pl.DataFrame([step.alias("step"), communicated["end_ns"]]).lazy()
    reductions = ends.filter(pl.lit(matching(communicated["name"], _NEEDED_NEXT))).drop_nulls("step")
    last = reductions.group_by("step").agg(last_ns=pl.col("end_ns").max()).select("last_ns").sort("last_ns")
    within = (
        gaps.lazy()
        .sort("end_ns")
        .join_asof(last, left_on="end_ns", right_on="last_ns", strategy="backward", check_sortedness=False)
    )
    since = pl.max_horizontal("start_ns", "last_ns")
    return done(within.with_columns(start_ns=since).filter(pl.col("end_ns") - pl.col("start_ns") > MIN_GAP_NS))


def _with_late(rank: RankTrace, gaps: pl.DataFrame) -> pl.DataFrame:
    """The gaps between all work, and the parts of ``late`` ones in which a device only communicated or copied."""
    if rank.cached(late).is_empty():
        return gaps
    windows = rank.cached(late).sort("start_ns")
    beside = intervals.subtract(windows, gaps)
    known = beside.join_asof(windows.drop("end_ns"), on="start_ns", check_sortedness=False)
    return pl.concat([gaps, known.select(gaps.columns)]).sort("start_ns", "end_ns")


def _waited_for(gaps: pl.DataFrame, beside: pl.DataFrame, waits: pl.DataFrame) -> pl.Series:
    """The gaps in which the host waited until a collective or copy ended: a call that waits returned then."""
    ends = beside.lazy().select(at_ns="end_ns").sort("at_ns")
    within = ends.join_asof(
        gaps.lazy(), left_on="at_ns", right_on="start_ns", strategy="backward", check_sortedness=False
    )
    returned = within.join_asof(
        waits.lazy(), left_on="at_ns", right_on="returned_ns", strategy="forward", check_sortedness=False
    )
    is_awaited = (pl.col("began_ns") < pl.col("at_ns")) & (pl.col("returned_ns") <= pl.col("at_ns") + _RETURN_NS)
    return done(returned.filter(pl.col("at_ns") < pl.col("end_ns"), is_awaited))["window"]


def _told(idle: pl.DataFrame, rank: RankTrace) -> Gaps:
    """Gaps with what the host did in them."""
    calls = rank.cached(host_calls)
    found = idle_windows.timed(idle, calls, rank)
    is_queued = (pl.col("launched_ns") <= pl.col("start_ns")).fill_null(value=False)
    waiting = found.filter(~is_queued)
    queued = found.filter(is_queued)
    shares = open_calls.NO_SHARES if queued.is_empty() else _all_of(queued, QUEUED)
    if calls.is_empty() or waiting.is_empty():
        return Gaps(found, pl.concat([shares, _all_of(waiting, UNRECORDED)]), waiting, None)
    main, nothing = rank.cached(main_thread), rank.cached(telling_nothing)
    told = open_calls.of(calls, waiting, fallback=main, ignored=nothing, together=True)
    numbered = told.shares.clone().replace_column(0, waiting["window"][told.shares["window"]])
    numbered = _between_calls(interrupted.begun_before(numbered, waiting, rank))
    numbered = other_thread.instead_of_pauses(numbered, waiting, calls, rank)
    by_host = _after_waiting(_in_one(numbered, waiting), waiting, calls, rank)[:, shares.columns]
    return Gaps(found, pl.concat([shares, by_host]), waiting, told)


def _in_one(told: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """The shares, what goes on in one call through several gaps told alike, where one ends as the next begins.

    A call that lasts is told from one that launches by how long it goes on, of which a gap may have the least part.
    """
    run = (pl.col("start_ns") != pl.col("end_ns").shift(1)).fill_null(value=True).cum_sum()
    runs = found.lazy().sort("start_ns").select("window", run=run)
    alike = ["run", "inner_id"]
    most = pl.col("share_ns") == pl.col("share_ns").max()
    changed = pl.col("cause").is_in(_LAUNCHING) & pl.col("inner_id").is_not_null() & pl.col("longest").is_in(_LASTING)
    return done(
        told.lazy()
        .join(runs, on="window", how="left", maintain_order="left")
        .with_columns(
            longest=pl.col("cause").filter(most).first().over(alike),
            **{f"its_{name}": pl.col(name).filter(most).first().over(alike) for name in ("responsible", "event_id")},
        )
        .with_columns(
            cause=pl.when(changed).then("longest").otherwise("cause"),
            responsible=pl.when(changed).then("its_responsible").otherwise("responsible"),
            event_id=pl.when(changed).then("its_event_id").otherwise("event_id"),
        )
        .select(told.columns)
    )


def _between_calls(told: pl.DataFrame) -> pl.DataFrame:
    """The shares, what is so short that an interpreter works between two calls told as that, with or without a range.

    Outside of all ranges and functions a host does between its calls what it does within them.
    """
    is_short = (pl.col("cause") == UNRECORDED) & (pl.col("share_ns") < open_calls.LONG_NS)
    return told.with_columns(cause=pl.when(is_short).then(pl.lit(PYTHON)).otherwise("cause"))


def _all_of(found: pl.DataFrame, cause: str) -> pl.DataFrame:
    """One share per gap."""
    return found.select(
        "window",
        cause=pl.lit(cause),
        responsible=pl.lit(None, pl.String),
        inner_id=pl.lit(None, pl.UInt32),
        event_id=pl.lit(None, pl.UInt32),
        share_ns=pl.col("end_ns") - pl.col("start_ns"),
        when_ns="start_ns",
    )


def _after_waiting(told: pl.DataFrame, found: pl.DataFrame, calls: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """Launching after a wait for the device is what the wait costs, for as long as the host could have run ahead."""
    waits = device_waits.of_calls(calls, rank)
    if waits.is_empty() or told.is_empty():
        return told
    is_launching = pl.col("cause").is_in(_LAUNCHING)
    before = (
        told.lazy()
        .join(found.lazy().select("window", "start_ns", "end_ns"), on="window")
        .sort("start_ns")
        .join_asof(waits.lazy(), left_on="start_ns", right_on="returned_ns", strategy="forward", check_sortedness=False)
        .with_columns(
            is_after=(pl.col("began_ns") < pl.col("start_ns"))
            & (pl.col("returned_ns") <= pl.min_horizontal("end_ns", pl.col("start_ns") + _RETURN_NS))
        )
        # While it waited the device worked until the gap began; what the host needs longer than that it launches late.
        .with_columns(
            ahead_ratio=(pl.col("start_ns") - pl.col("began_ns"))
            / pl.col("share_ns").filter(is_launching).sum().over("window")
        )
        .with_columns(
            laid_ns=pl.when(pl.col("is_after") & (is_launching | (pl.col("cause") == SYNCHRONIZATION)))
            .then(
                pl.col("share_ns") * pl.when(is_launching).then(pl.col("ahead_ratio").clip(upper_bound=1)).otherwise(1)
            )
            .round()
            .cast(pl.Int64)
            .fill_null(0)
        )
    )
    who = columns(device_waits.named(waits, calls), wait_id="event_id", waits_in="responsible")
    laid = before.filter(pl.col("laid_ns") > 0).join(who.lazy(), on="wait_id", how="left", maintain_order="left")
    left = before.with_columns(pl.col("share_ns") - pl.col("laid_ns")).filter(pl.col("share_ns") > 0)
    laid = laid.with_columns(
        cause=pl.lit(SYNCHRONIZATION), responsible="waits_in", event_id="wait_id", share_ns="laid_ns"
    )
    return done(pl.concat([part.select(told.columns) for part in (laid, left)]).sort("window", maintain_order=True))
