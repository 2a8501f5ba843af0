"""The critical path of a step in a timeline: its events marked, and arrows from each to the one that waited for it."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from holotrace.core.tables import COLLECTIVES, EVENTS
from holotrace.core.trace import RankTrace
from holotrace.derive import critical_steps, exchange_waits
from holotrace.export.event_json import arrows
from holotrace.export.overlay import Addition, Overlay
from holotrace.export.rewrite import Edit

# What a rank must be read with.
_EXCHANGES = COLLECTIVES.only("event_id", "pid", "tid", "start_ns")
READS = (*critical_steps.READS, EVENTS.only("event_id", "pid", "tid", "start_ns"), _EXCHANGES)
# The arg that marks an event; HTA's.
MARK = {"critical": 1}


def critical_path(additions: Iterable[tuple[int, Addition]]) -> Overlay:
    """The critical paths of ranks, from what ``of_rank`` found in each."""
    return Overlay(
        "critical-path",
        dict(additions),
        missing="no rank has work in such a step; name one that was recorded, and record with ProfilerActivity.CPU",
    )


def of_rank(rank: RankTrace, *, of_step: int | None) -> tuple[int, Addition]:
    """The rank, with marks and arrows of the path through a step; none where it has no such step, or no path in it."""
    return rank.rank, _of_path(rank, of_step)


def _of_path(rank: RankTrace, of_step: int | None) -> Addition:
    found = critical_steps.of(rank, of_step)
    path = None if found is None else found.edges(found.graph.longest_path())
    if found is None or path is None or path.is_empty():
        return Addition()
    nodes = found.graph.nodes.join(_places(rank), on="event_id", how="left", maintain_order="left")
    leads = path.filter(pl.col("kind") != "operator")
    ends = (_placed(nodes[leads[f"{side}_node"]], side) for side in ("from", "to"))
    told = leads.select("kind", "bound_by", duration_ns="weight_ns")
    through = pl.concat([path["from_node"], path["to_node"]])
    critical = nodes["event_id"][through].unique().sort()
    critical = critical.filter(critical.is_in(rank[EVENTS]["event_id"].implode()))
    texts = arrows(pl.concat([told, *ends], how="horizontal"), name="critical_path")
    return Addition((Edit(critical, args=MARK),), tuple(texts))


def _places(rank: RankTrace) -> pl.DataFrame:
    """Where events are: those of the file, and what a host that computes exchanges and waits for."""
    events = rank[EVENTS]
    if not rank.computes_on_host:
        return events
    made = [frame.select(events.columns) for frame in (rank[_EXCHANGES], rank.cached(exchange_waits.of_rank))]
    return pl.concat([events, *made]).unique("event_id", keep="first", maintain_order=True)


def _placed(nodes: pl.DataFrame, side: str) -> pl.DataFrame:
    # At its end a viewer finds not the event but what begins there.
    is_behind = ~pl.col("is_start") & (pl.col("time_ns") > pl.col("start_ns"))
    return nodes.select(
        pl.col("pid").alias(f"{side}_pid"),
        pl.col("tid").alias(f"{side}_tid"),
        (pl.col("time_ns") - is_behind.cast(pl.Int64)).alias(f"{side}_ns"),
    )
