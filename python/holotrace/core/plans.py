"""Several steps of work on frames as one."""

from __future__ import annotations

import polars as pl

_AS_WRITTEN = pl.QueryOptFlags.none()


def done(plan: pl.LazyFrame) -> pl.DataFrame:
    """What comes of the plan, carried out step by step as it is written.

    Small tables take their time for each query, whatever that does: one of several steps takes half as long as one for
    each. To look for a better plan would take longer still.
    """
    return plan.collect(engine="in-memory", optimizations=_AS_WRITTEN)
