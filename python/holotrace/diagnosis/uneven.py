"""Ranks that compute longer than their peers: slow devices, more work, work that goes around, experts and stages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import polars as pl

from holotrace.derive.host_messages import PAIR
from holotrace.diagnosis import account, also_slow, fragments, more_calls, sizes, slowed
from holotrace.diagnosis.candidates import (
    APART_RATIO,
    NAMED_RATIO,
    Candidate,
    Job,
    Where,
    are_same_steps,
    beyond_others,
    candidate,
    of_share,
    total,
    when,
    who,
)
from holotrace.diagnosis.classes import EXPERTS, MORE_WORK, PIPELINE, SLOW_DEVICE, UNEVEN_WORK
from holotrace.diagnosis.equal_work import (
    KIND,
    by_kind,
    is_apart,
    is_equal,
    is_everywhere,
    is_slow,
    is_slow_at_some,
    largest,
    longer_ns,
    lower,
    of_more_work,
    with_lost_kernels,
    with_others_pooled,
)

# Kinds that ranks have in different numbers.
_DIFFERS = (pl.col("count") != pl.col("usual_count")).any().over(*KIND)
# More than half, beyond doubt.
_MOSTLY_RATIO = 0.6
# Ranks of which each has so much of what the worst one has in a step have it together.
_ALIKE_RATIO = 0.7
# So much do where devices lag behind their hosts, if each has in sum over steps what it has beyond others in each.
_LAGGING_RATIO = 0.5
# Ranks that spend so much of their time in the same kernels do the same.
_COMMON_RATIO = 0.7
# Ranks that spend so much of their time in kernels that the other has, too, run the same program.
_SAME_RATIO = 0.99
# Where no stage sends to another, ranks with so much in the same kernels do: one has a few more for what only it does.
_NEARLY_SAME_RATIO = 0.9
# Of what the one with less to do computes, another does so much, if it does the same and more.
_ALL_RATIO = 0.9
_LOOKUP = "(?i)embedding"
# A rank that is named has so much of what the worst has.
_OF_MOST_RATIO = 0.1
# So much of what a rank has beyond others in steps is beyond theirs in sum.
_BORNE_OUT_RATIO = 0.5
# Ranks differ by less in equal work.
_EQUAL_RATIO = 0.05
# So many ranks of a group tell what it computes.
_FEW_RANKS = 3
# Stages that do no more than so many different things, as a forward and a backward pass, may do unequal work in them.
_FEW_KINDS = 2
# What one stage has too much is as much as another's if it is so large a part of it.
_ALIKE_STAGES_RATIO = 0.5
# Tokens that a rank of experts gets beyond the others' show in its all-to-all by at least this.
_MORE_TOKENS_RATIO = 1.1


def causes(job: Job) -> Iterator[Candidate]:
    """Ranks that compute longer than those that do the same."""
    for ranks in _alike(fragments.without(job)):
        found = list(_among(ranks))
        yield from found
        if slow := [each for each in found if each.cause == SLOW_DEVICE]:
            known = {rank for each in found for rank in each.ranks}
            beside = _among(also_slow.without(ranks, slow))
            # What goes around is too little to be told by one factor of all work.
            theirs = (each for each in beside if each.ranks and known.isdisjoint(each.ranks))
            yield from (each for each in theirs if each.cause != SLOW_DEVICE)


def _alike(job: Job) -> list[Job]:
    """The job's ranks by what they compute: stages of a pipeline may run other kernels, and cannot be compared."""
    work = job.of(account.WORK).group_by("rank", "name").agg(pl.col("time_ns").sum()).sort("rank", "name")
    times: dict[int, dict[str, float]] = {}
    for rank, name, time in work.iter_rows():
        times.setdefault(rank, {})[name] = time
    same_ratio = _SAME_RATIO if _are_stages(job, job.ranks) else _NEARLY_SAME_RATIO
    groups: list[list[int]] = []
    for rank, own in times.items():
        group = next((group for group in groups if _is_alike(own, times[group[0]], same_ratio)), None)
        if group is None:
            groups.append([rank])
        else:
            group.append(rank)
    groups = _with_alone(groups, times, same_ratio)
    if groups == [sorted(job.ranks)]:
        return [job]
    return [replace(job, ranks=tuple(g), rows=job.rows.filter(pl.col("rank").is_in(g))) for g in groups]


