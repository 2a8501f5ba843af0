"""What one rank contributes to the search for causes: where its device's time went between meetings with others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from holotrace.core.plans import done
from holotrace.core.schema import Column, Unit, empty, filled
from holotrace.core.source import believable
from holotrace.core.tables import CALLS, STEPS
from holotrace.core.trace import RankTrace, finished_with
from holotrace.derive import busy, collectives
from holotrace.derive.epoch import base_ns
from holotrace.derive.names import distinct
from holotrace.derive.steps import launched_in
from holotrace.derive.vendors import BLOCKING
from holotrace.diagnosis.rank import (
    computed,
    exposed_copies,
    host,
    idle_windows,
    inefficient,
    kernels,
    lost_work,
    nearly_late,
    own_code,
    own_meetings,
    own_time,
    pace,
    pairs,
    recording,
    recovered,
    rounds,
    shared_waits,
    small_kernels,
    turns,
)
from holotrace.diagnosis.rank.calls import among, call_names, host_calls, matching
from holotrace.diagnosis.rank.xla import calls as xla_calls
from holotrace.diagnosis.rank.xla import gaps as xla_gaps
from holotrace.diagnosis.rank.xla import held_up
from holotrace.diagnosis.rank.xla import hosts as xla_hosts
from holotrace.diagnosis.rank.xla import idle as xla_idle
from holotrace.diagnosis.rank.xla import recording as xla_recording
from holotrace.diagnosis.rank.xla import slow_work as xla_slow_work
from holotrace.diagnosis.rank.xla import whole_runs as xla_whole_runs
from holotrace.diagnosis.words.classes import OPERATOR, PAUSE, RUNTIME, SYNCHRONIZATION

# Kinds of rows.
WINDOW, STEP, GAP, WORK, SEGMENT, MEETING, CALL = "window", "step", "gap", "work", "segment", "meeting", "call"
RECOVERED = "recovered"  # parts of gaps that would be hidden had the host not stood still before
CHAIN, LAUNCHING = "chain", "launching"  # parts of gaps that are due to small kernels in a row; how long hosts take
LATE = "late"  # the end of a gap in which the host did something else than launching; of XLA, each launch
BEFORE = "before"  # parts of segments that had been launched before the recording, and cannot be compared
CORE = "core"  # what each of several devices of one rank computes
CORES_BEYOND = "cores-beyond"  # how much longer kernels take on the device that they take the longest in each step
HOST = "host"  # how long the host takes by itself
LOST = "lost"  # how much of a step's work was launched but is not on record
EARLIER = "earlier"  # how long its devices did what had been launched before the recording
TURNS = "turns"  # how often comes round what most work is launched in, where nothing marks steps
WAITS = "waits"  # how often its host waits for its device, by what that is in, where turns are known
PACE = "pace"  # pieces of a recording without steps, with how long their kernels take where they are quickest
FUNCTION_TIME = "function"  # how long the host is in a function or range, or pauses, whatever its device does meanwhile
RECORDED = "recorded"  # what operations of hosts take longer since they are written down
UNPROFILED = "unprofiled"  # how long a step took while nothing was recorded, where the recorder measured it
# What a window is of where the profile is one of XLA, and its name where the host computes.
XLA, ON_HOST = "xla", "on-host"
_OWN = (
    Column(
        "row",
        Unit.TEXT,
        "What the row is about: window, step, gap, late, waited, spent, recovered, chain, launching, work, core, "
        "slow-work, segment, before, meeting, call, host, pace, turns, waits, function, lost, earlier, recorded or "
        "unprofiled",
    ),
    Column("step", Unit.STEP, "Training step; null outside of all steps"),
    Column("at_ns", Unit.NS, "When it ended, since 1970 if the file says so, on the rank's own clock"),
    Column("start_ns", Unit.NS, "When it began; of several the longest"),
    Column("time_ns", Unit.NS, "How long it took; the sum of several; of a meeting how long it held the rank up"),
    Column("count", Unit.COUNT, "How many there were; of a window, how many ranks the job has, 1 if unknown"),
    Column(
        "cause",
        Unit.TEXT,
        "Of a gap: what kept the device waiting; of a meeting: what kept the host from launching it earlier",
    ),
    Column("name", Unit.TEXT, "What is responsible, or the kernel's name, or the call's"),
    Column("detail", Unit.TEXT, "What was open around it, innermost first, or the kernel's grid, block and shapes"),
    Column("operator", Unit.TEXT, "Of work: the operator that asked for it; of a gap: the code that called that"),
    Column("event_id", Unit.EVENT, "An event of the file to look at"),
    Column(
        "end_ns", Unit.NS, "Of a meeting: when its kernel ended; of late work: when it was launched, if before at_ns"
    ),
    Column(
        "needed_ns",
        Unit.NS,
        "Of a message received: when the first kernel began that was launched after it; of pace: what is usual",
    ),
    Column("ready_ns", Unit.NS, "Of a meeting that stood in its queue: when what it communicates had been computed"),
    Column("next_ns", Unit.NS, "Of a meeting: when the rank began what it computed after it; null if unknown"),
    Column("beside_ns", Unit.NS, "Of work: how long those of it took beside which something was communicated"),
    Column("beside_count", Unit.COUNT, "Of work: how many these were"),
    Column("device", Unit.NUMBER, "Of a window or a meeting: the device; null for windows of ranks with several"),
    Column("device_ns", Unit.NS, "Of a meeting: how long it held its device up, where the rank has several"),
    Column("queue", Unit.NUMBER, "Of a meeting: the queue of its kernel, if it is one of all groups"),
)
COLUMNS = (*_OWN, *(column for column in collectives.CALLS if column.name not in {own.name for own in _OWN}))
WORK_EVENTS = idle_windows.WORK_EVENTS
READS = (
    *xla_gaps.READS,
    *pairs.READS,
    *rounds.READS,
    *own_meetings.READS,
    *host.READS,
    *collectives.READS,
    *inefficient.READS,
    *xla_slow_work.READS,
    *xla_recording.READS,
    *xla_whole_runs.READS,
    kernels.READ,
    computed.OPERATORS,
    *held_up.READS,
    busy.EVENTS,
)
# So many kinds of calls tell how fast a host is.
_MOST_CALLS = 24
# What is nearly all of a sum tells when that was; what of it comes later does not.
_NEARLY_ALL_RATIO = 0.9
_ORDER = ("step", "at_ns", "start_ns", "name", "detail", "operator")
# When something was.
_TIMES = ("at_ns", "start_ns", "end_ns")
_NOTHING = pl.DataFrame(schema={"row": pl.String()})
_NO_ROWS = empty(COLUMNS)


def account(rank: RankTrace) -> pl.DataFrame:
    """Where the time of one rank's device went, as rows of several kinds; see ``COLUMNS``."""
    base = base_ns(rank.metadata)
    # What is much of the memory while it is made comes before the kernels.
    rank.cached(_gaps_of(rank))
    meetings = own_meetings.of_rank(rank, base).with_columns(row=pl.lit(MEETING), at_ns="end_ns")
    edges, parts_at = own_meetings.edges(meetings, base), own_meetings.parts(meetings, base)
    parts = [
        _windows(rank),
        recording.unprofiled(rank).with_columns(row=pl.lit(UNPROFILED), count=1),
        _gaps(rank, edges),
        _late(rank),
        xla_hosts.rows(rank, LATE),
        _recovered(rank, edges),
        *_small_kernels(rank, edges),
        _nearly_late(rank),
        _copies(rank, edges),
        _beside(rank, edges),
        *_held_up(rank, edges),
        computed.between_meetings(rank, edges, parts_at).with_columns(row=pl.lit(SEGMENT)),
        *_before(rank, edges),
        computed.by_kernel(rank, parts_at).with_columns(row=pl.lit(WORK)),
        _cores(rank),
        _calls(rank),
        _host(rank),
        _pace(rank),
        lost_work.of_steps(rank).with_columns(row=pl.lit(LOST)),
        _earlier(rank),
        _turns(rank),
        _functions(rank),
        xla_recording.of_operations(rank).with_columns(row=pl.lit(RECORDED)),
    ]
    # They are most of the memory of a long recording, and what is left needs much.
    rank.forget(kernels.every)
    finished_with(CALLS)
    parts.append(_slow_work(rank, edges))
    own = [part for part in parts if not part.is_empty()]
    return _in_order([*own, meetings.with_columns(pl.col(_TIMES) - base)], base)


