"""How much communication is hidden behind computation."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Stacked
from holotrace.core.schema import Column, Unit
from holotrace.core.trace import RankTrace
from holotrace.derive import busy, intervals

# Hiding all of it is rarely possible: the last gradients have nothing left to hide behind.
EXPOSED_RATIO, EXPOSED_CRITICAL_RATIO = 0.05, 0.25


@per_rank(
    columns=(
        Column("comm_ns", Unit.NS, "Time in which at least one communication kernel ran"),
        Column("hidden_ns", Unit.NS, "Part of comm_ns during which a compute kernel ran too"),
        Column("exposed_ns", Unit.NS, "The rest of comm_ns"),
        Column("hidden_ratio", Unit.RATIO, "hidden_ns / comm_ns; null without communication"),
        Column("exposed_ratio", Unit.RATIO, "exposed_ns / time from the first work to the last; null without work"),
    ),
    reads=(busy.EVENTS,),
    chart=Stacked(x="rank", y=("hidden_ns", "exposed_ns"), title="Communication, hidden and exposed"),
)
def overlap(rank: RankTrace) -> pl.DataFrame:
    """How much of each rank's communication is hidden behind computation."""
    times = rank.cached(busy.of)
    comm_ns = intervals.total_ns(times.communicating)
    exposed_ns = intervals.total_ns(times.computing_or_communicating) - intervals.total_ns(times.computing)
    span_ns = (times.end_ns or 0) - (times.start_ns or 0)
    return pl.DataFrame(
        {
            "comm_ns": comm_ns,
            "hidden_ns": comm_ns - exposed_ns,
            "exposed_ns": exposed_ns,
            "hidden_ratio": (comm_ns - exposed_ns) / comm_ns if comm_ns else None,
            "exposed_ratio": exposed_ns / span_ns if span_ns else None,
        }
    )


@overlap.rule
def exposed_communication(table: pl.DataFrame) -> Iterator[Finding]:
    """Exposed communication takes more than a twentieth of the time on every rank.

    Devices wait for data instead of computing. A rank that comes late to a collective waits less than the others, so
    the cost is the exposed time of the rank with the least: that much is transfer, the rest is waiting for others.

    Start collectives earlier (bucket size, prefetch of parameters), give them a stream of their own, or move less data.
    """
    least = table.filter(pl.col("comm_ns") > 0).sort("exposed_ratio", "rank").head(1)
    for ratio, cost_ns in least.select("exposed_ratio", "exposed_ns").iter_rows():
        if ratio > EXPOSED_RATIO:
            yield Finding(
                "critical" if ratio > EXPOSED_CRITICAL_RATIO else "warning",
                "exposed communication takes at least {ratio:percent} of the time on every rank",
                (),
                cost_ns,
                values={"ratio": ratio},
            )
