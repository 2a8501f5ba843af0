"""How fast a device computes what it repeats, from one stretch to the next of a recording without marked steps."""

from __future__ import annotations

import polars as pl

from holotrace.core.plans import done
from holotrace.core.trace import RankTrace
from holotrace.derive import busy, intervals
from holotrace.derive.totals import total
from holotrace.diagnosis.rank import kernels

# Stretches are compared; each is cut into so many pieces, which are placed between what hosts wait for.
STRETCHES, _PIECES = 8, 8
# What is not slow takes about as long as the quickest stretches, or steps, of which one begins a recording.
USUAL_QUANTILE = 0.25
# So much of a device's time is spent on the same kernels in each stretch, and so much of that is slow.
SAME_RATIO, FAMILIES_RATIO = 0.5, 0.7
_KIND = ("name", "grid", "block")
_SCHEMA = pl.Schema(dict.fromkeys(("step", "start_ns", "at_ns", "time_ns", "needed_ns"), pl.Int64()))


def of_rank(rank: RankTrace) -> pl.DataFrame:
    """Pieces of the recording, of which ``time_ns`` is computed in, and ``needed_ns`` in the quickest stretches.

    ``step`` is the number of the stretch; nothing where stretches have too little in common.
    """
    ran = kernels.computing(rank, "start_ns", "end_ns", *_KIND)
    if ran.height < STRETCHES:
        return pl.DataFrame(schema=_SCHEMA)
    begun_ns, ended_ns = ran.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    ratios = _ratios(ran, begun_ns, ended_ns)
    if ratios.is_empty():
        return pl.DataFrame(schema=_SCHEMA)
    count = STRETCHES * _PIECES
    bounds = pl.Series([begun_ns + (ended_ns - begun_ns) * place // count for place in range(count + 1)])
    computed = intervals.covered_between_ns(rank.cached(busy.of).computing, bounds)
    pieces = pl.DataFrame({"start_ns": bounds[:-1], "at_ns": bounds[1:], "time_ns": computed}).with_row_index("step")
    placed = pieces.with_columns(pl.col("step").cast(pl.Int64) // _PIECES).join(ratios, on="step", how="left")
    return placed.with_columns(needed_ns=(pl.col("time_ns") / pl.col("ratio")).round()).select(*_SCHEMA).cast(_SCHEMA)


def _ratios(ran: pl.DataFrame, begun_ns: int, ended_ns: int) -> pl.DataFrame:
    """How much longer than usually the same kernels take in each stretch, ``ratio``: most of them, or it is 1."""
    own = (
        ran.lazy()
        .with_columns(step=(pl.col("start_ns") - begun_ns) * STRETCHES // (ended_ns - begun_ns + 1))
        .group_by("step", *_KIND)
        .agg(time_ns=(pl.col("end_ns") - pl.col("start_ns")).sum(), count=pl.len())
    )
    mean_ns = (pl.col("time_ns") / pl.col("count")).quantile(USUAL_QUANTILE, "lower").over(_KIND)
    known = done(own.with_columns(usual_ns=mean_ns * pl.col("count"), stretches=pl.len().over(_KIND)))
    same = known.filter(pl.col("stretches") == STRETCHES, pl.col("usual_ns") > 0)
    if total(same["time_ns"]) < SAME_RATIO * total(known["time_ns"]):
        return pl.DataFrame(schema={"step": pl.Int64(), "ratio": pl.Float64()})
    ratio = pl.col("time_ns").sum() / pl.col("usual_ns").sum()
    is_longer = pl.col("time_ns") / pl.col("usual_ns") > 1 + 0.5 * (ratio - 1)
    families = pl.col("usual_ns").filter(is_longer).sum() / pl.col("usual_ns").sum()
    every = same.group_by("step").agg(ratio=ratio, families=families)
    return every.select("step", pl.when(pl.col("families") >= FAMILIES_RATIO).then("ratio").otherwise(1.0))
