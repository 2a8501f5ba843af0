"""A copy of a rank's trace that shows its critical path, for a timeline viewer."""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

import polars as pl

import holotrace
from hta.analyzers.critical_path_graph import CPGraph
from hta.analyzers.critical_path_types import CPEdge, CPEdgeType
from hta.common.trace import Trace
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
    hidden: list[int] = []
    if only_show_critical_events:
        shown = pl.col("category").cast(pl.String).is_in(_ALWAYS_SHOWN).fill_null(False)
        hidden = events.filter(~shown, ~pl.col("event_id").is_in(critical.implode()))["event_id"].to_list()
    edges = _shown_edges(graph, types, all_edges=show_all_edges and not only_show_critical_events)
    holotrace.rewrite(
        source,
        target,
        edits=[holotrace.Edit(critical, args={"critical": 1})],
        drop=hidden,
        append=_arrows(edges, graph, events),
    )
    return str(target)


def _shown_edges(graph: CPGraph, types: Collection[CPEdgeType], all_edges: bool) -> list[CPEdge]:
    if not all_edges:
        # The path's own edges are at hand; to ask the graph for all would make its dictionaries.
        chosen = (edge for edge in graph.critical_path_edges_set if edge.type in types)
        return sorted(chosen, key=lambda edge: (edge.begin, edge.end))
    edges = [edge for _, _, edge in graph.edges(data="object")]
    if critical_path_show_zero_weight_launch_edges():
        return edges
    return [edge for edge in edges if edge.type is not CPEdgeType.KERNEL_LAUNCH_DELAY or edge.weight > 0]


def _arrows(edges: list[CPEdge], graph: CPGraph, events: pl.DataFrame) -> list[str]:
    """An arrow per edge, as a text of two events each."""
    critical = graph.critical_path_edges_set
    begins, ends = (graph.events_at([getattr(edge, side) for edge in edges]) for side in ("begin", "end"))
    schema = {"from_id": pl.Int64(), "from_start": pl.Boolean(), "to_id": pl.Int64(), "to_start": pl.Boolean()}
    rows = [(*begin, *end) for begin, end in zip(begins, ends, strict=True)]
    table = pl.DataFrame(rows, schema=schema, orient="row").with_columns(
        weight=pl.Series([edge.weight for edge in edges], dtype=pl.Int64),
        is_critical=pl.Series([edge in critical for edge in edges], dtype=pl.Boolean),
        type=pl.Series([edge.type.value for edge in edges], dtype=pl.String),
    )
    on_device = graph.full_trace_df.loc[graph.full_trace_df["stream"] >= 0, "index"].to_numpy()
    joined = pl.concat([table["from_id"], table["to_id"]]).unique()
    times = events.filter(pl.col("event_id").is_in(joined.implode())).with_columns(
        on_device=pl.col("event_id").is_in(pl.Series(on_device).implode())
    )
    arrows = table
    for side in ("from", "to"):
        here = times.select(
            pl.col("event_id").cast(pl.Int64).alias(f"{side}_id"),
            *(pl.col(name).alias(f"{side}_{name}") for name in ("pid", "tid", "start_ns", "end_ns", "on_device")),
        )
        arrows = arrows.join(here, on=f"{side}_id", maintain_order="left")
    placed = arrows.select(
        "from_pid",
        "from_tid",
        _time("from"),
        "to_pid",
        "to_tid",
        _time("to"),
        "weight",
        pl.col("is_critical").alias("critical"),
        "type",
    )
    return holotrace.arrows(placed, name="critical_path")


def _time(side: str) -> pl.Expr:
    lasts = pl.col(f"{side}_end_ns") - pl.col(f"{side}_start_ns")
    # A viewer draws an arrow from the event that is there at its time, and a kernel ends where the next may start.
    within = pl.when(pl.col(f"{side}_on_device")).then(lasts.clip(upper_bound=1000)).otherwise(0)
    ns = pl.when(pl.col(f"{side}_start")).then(f"{side}_start_ns").otherwise(pl.col(f"{side}_end_ns") - within)
    # As HTA writes them, in whole microseconds.
    return (ns // 1000 * 1000).alias(f"{side}_ns")
