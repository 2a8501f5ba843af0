"""How long hosts are in functions, whether or not devices wait: what all ranks have, and what some have beyond."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import polars as pl

from holotrace.derive.totals import total
from holotrace.diagnosis.job.candidates import APART_RATIO, Candidate, Job, Where, by_rank, lower_median, when, who
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.words.classes import INPUT, PAUSE, STALLING

# Numbers of steps and addresses of objects make no other thing of a name.
NUMBERED = r"#\d+$|^(copy-\w+)\.\d+$| at 0x[0-9a-fA-F]+"
# Evidence: how long a call takes, of those that last.
CALL_NS = "call_ns"
# So much of what is worth telling is worth adding to what else the same costs.
PART_RATIO = 0.2
# So many ranks can be compared.
_FEWEST = 2
# Others that lack so much of what some have beyond them differ as much from each other.
_BELOW_RATIO = 0.5
# Means of ranks differ by so many standard errors by chance, as those are picked that differ the most. A standard
# deviation is so many times the median of what is off, and so many calls tell it.
_BY_CHANCE, _OF_MEDIAN, _SEVERAL = 4.0, 1.5, 6
# What takes others nearly as long is not of some ranks.
ALIKE_RATIO = 0.8


@dataclass(frozen=True)
class Level:
    """What some ranks, or all, have of a function."""

    table: pl.DataFrame
    """By rank and step: ``time_ns``, for which the device waits for it, and the part of that, ``part_ns``."""
    where: Where


def times(job: Job) -> pl.DataFrame:
    """How long each rank's host is in functions in each step, and until when, whether or not its device waits."""
    known = job.of(account.FUNCTION_TIME).filter(pl.col("cause").is_null())
    times = known.select("rank", "step", "name", "time_ns", "count", "at_ns")
    return times.with_columns(pl.col("name").str.replace_all(NUMBERED, "$1"))


def lasted_ns(found: Candidate) -> float:
    """How long a call of what is responsible takes: a device may wait in several parts for what its host is in once."""
    mean_ns = float(found.evidence.get("time_ns", 0)) / max(1, int(found.evidence.get("count", 1)))
    return max(mean_ns, float(found.evidence.get(CALL_NS, 0)))


def everybodys_ratio(cause: str, name: str | None, excess: pl.DataFrame, functions: pl.DataFrame, job: Job) -> float:
    """Of what some ranks' devices wait for, a function or a pause, which part other hosts are in while they wait too.

    Their devices then wait in a collective, so that all of it seems to be of the ranks that are last anyway.
    """
    is_pause = cause == PAUSE
    if not (is_pause or (cause in STALLING and name)) or total(excess["beyond_ns"]) <= job.floor_ns:
        return 0.0
    # Steps that nothing marks begin elsewhere on each rank.
    is_marked = not job.of(account.STEP).is_empty()
    ranks, steps = who(excess, "beyond_ns"), when(excess, "beyond_ns") if is_marked else ()
    if len(ranks) > len(job.ranks) / 2:
        return 0.0
    of_name = job.of(account.FUNCTION_TIME).filter(cause=PAUSE) if is_pause else functions.filter(name=name)
    same = of_name.filter(pl.col("step").is_in(steps) | pl.lit(not steps))
    own, others = _beside_others(same, "time_ns", ranks, job)
    if others <= PART_RATIO * max(own) or (is_pause and _more_often(same, ranks, job)):
        return 0.0
    if _differ_by_chance(of_name, steps, ranks):
        return 1.0
    # Pauses are many things, so that one more may be little of their sum.
    if not is_pause and others > ALIKE_RATIO * max(own):
        return 1.0
    beyond_ns = total(excess.filter(pl.col("rank").is_in(ranks))["beyond_ns"])
    return 1 - min(1.0, sum(max(0.0, time - others) for time in own) / max(1.0, beyond_ns))


def _beside_others(calls: pl.DataFrame, column: str, ranks: tuple[int, ...], job: Job) -> tuple[list[float], float]:
    """The sum of each of these ranks, and the median of the others."""
    sums = dict(calls.group_by("rank").agg(pl.col(column).sum()).iter_rows())
    others = lower_median(pl.Series([sums.get(rank, 0) for rank in job.ranks if rank not in ranks]))
    return [float(sums.get(rank, 0)) for rank in ranks], others