def _in_order(parts: Sequence[pl.DataFrame], base: int) -> pl.DataFrame:
    """The rows of all parts, in order. Their times are since ``base``, and since 1970 in what is returned."""
    every = filled(pl.concat([_NO_ROWS, *parts], how="diagonal_relaxed"), COLUMNS)
    return every.sort("row", *_ORDER).with_columns(pl.col(_TIMES) + base)


def _windows(rank: RankTrace) -> pl.DataFrame:
    """The whole recording and each step: ``start_ns`` and ``at_ns`` are its ends."""
    steps = rank[STEPS].select(row=pl.lit(STEP), step="step", start_ns="start_ns", at_ns="end_ns")
    events = rank.cached(kernels.every)
    spans = [events, rank[STEPS] if xla_gaps.is_xla(rank) else rank.cached(idle_windows.recorded)]
    if xla_gaps.is_xla(rank):
        # No gap is outside of it.
        spans.append(xla_gaps.window(rank))
    both = pl.concat([frame[:, ["start_ns", "end_ns"]] for frame in spans])
    whole = both.select(row=pl.lit(WINDOW), start_ns=pl.col("start_ns").min(), at_ns=pl.col("end_ns").max())
    kind = pl.lit(XLA if xla_gaps.is_xla(rank) else None, pl.String)
    on_host = rank.computes_on_host or xla_gaps.is_on_host(rank)
    place = pl.lit(ON_HOST if on_host else None, pl.String)
    world = believable(rank.metadata.get("distributedInfo")).get("world_size")
    ranks = pl.when(pl.col("row") == WINDOW).then(world)
    devices = distinct(events["device"])
    device = pl.lit(devices[0] if len(devices) == 1 else None, pl.Int32)
    return pl.concat([whole.drop_nulls(), steps], how="diagonal").with_columns(
        time_ns=pl.col("at_ns") - pl.col("start_ns"), count=ranks.fill_null(1), detail=kind, name=place, device=device
    )


