"""The graph that a critical path leads through, as a networkx graph."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from holotrace import MissingExtraError, StepGraph
from hta import frames
from hta.analyzers import critical_path_files
from hta.analyzers.critical_path_records import event_records, stream_waits
from hta.analyzers.critical_path_types import BoundType, CPEdge, CPEdgeType, CPNode
from hta.analyzers.step_frames import BLOCKING, Step
from hta.common.trace import Trace
from hta.common.trace_symbol_table import TraceSymbolTable
from hta.configs.env_options import critical_path_strict_negative_weight_check
from hta.utils.utils import is_comm_kernel, shorten_name

try:
    import networkx as nx
except ModuleNotFoundError as error:
    raise MissingExtraError(
        "critical paths need networkx, which is not installed; run pip install 'holotrace[hta]'"
    ) from error

log = logging.getLogger("hta")

_TYPES = {
    "operator": CPEdgeType.OPERATOR_KERNEL,
    "dependency": CPEdgeType.DEPENDENCY,
    "launch_delay": CPEdgeType.KERNEL_LAUNCH_DELAY,
    "kernel_delay": CPEdgeType.KERNEL_KERNEL_DELAY,
    "sync": CPEdgeType.SYNC_DEPENDENCY,
}
_OVERHEADS: dict[CPEdgeType, str] = {
    CPEdgeType.KERNEL_KERNEL_DELAY: BoundType.GPU_KERNEL_KERNEL_OVERHEAD.value,
    CPEdgeType.KERNEL_LAUNCH_DELAY: BoundType.GPU_KERNEL_LAUNCH_OVERHEAD.value,
    CPEdgeType.DEPENDENCY: "",
    CPEdgeType.SYNC_DEPENDENCY: "",
}
_EVENT_COLUMNS = ("s_name", "cat", "pid", "tid", "stream", "index")


class _WhenAskedFor:
    """A part of a graph that is made from its table of edges when it is looked at first."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, graph: Any, owner: type) -> Any:
        if graph is None:
            return self
        graph.build()
        return graph.__dict__[self.name]


