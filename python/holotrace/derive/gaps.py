"""The time before work in which its queue had nothing to do, by cause."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from holotrace.core.native import native
from holotrace.core.plans import without
from holotrace.derive import groups

HOST_WAIT, KERNEL_WAIT, OTHER = "host_wait", "kernel_wait", "other"
# In the order in which native code numbers them.
_CAUSES = pl.Series("cause", [HOST_WAIT, KERNEL_WAIT, OTHER])
_UNKNOWN_NS = -(2**63)


def by_cause(work: pl.DataFrame, *, by: Sequence[str], max_kernel_gap_ns: int) -> pl.DataFrame:
    """What describes the gaps of each group of work, by cause; in the order of the columns of ``by``, then of causes.

    Before all work of a group but the first there is a gap, from where what began earlier ends, to its start; 0 where
    that overlaps. Of work that begins at the same time the lower ``event_id`` is the earlier. Gaps are caused by the
    host where the work after them was launched when all before had ended, else by kernels where they are shorter than
    ``max_kernel_gap_ns``.

    ``whole_ns`` is the time of the whole group, from the first start to the latest end. Of the gaps there are
    ``count``, ``idle_ns`` (their sum), ``mean_ns``, ``std_ns`` (n - 1; null for a single one), ``min_ns``, ``p25_ns``,
    ``p50_ns``, ``p75_ns`` (interpolated) and ``max_ns``, in whole nanoseconds.
    """
    launch_ns = work["launch_ns"].fill_null(_UNKNOWN_NS)
    spans = work[:, ["event_id", "start_ns", "end_ns"]].hstack([launch_ns, groups.numbered(work, by)])
    gaps = pl.DataFrame(native.gaps(spans, max_kernel_gap_ns))
    rounded = pl.col("mean_ns", "std_ns", "p25_ns", "p50_ns", "p75_ns").round().cast(pl.Int64)
    return work[:, by][gaps["row"]].hstack(without(gaps, "row").with_columns(rounded, _CAUSES[gaps["cause"]]))
