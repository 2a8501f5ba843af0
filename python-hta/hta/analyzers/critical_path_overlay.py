"""A copy of a rank's trace that shows its critical path, for a timeline viewer."""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

import pandas as pd
import polars as pl

import holotrace
from hta import frame_tables, frames
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
    critical = pl.Series(sorted(graph.critical_path_events_set), dtype=pl.UInt32)
    edges = _shown_edges(graph, types, all_edges=show_all_edges and not only_show_critical_events)
    copy = TraceCopy(
        str(source),
        edits=[holotrace.Edit(critical, args={"critical": 1})],
        only=_ALWAYS_SHOWN if only_show_critical_events else None,
        append=_arrows(edges, graph, t, rank),
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


def _arrows(edges: pl.DataFrame, graph: CPGraph, t: Trace, rank: int) -> list[str]:
    """An arrow per edge between events that the trace holds, as a text of two events each."""
    frame = t.get_trace(rank)
    ends = [_ends(graph.ends(edges[node]), frame, side) for node, side in (("begin", "from"), ("end", "to"))]
    told = edges.select("weight", "critical", "type")
    since_ns = t.min_ts * frames.NS_PER_US
    placed = pl.concat([*ends, told], how="horizontal").drop_nulls(["from_ns", "to_ns"])
    return holotrace.arrows(placed.with_columns(pl.col("from_ns", "to_ns") + since_ns), name="critical_path")


def _ends(ends: pl.DataFrame, frame: pd.DataFrame, side: str) -> pl.DataFrame:
    """On which thread and when arrows begin, or end; ``ns`` is null for events that are not in the frame."""
    row = frames.places(frame)(ends["event_id"].to_numpy())
    on_device = pl.lit(pl.Series(frame["stream"].to_numpy()[row] >= 0))
    # A viewer draws an arrow from the event that is there at its time, and a kernel ends where the next may start.
    within = pl.when(on_device).then((pl.col("end_ns") - pl.col("start_ns")).clip(upper_bound=frames.NS_PER_US))
    time = pl.when(pl.lit(ends["is_start"])).then("start_ns").otherwise(pl.col("end_ns") - within.otherwise(0))
    known = pl.when(pl.lit(pl.Series(row >= 0))).then(time)
    spans = frame_tables.spans(frame, row)
    return spans.select(pl.col("pid", "tid").name.prefix(f"{side}_"), known.alias(f"{side}_ns"))
