"""Which training step device work belongs to: the step that launched it, not the one it overlaps."""

from __future__ import annotations

import polars as pl


def launched_in(launch_ns: pl.Series, steps: pl.DataFrame) -> pl.Series:
    """The step during which each launch began; null where the launch is unknown or in no step."""
    if steps.is_empty():
        return pl.Series("step", [None] * len(launch_ns), dtype=pl.Int64)
    ordered = steps.sort("start_ns")
    begun = pl.Series(ordered["start_ns"].search_sorted(launch_ns, side="right")).cast(pl.Int64)
    latest = (begun - 1).clip(lower_bound=0)
    # Between two steps the latest that began has ended already.
    inside = (begun > 0) & (launch_ns < ordered["end_ns"].gather(latest))
    unknown = pl.Series("step", [None], dtype=pl.Int64)
    step: pl.Series = ordered["step"].gather(latest).zip_with(inside.fill_null(False), unknown)
    return step
