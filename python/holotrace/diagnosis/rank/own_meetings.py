"""When a rank came to others and went on, and what of that was only because of its own host."""

from __future__ import annotations

import polars as pl

from holotrace.core.plans import constant, done
from holotrace.core.source import STEPS_ARE_NUMBERED
from holotrace.core.tables import DEVICE_EVENTS, STEPS, XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive import busy, collectives, intervals
from holotrace.derive.host_messages import ON_HOSTS, PAIR
from holotrace.derive.kernel_kinds import COMMUNICATION, COMPUTE
from holotrace.derive.names import distinct
from holotrace.diagnosis.rank import host, kernels, pairs
from holotrace.diagnosis.rank.calls import host_calls
from holotrace.diagnosis.rank.nearly_late import ROUNDED_NS
from holotrace.diagnosis.rank.xla import gaps as xla_gaps
from holotrace.diagnosis.words.classes import SYNCHRONIZATION

# What starts so soon after the work before it on its queue was waiting for that.
_QUEUED_NS = 10_000
_GPU = "/device:GPU"
# An operation that awaits what is over lasts no longer.
_AT_ONCE_NS = 1_000
_OPS = XLA_OPS.only("event_id", "stream", "is_collective")
_ENDS = XLA_OPS.only("device", "is_wait", "start_ns", "end_ns")
_COMPUTING = DEVICE_EVENTS.only("kind", "device", "start_ns", "end_ns")
READS = (_OPS, _ENDS, _COMPUTING, xla_gaps.RUNS)
_TOLD = pl.Schema({"cause": pl.String(), "name": pl.String()})
_QUEUE = ("group", "group_ranks")
# Steps have as many of these.
_SAME = [*_QUEUE, "operation", "device"]


def of_rank(rank: RankTrace, base: int) -> pl.DataFrame:
    """Collectives and messages of a rank, on the clock of the job, which is ``base`` later than that of the file."""
    meetings = pairs.paired(rank.cached(collectives.calls), rank)
    if not (barriers := collectives.barriers(rank)).is_empty():
        barriers = barriers.select(pl.col(name).cast(dtype) for name, dtype in meetings.schema.items())
        meetings = pl.concat([meetings, barriers]).sort("start_ns", "end_ns", "event_id")
    meetings = _numbered(meetings, rank)
    if rank[STEPS].is_empty():
        turns = rank.cached(kernels.every).select("event_id", "step").unique("event_id")
        meetings = meetings.drop("step").join(turns, on="event_id", how="left", maintain_order="left")
    if not (xla_gaps.is_xla(rank) or rank.computes_on_host):
        meetings = _one_after_the_other(meetings)
    meetings = _without_late(meetings, rank, base)
    meetings = meetings.with_columns(
        time_ns=_held_ns(meetings, rank.cached(busy.of).computing, _is_over(meetings, rank, base), base),
        device_ns=_of_devices_ns(meetings, rank, base),
        needed_ns=_needed_ns(meetings, rank, base),
        ready_ns=_ready_ns(meetings, rank, base),
    )
    meetings = meetings.with_columns(next_ns=_next_ns(meetings, rank, base))
    return meetings.hstack(_held_back(meetings, rank, base)).hstack([_queues(meetings, rank)])


def _one_after_the_other(meetings: pl.DataFrame) -> pl.DataFrame:
    """The kernels, none of which ends after the next one of its queue began: GPUs may begin that a little earlier."""
    next_ns = pl.col("start_ns").shift(-1).over(_QUEUE, order_by="start_ns")
    is_next = (pl.col("end_ns") - next_ns).is_between(0, _QUEUED_NS) & (next_ns > pl.col("start_ns"))
    return meetings.with_columns(end_ns=pl.when(is_next).then(next_ns).otherwise("end_ns"))


def _queues(meetings: pl.DataFrame, rank: RankTrace) -> pl.Series:
    """The queue of each that is a kernel of a GPU in a profile of XLA, which has one for all groups; else null."""
    if rank[xla_gaps.RUNS].is_empty() or not rank[xla_gaps.RUNS]["plane"].cast(pl.String).str.starts_with(_GPU).any():
        return constant("queue", None, meetings.height, pl.Int64())
    of_gpu = rank.where(_OPS, pl.col("is_collective")).select("event_id", queue="stream").unique("event_id")
    return meetings.select("event_id").join(of_gpu, on="event_id", how="left", maintain_order="left")["queue"]


