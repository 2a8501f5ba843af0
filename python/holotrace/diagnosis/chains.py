"""Small kernels that hosts launch in a row, as a cause: what a graph or one kernel instead of them would save."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from holotrace.diagnosis import account
from holotrace.diagnosis.candidates import NAMED_RATIO, Candidate, Job, Where, by_rank, candidate, lower_median, when
from holotrace.diagnosis.classes import LAUNCH
from holotrace.diagnosis.meetings import Meetings
from holotrace.diagnosis.small_kernels import REPEATED

# Evidence: how many small kernels hosts launch in a row.
IN_A_ROW = "in_a_row_count"
# Any model has some small kernels: only more than this of the job is worth saying.
_LEAST_RATIO = 0.02
# Hosts that are late for so much more than that are late anywhere.
_ANYWHERE_RATIO = 1.25

Costs = list[tuple[Candidate, int]]


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
    change = replace(found.change, spent=by_rank(launching), later=by_rank(gone.filter(~is_own)))
    yield replace(found, change=change, evidence=evidence)


def told(kept: Costs, every: Costs, meetings: Meetings, job_ns: int, rank_count: int) -> Costs:
    """The causes with small kernels in a row, if these cost enough, instead of launching late that is mostly theirs."""
    in_a_row = [(c, meetings.saved_ns(c.change)) for c, _ in every if IN_A_ROW in c.evidence]
    others = [pair for pair in kept if IN_A_ROW not in pair[0].evidence]
    late = [(c, ns) for c, ns in others if c.cause == LAUNCH and len(c.ranks) in (0, rank_count)]
    for chain, cost in in_a_row:
        late_ns = max((ns for _, ns in late), default=0)
        if cost > _LEAST_RATIO * job_ns and late_ns <= _ANYWHERE_RATIO * cost:
            others = [*(pair for pair in others if pair not in late), (chain, cost)]
    return others
