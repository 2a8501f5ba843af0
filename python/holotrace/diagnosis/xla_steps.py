"""How many steps devices of XLA ran in a recording: hosts that are ahead mark others."""

from __future__ import annotations

import polars as pl

from holotrace.diagnosis import account


def count(rows: pl.DataFrame) -> int:
    """How many steps a job ran, by the steps that hosts marked, or by what devices exchanged of earlier ones, too.

    Where devices do what was launched before the recording, and that counts, they do less of what is launched last.
    """
    marked = rows.filter(pl.col("row") == account.STEP)["step"].n_unique()
    of_xla = rows.filter(pl.col("row") == account.WINDOW, detail=account.XLA)["rank"]
    met = rows.filter(pl.col("row") == account.MEETING, pl.col("rank").is_in(of_xla.implode()))
    if met.is_empty():
        return max(1, marked)
    numbered = met.drop_nulls("sequence").group_by("rank")
    known = numbered.agg(
        count=pl.col("sequence").max() - pl.col("sequence").min() + 1, has_earlier=pl.col("step").is_null().any()
    )
    ran = known.filter("has_earlier")["count"].quantile(0.5, "lower")
    return max(1, marked if ran is None else int(ran))