def _numbered(meetings: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """The meetings of programs of XLA by the numbers of their steps, if these are the same in every profile of the job.

    Otherwise their order would tell which belong together, and their ends from where on: programs wait for some of what
    they exchange long after it is over.
    """
    if not xla_gaps.is_xla(rank) or not rank.metadata.get(STEPS_ARE_NUMBERED):
        return meetings
    return pairs.permuted(meetings.with_columns(sequence=pl.coalesce("sequence", "step", before_the_first(meetings))))


def before_the_first(meetings: pl.DataFrame) -> pl.Series:
    """The steps of what programs exchanged that had been launched before the recording; null for all else.

    Devices run programs in the order of their launches, so that the steps before the first of the recording are those
    right before it, if each that was recorded has as many of the same.
    """
    of_step = meetings.drop_nulls("step").group_by(*_SAME, "step").agg(pl.len(), pl.col("start_ns").min())
    # The recording may end in the last.
    whole = of_step.filter(pl.col("step") < pl.col("step").max().over(_SAME))
    in_a_row = pl.col("step").max() - pl.col("step").min() + 1 == pl.len()
    usual = whole.group_by(_SAME).agg(
        pl.col("len").first(),
        first_step=pl.col("step").min(),
        first_ns=pl.col("start_ns").min(),
        is_usual=in_a_row & (pl.col("len").n_unique() == 1),
    )
    known = meetings.join(usual.filter("is_usual"), on=_SAME, how="left", nulls_equal=True, maintain_order="left")
    is_before = (pl.col("step").is_null() & (pl.col("start_ns") < pl.col("first_ns"))).fill_null(value=False)
    later = is_before.cast(pl.Int64).cum_sum(reverse=True).over(_SAME, order_by="start_ns")
    number = pl.col("first_step") - 1 - (later - 1) // pl.col("len").cast(pl.Int64)
    told: pl.Series = known.select(pl.when(is_before).then(number)).to_series()
    return told.alias("sequence")


def edges(meetings: pl.DataFrame, base: int) -> pl.Series:
    """The times at which the rank came to others or went on, on the clock of the file; in between is one segment."""
    blocked = pl.col("end_ns") - pl.col("time_ns")
    times: pl.Series = (
        pl.concat([meetings["start_ns"], meetings.select(blocked).to_series(), meetings["end_ns"]]) - base
    )
    found: pl.Series = distinct(times).sort()
    return found


def parts(meetings: pl.DataFrame, base: int) -> pl.Series:
    """When the rank began what it launched after each meeting, or went on from one, on the clock of the file."""
    held = meetings.filter(pl.col("time_ns") > 0)["end_ns"]
    begins: pl.Series = distinct(pl.concat([meetings["next_ns"].drop_nulls(), held]) - base).sort()
    return begins


def _next_ns(meetings: pl.DataFrame, rank: RankTrace, base: int) -> pl.Series:
    """When the rank began what it launched after each meeting.

    Ranks of one program launch the same before a meeting and after it, whenever each gets to it. It is null where the
    rank does not begin that in this order, and where launches are not known.
    """
    if xla_gaps.is_xla(rank) or rank.computes_on_host:
        return constant("next_ns", None, meetings.height, pl.Int64())
    ran = rank.cached(kernels.every)
    launched = ran[:, ["event_id", "launch_ns"]].filter(ran["kind"] == COMMUNICATION).unique("event_id")
    asked = meetings.join(launched, on="event_id", how="left", maintain_order="left")
    computed = kernels.comparable(rank, "launch_ns", "start_ns").drop_nulls().sort("launch_ns", "start_ns")
    after = pl.lit(computed["launch_ns"]).search_sorted(pl.col("launch_ns"), side="right").cast(pl.Int64)
    is_known = pl.col("launch_ns").is_not_null() & after.is_between(1, computed.height - 1)
    place = pl.when(is_known).then(after)
    begins = pl.lit(computed["start_ns"].cum_min(reverse=True)).gather(place)
    is_in_order = pl.lit(computed["start_ns"].cum_max()).gather(place - 1) < begins
    next_ns = pl.when(is_known & is_in_order).then(begins + base)
    found: pl.Series = asked.select(next_ns.alias("next_ns")).to_series()
    return found


def _without_late(meetings: pl.DataFrame, rank: RankTrace, base: int) -> pl.DataFrame:
    """The meetings without the time in which their rank waited for its host, which hid none of it."""
    if xla_gaps.is_xla(rank) or meetings.is_empty() or rank.cached(host.late).is_empty():
        return meetings.hstack([constant("is_late", False, meetings.height)])
    gaps = rank.cached(host.late).sort("start_ns")
    spans = meetings.select(pl.col("start_ns", "end_ns") - base)
    late_ns = spans["end_ns"] - spans["start_ns"] - intervals.uncovered_ns(spans, gaps)
    last = spans.lazy().select("end_ns").with_row_index("place").sort("end_ns")
    ended = done(
        last.join_asof(
            gaps.lazy().select("start_ns", until_ns="end_ns"),
            left_on="end_ns",
            right_on="start_ns",
            strategy="backward",
            allow_exact_matches=False,
            check_sortedness=False,
        ).sort("place")
    )
    return meetings.with_columns(
        exposed_ns=(pl.col("exposed_ns") - late_ns).clip(lower_bound=0),
        is_late=(ended["end_ns"] < ended["until_ns"]).fill_null(value=False),
    )


def _held_ns(meetings: pl.DataFrame, spans: pl.DataFrame, is_over: pl.Series, base: int) -> pl.Series:
    """How long each collective held up who computes in these spans: until it ended nothing was computed for so long.

    What waits for its end may seem to begin a little before that, since files round times.
    """
    if spans.is_empty() or meetings.is_empty():
        return meetings["exposed_ns"]
    end_ns = pl.col("end_ns") - base
    before = pl.lit(spans["start_ns"]).search_sorted(end_ns - ROUNDED_NS).cast(pl.Int64) - 1
    computed_ns = pl.lit(spans["end_ns"]).gather(before.clip(lower_bound=0))
    alone_ns = pl.min_horizontal("exposed_ns", end_ns - pl.max_horizontal(computed_ns, pl.col("start_ns") - base))
    held = meetings.select(pl.when(before >= 0).then(alone_ns).otherwise("exposed_ns")).to_series()
    is_held = (held > host.MIN_GAP_NS) & ~meetings["is_late"] & ~is_over
    lasting: pl.Series = held * is_held.cast(pl.Int64)
    return lasting


def _of_devices_ns(meetings: pl.DataFrame, rank: RankTrace, base: int) -> pl.Series:
    """How long each held up its device, which others of its rank need not wait for; null where that is the only one."""
    known = distinct(meetings["device"])
    if len(known) < 2 or meetings["device"].null_count() or not xla_gaps.is_xla(rank) or xla_gaps.is_on_host(rank):
        return constant("device_ns", None, meetings.height, pl.Int64())
    numbered = meetings.with_columns(is_over=_is_over(meetings, rank, base)).with_row_index("place")
    found = []
    for own in numbered.partition_by("device"):
        is_own = (pl.col("kind") == COMPUTE) & (pl.col("device") == own["device"][0])
        spans = intervals.union(rank.where(_COMPUTING, is_own))
        found.append(own.select("place", device_ns=_held_ns(own, spans, own["is_over"], base)))
    return pl.concat(found).sort("place")["device_ns"] if found else meetings["exposed_ns"].alias("device_ns")


def _is_over(meetings: pl.DataFrame, rank: RankTrace, base: int) -> pl.Series:
    """Whether each was over before its device asked for it: the operation that waits for its end lasted no time.

    What the device stood still for before was something else that it waited for.
    """
    if not xla_gaps.is_xla(rank):
        return constant("is_over", value=False, height=meetings.height)
    lasted_ns = pl.col("end_ns") - pl.col("start_ns")
    at_once = rank.where(_ENDS, pl.col("is_wait") & (lasted_ns <= _AT_ONCE_NS))
    ended = at_once.select(pl.col("device").cast(meetings.schema["device"]), "end_ns").unique()
    is_one = meetings["device"].null_count() == meetings.height
    place = ["end_ns"] if is_one else ["device", "end_ns"]
    ends = meetings.select("device", end_ns=pl.col("end_ns") - base).with_row_index("at")
    over = ends.join(ended, on=place, how="semi")["at"]
    is_over: pl.Series = constant("is_over", value=False, height=meetings.height).scatter(over, values=True)
    return is_over


def _held_back(meetings: pl.DataFrame, rank: RankTrace, base: int) -> pl.DataFrame:
    """What kept the host from launching each collective that began as late as it was launched: ``cause``, ``name``.

    It is a wait since the step's first, as what was waited for before that is what the step before has computed.
    """
    if xla_gaps.is_xla(rank) or meetings.is_empty() or rank.cached(host_calls).is_empty():
        return pl.DataFrame({"cause": [None] * meetings.height, "name": [None] * meetings.height}, schema=_TOLD)
    first = meetings.select(first_ns=pl.col("start_ns").min().over("step", "group", "group_ranks") - base)
    held = host.held_back(rank, meetings["event_id"]).with_columns(meetings["exposed_ns"], first["first_ns"])
    # It would have been hidden if it had been on its way for so much longer.
    is_held = (pl.col("held_ns") >= pl.col("exposed_ns")) & (pl.col("exposed_ns") > 0)
    is_held &= pl.col("returned_ns") > pl.col("first_ns")
    return held.select(
        cause=pl.when(is_held).then(pl.lit(SYNCHRONIZATION)), name=pl.when(is_held).then("responsible")
    ).cast(_TOLD)


def _ready_ns(meetings: pl.DataFrame, rank: RankTrace, base: int) -> pl.Series:
    """When what was communicated had been computed, of meetings that stood in their queue behind others; else null.

    They waited for what was launched before them, unless some of their kind begin before that has ended.
    """
    left = pl.col("end_ns").cum_max().shift(1).over(_QUEUE, order_by="start_ns")
    is_queued = (pl.col("start_ns") - left).is_between(0, _QUEUED_NS, closed="left")
    told = meetings.lazy().select("event_id", *_QUEUE, "operation", "start_ns", is_queued.alias("is_queued"))
    of_kind = done(told.filter(pl.col("is_queued").any().over(*_QUEUE, "operation")))
    if of_kind.is_empty():
        return constant("ready_ns", None, meetings.height, pl.Int64())
    ran = rank.cached(kernels.every)
    launched = ran[:, ["event_id", "launch_ns"]].filter(ran["kind"] == COMMUNICATION).lazy().unique("event_id")
    asked = done(of_kind.lazy().join(launched, on="event_id", how="left", maintain_order="left"))
    computed = done(kernels.computing(rank, "launch_ns", "end_ns").lazy().drop_nulls().sort("launch_ns"))
    before = pl.lit(computed["launch_ns"]).search_sorted(pl.col("launch_ns")).cast(pl.Int64) - 1
    latest = pl.lit(computed["end_ns"].cum_max()).gather(pl.when(before >= 0).then(before))
    ended = asked.select(latest + base).to_series()
    awaits_it = (pl.col("ready_ns") <= pl.col("start_ns")).all().over(*_QUEUE, "operation")
    known = asked.hstack([ended.alias("ready_ns")]).lazy().filter(awaits_it, "is_queued").select("event_id", "ready_ns")
    once = known.unique("event_id", keep="last", maintain_order=True)
    every = meetings[:, ["event_id"]].lazy()
    return done(every.join(once, on="event_id", how="left", maintain_order="left"))["ready_ns"]


def _needed_ns(meetings: pl.DataFrame, rank: RankTrace, base: int) -> pl.Series:
    """When the rank needed the messages that it received: no later than what it launched next; null for all else.

    Hosts that wait themselves need them as they go on.
    """
    if not (meetings["collective"] == PAIR).any():
        return constant("needed_ns", None, meetings.height, pl.Int64())
    launched = rank.cached(kernels.every).lazy().select("event_id", received_ns="launch_ns").unique("event_id")
    computed = (
        kernels.computing(rank, "launch_ns", "start_ns").lazy().drop_nulls("launch_ns").sort("launch_ns", "start_ns")
    )
    is_received = pl.col("group_ranks").cast(pl.String).str.ends_with(f", {rank.rank}]")
    is_received &= pl.col("collective") == PAIR
    is_on_host = pl.col("operation").cast(pl.String).str.contains(rf"^{ON_HOSTS}:")
    needed = (
        meetings.lazy()
        .select("event_id", is_received.alias("is_received"), on_host_ns=pl.when(is_on_host).then("end_ns"))
        .with_row_index("place")
        .join(launched, on="event_id", how="left")
        .sort("received_ns")
        .join_asof(
            computed.select("launch_ns", needed_ns="start_ns"),
            left_on="received_ns",
            right_on="launch_ns",
            strategy="forward",
            check_sortedness=False,
        )
        .sort("place")
        .select(needed_ns=pl.when("is_received").then(pl.coalesce("on_host_ns", pl.col("needed_ns") + base)))
    )
    times: pl.Series = done(needed)["needed_ns"]
    return times