def _gaps(rank: RankTrace, edges: pl.Series) -> pl.DataFrame:
    """Gaps by cause and what is responsible, summed between meetings; those of XLA end as their launch is replayed."""
    gaps = rank.cached(_gaps_of(rank))
    gaps = shared_waits.apart(gaps, rank) if _runs_ahead(rank) else gaps
    if not xla_gaps.is_xla(rank):
        gaps = own_code.with_callers(own_code.launching(gaps, rank), rank)
    named = gaps.lazy().rename({"share_ns": "time_ns", "responsible": "name", "where": "detail"})
    if xla_gaps.is_xla(rank):
        begun = rank.cached(xla_hosts.host).launches.select("begun_ns").sort("begun_ns")
        edges = pl.concat([edges, begun["begun_ns"]]).unique().sort()
        named = xla_hosts.ended_by(begun.lazy(), named)
    return _summed(named.with_columns(step=launched_in(gaps["when_ns"], rank.cached(rounds.steps))), edges, GAP)


def _gaps_of(rank: RankTrace) -> Callable[[RankTrace], pl.DataFrame]:
    """What finds the gaps of such a rank."""
    return xla_hosts.by_class if xla_gaps.is_xla(rank) else host.gaps


def _runs_ahead(rank: RankTrace) -> bool:
    """Whether the host launches work one by one and may be ahead: what it does instead then limits, or costs, its lead.

    Programs of XLA are launched as a whole, and a host that computes itself goes on when its work is done.
    """
    return not (xla_gaps.is_xla(rank) or rank.computes_on_host)


def _earlier(rank: RankTrace) -> pl.DataFrame:
    if rank.computes_on_host:
        return _NOTHING
    found = xla_idle.earlier(rank) if xla_gaps.is_xla(rank) else host.earlier(rank)
    lasted = pl.col("end_ns") - pl.col("start_ns")
    return found.select(row=pl.lit(EARLIER), start_ns="start_ns", at_ns="end_ns", time_ns=lasted)


def _late(rank: RankTrace) -> pl.DataFrame:
    """The ends of gaps in which the host did something else than launching by itself, since ``start_ns``.

    A pause, which is its ``cause``, may have been a wait for somebody.
    """
    if not _runs_ahead(rank):
        return _NOTHING
    is_pause = pl.col("cause") == PAUSE
    found = rank.cached(host.stalls).filter(pl.col("is_own") | is_pause)
    pause = pl.when(is_pause).then("cause")
    return found.select(row=pl.lit(LATE), at_ns="end_ns", start_ns="began_ns", time_ns="share_ns", count=1, cause=pause)


def _recovered(rank: RankTrace, edges: pl.Series) -> pl.DataFrame:
    """What would be hidden of gaps without what hosts had stood still for before, summed between meetings."""
    if not _runs_ahead(rank) or rank.cached(host_calls).is_empty():
        return _NOTHING
    return _of_parts(rank.cached(recovered.rows), rank, edges, RECOVERED)


