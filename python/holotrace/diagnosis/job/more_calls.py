"""What hosts spend on launching calls that other ranks do not have: what is not computed is not launched."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from holotrace.derive.totals import total
from holotrace.diagnosis.job.candidates import Candidate, Job
from holotrace.diagnosis.job.equal_work import lower
from holotrace.diagnosis.rank import account

# By fewer calls ranks differ that do the same.
_MORE_RATIO = 0.1


def with_launches(found: Candidate, kinds: pl.DataFrame, job: Job) -> Candidate:
    """The cause with what the hosts of its ranks spend on launching what they have more calls of than others.

    Args:
        found: Ranks that have more work.
        kinds: Kernels of all ranks, as of ``equal_work.by_kind``.
        job: The job, of ranks that do the same.
    """
    if account.XLA in job.of(account.WINDOW)["detail"]:
        # One launch is of a whole program.
        return found
    counts = kinds.group_by("rank").agg(pl.col("count").sum())
    usual = lower(counts["count"])
    of_ranks = counts.filter(pl.col("rank").is_in(found.ranks))
    if not usual or total(of_ranks["count"]) <= (1 + _MORE_RATIO) * usual * len(found.ranks):
        return found
    part = of_ranks.select("rank", part_ratio=(1 - usual / pl.col("count")).clip(lower_bound=0))
    launched = job.of(account.LATE).filter(pl.col("cause").is_null(), pl.col("end_ns").is_not_null()).sort("end_ns")
    since = pl.max_horizontal("start_ns", pl.col("end_ns").shift(1).over("rank"))
    lasted = launched.select("rank", "end_ns", lasted_ns=pl.col("end_ns") - since).join(part, on="rank")
    spent: dict[int, list[tuple[int, float]]] = {}
    for rank, at, ns in lasted.select("rank", "end_ns", pl.col("lasted_ns") * pl.col("part_ratio")).iter_rows():
        spent.setdefault(rank, []).append((at, ns))
    return replace(found, change=replace(found.change, spent=spent))
