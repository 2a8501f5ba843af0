"""Which training step device work belongs to: the step that launched it, not the one it overlaps."""

from __future__ import annotations

import polars as pl

from holotrace.core.native import native


def launched_in(launch_ns: pl.Series, steps: pl.DataFrame) -> pl.Series:
    """The step during which each launch began; null where the launch is unknown or in no step."""
    # Between two steps the latest that began has ended already.
    found = native.spans_at(steps[:, ["start_ns", "end_ns"]], launch_ns.to_frame("time_ns"))
    step: pl.Series = steps["step"][pl.DataFrame(found).to_series()]
    return step
