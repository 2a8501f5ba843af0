"""Which training step device work belongs to: the step that launched it, not the one it overlaps."""

from __future__ import annotations

import polars as pl

from holotrace.core.native import native

QUEUE = ("device", "stream")
QUEUE_LENGTH = 1_024  # as of CUDA


def launched_in(launch_ns: pl.Series, steps: pl.DataFrame) -> pl.Series:
    """The step during which each launch began; null where the launch is unknown or in no step."""
    # Between two steps the latest that began has ended already.
    found = native.spans_at(steps[:, ["start_ns", "end_ns"]], launch_ns.to_frame("time_ns"))
    step: pl.Series = steps["step"][pl.DataFrame(found).to_series()]
    return step


def launched_after_ns() -> pl.Expr:
    """When work was launched; where that is not known, the launch of what its queue ran before, after which it was."""
    return pl.col("launch_ns").cum_max().forward_fill().over(QUEUE, order_by="start_ns")


def is_from_before() -> pl.Expr:
    """Whether work was launched before the recording began: its queue held it then, before all of known launches.

    Hosts of ranks are not equally far ahead, so of this each rank has recorded another part.
    """
    known_ns = pl.col("start_ns").filter(pl.col("launch_ns").is_not_null()).min()
    # Of a queue of which no launch is known that of the other queues of its device is.
    first_ns = pl.coalesce(known_ns.over(QUEUE), known_ns.over("device"))
    is_earlier = (pl.col("launch_ns").is_null() & (pl.col("start_ns") < first_ns)).fill_null(value=False)
    # More than a queue holds was recorded without launches.
    return is_earlier & (is_earlier.sum().over(QUEUE) <= QUEUE_LENGTH)
