"""HTA's older call stacks, without heights and kernels: a view on holotrace's calls."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import pandas as pd

from hta.common.stack_columns import NOWHERE, Integers, in_order, of_thread, stack_columns
from hta.common.stack_walk import NON_EXISTENT_NODE_INDEX, NULL_NODE_INDEX, StackWalk
from hta.common.trace_filter import Filter
from hta.common.types import DeviceType

__all__ = [
    "NON_EXISTENT_NODE_INDEX",
    "NULL_NODE_INDEX",
    "CallGraph",
    "CallStackGraph",
    "CallStackIdentity",
    "CallStackNode",
    "DeviceType",
    "infer_device_type",
]


class CallStackIdentity(NamedTuple):
    """Which thread a stack is of."""

    rank: int = -1
    pid: int = -1
    tid: int = -1


class CallStackNode(NamedTuple):
    """An event's place: its caller, the callers around it, and what it called."""

    parent: int = NULL_NODE_INDEX
    depth: int = -1
    children: list[int] = []  # noqa: RUF012  HTA's default; every node here is given a list of its own


def infer_device_type(df: pd.DataFrame) -> DeviceType:
    """Where the rows of a thread ran; UNKNOWN where some did on the host and some on a device."""
    on_device = df["stream"].to_numpy() >= 0
    if not len(on_device) or (on_device.any() and not on_device.all()):
        return DeviceType.UNKNOWN
    return DeviceType.GPU if on_device[0] else DeviceType.CPU


class CallStackGraph(StackWalk[CallStackNode]):
    """The calls of one thread, below a root of number -1; a queue of a device has none.

    Args:
        df: Rows of the thread.
        identity: Which thread.
        filter_func: Rows to look at; by default all.
    """

    root_index = NULL_NODE_INDEX

    def __init__(self, df: pd.DataFrame, identity: CallStackIdentity, filter_func: Filter | None = None) -> None:
        self.df = df
        self.identity = identity
        self.filter_func = filter_func
        self.device_type = infer_device_type(df)
        self.nodes: dict[int, CallStackNode] = {NULL_NODE_INDEX: CallStackNode(children=[])}
        rows = df if filter_func is None else filter_func(df)
        self._add(rows[rows["stream"] < 0])

    def _add(self, rows: pd.DataFrame) -> None:
        everything = np.ones(len(rows), dtype=bool)
        columns = stack_columns(of_thread(rows, self.identity.pid, self.identity.tid), everything, ~everything)
        order = in_order(rows)
        index = rows["index"].to_numpy()
        parent = np.where(columns.caller == NOWHERE, NULL_NODE_INDEX, index[columns.caller])[order]
        for idx, caller, depth in zip(
            index[order].tolist(), parent.tolist(), columns.depth[order].tolist(), strict=True
        ):
            self.nodes[idx] = CallStackNode(caller, depth, [])
            self.nodes[caller].children.append(idx)

    def get_leaf_nodes(self, idx: int) -> list[int]:
        """The events below an event that called nothing, in order of time; itself if it called nothing."""
        return [below for below, is_leaf in self.below(idx, lambda _: True) if is_leaf]

    def get_paths_to_leaves(self, idx: int) -> list[list[int]]:
        """The way from an event to each event below it that called nothing."""
        ways = [self.get_path_to_root(leaf) for leaf in self.get_leaf_nodes(idx)]
        return [way[: way.index(idx) + 1][::-1] for way in ways]

    def get_dataframe(self) -> pd.DataFrame:
        """The rows of the thread."""
        return self.df

    def get_depth(self) -> pd.Series | None:
        """How many callers are around each event, by ``index``; None for a queue of a device."""
        if self.device_type is DeviceType.GPU:
            return None
        depths = {idx: node.depth for idx, node in self.nodes.items() if idx >= 0}
        depth: pd.Series = pd.Series(depths, name="depth", dtype="int64")
        return depth


class Frames(Protocol):
    """What has the frames of some ranks; a ``Trace``."""

    def get_all_traces(self) -> Mapping[int, pd.DataFrame]:
        """The frame of each rank."""

    def get_trace(self, rank: int) -> pd.DataFrame:
        """The frame of a rank."""


