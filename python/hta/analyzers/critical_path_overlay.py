"""A copy of a rank's trace that shows its critical path, for a timeline viewer."""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

import polars as pl

import holotrace
from hta.analyzers.critical_path_graph import CPGraph, edge_table
from hta.analyzers.critical_path_types import CPEdgeType
from hta.common.trace import Trace
from hta.common.trace_copy import TraceCopy
from hta.configs.env_options import critical_path_show_zero_weight_launch_edges

log = logging.getLogger("hta")

DEFAULT_EDGE_TYPES_IN_VIZ = {
    CPEdgeType.DEPENDENCY,
    CPEdgeType.KERNEL_LAUNCH_DELAY,
    CPEdgeType.SYNC_DEPENDENCY,
}
# Categories of events that are shown even where only critical ones are.
_ALWAYS_SHOWN = ("user_annotation", "python_function")


def write_overlay(  # noqa: PLR0917  as the method of HTA that it does the work of
    t: Trace,
    rank: int,
    graph: CPGraph,
    output_dir: str,
    only_show_critical_events: bool,
    show_all_edges: bool,
    types: Collection[CPEdgeType],
) -> str:
    """Write the copy and return its path; "" where ``output_dir`` is a file."""
    folder, source = Path(output_dir).expanduser(), Path(t.trace_files[rank])
    if folder.exists() and not folder.is_dir():
        log.error("%s is a file; name a folder to write the overlay to", folder)
        return ""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"overlaid_critical_path_{source.name}"
    events = holotrace.open({rank: str(source)}).table(
        "events", columns=["event_id", "category", "pid", "tid", "start_ns", "end_ns"]
    )
    critical = pl.Series(sorted(graph.critical_path_events_set), dtype=pl.UInt32)
    hidden = critical.clear()
    if only_show_critical_events:
        shown = pl.col("category").is_in(_ALWAYS_SHOWN).fill_null(False)
        hidden = events.filter(~shown, ~pl.col("event_id").is_in(critical.implode()))["event_id"]
    edges = _shown_edges(graph, types, all_edges=show_all_edges and not only_show_critical_events)
    copy = TraceCopy(
        str(source),
        edits=[holotrace.Edit(critical, args={"critical": 1})],
        drop=hidden,
        append=_arrows(edges, graph, events),
    )
    t.write_raw_trace(str(target), copy)
    return str(target)


def _shown_edges(graph: CPGraph, types: Collection[CPEdgeType], all_edges: bool) -> pl.DataFrame:
    """The edges to draw, with ``critical``, whether they are on the path."""
    # To ask the graph for all edges would make its dictionaries; the path's own are at hand.
    path = graph.critical_edges().with_columns(critical=True)
    if not all_edges:
        return path.filter(pl.col("type").is_in([kind.value for kind in types])).sort("begin", "end")
    edges = edge_table([edge for _, _, edge in graph.edges(data="object")])
    if not critical_path_show_zero_weight_launch_edges():
        edges = edges.filter((pl.col("type") != CPEdgeType.KERNEL_LAUNCH_DELAY.value) | (pl.col("weight") > 0))
    joined = edges.join(path, on=edges.columns, how="left", maintain_order="left")
    return joined.with_columns(pl.col("critical").fill_null(False))


def _arrows(edges: pl.DataFrame, graph: CPGraph, events: pl.DataFrame) -> list[str]:
    """An arrow per edge, as a text of two events each."""
    ends = (
        graph.ends(edges[node]).select(
            pl.col("event_id").alias(f"{side}_id"), pl.col("is_start").alias(f"{side}_start")
        )
        for node, side in (("begin", "from"), ("end", "to"))
    )
    arrows = pl.concat([edges, *ends], how="horizontal")
    joined = pl.concat([arrows["from_id"], arrows["to_id"]]).unique()
    on_device = graph.full_trace_df["index"].to_numpy()[graph.full_trace_df["stream"].to_numpy() >= 0]
    times = (
        events.drop("category")
        .cast({"event_id": pl.Int64})
        .filter(pl.col("event_id").is_in(joined.implode()))
        .with_columns(on_device=pl.col("event_id").is_in(pl.Series(on_device).implode()))
    )
    for side in ("from", "to"):
        arrows = arrows.join(
            times.select(pl.all().name.prefix(f"{side}_")),
            left_on=f"{side}_id",
            right_on=f"{side}_event_id",
            maintain_order="left",
        )
    placed = arrows.select(
        "from_pid", "from_tid", _time("from"), "to_pid", "to_tid", _time("to"), "weight", "critical", "type"
    )
    return holotrace.arrows(placed, name="critical_path")


def _time(side: str) -> pl.Expr:
    lasts = pl.col(f"{side}_end_ns") - pl.col(f"{side}_start_ns")
    # A viewer draws an arrow from the event that is there at its time, and a kernel ends where the next may start.
    within = pl.when(pl.col(f"{side}_on_device")).then(lasts.clip(upper_bound=1000)).otherwise(0)
    ns = pl.when(pl.col(f"{side}_start")).then(f"{side}_start_ns").otherwise(pl.col(f"{side}_end_ns") - within)
    # As HTA writes them, in whole microseconds.
    return (ns // 1000 * 1000).alias(f"{side}_ns")
