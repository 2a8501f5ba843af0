"""Idle devices as causes: what their hosts did meanwhile, on ranks that have more of it than others, and on all."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from holotrace.derive import copies
from holotrace.derive.totals import total
from holotrace.diagnosis.job import of_functions, waits_by_code, waits_for_hosts, xla_spent
from holotrace.diagnosis.job.candidates import (
    APART_RATIO,
    NAMED_RATIO,
    Candidate,
    Job,
    Where,
    are_same_steps,
    beyond_others,
    candidate,
    limits,
    lower_median,
    of_share,
    when,
    who,
)
from holotrace.diagnosis.job.less_ahead import LESS_AHEAD
from holotrace.diagnosis.job.meetings import Change
from holotrace.diagnosis.job.of_functions import ALIKE_RATIO, NUMBERED, PART_RATIO
from holotrace.diagnosis.rank import account, recording
from holotrace.diagnosis.rank.xla.hosts import SPENT
from holotrace.diagnosis.rank.xla.saving import READING
from holotrace.diagnosis.words.classes import (
    BY_NAME,
    COPY,
    INPUT,
    LAUNCH,
    PAUSE,
    RECORDING,
    SLOW_HOST,
    STALLING,
    STEP_RANGE,
    SYNCHRONIZATION,
    UNRECORDED,
    UPLOAD,
)

# Host calls of a slow host take so much longer than those of others.
_SLOW_HOST_RATIO = 1.3
# Of a slow host this is slow, however little of it others have: they launch ahead of their devices.
_SLOW_TOO = (LAUNCH, SYNCHRONIZATION, PAUSE, UNRECORDED)
# All may have some of it, which differs from rank to rank by chance, and by how far hosts were ahead: twice as much is
# more.
_TWICE_RATIO = 1.0
# Waits in a step that are more than reading its loss; and so much late launching, beside what is laid to seldom waits,
# makes a host too slow.
_OFTEN, _LATE_ANYWAY_RATIO = 4, 0.4
# So long any data loader takes to hand a batch over that is ready.
SHORT_NS = 200_000
# What more groups of ranks have, each in other steps, they have by chance.
_MOST_GROUPS = 2
# Evidence: how often hosts wait in a turn of what comes round, and that it was before the first step.
PER_TURN, BEFORE = "per_turn_count", "is_before_steps"
# So much of what a rank has beyond others must be its own host's.
_OWN_RATIO = 0.5
# What is typical of calls may be less than what the slowest of them take longer.
_SLACK = 2.0
# What takes as much longer on a slow host as its calls do, within this.
_AS_SLOW_RATIO = 1.3
# Other things that take so much longer than the calls do are held up by something else.
_MUCH_LONGER = 2.5


@dataclass(frozen=True)
class _Idle:
    """One thing that hosts did while their devices stood still."""

    cause: str
    name: str | None
    rows: pl.DataFrame
    # By rank and step: time_ns, and how much of it is beyond the median rank's.
    table: pl.DataFrame
    # The code that waits, where that is told apart from other code.
    asker: str | None = None

    @property
    def usual_ns(self) -> float:
        """What the median rank has of it."""
        return lower_median(self.table.group_by("rank").agg(pl.col("time_ns").sum())["time_ns"])


def causes(job: Job) -> Iterator[Candidate]:
    """Idle time by what the host did meanwhile."""
    # Steps of PyTorch are those of its profiler, which begin with the recording.
    first = job.of(account.STEP).join(job.of(SPENT).select("rank").unique(), on="rank", how="semi")
    begun = dict(first.group_by("rank").agg(pl.col("start_ns").min()).iter_rows())
    yield from (_before_steps(found, begun) for found in _causes(job))


def _before_steps(found: Candidate, begun: Mapping[int, int]) -> Candidate:
    """The cause, of no step if most of it was over when the first step began."""
    parts = [(rank, at, ns) for rank, of_rank in found.change.removed.items() for at, ns in of_rank]
    before_ns = sum(ns for rank, at, ns in parts if rank in begun and at - ns / 2 < begun[rank])
    if before_ns < NAMED_RATIO * sum(ns for *_, ns in parts) or not before_ns:
        return found
    return replace(found, steps=(), evidence={**found.evidence, BEFORE: True})


def _causes(job: Job) -> Iterator[Candidate]:
    job, waiting = waits_for_hosts.apart(job)
    slow = {rank: ratio for rank, ratio in _host_ratios(job).items() if ratio > _SLOW_HOST_RATIO}
    slow = slow if len(slow) <= len(job.ranks) / 2 else {}
    of_slow: list[pl.DataFrame] = []
    functions = of_functions.times(job)
    # Of XLA it is known of all that hosts do.
    done = functions if functions.height else job.of(SPENT)
    hidden = job.of(account.RECOVERED).with_columns(pl.col("name").fill_null("").str.replace_all(NUMBERED, "$1"))
    for idle in _things(job, list(slow)):
        excess = idle.table
        is_slow = _follows(idle, slow, done, job)
        levels = None if is_slow else _levels(idle, functions, job)
        if levels:
            for level in levels:
                parts = _parts(idle.rows, level.table, "part_ns")
                found = _limited(candidate(idle.cause, idle.name, parts, level.where, of_hosts=True), idle.rows)
                yield waits_for_hosts.with_waits(found, parts, waiting)
            continue
        # A slow host comes later to what takes all equally long.
        everybodys = 0.0 if is_slow else of_functions.everybodys_ratio(idle.cause, idle.name, excess, functions, job)
        is_as_long = is_slow and _is_as_long(idle, slow, functions, job)
        if everybodys > ALIKE_RATIO or is_as_long or _is_in_turns(idle, job):
            if is_as_long:
                # A slow host is less far ahead of what takes all equally long.
                of_slow.append(_parts(idle.rows, excess.filter(pl.col("rank").is_in(list(slow))), "beyond_ns"))
            found, parts = _of_all(idle, functions, job, is_as_long=is_as_long)
            yield _with_later(waits_for_hosts.with_waits(found, parts, waiting), idle, hidden)
            continue
        # Of what takes longer here than elsewhere only that is a rank's own.
        table = excess = excess.with_columns(pl.col("beyond_ns") * (1 - everybodys))
        if is_slow:
            on_slow = pl.col("rank").is_in(list(slow))
            of_slow.append(_parts(idle.rows, excess.filter(on_slow), "beyond_ns"))
            excess = excess.with_columns(beyond_ns=pl.when(on_slow).then(0).otherwise("beyond_ns"))
        is_local = _is_apart(excess, job)
        for where, theirs in _by_steps(excess, job) if is_local else ():
            parts = _parts(idle.rows, theirs, "beyond_ns")
            # Ranks that wait as often as the others, but are late for longer after that, do something else then.
            is_launching = idle.cause == SYNCHRONIZATION and _waits_as_often(idle.rows, where.ranks)
            cause, name = _after_waits(parts, where.ranks, job) if is_launching else (idle.cause, idle.name)
            found = candidate(cause, name, parts, where, of_hosts=_holds_hosts(cause, name))
            found = of_functions.with_spent(found, cause, name, functions, job)
            found = waits_for_hosts.with_waits(_limited(found, idle.rows) if cause == LAUNCH else found, parts, waiting)
            yield found if is_launching else _with_later(found, idle, hidden)
        taken = pl.col("beyond_ns") if is_local or is_slow else 0
        common = table.with_columns(left_ns=pl.col("time_ns") - taken)
        # What waiting costs may be mostly what it exposes, also in code that saves or evaluates.
        least_ns = (PART_RATIO if idle.cause in (SYNCHRONIZATION, *READING) else 1) * job.floor_ns
        if lower_median(common.group_by("rank").agg(pl.col("left_ns").sum())["left_ns"]) > least_ns:
            ranks = job.ranks if len(job.ranks) == 1 else ()
            parts = _parts(idle.rows, common, "left_ns")
            where = Where(ranks, when(common, "left_ns"))
            of_hosts = _holds_hosts(idle.cause, idle.name)
            found = candidate(idle.cause, idle.name, parts, where, of_hosts=of_hosts, **_waiting(idle, job))
            found = _limited(found, idle.rows) if idle.cause == LAUNCH else found
            # Without a wait of all a slow host is further ahead, too: mended is either.
            found = _with_parts(found, of_slow[-1]) if is_slow and idle.cause == SYNCHRONIZATION else found
            found = of_functions.with_spent(found, idle.cause, idle.name, functions, job)
            yield found if idle.cause == LAUNCH else _with_later(found, idle, hidden)
    yield from _slow_hosts(of_slow, slow, hidden)


def _levels(idle: _Idle, functions: pl.DataFrame, job: Job) -> tuple[of_functions.Level, of_functions.Level] | None:
    ratio = of_functions.awaited_ratio(idle.name, idle.rows, functions)
    return of_functions.levels(idle.cause, idle.name, idle.table, functions, job, awaited_ratio=ratio)


def _holds_hosts(cause: str, name: str | None) -> bool:
    """Whether hosts stand still in it: what copies from pinned memory, or to it, they only launch."""
    return cause != COPY or not re.search(copies.PINNED, name or "")


def _of_all(idle: _Idle, functions: pl.DataFrame, job: Job, *, is_as_long: bool) -> tuple[Candidate, pl.DataFrame]:
    """What every rank's host does, and its parts: where slow hosts are in it ``is_as_long``, no more than they are."""
    table = of_functions.within(idle.table, idle.name, functions) if is_as_long else idle.table
    parts = _parts(idle.rows, table, "own_ns" if is_as_long else "time_ns")
    found = candidate(idle.cause, idle.name, parts, Where((), when(idle.table, "time_ns")), of_hosts=True)
    found = of_functions.with_spent(found, idle.cause, idle.name, functions, job)
    return _limited(found, idle.rows) if is_as_long else found, parts


