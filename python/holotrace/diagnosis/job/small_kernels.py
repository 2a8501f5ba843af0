"""Small kernels that hosts launch in a row, as a cause: what a graph or one kernel instead of them would save."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import polars as pl

from holotrace.diagnosis.job.candidates import (
    NAMED_RATIO,
    Candidate,
    Costs,
    Job,
    Where,
    by_rank,
    candidate,
    lower_median,
    when,
)
from holotrace.diagnosis.job.meetings import Meetings, Removed
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.rank.small_kernels import REPEATED
from holotrace.diagnosis.words.classes import LAUNCH, SYNCHRONIZATION

# Evidence: how many small kernels hosts launch in a row.
IN_A_ROW = "in_a_row_count"
# Any model has some small kernels: only more than this of the job is worth saying.
_LEAST_RATIO = 0.02
# Hosts that are late for so much more than that are late anywhere.
_ANYWHERE_RATIO = 1.25

Lasting = list[tuple[tuple[Candidate, int], int]]


def causes(job: Job) -> Iterator[Candidate]:
    """What hosts of most ranks launch in a row."""
    gone, launching = job.of(account.CHAIN), job.of(account.LAUNCHING)
    if gone.is_empty() or launching["rank"].n_unique() <= len(job.ranks) / 2:
        return
    names = launching.group_by("name").agg(pl.col("time_ns").sum()).sort("time_ns", "name", descending=[True, False])
    is_most = int(names["time_ns"][0]) >= NAMED_RATIO * int(launching["time_ns"].sum())
    is_own = pl.col("cause").is_in((LAUNCH, REPEATED))
    parts = gone.with_columns(part_ns=pl.when(is_own).then("time_ns").otherwise(0))
    where = Where(job.ranks if len(job.ranks) == 1 else (), when(launching, "time_ns"))
    found = candidate(LAUNCH, names["name"][0] if is_most else None, parts, where, of_hosts=True)
    repeated_ns = int(launching.filter(cause=REPEATED)["time_ns"].sum())
    is_repeated = repeated_ns >= NAMED_RATIO * int(launching["time_ns"].sum())
    evidence = {
        **found.evidence,
        **({REPEATED: True} if is_repeated else {}),
        "time_ns": int(gone["time_ns"].sum()),
        "count": launching.height,
        IN_A_ROW: int(lower_median(launching["count"])),
    }
    # What only devices take makes no host earlier that stands still for something else.
    of_hosts = by_rank(gone.filter(cause=LAUNCH))
    later = by_rank(gone.filter(~is_own))
    change = replace(found.change, of_hosts=of_hosts, spent=by_rank(launching), later=later)
    yield replace(found, change=change, evidence=evidence)


def told(kept: Costs, every: Costs, meetings: Meetings, rank_count: int, of_job: tuple[int, float]) -> Costs:
    """The causes with small kernels in a row, if these cost enough, instead of launching late that is mostly theirs.

    Where hosts launch them late because of a wait, they and the wait cost the same: what costs more is told.

    Args:
        kept: The causes that cost enough.
        every: All of them.
        meetings: The job's.
        rank_count: How many ranks it has.
        of_job: How long it takes, and what recording takes of launching is unsure by.
    """
    job_ns, unsure_ns = of_job
    in_a_row = [(c, meetings.saved_ns(c.change)) for c, _ in every if IN_A_ROW in c.evidence]
    others = [pair for pair in kept if IN_A_ROW not in pair[0].evidence]
    late = [(c, ns) for c, ns in others if c.cause == LAUNCH and len(c.ranks) in (0, rank_count)]
    for chain, cost in in_a_row:
        late_ns = max((ns for _, ns in late), default=0)
        least_ns = max(_LEAST_RATIO * job_ns, 0 if REPEATED in chain.evidence else unsure_ns)
        if cost > least_ns and late_ns <= _ANYWHERE_RATIO * cost:
            theirs = [*late, *(pair for pair in others if pair[1] <= cost and _is_of_wait(*pair, chain))]
            others = [*(pair for pair in others if pair not in theirs), (chain, cost)]
    return others


def _is_of_wait(wait: Candidate, cost: int, chain: Candidate) -> bool:
    """Whether most of what is lost by a wait is launching the chain late after it."""
    if wait.cause != SYNCHRONIZATION or not cost:
        return False
    lost, late = _sums(wait.change.removed), _sums(chain.change.later)
    return sum(min(ns, late.get(rank, 0)) for rank, ns in lost.items()) >= NAMED_RATIO * sum(lost.values()) > 0


def _sums(parts: Mapping[int, Removed]) -> dict[int, float]:
    return {rank: sum(ns for _, ns in of_rank) for rank, of_rank in parts.items()}


def without_parts(lasting: Lasting, floor_ns: float) -> Lasting:
    """The causes, each with what it costs last, but for launching small kernels in a row late, which these tell of."""
    if not any(IN_A_ROW in candidate.evidence for (candidate, _), _ in lasting):
        return lasting
    return [
        (pair, last)
        for pair, last in lasting
        if pair[0].cause != LAUNCH or IN_A_ROW in pair[0].evidence or last > floor_ns
    ]
