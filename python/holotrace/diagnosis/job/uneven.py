"""Ranks that compute longer than others that do the same: slow devices, more work, experts with more tokens, stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from holotrace.derive.totals import total
from holotrace.diagnosis.job import also_slow, by_call, fragments, in_turns, more_calls, sizes, slowed, tokens
from holotrace.diagnosis.job.candidates import (
    Candidate,
    Job,
    Where,
    are_same_steps,
    beyond_others,
    candidate,
    of_share,
    when,
    who,
)
from holotrace.diagnosis.job.equal_work import (
    BORNE_OUT_RATIO,
    by_kind,
    is_apart,
    is_everywhere,
    is_slow,
    is_slow_at_some,
    largest,
    longer_ns,
    of_more_work,
    with_lost_kernels,
    with_others_pooled,
)
from holotrace.diagnosis.job.same_work import COMMON_RATIO, alike, are_stages, common, of_each_stage
from holotrace.diagnosis.job.segments import beyond_ratio, met, placed, until_one_ends, with_rest
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.words.classes import EXPERTS, MORE_WORK, PIPELINE, SLOW_DEVICE

# A rank that is named has so much of what the worst has.
_OF_MOST_RATIO = 0.1
# So many ranks and steps tell what comes about by chance: nearly all are within so many times of what one differs by.
_FEW_RANKS, _FEW_STEPS, _BY_CHANCE = 4, 3, 4.0
# Stages that do no more than so many different things, as a forward and a backward pass, may do unequal work in them.
_FEW_KINDS = 2
# Of what a rank has beyond others in one step it has so much in any, if it has it in all.
_STEADY_RATIO = 0.75
# What one stage has too much is as much as another's if it is so large a part of it.
_ALIKE_STAGES_RATIO = 0.5


def causes(job: Job) -> Iterator[Candidate]:
    """Ranks that compute longer than those that do the same."""
    for whole in alike(job):
        ranks = fragments.in_common(fragments.without(whole))
        # Of stages that differ, the ranks of one compute the same, and tell which of their devices is slow.
        slow = [each for stage in of_each_stage(ranks) for each in _among(stage, whole) if each.cause == SLOW_DEVICE]
        yield from slow
        ranks, those = (also_slow.without(of, slow) for of in (ranks, whole))
        found = list(_among(ranks, those))
        if not found and not fragments.are_most(ranks, those):
            found = list(by_call.causes(those))
        yield from found
        if slow := [each for each in found if each.cause == SLOW_DEVICE]:
            known = {rank for each in found for rank in each.ranks}
            beside = _among(also_slow.without(ranks, slow), those)
            # What goes around is too little to be told by one factor of all work.
            theirs = (each for each in beside if each.ranks and known.isdisjoint(each.ranks))
            yield from (each for each in theirs if each.cause != SLOW_DEVICE)


def _among(job: Job, whole: Job) -> Iterator[Candidate]:
    """Ranks that compute longer than the others: at equal work slow devices, else more work.

    Of the ``whole`` job they may have recorded more than can be compared.
    """
    segments = until_one_ends(job.of(account.SEGMENT), job)
    if len(job.ranks) < 2 or segments.is_empty():
        return
    segments = met(segments, job)
    beyond = beyond_others(segments, job, ())
    if total(beyond["beyond_ns"]) <= job.floor_ns:
        return
    kinds = by_kind(job)
    those = _above_noise(who(beyond, "beyond_ns"), beyond, job.floor_ns)
    complete = beyond.filter(~pl.col("rank").is_in(with_lost_kernels(kinds)))
    certain = _beyond_chance(those, beyond)
    half = len(job.ranks) / 2
    turns = in_turns.who_takes(complete) or (those if len(those) > half and not 0 < len(certain) <= half else ())
    if turns:
        yield from in_turns.causes(job, turns, segments, complete, kinds)
        return
    slowed_ns = slowed.beyond_others_ns(job)
    borne_out = (rank for rank in certain if _is_borne_out(rank, kinds, beyond, slowed_ns[rank]))
    those = tuple(rank for rank in borne_out if _is_apart(rank, kinds, beyond))
    if not those:
        return
    parts = placed(segments, beyond)
    # A device that is slow at all its work, or a stage, is slow all over.
    part = pl.col("beyond_ns") / pl.col("time_ns")
    evenly = of_share(segments, beyond.filter(pl.col("time_ns") > 0).select("rank", "step", part_ratio=part))
    slow_in = {rank: _steps(beyond.filter(pl.col("rank") == rank)) for rank in those}
    for cause, ranks in _together([(_class(job, rank, kinds, beyond), rank) for rank in those], kinds, slow_in):
        mine = beyond.filter(pl.col("rank").is_in(ranks))
        ratio = beyond_ratio(mine)
        name, kernel = largest(kinds, tuple(ranks))
        is_slow_at_all = all(is_slow(kinds.filter(pl.col("rank") == rank), ratio) for rank in ranks)
        pooled = [with_others_pooled(kinds, rank) for rank in ranks] if cause == MORE_WORK else []
        has_more_everywhere = bool(pooled) and all(is_everywhere(own, ratio) for own in pooled)
        # Stages of a pipeline meet nobody between the same kernels.
        # Where nothing marks steps, its meetings tell since when it is slow.
        is_slow_at_all &= mine["step"].is_not_null().any()
        is_slow_everywhere = cause == SLOW_DEVICE and (is_slow_at_all or are_stages(job, ranks))
        is_even = cause == PIPELINE or is_slow_everywhere or has_more_everywhere
        every = (evenly if is_even else parts).filter(pl.col("rank").is_in(ranks))
        share = tokens.beyond_even(job, kinds, ranks, name) if cause == EXPERTS else 1.0
        if is_even or cause == SLOW_DEVICE or (cause == MORE_WORK and _is_steady(mine)):
            every = with_rest(every, fragments.computed(whole).filter(pl.col("rank").is_in(ranks)))
        own = every.with_columns(pl.col("part_ns") * share)
        found = candidate(
            cause,
            None if cause == SLOW_DEVICE else name,
            own,
            Where(tuple(ranks), _steps(mine) if cause == SLOW_DEVICE else when(mine, "beyond_ns")),
            kernel=kernel,
            time_ratio=round(1 + ratio, 4),
            **(of_more_work(kinds, ranks) if cause == MORE_WORK else {}),
        )
        if cause == SLOW_DEVICE:
            yield also_slow.with_evaluation(found, job, 1 + ratio)
            continue
        found = tokens.with_exchanges(found, job) if cause == EXPERTS else more_calls.with_launches(found, kinds, job)
        yield from also_slow.apart(found, every, kinds, share)


def _is_steady(beyond: pl.DataFrame) -> bool:
    """Whether ranks take as much longer in each of several steps: so they do in those that cannot be compared."""
    ratios = beyond.filter(pl.col("time_ns") > 0).select("rank", "step", ratio=pl.col("beyond_ns") / pl.col("time_ns"))
    least, most = ratios.select(least=pl.col("ratio").min(), most=pl.col("ratio").max()).row(0)
    return ratios["step"].n_unique() > 1 and least > _STEADY_RATIO * most


def _together(
    classes: Sequence[tuple[str, int]], kinds: pl.DataFrame, slow_in: Mapping[int, tuple[int, ...]]
) -> list[tuple[str, list[int]]]:
    """The ranks that have one class, by what their more work is: that of others is another cause.

    Devices are slow for one reason if they are ``slow_in`` the same steps. Of stages a much slower one stands alone.
    """
    excess = pl.col("time_ns").cast(pl.Int64) - pl.col("usual_ns").cast(pl.Int64)
    shares: dict[int, Mapping[str, float]] = {}
    sums: dict[int, float] = {}
    found: list[tuple[str, list[int]]] = []
    for cause, rank in classes:
        # Where no operators were recorded kernels tell.
        what = pl.coalesce("operator", "name").alias("what")
        by_what = kinds.filter(rank=rank).group_by(what).agg(ns=excess.sum()).filter(pl.col("ns") > 0)
        all_ns = sums[rank] = max(1.0, total(by_what["ns"]))
        shares[rank] = {name: ns / all_ns for name, ns in by_what.iter_rows()}
        for each, ranks in found:
            first = ranks[0]
            is_same = (
                are_same_steps(slow_in[first], slow_in[rank])
                if cause == SLOW_DEVICE
                else common(shares[first], shares[rank]) > COMMON_RATIO
            )
            less, more = sorted((sums[first], sums[rank]))
            if each == cause and is_same and (cause != PIPELINE or less > _ALIKE_STAGES_RATIO * more):
                ranks.append(rank)
                break
        else:
            found.append((cause, [rank]))
    return found


def _steps(beyond: pl.DataFrame) -> tuple[int, ...]:
    """The steps in which a device is slow, however little it had to do in some of them."""
    totals = beyond.group_by("rank", "step").agg(pl.col("beyond_ns", "time_ns").sum())
    return when(
        totals.filter(pl.col("time_ns") > 0).with_columns(ratio=pl.col("beyond_ns") / pl.col("time_ns")), "ratio"
    )


def _above_noise(ranks: Sequence[int], beyond: pl.DataFrame, floor_ns: float) -> tuple[int, ...]:
    """Those of the ranks that are themselves beyond others: of many ranks each has a little, which adds up."""
    own = {rank: total(beyond.filter(pl.col("rank") == rank)["beyond_ns"]) for rank in ranks}
    most = max(own.values(), default=0.0)
    return tuple(rank for rank in ranks if own[rank] > floor_ns and own[rank] >= _OF_MOST_RATIO * most)


def _beyond_chance(ranks: Sequence[int], beyond: pl.DataFrame) -> tuple[int, ...]:
    """Those of the ranks that are further beyond others, in sum over steps, than ranks are by chance.

    What is looked up in tables, for example, takes each rank longer in one step and less long in the next.
    """
    differs_ns = pl.col("time_ns") - pl.col("time_ns").quantile(0.5, "lower").over("step")
    known = beyond.select("rank", "step", differs_ns=differs_ns)
    if known["rank"].n_unique() < _FEW_RANKS or known["step"].n_unique() < _FEW_STEPS:
        return tuple(ranks)
    sums = known.group_by("rank").agg(
        pl.col("differs_ns").sum(), spread_ns=pl.col("differs_ns").std() * pl.len().sqrt()
    )
    chance_ns = _BY_CHANCE * pl.col("spread_ns").quantile(0.5, "lower")
    return tuple(sums.filter(pl.col("differs_ns") > chance_ns, pl.col("rank").is_in(ranks))["rank"].sort())


def _is_borne_out(rank: int, kinds: pl.DataFrame, beyond: pl.DataFrame, slowed_ns: float) -> bool:
    """Whether the rank's kernels in sum take longer than those of others, and not since they are slowed down.

    Where devices lag behind their hosts by parts of a step, the same work counts for one step here, for another there.
    """
    excess_ns = longer_ns(kinds.filter(pl.col("rank") == rank)) - slowed_ns
    return excess_ns >= BORNE_OUT_RATIO * total(beyond.filter(pl.col("rank") == rank)["beyond_ns"])


def _is_apart(rank: int, kinds: pl.DataFrame, beyond: pl.DataFrame) -> bool:
    """Whether the rank takes longer for equal work than healthy devices may."""
    return is_apart(kinds, (rank,), beyond_ratio(beyond.filter(pl.col("rank") == rank)))


def _class(job: Job, rank: int, kinds: pl.DataFrame, beyond: pl.DataFrame) -> str:
    """Why a rank computes longer."""
    mine = beyond.filter(pl.col("rank") == rank)
    ratio = beyond_ratio(mine)
    if are_stages(job, [rank]) and kinds.filter(rank=rank)["name"].n_unique() <= _FEW_KINDS:
        return PIPELINE
    own = with_others_pooled(kinds, rank)
    if (is_slow(own, ratio) or is_slow_at_some(own)) and not sizes.has_larger_grids(kinds, rank):
        return SLOW_DEVICE
    if (
        tokens.are_of(largest(kinds, (rank,))[0])
        and tokens.are_more(job, (rank,), in_turns=False)
        and sizes.has_equal_work(also_slow.as_fast(kinds, rank))
    ):
        return EXPERTS
    return PIPELINE if are_stages(job, [rank]) else MORE_WORK
