"""What kernels take longer beside communication, which has a part of the device, also while it waits for others."""

from __future__ import annotations

import polars as pl

from holotrace.diagnosis.job.candidates import Job
from holotrace.diagnosis.job.equal_work import KIND, lower
from holotrace.diagnosis.rank import account

_COUNTED = ("time_ns", "count", "beside_ns", "beside_count")
# What takes so many times as long as the same alone does so for another reason.
_MOST_RATIO = 1.5


def beyond_others_ns(job: Job) -> dict[int, float]:
    """How much longer the kernels of each rank take beside communication than alone, beyond those of most ranks.

    Some ranks wait for others beside what they compute, and are slowed down for as long: their devices are as fast.
    """
    key = ["rank", *KIND]
    time_ns, count, beside_ns, beside_count = (pl.col(name) for name in _COUNTED)
    work = job.of(account.WORK).group_by(key).agg(pl.col(_COUNTED).sum())
    alone_ns = pl.when(count > beside_count).then((time_ns - beside_ns) / (count - beside_count))
    known = work.with_columns(alone_ns=alone_ns).with_columns(usual_ns=pl.col("alone_ns").median().over(KIND))
    # Of what a rank computes only beside communication others tell how long it takes alone, on a device as fast.
    comparable_ns = pl.when(pl.col("alone_ns").is_not_null()).then(pl.col("usual_ns") * (count - beside_count))
    slowness = (time_ns - beside_ns).filter(comparable_ns.is_not_null()).sum() / comparable_ns.sum()
    would_ns = beside_count * pl.coalesce("alone_ns", pl.col("usual_ns") * slowness.over("rank"))
    slowed = known.with_columns(would_ns=would_ns).filter(
        beside_ns.is_between("would_ns", _MOST_RATIO * pl.col("would_ns"))
    )
    by_rank = slowed.group_by("rank").agg(ns=(beside_ns - pl.col("would_ns")).sum())
    sums = dict.fromkeys(job.ranks, 0.0) | dict(by_rank.iter_rows())
    usual_ns = lower(pl.Series(list(sums.values()), dtype=pl.Float64))
    return {rank: max(0.0, ns - usual_ns) for rank, ns in sums.items()}