def _by_steps(excess: pl.DataFrame, job: Job) -> list[tuple[Where, pl.DataFrame]]:
    """Where ranks have what is beyond the others', and that: what few of them have in other steps is another thing.

    Unless each has it as often, and for as long: all of them collect garbage now and then.
    """
    of_rank = excess.group_by("rank").agg(pl.col("beyond_ns").sum()).sort("beyond_ns", "rank", descending=[True, False])
    groups: list[tuple[tuple[int, ...], int, list[int]]] = []
    for rank, ns in of_rank.filter(pl.col("beyond_ns") > job.floor_ns).iter_rows():
        steps = when(excess.filter(rank=rank), "beyond_ns")
        same = (
            ranks
            for others, most_ns, ranks in groups
            if are_same_steps(steps, others) or (len(steps) == len(others) and ns > ALIKE_RATIO * most_ns)
        )
        if (found := next(same, None)) is None:
            groups.append((steps, ns, [rank]))
        else:
            found.append(rank)
    if not 1 < len(groups) <= _MOST_GROUPS:
        return [(Where(who(excess, "beyond_ns"), when(excess, "beyond_ns")), excess)]
    tables = [excess.filter(pl.col("rank").is_in(ranks)) for *_, ranks in groups]
    return [(Where(who(table, "beyond_ns"), when(table, "beyond_ns")), table) for table in tables]


