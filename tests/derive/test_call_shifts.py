"""By how many calls ranks began to record later than others."""

from __future__ import annotations

import polars as pl

from holotrace.derive import call_shifts
from holotrace.derive.clock_offsets import of_ends

PERIOD_NS, APART_NS = 10_000_000, 600_000


def calls(operation: str, series: int, *, late_ns: int, scatter_ns: int) -> pl.DataFrame:
    """Calls of an operation on two ranks; the second ends so much later beside its clock, now more and now less."""
    rows = [
        {
            "series": series + rank,
            "rank": rank,
            "of_rank": rank,
            "group": "jit_step",
            "group_ranks": "[0, 1]",
            "operation": operation,
            "step": step,
            "start_ns": (begun := PERIOD_NS * step + rank * APART_NS),
            "end_ns": begun + 1_000 + rank * (late_ns + scatter_ns * (step % 3)),
        }
        for rank in (0, 1)
        for step in range(8)
    ]
    return pl.DataFrame(rows).cast({"series": pl.UInt32})


def test_where_ends_scatter_the_clocks_of_both_ranks_tell_which_calls_are_one() -> None:
    """A transfer that is found over was matched with that of the next step, as both looked for it as regularly."""
    met = calls("send.1", 0, late_ns=0, scatter_ns=0)
    early = calls("send.2", 2, late_ns=2_000_000, scatter_ns=40_000)
    # The first rank looks for it nearly as regularly after the other did in the step before.
    again_ns = 34_000 * ((pl.col("step") - 1) % 3)
    regular = early.with_columns(end_ns=pl.col("end_ns") + pl.when(pl.col("rank") == 0).then(again_ns).otherwise(0))
    every = pl.concat([met, regular]).with_columns(pl.col("group", "group_ranks", "operation").cast(pl.Categorical))
    nothing = of_ends(pl.DataFrame(schema={"rank": pl.Int64, "match": pl.Int64, "end_ns": pl.Int64}))
    assert dict(call_shifts.of_ranks(every, nothing).iter_rows()) == {1: 0, 3: 0}
