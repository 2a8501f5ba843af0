"""What waits of hosts for their devices cost that other code does not wait for, too."""

from __future__ import annotations

import polars as pl

from holotrace.core.plans import columns, done
from holotrace.core.trace import RankTrace
from holotrace.derive import intervals
from holotrace.diagnosis.rank import host, lead, own_code, recovered
from holotrace.diagnosis.rank.calls import host_calls
from holotrace.diagnosis.words.classes import SYNCHRONIZATION

# What is launched too late because of waits of more than one asker: that one of them goes does not save it.
SHARED = "waits of several"
# No more code that waits is looked at, and none that waits for less of all that hosts wait for.
_MOST, _LEAST_RATIO = 8, 0.01


def apart(gaps: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """The gaps of ``host.gaps``, what waits cost together alone split off with ``SHARED`` as its cause.

    It is laid to the last wait before it. Had the host not waited there, it would have waited for longer in the one
    before that, if that is other code's, and be as late as it is for what it had lost there.
    """
    is_wait = gaps["cause"] == SYNCHRONIZATION
    if not is_wait.any():
        return gaps
    every = rank.cached(host.of_launching_threads)
    asked = every.hstack([own_code.waiting(rank.cached(host_calls), every["event_id"]).fill_null("").alias("asker")])
    if not _are_several(lead.long(asked)):
        return gaps
    spans = columns(asked, start_ns="began_ns", end_ns="returned_ns")
    won_ns = intervals.uncovered_ns(spans, rank.cached(host.of_all_devices).found)
    asked = asked.hstack([won_ns.alias("won_ns")])
    late = gaps.filter(pl.col("cause").is_in((*lead.AHEAD, SYNCHRONIZATION)))
    known = gaps.join(
        asked[:, ["event_id", "asker"]].unique("event_id"), on="event_id", how="left", maintain_order="left"
    )
    costs = known.filter(is_wait).group_by("asker").agg(pl.col("share_ns").sum()).drop_nulls()
    askers = costs.sort("share_ns", "asker", descending=[True, False])["asker"].head(_MOST)
    if askers.is_empty():
        return gaps
    alone = pl.concat([_alone(str(asker), asked, late) for asker in askers])
    placed = known.join(alone, on=["asker", "end_ns"], how="left", maintain_order="left")
    is_known = (pl.col("cause") == SYNCHRONIZATION) & pl.col("asker").is_in(pl.lit(askers).implode())
    # A gap may have several parts that are laid to the same.
    all_ns = pl.when(is_known).then("share_ns").sum().over("end_ns", "asker")
    ratio = (pl.col("alone_ns").fill_null(0) / all_ns).clip(0, 1)
    own_ns = (pl.col("share_ns") * pl.when(is_known).then(ratio).otherwise(1.0)).round().cast(pl.Int64)
    split = placed.with_columns(own_ns=own_ns)
    own = split.with_columns(share_ns="own_ns")
    shared = split.with_columns(pl.col("share_ns") - pl.col("own_ns"), cause=pl.lit(SHARED))
    return pl.concat([own, shared]).filter(pl.col("share_ns") > 0).select(gaps.columns)


def _are_several(waits: pl.DataFrame) -> bool:
    """Whether more than one asker waits for a part of the time that counts."""
    waited_ns = pl.col("returned_ns") - pl.col("began_ns")
    sums = waits.group_by("asker").agg(waited_ns=waited_ns.sum())
    return sums.filter(pl.col("waited_ns") >= _LEAST_RATIO * pl.col("waited_ns").sum()).height > 1


def _alone(asker: str, waits: pl.DataFrame, late: pl.DataFrame) -> pl.DataFrame:
    """By the end of each gap, ``end_ns``, what is hidden of it without the waits of this code alone, ``alone_ns``."""
    own, others = waits.filter(pl.col("asker") == asker), waits.filter(pl.col("asker") != asker)
    hidden = recovered.hidden(lead.long(own), late, others["returned_ns"].sort())
    return done(
        hidden.lazy().group_by("end_ns").agg(alone_ns=pl.col("share_ns").sum()).with_columns(asker=pl.lit(asker))
    )