def _with_alone(
    groups: list[list[int]], times: Mapping[int, Mapping[str, float]], same_ratio: float
) -> list[list[int]]:
    """The groups, a rank that is alone among those that it is like: the first of them may have more work of its own."""
    together = [[*group] for group in groups if len(group) > 1]
    for (rank,) in (group for group in groups if len(group) == 1):
        is_like = partial(_is_alike, times[rank], same_ratio=same_ratio)
        of_all = (each for each in together if any(is_like(times[other]) for other in each[:_FEW_RANKS]))
        if (found := next(of_all, None)) is None:
            together.append([rank])
        else:
            found.append(rank)
    return sorted(sorted(group) for group in together)


def _is_alike(one: Mapping[str, float], other: Mapping[str, float], same_ratio: float) -> bool:
    """Whether two ranks compute the same, by the time that each kernel takes them.

    They do so in the same parts, or by the same kernels, which one has more calls of; or one does all that the other
    does, and something else.
    """
    shares = [{name: time / max(1.0, sum(times.values())) for name, time in times.items()} for times in (one, other)]
    first, second = shares
    known = min(sum(share for name, share in a.items() if name in b) for a, b in ((first, second), (second, first)))
    less = min(sum(one.values()), sum(other.values()))
    return _common(first, second) > _COMMON_RATIO or known > same_ratio or _common(one, other) > _ALL_RATIO * less