def _is_in_turns(idle: _Idle, job: Job) -> bool:
    """Whether all launch too late, and those that do so most have no more to do on their hosts than the others.

    Who comes last to a meeting by chance has the gap, and the others, who are as late, wait for it.
    """
    if idle.cause != LAUNCH or idle.usual_ns <= job.floor_ns or not total(idle.table["beyond_ns"]):
        return False
    ranks = who(idle.table, "beyond_ns")
    busy = dict(job.of(account.HOST).select("rank", "time_ns").iter_rows())
    # What a host stood still for is told by itself.
    stood = job.of(account.GAP).filter(pl.col("cause").is_in((*STALLING, PAUSE)))
    stood_ns = dict(stood.group_by("rank").agg(pl.col("time_ns").sum()).iter_rows())
    own = {rank: busy.get(rank, 0) - stood_ns.get(rank, 0) for rank in job.ranks}
    others = [own[rank] for rank in job.ranks if rank not in ranks]
    if not others:
        return False
    beyond_ns = total(idle.table.filter(pl.col("rank").is_in(ranks))["beyond_ns"]) / len(ranks)
    more_ns = lower_median(pl.Series([own[rank] for rank in ranks])) - lower_median(pl.Series(others))
    return more_ns < _OWN_RATIO * beyond_ns


