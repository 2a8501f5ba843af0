"""What the other thread that launches did while the one that launched next stood still, as it waited for that."""

from __future__ import annotations

import polars as pl

from holotrace.core.tables import LAUNCHES
from holotrace.core.trace import RankTrace
from holotrace.derive.names import NONE
from holotrace.diagnosis.rank import open_calls
from holotrace.diagnosis.words.classes import PAUSE, STALLING

_LASTS_NS = 100_000
# So much of a pause tells of it.
_MOSTLY_RATIO = 0.5


def instead_of_pauses(shares: pl.DataFrame, gaps: pl.DataFrame, calls: pl.DataFrame, rank: RankTrace) -> pl.DataFrame:
    """The shares of gaps, what the other thread stood still for in place of pauses of the one that launched next.

    A training loop waits within its backward pass for the thread of autograd, which may allocate memory at its end;
    the trace shows that the loop calls nothing.

    Args:
        shares: As in ``open_calls.Found.shares``, by the ``window`` of gaps.
        gaps: ``window``, ``start_ns``, ``end_ns`` and ``tid``, the thread that launched next.
        calls: Those of the host.
        rank: Whose they are.
    """
    if not (shares["cause"] == PAUSE).any():
        return shares
    is_pause = (pl.col("cause") == PAUSE) & (pl.col("share_ns") >= open_calls.LONG_NS)
    longest = shares.with_row_index("place").filter(is_pause).sort("share_ns", "place", descending=[True, False])
    pauses = longest.unique("window", keep="first").select("window", "place", pause_ns="share_ns")
    if pauses.is_empty():
        return shares
    threads = rank[LAUNCHES]["tid"].drop_nulls().value_counts().sort("count", "tid", descending=[True, False])["tid"]
    if len(threads) <= 1:
        return shares
    paused = gaps.join(pauses, on="window").sort("start_ns")
    first, second = (pl.lit(thread, paused.schema["tid"]) for thread in threads.head(2))
    others = paused.with_columns(tid=pl.when(pl.col("tid") == first).then(second).otherwise(first))
    # What it stands still in lasts.
    lasting = calls.filter(pl.col("end_ns") - pl.col("start_ns") >= _LASTS_NS)
    found = open_calls.of(lasting, others, NONE).shares.filter(pl.col("cause").is_in(STALLING))
    stood = found.with_columns(window=paused["window"][found["window"]]).join(pauses, on="window")
    stood_ns = pl.col("share_ns").sum().over("window")
    mostly = stood.with_columns(stood_ns=stood_ns).filter(pl.col("stood_ns") >= _MOSTLY_RATIO * pl.col("pause_ns"))
    part = (pl.col("pause_ns") / pl.col("stood_ns")).clip(upper_bound=1)
    own = mostly.with_columns((pl.col("share_ns") * part).floor().cast(pl.Int64)).filter(pl.col("share_ns") > 0)
    taken = own.group_by("place").agg(taken_ns=pl.col("share_ns").sum())
    left = shares.with_row_index("place").join(taken, on="place", how="left", maintain_order="left")
    left = left.with_columns(pl.col("share_ns") - pl.col("taken_ns").fill_null(0)).filter(pl.col("share_ns") > 0)
    both = [frame.select(shares.columns) for frame in (left, own)]
    return pl.concat(both).sort("window", maintain_order=True)