def _common(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """How much of their time two ranks spend in the same kernels."""
    return sum(min(time, other.get(name, 0.0)) for name, time in one.items())


def _among(job: Job) -> Iterator[Candidate]:
    """Ranks that compute longer than the others: at equal work slow devices, else more work."""
    segments = _until_one_ends(job.of(account.SEGMENT), job)
    if len(job.ranks) < 2 or segments.is_empty():
        return
    segments = _met(segments, job)
    beyond = beyond_others(segments, job, ())
    if total(beyond["beyond_ns"]) <= job.floor_ns:
        return
    kinds = by_kind(job)
    those = _above_noise(who(beyond, "beyond_ns"), beyond, job.floor_ns)
    complete = beyond.filter(~pl.col("rank").is_in(with_lost_kernels(kinds)))
    turns = _turns(complete) or (those if len(those) > len(job.ranks) / 2 else ())
    if turns:
        heavy = complete.filter(pl.col("beyond_ns") > 0.25 * pl.col("beyond_ns").max())
        if not is_apart(kinds, turns, _ratio(heavy)):
            return
        in_turn = by_kind(job, ("step",)).join(heavy, on=["rank", "step"], how="semi", nulls_equal=True)
        if longer_ns(in_turn) < _BORNE_OUT_RATIO * total(heavy["beyond_ns"]):
            # The step that a time belongs to is not as sure as that of a kernel.
            return
        has_experts = _has_more_tokens(job, turns, in_turns=True) and sizes.has_equal_work(in_turn)
        cause = EXPERTS if has_experts else UNEVEN_WORK
        # In sum over steps those that take turns have equally much.
        name, kernel = largest(job.of(account.WORK), turns, by=("step",))
        even = _balanced(complete)
        parts = _level(segments) if cause == EXPERTS else _placed(segments, even)
        equal = {"is_equal": True} if sizes.are_known(in_turn) and is_equal(in_turn, turns) else {}
        found = candidate(cause, name, parts, Where((), when(even, "beyond_ns")), kernel=kernel, **equal)
        yield _with_exchanges(found, job) if cause == EXPERTS else _with_lacking(found, segments, even)
        return
    slowed_ns = slowed.beyond_others_ns(job)
    borne_out = (rank for rank in those if _is_borne_out(rank, kinds, beyond, slowed_ns[rank]))
    those = tuple(rank for rank in borne_out if _is_apart(rank, kinds, beyond))
    if not those:
        return
    parts = _placed(segments, beyond)
    # A device that is slow at all its work, or a stage, is slow all over.
    ratio = pl.col("beyond_ns") / pl.col("time_ns")
    evenly = of_share(segments, beyond.filter(pl.col("time_ns") > 0).select("rank", "step", part_ratio=ratio))
    slow_in = {rank: _steps(beyond.filter(pl.col("rank") == rank)) for rank in those}
    for cause, ranks in _together([(_class(job, rank, kinds, beyond), rank) for rank in those], kinds, slow_in):
        mine = beyond.filter(pl.col("rank").is_in(ranks))
        beyond_ns = total(mine["beyond_ns"])
        time_ratio = 1 + beyond_ns / max(1.0, total(mine["time_ns"]) - beyond_ns)
        name, kernel = largest(kinds, tuple(ranks))
        is_slow_at_all = all(is_slow(kinds.filter(pl.col("rank") == rank), time_ratio - 1) for rank in ranks)
        pooled = [with_others_pooled(kinds, rank) for rank in ranks] if cause == MORE_WORK else []
        has_more_everywhere = bool(pooled) and all(is_everywhere(own, time_ratio - 1) for own in pooled)
        # Stages of a pipeline meet nobody between the same kernels.
        # Where nothing marks steps, its meetings tell since when it is slow.
        is_slow_at_all &= mine["step"].is_not_null().any()
        is_slow_everywhere = cause == SLOW_DEVICE and (is_slow_at_all or _are_stages(job, ranks))
        is_even = cause == PIPELINE or is_slow_everywhere or has_more_everywhere
        every = (evenly if is_even else parts).filter(pl.col("rank").is_in(ranks))
        share = _beyond_even(job, kinds, ranks, name) if cause == EXPERTS else 1.0
        own = every.with_columns(pl.col("part_ns") * share)
        found = candidate(
            cause,
            None if cause == SLOW_DEVICE else name,
            own,
            Where(tuple(ranks), _steps(mine) if cause == SLOW_DEVICE else when(mine, "beyond_ns")),
            kernel=kernel,
            time_ratio=round(time_ratio, 4),
            **(of_more_work(kinds, ranks) if cause == MORE_WORK else {}),
        )
        if cause == SLOW_DEVICE:
            yield also_slow.with_evaluation(found, job, time_ratio)
            continue
        found = _with_exchanges(found, job) if cause == EXPERTS else more_calls.with_launches(found, kinds, job)
        yield from also_slow.apart(found, every, kinds, share)


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
                else _common(shares[first], shares[rank]) > _COMMON_RATIO
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
    more = _placed(segments, even.with_columns(beyond_ns="lacks_ns"), less=True)
    removed = {rank: [*parts] for rank, parts in found.change.removed.items()}
    for rank, at, ns in more.filter(pl.col("part_ns") > 0).select("rank", "at_ns", "part_ns").iter_rows():
        removed.setdefault(rank, []).append((at, -ns))
    return replace(found, change=replace(found.change, removed=removed))


def _level(segments: pl.DataFrame) -> pl.DataFrame:
    """Segments with what each rank has beyond the mean of all from one meeting to the next, ``part_ns``.

    Tokens are spread anew in each layer, so that a rank with the most in one may have the least in the next.
    """
    own = segments.group_by("rank", "step", "match").agg(own_ns=pl.col("time_ns").sum())
    beyond_ns = (pl.col("own_ns") - pl.col("own_ns").mean().over("step", "match")).clip(lower_bound=0)
    share = own.filter(pl.col("own_ns") > 0).with_columns(part_ratio=beyond_ns / pl.col("own_ns"))
    placed = segments.join(share, on=["rank", "step", "match"], nulls_equal=True)
    return placed.with_columns(part_ns=pl.col("time_ns") * pl.col("part_ratio"))


def _with_exchanges(found: Candidate, job: Job) -> Candidate:
    """The cause with what exchanges take longer, as each lasts until the rank has its tokens that gets the most."""
    return replace(found, change=replace(found.change, transfer=even_ratios(job)))


def even_ratios(job: Job) -> dict[int, float]:
    """Of each all-to-all in which ranks get more than others, how long it would take with even shares."""
    most, even = pl.col("element_count").max(), pl.col("element_count").quantile(0.5, "lower")
    ratios = _exchanged(job).group_by("match").agg(most=most, even=even)
    uneven = ratios.filter(pl.col("even") > 0, pl.col("most") > _MORE_TOKENS_RATIO * pl.col("even"))
    return dict(uneven.sort("match").select("match", pl.col("even") / pl.col("most")).iter_rows())


def _above_noise(ranks: Sequence[int], beyond: pl.DataFrame, floor_ns: float) -> tuple[int, ...]:
    """Those of the ranks that are themselves beyond others: of many ranks each has a little, which adds up."""
    own = {rank: total(beyond.filter(pl.col("rank") == rank)["beyond_ns"]) for rank in ranks}
    most = max(own.values(), default=0.0)
    return tuple(rank for rank in ranks if own[rank] > floor_ns and own[rank] >= _OF_MOST_RATIO * most)


def _is_borne_out(rank: int, kinds: pl.DataFrame, beyond: pl.DataFrame, slowed_ns: float) -> bool:
    """Whether the rank's kernels in sum take longer than those of others, and not since they are slowed down.

    Where devices lag behind their hosts by parts of a step, the same work counts for one step here, for another there.
    """
    excess_ns = longer_ns(kinds.filter(pl.col("rank") == rank)) - slowed_ns
    return excess_ns >= _BORNE_OUT_RATIO * total(beyond.filter(pl.col("rank") == rank)["beyond_ns"])


def _is_apart(rank: int, kinds: pl.DataFrame, beyond: pl.DataFrame) -> bool:
    """Whether the rank takes longer for equal work than healthy devices may."""
    return is_apart(kinds, (rank,), _ratio(beyond.filter(pl.col("rank") == rank)))


def _ratio(mine: pl.DataFrame) -> float:
    """How much longer a rank computes than others."""
    return total(mine["beyond_ns"]) / max(1.0, total(mine["time_ns"]) - total(mine["beyond_ns"]))


def _class(job: Job, rank: int, kinds: pl.DataFrame, beyond: pl.DataFrame) -> str:
    """Why a rank computes longer."""
    mine = beyond.filter(pl.col("rank") == rank)
    ratio = _ratio(mine)
    if _are_stages(job, [rank]) and kinds.filter(rank=rank)["name"].n_unique() <= _FEW_KINDS:
        return PIPELINE
    own = with_others_pooled(kinds, rank)
    if (is_slow(own, ratio) or is_slow_at_some(own)) and not sizes.has_larger_grids(kinds, rank):
        return SLOW_DEVICE
    # Tables that are spread over ranks are no experts, and a lookup is no product.
    is_lookup = re.search(_LOOKUP, largest(kinds, (rank,))[0] or "")
    if (
        not is_lookup
        and _has_more_tokens(job, (rank,), in_turns=False)
        and sizes.has_equal_work(also_slow.as_fast(kinds, rank))
    ):
        return EXPERTS
    return PIPELINE if _are_stages(job, [rank]) else MORE_WORK


def _are_stages(job: Job, ranks: Sequence[int]) -> bool:
    """Whether any of the ranks sends to others, or receives from them.

    In a ring all ranks always do both at once, as what they pass on, such as keys and values, is not what they compute.
    """
    messages = job.visits.filter(pl.col("collective").cast(pl.String) == PAIR)
    if "message_count" in messages.columns and (messages["message_count"] > 1).all():
        return False
    return bool(messages["rank"].is_in(ranks).any())


def _until_one_ends(segments: pl.DataFrame, job: Job) -> pl.DataFrame:
    """The segments but for those of steps after the last that all ranks computed in.

    Recordings end with their hosts' steps, and devices of a host that is further ahead get to fewer of the last ones.
    """
    computed = segments.filter(pl.col("time_ns") > 0).group_by("step").agg(pl.col("rank").n_unique())
    last = computed.filter(pl.col("rank") == len(job.ranks))["step"].max()
    return segments if last is None else segments.filter((pl.col("step") <= last).fill_null(value=True))


def _met(segments: pl.DataFrame, job: Job) -> pl.DataFrame:
    """The segments with the meeting that the rank left next, ``match``; those of one meeting can be compared.

    So can those ``is_beside`` it, and those before the rank came to it. Only meetings that held most of their ranks up
    count: what is computed beside one may be done before or after it.
    """
    holds = (pl.col("time_ns") > 0).mean().over("match") > 0.5
    left = (
        job.visits.filter(holds)
        .select(
            "rank",
            "match",
            end_ns=pl.col("left_ns") + pl.col("clock_offset_ns"),
            came_ns=pl.col("arrival_ns") + pl.col("clock_offset_ns"),
        )
        .sort("end_ns")
    )
    order = segments.drop("match", "end_ns", "is_beside", strict=False).with_row_index("place").sort("at_ns")
    met = order.join_asof(
        left, left_on="at_ns", right_on="end_ns", by="rank", strategy="forward", check_sortedness=False
    )
    is_beside = (pl.col("start_ns") >= pl.col("came_ns")).fill_null(value=False)
    known = met.sort("place").with_columns(pl.col("match").fill_null(2**32 - 1), is_beside=is_beside)
    return known.drop("place", "end_ns", "came_ns")


def _placed(segments: pl.DataFrame, beyond: pl.DataFrame, *, less: bool = False) -> pl.DataFrame:
    """Segments with the part of each that makes up what its rank and step has beyond others, ``part_ns``.

    It is where the rank took longer than the others from one meeting to the next, or ``less``; where nobody was
    met, all over.
    """
    where = ["step", "match", "is_beside"]
    key = ["rank", *where]
    between = (
        segments.group_by(key)
        .agg(own_ns=pl.col("time_ns").sum())
        .with_columns(
            others=pl.len().over(where),
            usual_ns=pl.col("own_ns").quantile(0.5, "lower").over(where),
        )
    )
    own_ns, usual_ns = pl.col("own_ns").cast(pl.Int64), pl.col("usual_ns").cast(pl.Int64)
    differs_ns = usual_ns - own_ns if less else own_ns - usual_ns
    longer = pl.when(pl.col("others") > 1).then(differs_ns.clip(lower_bound=0)).otherwise(0)
    between = between.with_columns(longer_ns=longer).with_columns(all_ns=pl.col("longer_ns").sum().over("rank", "step"))
    placed = segments.join(between, on=key, how="left", nulls_equal=True).join(
        beyond.select("rank", "step", "beyond_ns", step_ns="time_ns"), on=["rank", "step"], nulls_equal=True
    )
    here = pl.when(pl.col("all_ns") > 0).then(pl.col("longer_ns") / pl.col("all_ns") / pl.col("own_ns"))
    # No more than there is.
    part = (pl.col("beyond_ns") * pl.col("time_ns") * here.otherwise(1 / pl.col("step_ns"))).fill_nan(0)
    return placed.with_columns(part_ns=pl.min_horizontal(part.fill_null(0), "time_ns"))


def _turns(beyond: pl.DataFrame) -> tuple[int, ...]:
    """The ranks that take turns at being the slowest; none if it is mostly the same ones."""
    worst = (
        beyond.drop_nulls("step")
        .sort("beyond_ns", "rank", descending=[True, False])
        .unique("step", keep="first", maintain_order=True)
    )
    heavy = worst.filter(pl.col("beyond_ns") > 0.25 * pl.col("beyond_ns").max())
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


def _has_more_tokens(job: Job, ranks: tuple[int, ...], *, in_turns: bool) -> bool:
    """Whether ranks get more through an all-to-all than others, in sum or, in turns, in some of them."""
    exchanged = _exchanged(job)
    if exchanged["element_count"].n_unique() < 2:
        return False
    by = ["rank", "match"] if in_turns else ["rank"]
    got = exchanged.group_by(by).agg(pl.col("element_count").cast(pl.Int64).sum())
    usual = pl.col("element_count").quantile(0.5, "lower").over("match") if in_turns else lower(got["element_count"])
    return not got.filter(pl.col("rank").is_in(ranks), pl.col("element_count") > _MORE_TOKENS_RATIO * usual).is_empty()


def _beyond_even(job: Job, kinds: pl.DataFrame, ranks: Sequence[int], operator: str | None) -> float:
    """How much of what ranks of experts compute beyond others they would not if tokens were spread evenly.

    What they have too much others may lack: then these would get some of it. An even share is what each rank sends.
    """
    exchanged = _exchanged(job)
    got = exchanged.group_by("rank").agg(pl.col("element_count").cast(pl.Int64).sum())
    theirs = pl.col("rank").is_in(ranks)
    sent = lower(got["element_count"])
    # Experts compute in other shapes on each rank, if shapes are known; the rest of the model does not.
    work = kinds.filter(pl.col("operator") == operator).with_columns(differs=_DIFFERS)
    times = work.filter(pl.col("differs") | ~pl.col("differs").any()).group_by("rank").agg(pl.col("time_ns").sum())
    most, usual_ns = times.filter(theirs)["time_ns"].max(), lower(times["time_ns"])
    tokens = got.filter(theirs)["element_count"].max()
    if not (most and usual_ns and tokens and sent):
        return 1.0
    ratio = float(tokens) / sent  # type: ignore[arg-type]  # a column of integers
    of_others = ratio * usual_ns / float(most)  # type: ignore[arg-type]  # a column of integers
    return (ratio - 1) / (ratio - of_others) if of_others < 1 < ratio else 1.0


def _exchanged(job: Job) -> pl.DataFrame:
    """What ranks sent or received in each all-to-all, whichever was more."""
    return job.visits.filter(
        pl.col("collective").cast(pl.String).str.to_lowercase().str.contains("all_?to_?all"),
        pl.col("rank").is_in(job.ranks),
    ).drop_nulls("element_count")