def _waiting(idle: _Idle, job: Job) -> dict[str, Any]:
    """How often in a turn hosts wait, where turns are known and steps are not, and in which code if others do, too."""
    turns = job.of(account.TURNS)["count"]
    asker = {waits_by_code.ASKER: idle.asker} if idle.asker else {}
    if idle.cause != SYNCHRONIZATION or len(turns) < len(job.ranks):
        return asker
    waits = job.of(account.WAITS).filter(of_functions.is_named(idle.name))
    return {PER_TURN: round(total(waits["count"]) / total(turns), 3), **asker}


def _waits_as_often(rows: pl.DataFrame, ranks: tuple[int, ...]) -> bool:
    """Whether these ranks wait for their devices no more often than the others do."""
    waits = rows.group_by("rank").agg(pl.col("event_id").n_unique())
    is_own = pl.col("rank").is_in(ranks)
    own, others = waits.filter(is_own)["event_id"].to_list(), waits.filter(~is_own)["event_id"]
    return not others.is_empty() and max(own, default=0) <= (1 + APART_RATIO) * lower_median(others)


def _after_waits(parts: pl.DataFrame, ranks: tuple[int, ...], job: Job) -> tuple[str, str | None]:
    """What these ranks are late with after they waited: what their hosts do longer than others, else launching."""
    return xla_spent.longer(ranks, float(total(parts["part_ns"])), job) or (LAUNCH, None)


def _is_apart(excess: pl.DataFrame, job: Job) -> bool:
    """Whether some ranks have more of it: what most have is everybody's, however far ahead each of them was before.

    What all have in other steps than those is another matter.
    """
    ranks = who(excess, "beyond_ns")
    beyond_ns = total(excess["beyond_ns"])
    steps = when(excess, "beyond_ns")
    beside = excess.filter(pl.col("step").is_in(steps) | pl.col("step").is_null()) if steps else excess
    usual_ns = lower_median(beside.group_by("rank").agg(pl.col("time_ns").sum())["time_ns"])
    is_theirs = beyond_ns > _TWICE_RATIO * usual_ns * len(ranks)
    return beyond_ns > job.floor_ns and is_theirs and len(ranks) <= len(job.ranks) / 2