def _small_kernels(rank: RankTrace, edges: pl.Series) -> tuple[pl.DataFrame, ...]:
    """What would be gone of gaps without small kernels in a row, summed between meetings, and what launching takes."""
    if not _runs_ahead(rank) or rank.cached(host_calls).is_empty() or rank.cached(small_kernels.chains).is_empty():
        return ()
    found = small_kernels.rows(rank)
    gone = _of_parts(found, rank, edges, CHAIN)
    return gone, small_kernels.launching(rank).with_columns(row=pl.lit(LAUNCHING))


def _of_parts(found: pl.DataFrame, rank: RankTrace, edges: pl.Series, row: str) -> pl.DataFrame:
    if found.is_empty():
        return _NOTHING
    named = own_code.with_callers(found, rank).lazy().rename({"share_ns": "time_ns", "responsible": "name"})
    step = launched_in(found["start_ns"], rank.cached(rounds.steps))
    return _summed(named.with_columns(step=step, detail=pl.lit(None, pl.String)), edges, row)


def _nearly_late(rank: RankTrace) -> pl.DataFrame:
    """Of each stretch of time the work that was launched the least before it began."""
    if not _runs_ahead(rank) or rank[WORK_EVENTS].is_empty() or rank.cached(host_calls).is_empty():
        return _NOTHING
    return nearly_late.of_rank(rank).with_columns(row=pl.lit(LATE), time_ns=pl.lit(0, pl.Int64), count=1)


def _summed(parts: pl.LazyFrame, edges: pl.Series, row: str) -> pl.DataFrame:
    """Rows of one cause, name and step, summed between meetings, each with the start and the event of its longest.

    Args:
        parts: step, cause, name, detail, event_id, start_ns, end_ns, time_ns.
        edges: When the rank came to others or went on.
        row: What the rows are.
    """
    is_wait = pl.col("cause").is_in((SYNCHRONIZATION, shared_waits.SHARED))
    longest_ns, sum_ns = pl.col("time_ns").first(), pl.col("time_ns").sum()
    ended = (
        pl.when(longest_ns >= _NEARLY_ALL_RATIO * sum_ns)
        .then(pl.col("end_ns").first())
        .otherwise(pl.col("end_ns").max())
    )
    # When what ends the first of them was launched, if that is known.
    columns = parts.collect_schema()
    is_launched, is_called = "launched_ns" in columns, "called_in" in columns
    return done(
        parts.with_columns(segment=pl.lit(edges).search_sorted(pl.col("end_ns"), side="left"))
        .sort("time_ns", "start_ns", "name", "event_id", descending=[True, False, False, False])
        # Code that waits often and briefly, and some that does once and long, are different code.
        .with_columns(asked_by=pl.when(is_wait).then("detail"))
        .group_by("segment", "step", "cause", "name", "asked_by", maintain_order=True)
        .agg(
            pl.col("start_ns", "detail", "event_id").first(),
            at_ns=ended,
            count=pl.when(is_wait.first()).then(turns.WAITS).otherwise(pl.len()),
            time_ns=pl.col("time_ns").sum(),
            **({"until_ns": pl.col("launched_ns").min()} if is_launched else {}),
            **({"operator": pl.col("called_in").first()} if is_called else {}),
        )
        .drop("asked_by")
        .with_columns(row=pl.lit(row))
        .rename({"until_ns": "end_ns"}, strict=False)
    )


def _copies(rank: RankTrace, edges: pl.Series) -> pl.DataFrame:
    """Copies beside which nothing was computed or communicated: the device could have worked instead."""
    found = exposed_copies.of_rank(rank, runs_ahead=_runs_ahead(rank))
    return _NOTHING if found.is_empty() else _summed(found.lazy(), edges, GAP)


def _held_up(rank: RankTrace, edges: pl.Series) -> tuple[pl.DataFrame, ...]:
    """When programs of XLA were held up by their hosts, or by messages."""
    if not rank.count(held_up.READS[0]):
        return ()
    return tuple(_summed(found(rank), edges, GAP) for found in (held_up.by_hosts, held_up.by_messages))


def _beside(rank: RankTrace, edges: pl.Series) -> pl.DataFrame:
    """What devices computed that is no work of the step, as in evaluations: as if they had stood still meanwhile."""
    found = rank.cached(computed.beside_the_steps)
    if found.is_empty():
        return _NOTHING
    # Of kernels that run at once the first has the time that they share.
    ordered = found.lazy().sort("start_ns", "end_ns", "event_id")
    apart = ordered.with_columns(pl.max_horizontal("start_ns", pl.col("end_ns").cum_max().shift(1)))
    timed = apart.with_columns(time_ns=pl.col("end_ns") - pl.col("start_ns"), detail=pl.lit(None, pl.String))
    return _summed(timed.filter(pl.col("time_ns") > 0), edges, GAP)


