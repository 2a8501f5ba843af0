"""Which programs of XLA were recorded as a whole: recordings begin and end while devices run them."""

from __future__ import annotations

import polars as pl

from holotrace.core.tables import MODULES
from holotrace.core.trace import RankTrace
from holotrace.derive.device_time import DEVICE

_RUNS = MODULES.only("module", "program", *DEVICE, "start_ns", "end_ns", "launch_ns", "op_count")
READS = (_RUNS,)
# One of so many was recorded as a whole.
_FEW_RUNS = 3


def is_within(ran: pl.DataFrame, rank: RankTrace) -> pl.Series:
    """Whether each of these began within programs that were recorded as a whole, or between them.

    Of the others each rank has recorded another part, and so it has of all where no program was over. Where programs
    are not recorded at all, launches or steps tell what is whole.

    Args:
        ran: ``device``, ``start_ns``, ``launch_ns`` and ``step``.
        rank: The rank, a profile of XLA.
    """
    if rank.count(_RUNS) == 0:
        is_told = min(ran["launch_ns"].null_count(), ran["step"].null_count()) < ran.height
        return pl.repeat(is_told, ran.height, eager=True).alias("is_within")
    known = ran.select(pl.col("device").cast(pl.Int64), "start_ns").join(
        rank.cached(_bounds), on="device", how="left", maintain_order="left"
    )
    is_inside = (pl.col("start_ns") >= pl.col("since_ns")) & (pl.col("start_ns") < pl.col("until_ns"))
    within: pl.Series = known.select(is_inside.fill_null(value=False)).to_series()
    return within


def _bounds(rank: RankTrace) -> pl.DataFrame:
    """By device from when until when all programs are whole, ``since_ns`` and ``until_ns``; null if never."""
    runs = rank[_RUNS]
    begun, over = pl.col("start_ns"), pl.col("end_ns")
    # Devices may do unequal parts of one program, as stages of a pipeline do.
    own = ["module", "program", *DEVICE]
    is_own = pl.len().over(own) >= _FEW_RUNS
    most = (
        pl.when(is_own)
        .then(pl.col("op_count").max().over(own))
        .otherwise(pl.col("op_count").max().over("module", "program"))
    )
    # A program whose launch was recorded began after that; where nobody saw that it is like others of its kind.
    is_alike = (pl.col("op_count") == most) & (pl.len().over("module", "program") > pl.col("device").n_unique())
    is_first = (begun == begun.min().over(DEVICE)) & pl.col("launch_ns").is_null() & ~is_alike
    is_last = (over == over.max().over(DEVICE)) & (pl.col("op_count") < most)
    whole = runs.with_columns(is_whole=~(is_first | is_last))
    of_whole = pl.col("is_whole")
    return whole.group_by("device").agg(since_ns=begun.filter(of_whole).min(), until_ns=over.filter(of_whole).max())