def _things(job: Job, slow: Sequence[int]) -> Iterator[_Idle]:
    # To pause in a step is to pause anywhere.
    is_anywhere = pl.col("cause").is_in((PAUSE, UNRECORDED)) & pl.col("name").str.contains(STEP_RANGE.pattern)
    elsewhere = pl.when(~is_anywhere.fill_null(value=False)).then("name").fill_null("").str.replace_all(NUMBERED, "$1")
    gaps = job.of(account.GAP).with_columns(name=elsewhere)
    gaps = waits_by_code.told(gaps, job)
    # A slow host launches everything too late, whatever the others wait for.
    usual = gaps.filter(~pl.col("rank").is_in(slow))
    by_cause = dict(usual.group_by("cause").agg(pl.col("time_ns").sum()).iter_rows())
    launching_ns = by_cause.get(LAUNCH, 0) - recording.UNSURE_RATIO * by_cause.get(RECORDING, 0)
    # What recording takes is nobody's.
    gaps = gaps.filter(pl.col("cause").ne_missing(RECORDING))
    if _is_too_slow(usual, launching_ns, by_cause.get(SYNCHRONIZATION, 0), job):
        # A host that cannot keep up with its device loses nothing by waiting for it, and spends as much on each call.
        is_short = (pl.col("cause") == INPUT) & (pl.col("time_ns") < SHORT_NS)
        is_waiting = (pl.col("cause") == SYNCHRONIZATION) | is_short
        gaps = gaps.with_columns(
            cause=pl.when(is_waiting).then(pl.lit(LAUNCH)).otherwise("cause"),
            name=pl.when(is_waiting).then(pl.lit("")).otherwise("name"),
        )
    # Some classes are one thing, whatever names it has.
    key = pl.concat_str("name", waits_by_code.ASKER, separator="\n", ignore_nulls=True)
    gaps = gaps.with_columns(key=pl.when(pl.col("cause").is_in(BY_NAME)).then(key).otherwise(pl.lit("")))
    beyond = beyond_others(gaps, job, ("cause", "key"))
    by_key = gaps.partition_by("cause", "key", as_dict=True)
    for (cause, key), table in beyond.group_by("cause", "key", maintain_order=True):
        rows = by_key[cause, key]
        names = rows.group_by("name").agg(pl.col("time_ns").sum()).sort("time_ns", "name", descending=[True, False])
        is_most = float(names["time_ns"][0]) >= NAMED_RATIO * total(names["time_ns"])
        # A host pauses and launches anywhere.
        name = str(names["name"][0]) if is_most or cause not in (PAUSE, LAUNCH) else ""
        yield _Idle(str(cause), name or None, rows, table, rows[waits_by_code.ASKER][0])


def _is_too_slow(gaps: pl.DataFrame, launching_ns: float, waiting_ns: float, job: Job) -> bool:
    """Whether hosts cannot keep up with their devices, rather than lose their lead by waiting for these.

    Where they wait seldom, as to read the loss of a step, they are too slow if much is late however far they could have
    been ahead.
    """
    if not waiting_ns:
        return False
    steps = max(1, job.of(account.STEP)["step"].n_unique())
    # A wait has a row in each part of the step that comes too late after it.
    count = gaps.filter(pl.col("cause") == SYNCHRONIZATION).select("rank", "event_id").n_unique()
    is_seldom = count < _OFTEN * len(job.ranks) * steps
    return launching_ns > (_LATE_ANYWAY_RATIO if is_seldom else 1.0) * waiting_ns


def _parts(rows: pl.DataFrame, table: pl.DataFrame, column: str) -> pl.DataFrame:
    ratio = pl.col(column) / pl.col("time_ns")
    return of_share(rows, table.filter(pl.col("time_ns") > 0).select("rank", "step", part_ratio=ratio))


def _follows(idle: _Idle, slow: dict[int, float], functions: pl.DataFrame, job: Job) -> bool:
    """Whether it takes as much longer on slow hosts as everything does there."""
    if not slow or idle.cause in _SLOW_TOO:
        return bool(slow) and _is_of_slowness(idle, slow, job)
    if _is_as_slow(idle, slow, functions):
        return True
    # The device may wait in several parts for what its host is in once.
    mean_ns = max(
        _mean_ns(rows, list(slow)) for rows in (idle.rows, functions.filter(of_functions.is_named(idle.name)))
    )
    if idle.cause == INPUT and mean_ns < SHORT_NS * max(slow.values()):
        # The others hand their batches over while their devices have something else to do.
        return True
    of_rank = dict(idle.table.group_by("rank").agg(pl.col("time_ns").sum()).iter_rows())
    usual_ns = idle.usual_ns
    most = max(float(of_rank[rank]) / ratio for rank, ratio in slow.items())
    return 0 < most <= _MUCH_LONGER * usual_ns