class CallGraph:
    """The call stacks of all threads of some ranks: ``call_stacks``, and ``mapping`` from thread to its place in it.

    Adds to the frame of each rank ``depth``, -1 for device rows, and ``parent``: the ``index`` of the caller, -1 for
    events that nothing called, and ``index_correlation`` for device rows.

    Args:
        trace: Traces that were read.
        ranks: Ranks to look at; by default all.
        filter_func: Rows to look at; by default all.
        remapped_tids: By rank: threads whose events count as those of another thread.
        pre_process_trace_data: Let Python functions end no later than their callers, in the frames of the ranks.
    """

    def __init__(
        self,
        trace: Frames,
        ranks: list[int] | None = None,
        filter_func: Filter | None = None,
        remapped_tids: Mapping[int, Mapping[int, int]] | None = None,
        pre_process_trace_data: bool = False,
    ) -> None:
        self.trace_data = trace
        self.filter_func = filter_func
        # Each thread and the places of its rows.
        self._threads: list[tuple[CallStackIdentity, Integers]] = []
        for rank in ranks or list(trace.get_all_traces()):
            frame = trace.get_trace(rank)
            if pre_process_trace_data:
                self.constrain_child_time_withinin_parent(frame)
            remapped = frame.assign(tid=frame["tid"].replace(dict((remapped_tids or {}).get(rank, {}))))
            threads = remapped.groupby(["pid", "tid"], sort=False).indices
            self._threads += [(CallStackIdentity(rank, pid, tid), rows) for (pid, tid), rows in threads.items()]
            _save(frame, remapped if filter_func is None else filter_func(remapped))
        keys = [identity for identity, _ in self._threads]
        index = pd.MultiIndex.from_frame(pd.DataFrame(keys, columns=CallStackIdentity._fields))
        self.mapping = pd.DataFrame({"csg_index": np.arange(len(keys))}, index=index)

    @cached_property
    def call_stacks(self) -> list[CallStackGraph]:
        """The stack of each thread and queue."""
        stacks = []
        for identity, rows in self._threads:
            own = self.trace_data.get_trace(identity.rank).iloc[rows].assign(tid=identity.tid)
            stacks.append(CallStackGraph(own, identity, self.filter_func))
        return stacks

    def get_stack_of_node(self, node_id: int, rank: int, skip_ancestors: bool = False) -> pd.DataFrame:
        """The rows on the ways from an event to what called nothing below it, the kernels these launched, its callers.

        For a device row those of its launch. ValueError if the event is in no stack.
        """
        frame = self.trace_data.get_trace(rank)
        here = frame["index"].to_numpy() == node_id
        launch = frame["index_correlation"].to_numpy()[here & (frame["stream"].to_numpy() >= 0)]
        idx = int(launch[0]) if len(launch) else node_id
        stack = next((s for s in self.call_stacks if s.identity.rank == rank and idx in s.nodes and idx >= 0), None)
        if stack is None:
            raise ValueError(f"event {node_id} of rank {rank} is in no call stack")
        leaves = stack.get_leaf_nodes(idx)
        above = [] if skip_ancestors else stack.get_path_to_root(idx)[1:]
        below = [on_way for on_way, _ in stack.below(idx, lambda _: True)]
        is_launched = (frame["stream"] >= 0) & frame["index_correlation"].isin(leaves)
        rows: pd.DataFrame = frame[frame["index"].isin([*above, *below]) | is_launched].sort_values("ts", kind="stable")
        return rows

    def constrain_child_time_withinin_parent(self, df: pd.DataFrame) -> None:
        """Let Python functions of the frame end no later than those that called them, on the same thread."""
        rows = df[df["python_id"] >= 0].drop_duplicates("python_id") if "python_id" in df else df.iloc[:0]
        if rows.empty:
            return
        caller = pd.Index(rows["python_id"]).get_indexer(pd.Index(rows["python_parent_id"]))
        tid, start = rows["tid"].to_numpy(), rows["ts"].to_numpy()
        called = np.flatnonzero((caller != NOWHERE) & (tid == tid[caller]))
        end = start + rows["dur"].to_numpy()
        before = None
        while before is None or (end != before).any():
            before = end.copy()
            end[called] = np.minimum(end[called], end[caller[called]])
        df.loc[rows.index, "dur"] = np.maximum(end - start, 0)
        if "end" in df:
            df.loc[rows.index, "end"] = np.maximum(end, start)


def _save(frame: pd.DataFrame, rows: pd.DataFrame) -> None:
    on_host = rows["stream"].to_numpy() < 0
    columns = stack_columns(rows, on_host, np.zeros_like(on_host))
    index = rows["index"].to_numpy(dtype=np.int64)
    place = pd.Index(frame["index"]).get_indexer(pd.Index(index[on_host]))
    depth = np.full(len(frame), -1, dtype=np.int64)
    depth[place] = columns.depth[on_host]
    parent = np.where(frame["stream"] >= 0, frame["index_correlation"], NULL_NODE_INDEX).astype(np.int64)
    parent[place] = np.where(columns.caller == NOWHERE, NULL_NODE_INDEX, index[columns.caller])[on_host]
    frame["depth"] = depth
    frame["parent"] = parent