def _before(rank: RankTrace, edges: pl.Series) -> tuple[pl.DataFrame, ...]:
    found = computed.before_launches(rank, edges)
    return () if found.is_empty() else (found.with_columns(row=pl.lit(BEFORE)),)


def _cores(rank: RankTrace) -> pl.DataFrame:
    """What each device of a rank with several computes, by name, and what of that only one does in each step."""
    ran = rank.cached(kernels.every)
    if ran["device"].n_unique() <= 1:
        return _NOTHING
    lasted = (pl.col("end_ns") - pl.col("start_ns")).sum()
    computing = kernels.of_devices(rank, "device", "name", "start_ns", "end_ns").lazy()
    by_device = computing.group_by("device", "name").agg(time_ns=lasted, count=pl.len())
    both = (by_device, CORE), (kernels.beyond_others(rank), CORES_BEYOND)
    told = [rows.with_columns(pl.col("name").cast(pl.String), row=pl.lit(row)) for rows, row in both]
    return done(pl.concat(told, how="diagonal_relaxed"))


def _slow_work(rank: RankTrace, edges: pl.Series) -> pl.DataFrame:
    """Time that operators compute longer than they need to, summed between meetings."""
    found = rank.cached(xla_slow_work.runs if xla_gaps.is_xla(rank) else inefficient.calls)
    return _NOTHING if found.is_empty() else _summed(found.lazy(), edges, inefficient.SLOW_WORK)


def _host(rank: RankTrace) -> pl.DataFrame:
    """How long the host takes by itself."""
    if xla_gaps.is_xla(rank):
        return _NOTHING
    return pl.DataFrame({"row": [HOST], "time_ns": [own_time.of_host(rank)], "count": [1]})


def _pace(rank: RankTrace) -> pl.DataFrame:
    """Pieces of a recording of which nothing tells steps."""
    if not _is_unmarked(rank):
        return _NOTHING
    return pace.of_rank(rank).with_columns(row=pl.lit(PACE), count=1)


def _turns(rank: RankTrace) -> pl.DataFrame:
    """How many turns a server takes, and how often it waits for its device in all of them."""
    count = turns.count(rank) if _is_unmarked(rank) else 0
    if not count:
        return _NOTHING
    waits = turns.waits(rank).with_columns(row=pl.lit(WAITS))
    return pl.concat([pl.DataFrame({"row": [TURNS], "count": [count]}), waits], how="diagonal")


def _is_unmarked(rank: RankTrace) -> bool:
    return not xla_gaps.is_xla(rank) and rank.cached(rounds.steps).is_empty()


def _functions(rank: RankTrace) -> pl.DataFrame:
    """How long the host is in functions and ranges that last, by name and step, and how long it pauses."""
    if xla_gaps.is_xla(rank):
        return _NOTHING
    every = pl.concat([own_time.longest(rank), own_time.paused(rank).with_columns(cause=pl.lit(PAUSE))], how="diagonal")
    return every.with_columns(row=pl.lit(FUNCTION_TIME))


def _calls(rank: RankTrace) -> pl.DataFrame:
    """How long the host takes for the calls it makes most often, without those below them; the median."""
    if xla_gaps.is_xla(rank):
        # Threads of CPU devices share the host's cores.
        told = xla_calls.medians(rank).with_columns(row=pl.lit(CALL))
        return told.clear() if xla_gaps.is_on_host(rank) else told
    calls = rank.cached(host_calls)
    blocking = BLOCKING.intersection(rank.cached(call_names))
    is_asked = matching(calls["category"], RUNTIME) | matching(calls["category"], OPERATOR)
    return done(
        calls.lazy()
        .select("name", lasted_ns=pl.col("end_ns") - pl.col("start_ns"))
        .filter(is_asked & ~among(calls["name"], blocking))
        .group_by("name")
        .agg(count=pl.len(), time_ns=pl.col("lasted_ns").median().cast(pl.Int64))
        .with_columns(pl.col("name").cast(pl.String))
        .sort("count", "name", descending=[True, False])
        .head(_MOST_CALLS)
        .with_columns(row=pl.lit(CALL))
    )