def _is_of_slowness(idle: _Idle, slow: dict[int, float], job: Job) -> bool:
    """Whether devices stand still for no longer than slow calls can make them: for what these take beyond others'."""
    lasted = dict(job.of(account.WINDOW).select("rank", "time_ns").iter_rows())
    own = job.of(account.HOST).filter(~pl.col("rank").is_in(list(slow)))["time_ns"]
    # Hosts launch all the time, but what stretches to a pause is a part of what they take by themselves.
    usual_ns = lower_median(own) if idle.cause == PAUSE and len(own) else math.inf
    if idle.cause == UNRECORDED:
        usual_ns = _unrecorded_ns(list(slow), job)
    beyond = idle.table.filter(pl.col("rank").is_in(list(slow))).group_by("rank").agg(pl.col("beyond_ns").sum())
    return all(
        ns <= _SLACK * min((1 - 1 / slow[rank]) * lasted.get(rank, ns), (slow[rank] - 1) * usual_ns)
        for rank, ns in beyond.iter_rows()
    )


def _unrecorded_ns(slow: Sequence[int], job: Job) -> float:
    """How long hosts that are not slow do what no call tells of; without end where it is not known of the slow ones."""
    spent = job.of(SPENT).filter(cause=UNRECORDED).group_by("rank").agg(pl.col("time_ns").sum())
    of_rank: dict[int, int] = dict(spent.iter_rows())
    others = [of_rank.get(rank, 0) for rank in job.ranks if rank not in slow]
    return lower_median(pl.Series(others)) if others and all(of_rank.get(rank) for rank in slow) else math.inf


def _is_as_slow(idle: _Idle, slow: dict[int, float], functions: pl.DataFrame) -> bool:
    """Whether slow hosts are in the function for as much longer as their calls take, though no other device waits."""
    longer = _longer(idle, slow, functions)
    ratios = [longer[rank] / ratio for rank, ratio in slow.items() if longer]
    return bool(ratios) and min(ratios) > 1 / _AS_SLOW_RATIO and max(ratios) < _AS_SLOW_RATIO


def _is_as_long(idle: _Idle, slow: dict[int, float], functions: pl.DataFrame, job: Job) -> bool:
    """Whether slow hosts are in the function for as long as all others are, as where it waits for something."""
    ratios = _longer(idle, slow, functions, job.ranks).values()
    return bool(ratios) and min(ratios) > 1 / _AS_SLOW_RATIO and max(ratios) < _AS_SLOW_RATIO


def _longer(
    idle: _Idle, slow: dict[int, float], functions: pl.DataFrame, ranks: Sequence[int] = ()
) -> dict[int, float]:
    """How many times as long as most others each slow host is in the function; nothing if that is not known.

    The others are those that are in it, or all that are given.
    """
    # What is sent goes by the name of whatever takes longest, which need not be the same on all hosts.
    is_sent = idle.cause == UPLOAD and "cause" in functions.columns
    is_it = pl.col("cause") == UPLOAD if is_sent else of_functions.is_named(idle.name)
    times = functions.filter(is_it).group_by("rank").agg(pl.col("time_ns").sum())
    host_ns: dict[int, int] = dict(times.iter_rows())
    others = [host_ns.get(rank, 0) for rank in (ranks or host_ns) if rank not in slow]
    usual_ns = lower_median(pl.Series(others)) if others else 0
    if not usual_ns:
        return {}
    return {rank: host_ns.get(rank, 0) / usual_ns for rank in slow}


def _mean_ns(rows: pl.DataFrame, ranks: list[int]) -> float:
    own = rows.filter(pl.col("rank").is_in(ranks))
    return total(own["time_ns"]) / max(1.0, total(own["count"]))


