"""Work that goes around: now one rank has more of it than others, now another, and all wait for the one that has it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from holotrace.derive.totals import total
from holotrace.diagnosis.job import sizes, tokens
from holotrace.diagnosis.job.candidates import (
    APART_RATIO,
    IS_EQUAL,
    NAMED_RATIO,
    Candidate,
    Job,
    Where,
    candidate,
    when,
)
from holotrace.diagnosis.job.equal_work import BORNE_OUT_RATIO, by_kind, is_apart, is_equal, largest, longer_ns, lower
from holotrace.diagnosis.job.segments import MEAN, MOST, beyond_ratio, placed
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.words.classes import EXPERTS, UNEVEN_WORK

# More than half, beyond doubt.
_MOSTLY_RATIO = 0.6
# Ranks of which each has so much of what the worst one has in a step have it together.
_ALIKE_RATIO = 0.7
# So much do where devices lag behind their hosts, if each has in sum over steps what it has beyond others in each.
_LAGGING_RATIO = 0.5
# Ranks differ by less in equal work.
_EQUAL_RATIO = 0.05
# What is less than this part of the most that any rank has beyond others is not much.
_MUCH_RATIO = 0.25


def causes(
    job: Job, ranks: tuple[int, ...], segments: pl.DataFrame, beyond: pl.DataFrame, kinds: pl.DataFrame
) -> Iterator[Candidate]:
    """The uneven work, or experts, of ranks that take turns; nothing where their kernels do not bear it out.

    Args:
        job: Ranks that do the same.
        ranks: Those that take turns, or have too much at once.
        segments: What ranks computed from one meeting to the next, as of ``segments.met``.
        beyond: What each has beyond others in each step.
        kinds: Their kernels, as of ``equal_work.by_kind``.
    """
    heavy = _heavy(beyond)
    if not is_apart(kinds, ranks, beyond_ratio(heavy)):
        return
    kinds_in_turn = by_kind(job, ("step",)).join(heavy, on=["rank", "step"], how="semi", nulls_equal=True)
    if longer_ns(kinds_in_turn) < BORNE_OUT_RATIO * total(heavy["beyond_ns"]):
        # The step that a time belongs to is not as sure as that of a kernel.
        return
    # In sum over steps those that take turns have equally much.
    name, kernel = largest(job.of(account.WORK), ranks, by=("step",))
    even = _balanced(beyond)
    where = Where((), when(even, "beyond_ns"))
    values = {IS_EQUAL: True} if sizes.are_known(kinds_in_turn) and is_equal(kinds_in_turn, ranks) else {}
    if tokens.are_of(name) and tokens.are_more(job, ranks, in_turns=True) and sizes.has_equal_work(kinds_in_turn):
        found = candidate(EXPERTS, name, tokens.level(segments), where, kernel=kernel, **values)
        yield tokens.with_exchanges(found, job)
    else:
        usual_ns = MEAN if total(even["lacks_ns"]) else MOST
        parts = placed(segments, even, usual_ns=usual_ns)
        yield _with_lacking(candidate(UNEVEN_WORK, name, parts, where, kernel=kernel, **values), segments, even)


def who_takes(beyond: pl.DataFrame) -> tuple[int, ...]:
    """The ranks that take turns at being the slowest; none if it is mostly the same ones."""
    worst = (
        beyond.drop_nulls("step")
        .sort("beyond_ns", "rank", descending=[True, False])
        .unique("step", keep="first", maintain_order=True)
    )
    heavy = _heavy(worst)
    if heavy.height < 3:
        return ()
    most = max(heavy.group_by("rank").agg(pl.col("beyond_ns").sum())["beyond_ns"].to_list())
    # Who takes turns has much of it in its own; of ranks that are all slow, now one and now another is so by chance.
    turns = heavy["rank"].unique()
    others = beyond.filter(pl.col("rank").is_in(pl.lit(turns).implode())).join(
        heavy.select("step", worst="rank", most_ns="beyond_ns"), on="step"
    )
    others = others.filter(pl.col("rank") != pl.col("worst"))
    # Of a device that lags behind its host the work of one step counts for the next, but not in the sum of all steps.
    in_sum = beyond.group_by("rank").agg(pl.col("time_ns", "beyond_ns").sum())
    excess_ns = (pl.col("time_ns") - lower(in_sum["time_ns"])).clip(lower_bound=0)
    own_ns, sums_ns = (
        in_sum.filter(pl.col("rank").is_in(pl.lit(turns).implode())).select("beyond_ns", excess_ns).sum().row(0)
    )
    alike = _LAGGING_RATIO if sums_ns > NAMED_RATIO * own_ns else _ALIKE_RATIO
    if total(others["beyond_ns"]) > alike * total(others["most_ns"]):
        return ()
    return tuple(heavy["rank"].unique().sort()) if most < _MOSTLY_RATIO * total(heavy["beyond_ns"]) else ()


def _balanced(beyond: pl.DataFrame) -> pl.DataFrame:
    """What each rank has beyond an even share of the step's work.

    Where most have equally much and some more, the share is what most have. Where no amount is that of most, what some
    have too much is what others lack, ``lacks_ns``: the share is the mean.
    """
    usual = pl.col("time_ns").quantile(0.5, "lower").over("step")
    missing = beyond.select((usual - pl.col("time_ns")).clip(lower_bound=0).sum()).item()
    has_usual = pl.col("time_ns") <= (1 + _EQUAL_RATIO) * usual
    is_of_most = has_usual.mean().over("step") > 0.5
    are_most = beyond.select(is_of_most.mean()).item() > _MOSTLY_RATIO
    if missing < APART_RATIO * total(beyond["beyond_ns"]) and are_most:
        return beyond.with_columns(lacks_ns=pl.lit(0.0))
    beyond_ns = pl.col("time_ns") - pl.col("time_ns").mean().over("step")
    return beyond.with_columns(beyond_ns=beyond_ns.clip(lower_bound=0), lacks_ns=(-beyond_ns).clip(lower_bound=0))


def _with_lacking(found: Candidate, segments: pl.DataFrame, even: pl.DataFrame) -> Candidate:
    """The cause with what ranks get that others have no longer: these come as much later to where they meet."""
    more = placed(segments, even.with_columns(beyond_ns="lacks_ns"), less=True, usual_ns=MEAN)
    removed = {rank: [*parts] for rank, parts in found.change.removed.items()}
    for rank, at, ns in more.filter(pl.col("part_ns") > 0).select("rank", "at_ns", "part_ns").iter_rows():
        removed.setdefault(rank, []).append((at, -ns))
    return replace(found, change=replace(found.change, removed=removed))


def _heavy(beyond: pl.DataFrame) -> pl.DataFrame:
    """The rows that have much beyond others."""
    return beyond.filter(pl.col("beyond_ns") > _MUCH_RATIO * pl.col("beyond_ns").max())
