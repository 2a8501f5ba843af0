"""How far a host ran ahead of its device: what it loses of that by waiting, and launches too late afterwards."""

from __future__ import annotations

import polars as pl

from holotrace.derive import intervals

# Calls that wait for a device return sooner than this where it has nothing to do.
SHORT_NS = 20_000


def lost_by_waiting(late: pl.DataFrame, waits: pl.DataFrame, idle: pl.DataFrame) -> pl.DataFrame:
    """Which part of launching too late would have been in time if the host had never waited for its device.

    For as long as it waited for a device that worked, the host could have launched ahead: all that it launches too late
    afterwards, until that lead is used up, is what the waits cost. What is left is a host that launches too slowly.

    Returns ``window``, ``ratio`` (the part of its ``late_ns`` that is lost by waiting) and ``wait_id`` (the last wait
    before it), by time.

    Args:
        late: ``window``, ``at_ns`` and ``late_ns``: how much time a device lost until then since it was launched late.
        waits: ``wait_id``, ``began_ns``, ``returned_ns``: those of the threads that launch, none within another.
        idle: ``start_ns`` and ``end_ns`` of times in which the device had nothing to do.
    """
    spans = waits.select(start_ns="began_ns", end_ns="returned_ns")
    won = waits.select(at_ns="returned_ns", won_ns=intervals.uncovered_ns(spans, idle))
    # The lead never falls below nothing: what is beyond it was late anyway.
    lead = (pl.col("won_ns").fill_null(0) - pl.col("late_ns").fill_null(0)).cum_sum()
    beyond = (-lead).cum_max().clip(lower_bound=0)
    return (
        pl.concat([won, late], how="diagonal")
        .sort("at_ns", "window", nulls_last=False)
        .with_columns(anyway_ns=beyond - beyond.shift(1).fill_null(0))
        .drop_nulls("window")
        .join_asof(
            waits.sort("returned_ns").select("wait_id", "returned_ns"),
            left_on="at_ns",
            right_on="returned_ns",
            strategy="backward",
            check_sortedness=False,
        )
        .select("window", "wait_id", ratio=1 - pl.col("anyway_ns") / pl.col("late_ns"))
    )


def split(shares: pl.DataFrame, lost: pl.DataFrame, cause: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Shares of gaps without what of ``cause`` is lost by waiting, and that with its ``wait_id``.

    Args:
        shares: ``window``, ``cause``, ``share_ns`` and whatever else.
        lost: As ``lost_by_waiting`` returns it.
    """
    part = pl.when(pl.col("cause") == cause).then((pl.col("share_ns") * pl.col("ratio")).round().cast(pl.Int64))
    known = shares.join(lost, on="window", how="left", maintain_order="left").with_columns(part_ns=part.fill_null(0))
    waiting = known.filter(pl.col("part_ns") > 0).with_columns(share_ns="part_ns").drop("part_ns", "ratio")
    left = known.with_columns(pl.col("share_ns") - pl.col("part_ns")).filter(pl.col("share_ns") > 0)
    return left.select(shares.columns), waiting