def _more_often(pauses: pl.DataFrame, ranks: tuple[int, ...], job: Job) -> bool:
    """Whether these ranks pause more often than others, which may stand still for as long as they wait for these.

    Nothing shows how long hosts wait for each other, as at a barrier of hosts.
    """
    own, others = _beside_others(pauses, "count", ranks, job)
    return others < ALIKE_RATIO * sum(own) / len(own)


def _differ_by_chance(calls: pl.DataFrame, steps: tuple[int, ...], ranks: tuple[int, ...]) -> bool:
    """Whether calls of one rank differ so much from step to step that these have longer ones in ``steps`` by chance.

    Not where each rank was in it once.
    """
    middle_ns = pl.col("mean_ns").median().over("rank")
    every = calls.select("rank", "step", mean_ns=pl.col("time_ns") / pl.col("count")).with_columns(
        off_ns=(pl.col("mean_ns") - middle_ns).abs(), is_own=pl.col("rank").is_in(ranks)
    )
    # Few that last longer for another reason change no median. The middle one of a rank is off by nothing, always.
    off = every.filter(pl.col("off_ns") > 0)["off_ns"]
    known = every.filter(pl.col("step").is_in(steps) | pl.lit(not steps))
    own, others = known.filter("is_own")["mean_ns"], known.filter(~pl.col("is_own"))["mean_ns"]
    if len(off) < _SEVERAL or own.is_empty() or others.is_empty():
        return False
    spread_ns = _OF_MEDIAN * lower_median(off)
    longer_ns = total(own) / len(own) - total(others) / len(others)
    return longer_ns < _BY_CHANCE * spread_ns * math.sqrt(1 / len(own) + 1 / len(others))


def is_named(name: str | None) -> pl.Expr:
    """Whether a row is of what is called so, or has no name where that has none."""
    return pl.col("name").eq_missing(pl.lit(name, pl.String))


def within(table: pl.DataFrame, name: str | None, functions: pl.DataFrame) -> pl.DataFrame:
    """The table with the part of ``time_ns`` for which the rank's host can have been in the function, ``own_ns``."""
    times = functions.filter(is_named(name)).group_by("rank", "step").agg(host_ns=pl.col("time_ns").sum())
    known = table.join(times, on=["rank", "step"], how="left", nulls_equal=True)
    return known.with_columns(own_ns=pl.min_horizontal("time_ns", pl.col("host_ns").fill_null(0)))


