"""How many steps the first device of a rank of XLA ran: hosts that are ahead mark others."""

from __future__ import annotations

from typing import Any

import polars as pl

from holotrace.core.trace import RankTrace
from holotrace.diagnosis.rank.xla.gaps import RUNS

# Rows of the account.
RAN = "ran"


def rows(rank: RankTrace) -> pl.DataFrame:
    """How many steps the first device of the rank ran, by how often it ran what most of them are; no row if unknown."""
    runs = rank[RUNS]
    first = runs.filter(pl.col("device").eq_missing(pl.lit(runs["device"].min())))
    lasted = pl.col("end_ns") - pl.col("start_ns")
    of_program = first.with_columns(taken_ns=lasted.sum().over("module", "program")).drop_nulls("step")
    main = of_program.filter(pl.col("taken_ns") == pl.col("taken_ns").max()).head(1)
    every = first.join(main, on=["module", "program"], how="semi", nulls_equal=True)
    per_step: Any = every.drop_nulls("step").group_by("step").len()["len"].median()
    count = 0 if per_step is None else round(every.height / per_step)
    return pl.DataFrame({"row": RAN, "count": [count]}, {"row": pl.String, "count": pl.Int64}).filter(pl.lit(count > 0))
