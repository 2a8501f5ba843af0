"""The longest path of waiting through a part of a rank's trace."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pandas as pd

from hta.analyzers import critical_path_files, step_frames
from hta.analyzers.critical_path_graph import CPGraph
from hta.analyzers.critical_path_overlay import DEFAULT_EDGE_TYPES_IN_VIZ, write_overlay
from hta.analyzers.critical_path_types import BoundType, CPEdge, CPEdgeType, CPNode
from hta.analyzers.step_frames import KERNEL_KERNEL_DELAY_THRESHOLD_US
from hta.analyzers.step_frames import LOCKING as CUDA_RUNTIME_EVENTS
from hta.common.trace import Trace
from hta.configs.env_options import critical_path_add_zero_weight_launch_edges

__all__ = [
    "CUDA_RUNTIME_EVENTS",
    "DEFAULT_EDGE_TYPES_IN_VIZ",
    "KERNEL_KERNEL_DELAY_THRESHOLD_US",
    "BoundType",
    "CPEdge",
    "CPEdgeType",
    "CPGraph",
    "CPNode",
    "CriticalPathAnalysis",
    "restore_cpgraph",
]

log = logging.getLogger("hta")


def restore_cpgraph(zip_filename: str, t_full: Trace, rank: int) -> CPGraph:
    """The graph that ``CPGraph.save`` wrote into a zip file, of a rank of ``t_full``."""
    saved, path, index = critical_path_files.load(zip_filename)
    graph = CPGraph(_clipped(t_full, rank, None), t_full, rank, data_load_events=path["data_load_events"])
    critical_path_files.restore(graph, saved, path)
    kept = graph.full_trace_df.index.isin(index)
    graph.trace_df = graph.full_trace_df[kept]
    graph.t = _clipped(t_full, rank, graph.trace_df)
    if path["critical_path_nodes"]:
        graph.critical_path()
    return graph


class CriticalPathAnalysis:
    """Questions about what a part of a trace had to wait for."""

    @classmethod
    def critical_path_analysis(
        cls,
        t: Trace,
        rank: int,
        annotation: str,
        instance_id: int | tuple[int, int] | None,
        data_load_events: list[str] | None = None,
    ) -> tuple[CPGraph, bool] | None:
        """The graph of what waited for what, and whether it has a critical path; None where there is nothing to see."""
        instances = _instances(instance_id)
        if instances is None:
            log.error("instance_id is %r; it can be a number, a pair of first and last, or None", instance_id)
            return None
        span = step_frames.window(t, rank, annotation, *instances)
        if span is None:
            log.error("rank %d has no %r with instance %s", rank, annotation, instance_id)
            return None
        if "cuda_sync" not in t.symbol_table.sym_index:
            log.warning("no synchronisation was recorded, so the critical path may be wrong")
        has_all_launches = critical_path_add_zero_weight_launch_edges()
        step = step_frames.step(t, rank, span, data_load_events or (), has_all_launches)
        clipped = _clipped(t, rank, step.frame)
        graph = CPGraph(clipped, t, rank, data_load_events=data_load_events, step=step)
        return graph, graph.critical_path()

    @classmethod
    def overlay_critical_path_analysis(  # noqa: PLR0917  HTA's signature
        cls,
        t: Trace,
        rank: int,
        critical_path_graph: CPGraph,
        output_dir: str,
        only_show_critical_events: bool,
        show_all_edges: bool,
        edge_types_to_viz: set[CPEdgeType] | None = None,
    ) -> str:
        """Write a copy of a rank's trace that shows its critical path; returns its path, "" where it cannot be."""
        types = DEFAULT_EDGE_TYPES_IN_VIZ if edge_types_to_viz is None else edge_types_to_viz
        return write_overlay(t, rank, critical_path_graph, output_dir, only_show_critical_events, show_all_edges, types)

    @staticmethod
    def _is_zero_weight_launch_edge(e: CPEdge) -> bool:
        """Whether an edge stands for a launch that nothing waited for, as one of the environment's options adds."""
        return e.type is CPEdgeType.KERNEL_LAUNCH_DELAY and e.weight == 0


def _instances(instance_id: int | Sequence[int] | None) -> tuple[int, int] | None:
    if instance_id is None:
        return 0, 0
    if isinstance(instance_id, int):
        return instance_id, instance_id
    if isinstance(instance_id, tuple) and len(instance_id) == 2 and all(isinstance(n, int) for n in instance_id):
        return instance_id
    return None


def _clipped(t: Trace, rank: int, frame: pd.DataFrame | None) -> Trace:
    """The same trace with other rows of one rank; nothing is read or copied."""
    clipped = Trace({}, t.trace_path, t.parser_config)
    clipped.trace_files, clipped.meta_data, clipped.symbol_table = t.trace_files, t.meta_data, t.symbol_table
    clipped.min_ts, clipped.is_parsed = t.min_ts, True
    clipped.exact = t.exact
    clipped.traces = {**t.traces, rank: t.get_trace(rank) if frame is None else frame}
    return clipped
