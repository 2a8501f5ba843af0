"""What goes on in equal stretches of time: for pictures that have no room for every span."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from holotrace.core.native import native

# Stretches that follow each other and differ by less are drawn as one.
LEVELS = 16


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
    key = spans["name"].to_physical().alias("key")
    found = pl.DataFrame(
        native.runs(spans[:, ["start_ns", "end_ns"]].hstack([key]), grid.origin_ns, grid.width_ns, grid.count, LEVELS)
    )
    name = spans["name"][found["row"]].cast(pl.String)
    return pl.DataFrame([found["start_ns"], found["end_ns"], name, found["busy_ns"], found["count"]])
