"""Ranks of which less was recorded than of others: what is known of some only tells nothing about all."""

from __future__ import annotations

import polars as pl

from holotrace.diagnosis.job.candidates import by_kind
from holotrace.diagnosis.rank import account


def rows(rows: pl.DataFrame) -> pl.DataFrame:
    """What ``account`` returns of all ranks, without what cannot be compared; those of a kind follow each other.

    Where steps of some ranks are known, and those of others not, ranks are compared in sum; and they are by kernels
    where nothing tells which operators asked for those of some.
    """
    work = rows.filter(pl.col("row") == account.WORK)
    ranks = work["rank"].n_unique()
    marked, named = (work.drop_nulls(known)["rank"].n_unique() for known in ("step", "operator"))
    if 0 < marked < ranks:
        # How many steps there are is known all the same.
        rows = rows.with_columns(step=pl.when(pl.col("row") == account.STEP).then("step"))
    if 0 < named < ranks:
        is_work = pl.col("row") == account.WORK
        of_kernel = pl.when(is_work).then(pl.col("detail").str.replace(r"\|[^|]*$", "|"))
        rows = rows.with_columns(operator=pl.when(~is_work).then("operator"), detail=pl.coalesce(of_kernel, "detail"))
    return by_kind(rows)
