"""What goes on in equal stretches of time: for pictures that have no room for every span."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from holotrace.core.native import native

# Stretches that follow each other and differ by less are drawn as one.
LEVELS = 16
_NAMELESS = 2**32 - 1


@dataclass(frozen=True)
class Grid:
    """Equal stretches of time: number ``i`` begins at ``origin_ns + i * width_ns``."""

    origin_ns: int
    width_ns: int
    count: int

    @classmethod
    def over(cls, start_ns: int, end_ns: int, count: int) -> Grid:
        """At most ``count`` stretches that cover the time from ``start_ns`` to ``end_ns``."""
        width_ns = max(1, -(-(end_ns - start_ns) // count))
        return cls(start_ns, width_ns, -(-(end_ns - start_ns) // width_ns))


def runs(spans: pl.DataFrame, grid: Grid) -> pl.DataFrame:
    """What goes on in ``spans`` (``start_ns``, ``end_ns``, ``name``, a Categorical), stretch by stretch.

    Returns ``start_ns``, ``end_ns``, ``name`` (what is active longest), ``busy_ns`` (how long anything is) and
    ``count`` (of spans that begin). Stretches that follow each other, of equal name and about as busy, are one row;
    those in which nothing is active have none.
    """
    key = spans["name"].to_physical().fill_null(_NAMELESS).alias("key")
    filled = pl.DataFrame(
        native.bins(spans[["start_ns", "end_ns"]].hstack([key]), grid.origin_ns, grid.width_ns, grid.count)
    )
    names = spans.select("name", key=key).unique("key")
    level = (pl.col("busy_ns") * LEVELS // grid.width_ns).clip(upper_bound=LEVELS - 1)
    return (
        filled.with_row_index("bin")
        .with_columns(pl.col("bin").cast(pl.Int64), pl.col("count").cast(pl.Int64))
        .filter(pl.col("busy_ns") > 0)
        # What follows without a hole has the same difference to its row.
        .with_columns(run=pl.struct("key", level=level, hole=pl.col("bin") - pl.int_range(pl.len())).rle_id())
        .group_by("run", maintain_order=True)
        .agg(
            pl.col("key").first(),
            start_ns=grid.origin_ns + pl.col("bin").first() * grid.width_ns,
            end_ns=grid.origin_ns + (pl.col("bin").last() + 1) * grid.width_ns,
            busy_ns=pl.col("busy_ns").sum(),
            count=pl.col("count").sum(),
        )
        .join(names, on="key", how="left", maintain_order="left")
        .select("start_ns", "end_ns", pl.col("name").cast(pl.String), "busy_ns", "count")
    )