def _slow_hosts(of_slow: list[pl.DataFrame], slow: dict[int, float], hidden: pl.DataFrame) -> Iterator[Candidate]:
    """Slow hosts with what devices wait for because of them, and what they would have hidden of what they stand for."""
    parts = [part for part in of_slow if part["part_ns"].sum() > 0]
    ratio = pl.col("rank").replace_strict(slow, default=1.0, return_dtype=pl.Float64)
    called = hidden.filter(pl.col("cause") == SLOW_HOST).with_columns(part_ns=pl.col("time_ns") * (1 - 1 / ratio))
    called = called.filter(pl.col("part_ns") > 0)
    if not parts and called.is_empty():
        return
    every = pl.concat([*parts, *(() if parts else (called,))], how="diagonal_relaxed")
    ranks = who(every, "part_ns")
    mine = every.filter(pl.col("rank").is_in(ranks))
    host_ratio = round(min(slow[rank] for rank in ranks), 2)
    found = candidate(SLOW_HOST, None, mine, Where(ranks, when(mine, "part_ns")), of_hosts=True, host_ratio=host_ratio)
    found = _limited(found, mine) if parts else replace(found, change=Change())
    later = called.filter(pl.col("rank").is_in(ranks))
    if later.is_empty():
        yield found
        return
    if parts:
        # What devices wait for anyway is not hidden as well.
        taken = mine.group_by("rank", "at_ns").agg(taken_ns=pl.col("part_ns").sum())
        later = later.join(taken, on=["rank", "at_ns"], how="left").with_columns(
            (pl.col("part_ns") - pl.col("taken_ns").fill_null(0)).clip(lower_bound=0)
        )
    yield _with_parts(replace(found, evidence={**found.evidence, LESS_AHEAD: True}), later)


def _with_later(found: Candidate, idle: _Idle, hidden: pl.DataFrame) -> Candidate:
    """The cause with what its ranks' hosts would have hidden later."""
    is_same = pl.col("cause") == idle.cause
    if idle.cause in BY_NAME:
        is_same &= pl.col("name") == (idle.name or "")
    if found.ranks:
        is_same &= pl.col("rank").is_in(found.ranks)
    later = {rank: list(parts) for rank, parts in found.change.later.items()}
    for rank, at, ns in hidden.filter(is_same).select("rank", "at_ns", "time_ns").iter_rows():
        later.setdefault(rank, []).append((at, float(ns)))
    return replace(found, change=replace(found.change, later=later)) if later else found


def _with_parts(found: Candidate, parts: pl.DataFrame) -> Candidate:
    """The cause with parts of gaps that would be gone without it, too, but are told by what else they have."""
    later: dict[int, list[tuple[int, float]]] = {}
    for rank, at, ns in parts.filter(pl.col("part_ns") > 0).select("rank", "at_ns", "part_ns").iter_rows():
        later.setdefault(rank, []).append((at, float(ns)))
    return replace(found, change=replace(found.change, later=later))


def _limited(found: Candidate, rows: pl.DataFrame) -> Candidate:
    """The cause, which shares waits of devices with others."""
    return replace(found, change=replace(found.change, limits=limits(rows)))


def _host_ratios(job: Job) -> dict[int, float]:
    """How much longer the calls of each rank's host take than those of others, where there are others."""
    calls = job.of(account.CALL).select("rank", "name", "time_ns").drop_nulls().sort("name", "time_ns")
    # Without its own the others of a call are one less, and those behind it one place further.
    place, others = pl.int_range(pl.len()).over("name"), pl.len().over("name").cast(pl.Int64) - 1
    placed = calls.with_columns(
        begin=pl.int_range(pl.len()) - place, low=(others - 1) // 2, high=others // 2, place=place, others=others
    ).filter(pl.col("others") > 0)
    low, high = (
        calls["time_ns"][placed.select(pl.col("begin") + pl.col(at) + (pl.col(at) >= pl.col("place"))).to_series()]
        for at in ("low", "high")
    )
    of_others = ((low + high) / 2).alias("others_ns")
    ratio = pl.col("time_ns") / pl.col("others_ns")
    ratios = placed.hstack([of_others]).filter(pl.col("others_ns") > 0).group_by("rank").agg(ratio=ratio).sort("rank")
    return {rank: lower_median(pl.Series(found)) for rank, found in ratios.iter_rows()}