def with_spent(found: Candidate, cause: str, name: str | None, functions: pl.DataFrame, job: Job) -> Candidate:
    """The cause with how long its hosts are in the function, also while their devices work.

    Of what others are in it, too, only the rest is of some ranks.
    """
    if cause not in STALLING or name is None:
        return found
    times = functions.filter(name=name).group_by("rank", "step").agg(pl.col("time_ns").sum(), pl.col("at_ns").max())
    # Those that are not in it have none.
    others = pl.col("time_ns").sort(descending=True).get(len(job.ranks) // 2, null_on_oob=True).fill_null(0)
    usual_ns = others.over("step") if found.ranks else pl.lit(0)
    own = times.with_columns(ns=pl.col("time_ns") - pl.min_horizontal("time_ns", usual_ns)).filter(
        pl.col("ns") > 0, pl.col("rank").is_in(found.ranks or job.ranks)
    )
    # What one of the ranks has beyond the others is no matter of all.
    calls = functions.filter(pl.col("name") == name, pl.col("rank").is_in(found.ranks or job.ranks))
    of_ranks = calls.group_by("rank").agg(call_ns=pl.col("time_ns").sum() / pl.col("count").sum())
    spent = by_rank(own.with_columns(time_ns="ns").drop_nulls("at_ns").sort("rank", "at_ns"))
    lasted_ns = round(lower_median(of_ranks["call_ns"])) if of_ranks.height else 0
    evidence = {**found.evidence, CALL_NS: lasted_ns} if cause == INPUT else found.evidence
    return replace(found, change=replace(found.change, spent=spent), evidence=evidence)


def awaited_ratio(name: str | None, rows: pl.DataFrame, functions: pl.DataFrame) -> float:
    """Of all calls of a function the part that devices wait for, on the rank that waits for most of its."""
    calls = functions.filter(is_named(name)).group_by("rank").agg(pl.col("count").sum())
    waited = rows.group_by("rank").agg(waited=pl.col("event_id").n_unique()).join(calls, on="rank")
    return min(1.0, max((waited / max(1, count) for _, waited, count in waited.iter_rows()), default=1.0))


def levels(
    cause: str,
    name: str | None,
    excess: pl.DataFrame,
    functions: pl.DataFrame,
    job: Job,
    *,
    awaited_ratio: float = 1.0,
) -> tuple[Level, Level] | None:
    """What some ranks have of a function beyond the others, and what all have, which are two causes.

    Each alone removes as much of the time that the device waits for the function as the host is in it for that. Null
    where it is one thing: of all ranks alike, or of some.

    Args:
        cause: The class of what hosts do.
        name: The function's.
        excess: By rank and step, for how long the device waits for it, ``time_ns``.
        functions: What ``times`` returns.
        job: The job.
        awaited_ratio: For which part of the calls any device waits, where no steps tell for which.
    """
    if cause not in STALLING or name is None:
        return None
    by_rank = functions.filter(name=name).group_by("rank", "step").agg(host_ns=pl.col("time_ns").sum())
    # Of a pipeline only some ranks read input.
    peers = sorted(set(by_rank["rank"]))
    waiting = excess.select("rank", "step", "time_ns").filter(pl.col("rank").is_in(peers))
    known = waiting.join(by_rank, on=["rank", "step"], how="full", nulls_equal=True, coalesce=True)
    usual = pl.col("host_ns").quantile(0.5, "lower").over("step")
    awaited = pl.when(pl.col("step").is_null()).then(awaited_ratio).otherwise(1.0)
    known = known.with_columns(pl.col("time_ns", "host_ns").fill_null(0)).with_columns(usual_ns=usual)
    known = known.with_columns(
        pl.col("usual_ns") * awaited, beyond_ns=pl.col("host_ns") - pl.min_horizontal("host_ns", "usual_ns")
    )
    if len(peers) < _FEWEST or total(known["beyond_ns"]) <= job.floor_ns:
        return None
    ranks = who(known, "beyond_ns")
    is_own = pl.col("rank").is_in(ranks)
    of_rank = known.group_by("rank").agg(pl.col("beyond_ns", "usual_ns", "host_ns").sum())
    own, others = of_rank.filter(is_own), of_rank.filter(~is_own)
    usual_ns = lower_median(of_rank["usual_ns"])
    least_ns = lower_median(own["beyond_ns"])
    is_of_some = len(ranks) <= len(peers) / 2 and least_ns > job.floor_ns
    # By so much others differ from each other by chance, as far below what is usual as beyond it.
    is_apart = max(others["beyond_ns"].to_list(), default=0) < APART_RATIO * least_ns
    below_ns = others.select(pl.col("usual_ns").cast(pl.Int64) - pl.col("host_ns").cast(pl.Int64)).to_series()
    is_apart &= max(below_ns.to_list(), default=0) < _BELOW_RATIO * least_ns
    # What others are in it for nearly as long differs by chance.
    is_apart &= usual_ns <= ALIKE_RATIO * (usual_ns + least_ns)
    steps = when(known.filter(is_own), "beyond_ns")
    is_apart &= not _differ_by_chance(functions.filter(name=name), steps, ranks)
    if not (is_of_some and is_apart and usual_ns > job.floor_ns and usual_ns > PART_RATIO * least_ns):
        return None
    parts = known.with_columns(
        own_ns=pl.when(is_own).then(pl.min_horizontal("time_ns", "beyond_ns")).otherwise(0),
        common_ns=pl.min_horizontal("time_ns", "usual_ns"),
    )
    everybody = () if len(peers) == len(job.ranks) > 1 else tuple(peers)
    return (
        Level(parts.with_columns(part_ns="own_ns"), Where(ranks, steps)),
        Level(parts.with_columns(part_ns="common_ns"), Where(everybody, when(known, "usual_ns"))),
    )