class CPGraph(nx.DiGraph):  # type: ignore[misc]  # networkx has no types
    """Starts and ends of a rank's events as nodes (whole numbers), and which came after which as edges.

    An edge has a ``weight`` in microseconds and an ``object``, a CPEdge. ``critical_path`` heeds weights that were
    changed.

    Args:
        t: The rows that the graph is made of, as a trace.
        t_full: The trace they are taken from.
        rank: Whose rows.
        G: A graph to start with.
        data_load_events: What names of events that load data match.
        step: What the graph is made of, where it is not given as ``G``.
    """

    # The dictionaries of a networkx graph. A graph of 50,000 nodes takes 0.2 s, and few look at more than its path.
    _node = _WhenAskedFor()
    _adj = _WhenAskedFor()
    _succ = _WhenAskedFor()
    _pred = _WhenAskedFor()

    def __init__(
        self,
        t: Trace | None = None,
        t_full: Trace | None = None,
        rank: int = -1,
        G: Any = None,
        data_load_events: Sequence[str] | None = None,
        *,
        step: Step | None = None,
    ) -> None:
        super().__init__(G)
        self.__dict__["_succ"] = self._adj
        self.rank = rank
        self.t, self.t_full = t, t_full
        self.symbol_table = TraceSymbolTable() if t_full is None else t_full.symbol_table
        self.full_trace_df = pd.DataFrame() if t_full is None else t_full.get_trace(rank)
        self.trace_df = self.full_trace_df if step is None else step.frame
        self.data_load_events = data_load_events
        self.node_list: list[CPNode] = []
        self.critical_path_nodes: list[int] = []
        self.critical_path_events_set: set[int] = set()
        self.critical_path_edges_set: set[CPEdge] = set()
        self.edge_to_event_map: dict[tuple[int, int], int] = {}
        # None before there is a path.
        self._critical_edges: list[CPEdge] | None = None
        # The path of a graph that nobody has looked at, as rows of the step's edges.
        self._path = pl.DataFrame()
        self._step = step
        if step is not None:
            # From here on they are made when they are asked for.
            for name in ("_node", "_adj", "_succ", "_pred", "node_list", "edge_to_event_map"):
                del self.__dict__[name]

    def build(self) -> None:
        """Make the dictionaries of the networkx graph; nothing has to call this."""
        step = self._step
        if step is None:
            return
        nodes = step.graph.connected.to_list()
        followers: dict[int, dict[int, dict[str, Any]]] = {node: {} for node in nodes}
        leaders: dict[int, dict[int, dict[str, Any]]] = {node: {} for node in nodes}
        for edge in _to_edges(step.graph.edges):
            # HTA counts a negative weight as none, and says so on the edge.
            attributes = {"weight": max(edge.weight, 0), "object": edge}
            followers[edge.begin][edge.end] = leaders[edge.end][edge.begin] = attributes
        self.__dict__.update(_node={node: {} for node in nodes}, _adj=followers, _succ=followers, _pred=leaders)

    def __getattr__(self, name: str) -> Any:
        makers: dict[str, Callable[[], Any]] = {
            "node_list": self._make_node_list,
            "edge_to_event_map": self._make_edge_to_event_map,
            "_critical_edges": lambda: _to_edges(self._path),
            "critical_path_edges_set": lambda: set(self._critical_edges or ()),
        }
        if name not in makers:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.__dict__[name] = makers[name]()
        return self.__dict__[name]

    def _make_node_list(self) -> list[CPNode]:
        assert self._step is not None
        names = self._names(self._step.graph.nodes["event_id"].to_numpy())
        nodes = self._step.graph.nodes.select("event_id", pl.col("time_ns") // 1000, "is_start").iter_rows()
        return [
            CPNode(number, event, ts, is_start, name in BLOCKING)
            for number, ((event, ts, is_start), name) in enumerate(zip(nodes, names, strict=True))
        ]

    def _make_edge_to_event_map(self) -> dict[tuple[int, int], int]:
        assert self._step is not None
        owned = self._step.graph.edges.drop_nulls("event_id").select("from_node", "to_node", "event_id")
        return {(begin, end): event for begin, end, event in owned.iter_rows()}

    @cached_property
    def event_to_start_node_map(self) -> dict[int, int]:
        """The number of each event's start."""
        return {node.ev_idx: node.idx for node in self.node_list if node.is_start}

    @cached_property
    def event_to_end_node_map(self) -> dict[int, int]:
        """The number of each event's end."""
        return {node.ev_idx: node.idx for node in self.node_list if not node.is_start}

    def get_nodes_for_event(self, ev_id: int) -> tuple[CPNode | None, CPNode | None]:
        """The start and the end of an event; None where it has none."""
        numbers = (self.event_to_start_node_map.get(ev_id), self.event_to_end_node_map.get(ev_id))
        start, end = (None if number is None else self.node_list[number] for number in numbers)
        return start, end

    def ends(self, nodes: pl.Series) -> pl.DataFrame:
        """The event that each of these nodes is an end of, ``event_id``, and whether it is its start, ``is_start``."""
        if self._step is None or "node_list" in self.__dict__:
            rows = [(self.node_list[node].ev_idx, self.node_list[node].is_start) for node in nodes]
            return pl.DataFrame(rows, schema={"event_id": pl.Int64(), "is_start": pl.Boolean()}, orient="row")
        return self._step.graph.nodes.select(pl.col("event_id").cast(pl.Int64), "is_start")[nodes]

    def get_events_for_edge(self, edge: CPEdge) -> tuple[int, int]:
        """The events at both ends of an edge."""
        return self.node_list[edge.begin].ev_idx, self.node_list[edge.end].ev_idx

    def get_event_attribution_for_edge(self, edge: CPEdge) -> int | None:
        """The event whose time an edge is; None where it is no event's."""
        return self.edge_to_event_map.get((edge.begin, edge.end))

    def get_edges_attributed_to_event(self, ev_idx: int) -> list[CPEdge]:
        """The edges that are an event's time."""
        return self._edges_of_event.get(ev_idx, [])

    @cached_property
    def _edges_of_event(self) -> dict[int, list[CPEdge]]:
        edges: dict[int, list[CPEdge]] = defaultdict(list)
        for begin, end, edge in self.edges(data="object"):
            event = self.edge_to_event_map.get((begin, end))
            if event is not None:
                edges[event].append(edge)
        return dict(edges)

    def _get_node_name(self, ev_id: int) -> str:
        """The short name of an event; "ROOT" for the negative numbers that stand for none."""
        return "ROOT" if ev_id < 0 else self._names(np.array([ev_id]))[0]

    def _get_cuda_event_record_df(self) -> pd.DataFrame | None:
        """What ``event_records`` says of the graph's rank; None where it is of no trace."""
        return None if self.t_full is None else event_records(self.t_full, self.rank)

    def _get_cuda_stream_wait_event_df(self) -> pd.DataFrame | None:
        """What ``stream_waits`` says of the graph's rank; None where it is of no trace."""
        return None if self.t_full is None else stream_waits(self.t_full, self.rank)

    def _attribute_edge(self, edge: CPEdge, src_parent: int | None) -> None:
        """Say whose time an edge is: from the end of one event to the start of another it is ``src_parent``'s."""
        if edge.type not in {CPEdgeType.OPERATOR_KERNEL, CPEdgeType.KERNEL_KERNEL_DELAY}:
            return
        begin, end = self.node_list[edge.begin], self.node_list[edge.end]
        owner: int | None
        if begin.is_start or edge.type is CPEdgeType.KERNEL_KERNEL_DELAY:
            owner = begin.ev_idx
        else:
            owner = src_parent if end.is_start else end.ev_idx
        assert owner is not None, "an edge from an end to a start needs the event that both are in"
        self.edge_to_event_map[edge.begin, edge.end] = owner

    def _add_gpu_cpu_sync_edge(self, gpu_node: CPNode, runtime_eid: int) -> None:
        """Let the end of a call wait for a node; nothing happens where the call is not in the graph."""
        _, end = self.get_nodes_for_event(runtime_eid)
        if end is not None:
            self._connect(gpu_node, end, CPEdgeType.SYNC_DEPENDENCY, 0)

    def _add_kernel_launch_delay_edge(
        self, runtime_index: int, kernel_start_node: CPNode, zero_weight: bool = False
    ) -> bool:
        """Let the start of a kernel follow the start of a call; False where the call is not in the graph."""
        start, _ = self.get_nodes_for_event(runtime_index)
        if start is None:
            return False
        weight = 0 if zero_weight else kernel_start_node.ts - start.ts
        self._connect(start, kernel_start_node, CPEdgeType.KERNEL_LAUNCH_DELAY, weight)
        return True

    def _connect(self, begin: CPNode, end: CPNode, kind: CPEdgeType, weight: int) -> None:
        edge = CPEdge(begin.idx, end.idx, kind, weight)
        self.add_edge(edge.begin, edge.end, weight=max(weight, 0), object=edge)

    def critical_path(self) -> bool:
        """Find the longest path, with the weights as they are now; False if the graph is none that has one."""
        if self._step is not None and "_adj" not in self.__dict__:
            return self._find_untouched(self._step.graph)
        edges = self._path_by_weight()
        if edges is None:
            return False
        self._critical_edges, self.critical_path_edges_set = edges, set(edges)
        self._follow([*(edge.begin for edge in edges[:1]), *(edge.end for edge in edges)])
        return True

    def critical_edges(self) -> pl.DataFrame:
        """The edges of ``critical_path_edges_set``: ``begin``, ``end``, ``type`` and ``weight``."""
        if "critical_path_edges_set" in self.__dict__:
            return edge_table(self.critical_path_edges_set)
        return _in_microseconds(self._path)

    def _find_untouched(self, graph: StepGraph) -> bool:
        """The path of a graph that nobody has looked at, let alone changed."""
        weight = graph.edges["weight_ns"]
        if not self._is_valid(int((weight < 0).sum()), int((weight < -1000).sum())):
            return False
        self._path = graph.edges[graph.longest_path()]
        # From here on they are made when they are asked for.
        for name in ("_critical_edges", "critical_path_edges_set"):
            self.__dict__.pop(name, None)
        self._follow([*self._path["from_node"].head(1), *self._path["to_node"].to_list()])
        return True

    def _follow(self, nodes: list[int]) -> None:
        self.critical_path_nodes = nodes
        self.critical_path_events_set = set(self.ends(pl.Series(nodes, dtype=pl.Int64))["event_id"].unique())

    def _path_by_weight(self) -> list[CPEdge] | None:
        if not self._validate_graph():
            return None
        for _, _, attributes in self.edges(data=True):
            if attributes["weight"] <= -1:
                attributes["weight"] = 0
        nodes = nx.dag_longest_path(self, weight="weight")
        return [self.edges[pair]["object"] for pair in pairwise(nodes)]

    def _validate_graph(self) -> bool:
        """Whether the graph has a longest path: nothing waits for itself, and no edge leads too far back in time."""
        negative = [weight for _, _, weight in self.edges(data="weight") if weight <= -1]
        if not self._is_valid(len(negative), sum(weight < -1 for weight in negative)):
            return False
        if nx.is_directed_acyclic_graph(self):
            return True
        log.warning("events wait for each other in a circle; there is no critical path")
        return False

    def _is_valid(self, negative: int, too_negative: int) -> bool:
        if negative:
            log.warning("%d edges lead back in time; they count as 0", negative)
        return not (too_negative and critical_path_strict_negative_weight_check())

    def bound_by(self, row: Mapping[str, Any]) -> str:
        """What an edge is bound by, from its ``type``, ``stream`` and ``s_name``; "" for one that takes no time."""
        kind = CPEdgeType(row["type"])
        if kind in _OVERHEADS:
            return _OVERHEADS[kind]
        name = row["s_name"] if isinstance(row["s_name"], str) else ""
        if not row["stream"] >= 0:
            is_loading = any(re.search(pattern, name) for pattern in self.data_load_events or ())
            return str((BoundType.DATA_LOADING if is_loading else BoundType.CPU_BOUND).value)
        is_comm = is_comm_kernel(name)
        return str((BoundType.GPU_COMMUNICATION_BOUND if is_comm else BoundType.GPU_COMPUTE_BOUND).value)

    def get_critical_path_breakdown(self) -> pd.DataFrame | None:
        """A row per edge of the critical path, with its event and what it is bound by; None before there is a path."""
        edge_columns = self._path_columns()
        # Where nothing waits for anything, the path is there and has no edges.
        if edge_columns is None or (len(edge_columns) and not self.critical_path_nodes):
            return None
        event = edge_columns["event_idx"]
        events = self._events(event.fillna(-1).to_numpy(dtype=np.int64))
        table: pd.DataFrame = pd.concat([edge_columns, events], axis=1)
        # A path has some thousand edges and some hundred names.
        kind = table.groupby(["type", "stream", "s_name"], dropna=False, sort=False).ngroup()
        first = table[~kind.duplicated()]
        bounds = np.array([self.bound_by(row) for row in first.to_dict("records")], dtype=object)
        table["bound_by"] = pd.Series(bounds[kind.to_numpy()], dtype=object)
        return table

    def _path_columns(self) -> pd.DataFrame | None:
        """Event, duration and type of each edge of the critical path, in its order; None before there is a path."""
        if "_critical_edges" not in self.__dict__:
            edges, events = _in_microseconds(self._path), self._path["event_id"].to_list()
        elif self._critical_edges is None:
            return None
        else:
            edges = edge_table(self._critical_edges)
            events = [self.get_event_attribution_for_edge(edge) for edge in self._critical_edges]
        frame: pd.DataFrame = pd.DataFrame(
            {
                "event_idx": pd.Series(events, dtype="float64"),
                "duration": edges["weight"].cast(pl.Float64).to_numpy(writable=True),
                "type": pd.Series(edges["type"].to_list(), dtype=object),
            }
        )
        return frame

    def _events(self, index: np.ndarray) -> pd.DataFrame:
        """What the frame says of these events; NaN where it has none."""
        place = frames.places(self.full_trace_df)(index)
        known = place >= 0
        columns: dict[str, Any] = {"s_name": pd.Series(self._names(index), dtype=object).where(known, np.nan)}
        for name in _EVENT_COLUMNS[1:]:
            column = self.full_trace_df[name].to_numpy()[place]
            kept = column.astype(object) if name in ("pid", "tid") else column.astype(np.float64)
            columns[name] = pd.Series(kept).where(known, np.nan)
        frame: pd.DataFrame = pd.DataFrame(columns)
        return frame

    def _names(self, index: np.ndarray) -> list[str]:
        """The short names of events."""
        place = frames.places(self.full_trace_df)(index)
        numbers = np.where(place >= 0, self.full_trace_df["name"].to_numpy()[place], -1)
        used = {number: shorten_name(self.symbol_table.sym_table[number]) for number in set(numbers) if number >= 0}
        return [used.get(number, "") for number in numbers]

    def summary(self) -> pd.Series:
        """What share of the critical path is bound by what, in percent; a line that says so is printed."""
        breakdown = self.get_critical_path_breakdown()
        assert breakdown is not None, "there is no critical path yet; call critical_path() first"
        total = breakdown["duration"].sum()
        shares: pd.Series = breakdown.groupby("bound_by")["duration"].sum() / total * 100
        print("Critical Path broken down by boundedness = (in % of duration)")  # noqa: T201  as HTA does
        return shares

    def show_critical_path(self) -> None:
        """Print the critical path, a line per edge."""
        for begin, end in pairwise(self.critical_path_nodes):
            edge, node = self.edges[begin, end]["object"], self.node_list[begin]
            place = f"{'start' if node.is_start else 'end'} of event {node.ev_idx} at {node.ts} us"
            print(f"{place}: {edge.type.value}, {edge.weight} us")  # noqa: T201  what the method is for

    def save(self, out_dir: str) -> str:
        """Write the graph into a folder, and that as ``out_dir.zip``; returns the path of the zip file."""
        return critical_path_files.save(self, out_dir)


def edge_table(edges: Collection[CPEdge]) -> pl.DataFrame:
    """Edges as rows of ``begin``, ``end``, ``type`` and ``weight``, in their order."""
    rows = [(edge.begin, edge.end, edge.type.value, edge.weight) for edge in edges]
    schema = {"begin": pl.Int64(), "end": pl.Int64(), "type": pl.String(), "weight": pl.Int64()}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _in_microseconds(edges: pl.DataFrame) -> pl.DataFrame:
    """Rows of a step's edges as those of ``edge_table``."""
    types = {kind: edge_type.value for kind, edge_type in _TYPES.items()}
    return edges.select(
        begin=pl.col("from_node").cast(pl.Int64),
        end=pl.col("to_node").cast(pl.Int64),
        type=pl.col("kind").replace_strict(types, return_dtype=pl.String),
        weight=pl.col("weight_ns") // 1000,
    )


def _to_edges(edges: pl.DataFrame) -> list[CPEdge]:
    """Rows of a step's edges, in microseconds."""
    rows = edges.select("from_node", "to_node", "kind", pl.col("weight_ns") // 1000).iter_rows()
    return [CPEdge(begin, end, _TYPES[kind], weight) for begin, end, kind, weight in rows]
