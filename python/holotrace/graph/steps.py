"""What of the graphs of ranks belongs to some of their steps."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from holotrace.graph import rank as of_rank

_POINTS = ("from_point", "to_point")


def only(kinds: Mapping[str, pl.DataFrame], kept: pl.Series, steps: pl.Expr) -> dict[str, pl.DataFrame]:
    """Some activities and steps, and the edges and collectives among these activities; all lanes.

    Args:
        kinds: The rows of ranks, as ``rank.unpacked`` returns them.
        kept: Whether each activity is among them; those of a rank that are get numbers that follow each other.
        steps: Whether a step is.
    """
    activities = kinds[of_rank.ACTIVITY]
    before = kept.cum_sum().cast(pl.Int64) - kept.cast(pl.Int64)
    number = before.zip_with(kept, pl.Series([None], dtype=pl.Int64))
    firsts = activities.with_row_index("first").group_by("rank").agg(pl.col("first").first().cast(pl.Int64))

    def first_of(frame: pl.DataFrame) -> pl.Series:
        return frame.select("rank").join(firsts, on="rank", how="left", maintain_order="left")["first"]

    def renumbered(frame: pl.DataFrame, names: tuple[str, ...], each: int) -> pl.DataFrame:
        """With the new numbers of activities, or of their points; null for what is not kept."""
        first = first_of(frame)
        less = before[first]
        at = (frame[name].cast(pl.Int64) for name in names)
        return frame.with_columns(
            ((number[old // each + first] - less) * each + old % each).rename(old.name) for old in at
        )

    begun = kinds[of_rank.STEP].filter(steps).with_columns(pl.col(_POINTS).cast(pl.Int64))
    # One that ends at the start of what comes after it ends at the end of what comes before it, if only that is kept.
    last = begun["to_point"] // 2
    is_inside = kept[last + first_of(begun)]
    begun = begun.with_columns(to_point=begun["to_point"].zip_with(is_inside, last * 2 - 1))
    return {
        of_rank.ACTIVITY: activities.filter(kept),
        of_rank.LANE: kinds[of_rank.LANE],
        of_rank.EDGE: renumbered(kinds[of_rank.EDGE], _POINTS, 2).drop_nulls(_POINTS),
        of_rank.STEP: renumbered(begun, _POINTS, 2),
        of_rank.COLLECTIVE: renumbered(kinds[of_rank.COLLECTIVE], ("activity",), 1).drop_nulls("activity"),
    }
