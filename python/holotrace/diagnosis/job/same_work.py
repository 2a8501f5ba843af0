"""Which ranks of a job compute the same, so that they can be compared: stages of a pipeline do not."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import polars as pl

from holotrace.derive.host_messages import PAIR
from holotrace.diagnosis.job import meetings
from holotrace.diagnosis.job.candidates import Job
from holotrace.diagnosis.job.equal_work import KIND
from holotrace.diagnosis.rank import account

# Ranks that spend so much of their time in the same kernels do the same.
COMMON_RATIO = 0.7
# Ranks that spend so much of their time in kernels that the other has, too, run the same program.
_SAME_RATIO = 0.99
# Where no stage sends to another, ranks with so much in the same kernels do: one has a few more for what only it does.
_NEARLY_SAME_RATIO = 0.9
# Of what the one with less to do computes, another does so much, if it does the same and more.
_ALL_RATIO = 0.9
# Where no stage sends to another, ranks whose calls are of the same operators by so much run the same program.
_SAME_CALLS_RATIO = 0.95
# So many ranks of a group tell what it computes.
_FEW_RANKS = 3


@dataclass(frozen=True)
class _Work:
    """How long each kernel takes a rank, how many each operator launches, and how often it meets others in what."""

    times: dict[str, float]
    calls: dict[str, float]
    met: dict[tuple[str, int], int] = field(default_factory=dict)


def alike(job: Job) -> list[Job]:
    """The job's ranks by what they compute: stages of a pipeline may run other kernels, and cannot be compared.

    Nor can replicas that never meet, each of which has its own requests to serve, where several ranks are one.
    """
    works, are_of_stages = _works(job), are_stages(job, job.ranks)
    same_ratio = _SAME_RATIO if are_of_stages else _NEARLY_SAME_RATIO
    same_calls_ratio = math.inf if are_of_stages else _SAME_CALLS_RATIO
    is_alike = partial(_is_alike, same_ratio=same_ratio, same_calls_ratio=same_calls_ratio)
    groups: list[list[int]] = []
    for rank, own in works.items():
        group = next((group for group in groups if is_alike(own, works[group[0]])), None)
        if group is None:
            groups.append([rank])
        else:
            group.append(rank)
    groups = _with_alone(groups, works, is_alike)
    replicas = meetings.groups(job.ranks, job.visits)
    if all(len(replica) > 1 for replica in replicas):
        groups = sorted(sorted(both) for group in groups for replica in replicas if (both := replica & {*group}))
    if groups == [sorted(job.ranks)]:
        return [job]
    return [_only(job, group) for group in groups]


def of_each_stage(job: Job) -> list[Job]:
    """The ranks of each stage, which run equal kernels as often as each other; none where all ranks do."""
    if not are_stages(job, job.ranks):
        return []
    work = job.of(account.WORK).group_by("rank", *KIND).agg(pl.col("count").sum())
    kernels: dict[int, list[tuple[object, ...]]] = {}
    for rank, *kernel in work.sort("rank", *KIND).iter_rows():
        kernels.setdefault(rank, []).append(tuple(kernel))
    stages: dict[tuple[tuple[object, ...], ...], list[int]] = {}
    for rank, of_rank in kernels.items():
        stages.setdefault(tuple(of_rank), []).append(rank)
    several = [ranks for ranks in stages.values() if len(ranks) > 1]
    return [_only(job, ranks) for ranks in several] if len(stages) > 1 else []


def _only(job: Job, ranks: Sequence[int]) -> Job:
    return replace(job, ranks=tuple(ranks), rows=job.rows.filter(pl.col("rank").is_in(ranks)))


def _works(job: Job) -> dict[int, _Work]:
    work = job.of(account.WORK)
    found: dict[int, _Work] = {}
    for key, column in (("name", "time_ns"), ("operator", "count")):
        sums = work.drop_nulls(key).group_by("rank", key).agg(pl.col(column).sum()).sort("rank", key)
        for rank, name, value in sums.iter_rows():
            known = found.setdefault(rank, _Work({}, {}))
            {"name": known.times, "operator": known.calls}[key][name] = value
    for rank, name, size, count in _met(job.visits):
        if rank in found:
            found[rank].met[name, size] = count
    return found


def _met(visits: pl.DataFrame) -> list[tuple[int, str, int, int]]:
    """By rank how often it meets so many others in each collective."""
    if visits.is_empty():
        return []
    together = visits.select("rank", pl.col("collective").cast(pl.String), members=pl.len().over("match"))
    return together.drop_nulls().group_by("rank", "collective", "members").len().rows()


def _with_alone(
    groups: list[list[int]], works: Mapping[int, _Work], is_alike: Callable[[_Work, _Work], bool]
) -> list[list[int]]:
    """The groups, a rank that is alone among those that it is like: the first of them may have more work of its own."""
    together = [[*group] for group in groups if len(group) > 1]
    for (rank,) in (group for group in groups if len(group) == 1):
        of_all = (each for each in together if any(is_alike(works[rank], works[other]) for other in each[:_FEW_RANKS]))
        if (found := next(of_all, None)) is None:
            together.append([rank])
        else:
            found.append(rank)
    return sorted(sorted(group) for group in together)


def _is_alike(one: _Work, other: _Work, same_ratio: float, same_calls_ratio: float) -> bool:
    """Whether two ranks compute the same, by the time that each kernel takes them.

    They do so in the same parts, or by the same kernels, which one has more calls of; or one does all that the other
    does, and something else. Other shapes may have other kernels: then the operators that were called tell, or, where a
    graph of the device has none, that both meet others in the same collectives as often.
    """
    first, second = (_shares(each.times) for each in (one, other))
    known = min(sum(share for name, share in a.items() if name in b) for a, b in ((first, second), (second, first)))
    less = min(sum(one.times.values()), sum(other.times.values()))
    return (
        common(first, second) > COMMON_RATIO
        or known > same_ratio
        or common(one.times, other.times) > _ALL_RATIO * less
        or common(_shares(one.calls), _shares(other.calls)) > same_calls_ratio
        or (not (one.calls or other.calls) and bool(one.met) and one.met == other.met and same_calls_ratio <= 1)
    )


def _shares(values: Mapping[str, float]) -> dict[str, float]:
    return {name: value / max(1.0, sum(values.values())) for name, value in values.items()}


def common(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """How much of their time two ranks spend in the same kernels."""
    return sum(min(time, other.get(name, 0.0)) for name, time in one.items())


def are_stages(job: Job, ranks: Sequence[int]) -> bool:
    """Whether any of the ranks sends to others, or receives from them.

    In a ring all ranks always do both at once, as what they pass on, such as keys and values, is not what they compute.
    """
    messages = job.visits.filter(pl.col("collective").cast(pl.String) == PAIR)
    if "message_count" in messages.columns and (messages["message_count"] > 1).all():
        return False
    return bool(messages["rank"].is_in(ranks).any())
