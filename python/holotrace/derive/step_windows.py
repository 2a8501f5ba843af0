"""When devices worked for each training step: hosts are ahead of them, so a step ends where its device work does."""

from __future__ import annotations

import polars as pl

from holotrace.core.plans import done
from holotrace.core.tables import DEVICE_EVENTS, STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive import intervals
from holotrace.derive.kernel_kinds import IS_WORK

_WORK = DEVICE_EVENTS.only("kind", "start_ns", "end_ns", "step", "launch_ns")
_STEPS = STEPS.only("step", "start_ns", "end_ns")
READS = (_WORK, _STEPS)


def windows(work: pl.DataFrame) -> pl.DataFrame:
    """Of each step that launched work ``step``, ``start_ns`` and ``end_ns``, without gaps between them.

    A window begins where that of the step before it ends, and ends with the last work that this step or an earlier one
    launched. The first one begins with the first step's own work.
    """
    ends = pl.col("end_ns").cum_max()
    return done(
        work.lazy()
        .filter(IS_WORK, pl.col("step").is_not_null())
        .group_by("step")
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
        .sort("step")
        .select("step", start_ns=ends.shift(1).fill_null(pl.col("start_ns").first()), end_ns=ends)
    )


def lasting(rank: RankTrace) -> pl.DataFrame:
    """How long each step takes, ``step_ns``, and, where ``step`` is null, all that was recorded.

    The first step begins with its host, or when the device is done with what was launched before. Steps that launched
    nothing last as long as their hosts say. Without steps there is only the recording: from its first work to its last.
    """
    work, steps = rank[_WORK].filter(IS_WORK), rank[_STEPS]
    step_ns = pl.col("end_ns") - pl.col("start_ns")
    found = windows(work)
    launched = work if found.is_empty() else work.filter(pl.col("launch_ns").is_not_null())
    since = [intervals.ends(frame)[0] for frame in (steps, launched)]
    if not found.is_empty():
        first_ns: int = found["start_ns"][0]
        is_before = pl.col("step").is_null() & (pl.col("start_ns") < first_ns)
        free_ns = intervals.ends(work.filter(is_before))[1]
        since[0] = min(first_ns, max(at for at in (since[0], free_ns) if at is not None))
        found = found.with_columns(
            start_ns=pl.when(pl.int_range(pl.len()) == 0).then(since[0]).otherwise("start_ns").cast(pl.Int64)
        )
    until = [intervals.ends(frame)[1] for frame in (steps, work)]
    begun, ended = ([at for at in ends if at is not None] for ends in (since, until))
    whole = pl.DataFrame(
        {"step": [None], "step_ns": [max(ended) - min(begun) if begun and ended else None]},
        schema={"step": pl.Int64(), "step_ns": pl.Int64()},
    )
    on_device = found.select("step", device_ns=step_ns)
    each = steps.select("step", step_ns=step_ns).join(on_device, on="step", how="left", maintain_order="left")
    return pl.concat([whole, each.select("step", step_ns=pl.coalesce("device_ns", "step_ns"))])
