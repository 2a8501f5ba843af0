"""Devices that are slow by how long each call of their kernels takes, of ranks that recorded other parts of the job."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.derive.totals import total
from holotrace.diagnosis.job import fragments
from holotrace.diagnosis.job.candidates import Candidate, Job, Where, candidate
from holotrace.diagnosis.job.equal_work import KIND, is_slow
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.words.classes import SLOW_DEVICE

# Calls of equal kernels differ by less from part to part of a job; and what all others differ by is less than this part
# of what the slow one does.
_SLOW_RATIO, _OTHERS_RATIO = 0.04, 0.35
# So much of what each rank computes has to be of the same kinds.
_COMPARABLE_RATIO = 0.5
# Of two ranks nobody knows which is usual.
_FEWEST_RANKS = 3


def causes(job: Job) -> Iterator[Candidate]:
    """The rank whose device is slow, where there is one: its calls take longer by one factor, and those of no other.

    Ranks that recorded other parts of the job run kernels in other numbers, which tell nothing, but for equal calls,
    beside which nothing is communicated, in about the same time each.
    """
    kinds = _of_calls(job)
    ratios = dict(
        kinds.group_by("rank")
        .agg(ratio=pl.col("time_ns").sum() / pl.col("usual_ns").sum() - 1)
        .sort("ratio", "rank", descending=[True, False])
        .iter_rows()
    )
    if len(ratios) < max(_FEWEST_RANKS, len(job.ranks)):
        return
    (rank, ratio), *others = ratios.items()
    if ratio < _SLOW_RATIO or max(abs(other) for _, other in others) > _OTHERS_RATIO * ratio:
        return
    mine = kinds.filter(pl.col("rank") == rank)
    if not is_slow(mine, ratio):
        return
    computed = fragments.computed(job).filter(pl.col("rank") == rank)
    own = computed.with_columns(part_ns=pl.col("time_ns") * (ratio / (1 + ratio)))
    if total(own["part_ns"]) > job.floor_ns:
        most = mine.sort(pl.col("time_ns") - pl.col("usual_ns"), "name", descending=[True, False])["name"][0]
        yield candidate(SLOW_DEVICE, None, own, Where((rank,), ()), kernel=most, time_ratio=round(1 + ratio, 4))


def _of_calls(job: Job) -> pl.DataFrame:
    """Kernels that all ranks run, as if each ran as many of them as the median rank: as of ``equal_work.by_kind``.

    No rows of a rank of which these are too little.
    """
    alone_ns, alone = pl.col("time_ns") - pl.col("beside_ns"), pl.col("count") - pl.col("beside_count")
    work = job.of(account.WORK).group_by("rank", *KIND)
    every = work.agg(pl.col("time_ns").sum(), alone_ns=alone_ns.sum(), alone=alone.sum())
    usual_count = pl.col("alone").quantile(0.5, "lower").over(KIND)
    of_all = every.filter(pl.col("alone") > 0).filter((pl.len() == len(job.ranks)).over(KIND))
    calls = of_all.with_columns(
        call_ns=pl.col("alone_ns") / pl.col("alone"), count=usual_count, usual_count=usual_count
    ).with_columns(
        time_ns=pl.col("call_ns") * pl.col("count"),
        usual_ns=pl.col("call_ns").quantile(0.5, "lower").over(KIND) * pl.col("count"),
    )
    known = of_all.group_by("rank").agg(known_ns=pl.col("time_ns").sum())
    whole = every.group_by("rank").agg(whole_ns=pl.col("time_ns").sum()).join(known, on="rank")
    enough = whole.filter(pl.col("known_ns") > _COMPARABLE_RATIO * pl.col("whole_ns"))["rank"]
    return calls.filter(pl.col("rank").is_in(pl.lit(enough).implode())).select(
        "rank", *KIND, "time_ns", "usual_ns", "count", "usual_count"
    )
