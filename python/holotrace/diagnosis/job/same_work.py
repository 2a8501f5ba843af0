"""Which ranks of a job compute the same, so that they can be compared: stages of a pipeline do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import polars as pl

from holotrace.derive.host_messages import PAIR
from holotrace.diagnosis.job import meetings
from holotrace.diagnosis.job.candidates import Job
from holotrace.diagnosis.rank import account

# Ranks that spend so much of their time in the same kernels do the same.
COMMON_RATIO = 0.7
# Ranks that spend so much of their time in kernels that the other has, too, run the same program.
_SAME_RATIO = 0.99
# Where no stage sends to another, ranks with so much in the same kernels do: one has a few more for what only it does.
_NEARLY_SAME_RATIO = 0.9
# Of what the one with less to do computes, another does so much, if it does the same and more.
_ALL_RATIO = 0.9
# So many ranks of a group tell what it computes.
_FEW_RANKS = 3


def alike(job: Job) -> list[Job]:
    """The job's ranks by what they compute: stages of a pipeline may run other kernels, and cannot be compared.

    Nor can replicas that never meet, each of which has its own requests to serve, where several ranks are one.
    """
    work = job.of(account.WORK).group_by("rank", "name").agg(pl.col("time_ns").sum()).sort("rank", "name")
    times: dict[int, dict[str, float]] = {}
    for rank, name, time in work.iter_rows():
        times.setdefault(rank, {})[name] = time
    same_ratio = _SAME_RATIO if are_stages(job, job.ranks) else _NEARLY_SAME_RATIO
    groups: list[list[int]] = []
    for rank, own in times.items():
        group = next((group for group in groups if _is_alike(own, times[group[0]], same_ratio)), None)
        if group is None:
            groups.append([rank])
        else:
            group.append(rank)
    groups = _with_alone(groups, times, same_ratio)
    replicas = meetings.groups(job.ranks, job.visits)
    if all(len(replica) > 1 for replica in replicas):
        groups = sorted(sorted(both) for group in groups for replica in replicas if (both := replica & {*group}))
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
    return common(first, second) > COMMON_RATIO or known > same_ratio or common(one, other) > _ALL_RATIO * less


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
