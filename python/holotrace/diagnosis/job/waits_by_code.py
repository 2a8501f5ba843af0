"""Which code's waits are told: each by what it costs alone, where others wait for the device, too."""

from __future__ import annotations

import polars as pl

from holotrace.diagnosis.job.candidates import NAMED_RATIO, Job
from holotrace.diagnosis.rank.shared_waits import SHARED
from holotrace.diagnosis.words.classes import SYNCHRONIZATION

# The code that waits; of a cause, where others do, too, it is evidence.
ASKER = "asked_by"


def told(gaps: pl.DataFrame, job: Job) -> pl.DataFrame:
    """The gaps with the code that waits, ``ASKER``, where several are told apart; null elsewhere.

    What only goes if several do not wait is nobody's, unless nobody's alone is worth telling: then all of it is.
    """
    is_shared = pl.col("cause") == SHARED
    waits = gaps.filter(is_shared | (pl.col("cause") == SYNCHRONIZATION))
    nobody = pl.lit(None, pl.String).alias(ASKER)
    if waits.is_empty():
        return gaps.with_columns(nobody)
    alone = waits.filter(~is_shared).group_by("name", "detail").agg(pl.col("time_ns").sum())
    alone_ns = int(alone["time_ns"].sum())
    worth = alone.filter(pl.col("time_ns") > job.floor_ns * len(job.ranks))
    if worth.is_empty():
        return gaps.with_columns(nobody, cause=pl.when(is_shared).then(pl.lit(SYNCHRONIZATION)).otherwise("cause"))
    gaps = gaps.filter(~is_shared)
    of_several = worth.filter(pl.col("time_ns") >= (1 - NAMED_RATIO) * alone_ns)
    if of_several["detail"].n_unique() < 2:
        return gaps.with_columns(nobody)
    is_apart = (pl.col("cause") == SYNCHRONIZATION) & pl.col("detail").is_in(
        of_several["detail"].drop_nulls().implode()
    )
    return gaps.with_columns(pl.when(is_apart).then("detail").alias(ASKER))
