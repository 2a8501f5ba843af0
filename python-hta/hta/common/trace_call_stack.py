"""HTA's call stack of a thread, with heights and launched kernels: a view on holotrace's calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd

from hta.common.stack_columns import NOWHERE, in_order, of_thread, stack_columns
from hta.common.stack_walk import NON_EXISTENT_NODE_INDEX, NULL_NODE_INDEX, StackWalk, root_index
from hta.common.trace_symbol_table import TraceSymbolTable
from hta.common.types import DeviceType

__all__ = [
    "NON_EXISTENT_NODE_INDEX",
    "NULL_NODE_INDEX",
    "CallStackGraph",
    "CallStackIdentity",
    "CallStackNode",
]

_INT16 = np.iinfo(np.int16).max


class CallStackIdentity(NamedTuple):
    """Which thread a stack is of."""

    rank: int = -1
    pid: int = -1
    tid: int = -1


@dataclass
class CallStackNode:
    """An event's place: its caller, the callers around it, the levels below it and what it called."""

    parent: int = NULL_NODE_INDEX
    depth: int = -1
    height: int = -1
    device: DeviceType = DeviceType.CPU
    children: list[int] = field(default_factory=list)


class CallStackGraph(StackWalk[CallStackNode]):
    """The calls of one thread below a root, whose number is minus that of the thread, and the kernels they launched.

    Args:
        df: Rows of the thread.
        identity: Which thread.
        cpu_gpu_correlation: ``cpu_index`` of launches and ``gpu_index`` of what they launched.
        full_df: All rows of the rank; gets the columns ``depth``, ``height`` and ``parent``.
        symbol_table: Names of the rank.
        nodes: Where to put the nodes, for stacks of one rank that share them.
        use_existing_stack_columns: Accepted and without effect: callers are always told by times.
        save_call_stack_to_df: Write the columns.
    """

    def __init__(  # noqa: PLR0917  HTA's signature
        self,
        df: pd.DataFrame,
        identity: CallStackIdentity,
        cpu_gpu_correlation: pd.DataFrame,
        full_df: pd.DataFrame,
        symbol_table: TraceSymbolTable,
        nodes: dict[int, CallStackNode] | None = None,
        use_existing_stack_columns: bool = True,
        save_call_stack_to_df: bool = True,
    ) -> None:
        self.df = df
        self.identity = identity
        self.full_df = full_df
        self.symbol_table = symbol_table
        self.root_index = root_index(identity.tid)
        self.nodes: dict[int, CallStackNode] = {} if nodes is None else nodes
        self._add_calls()
        self._add_kernels(cpu_gpu_correlation)
        if save_call_stack_to_df:
            self.save_call_stack_to_dataframe()

    def _add_calls(self) -> None:
        everything = np.ones(len(self.df), dtype=bool)
        rows = of_thread(self.df, self.identity.pid, self.identity.tid)
        columns = stack_columns(rows, everything, ~everything)
        order = in_order(self.df)
        index = self.df["index"].to_numpy()
        parent = np.where(columns.caller == NOWHERE, self.root_index, index[columns.caller])[order]
        height = int(columns.height.max(initial=0)) + 1
        # Threads of several processes may have one number.
        root = self.nodes.setdefault(self.root_index, CallStackNode())
        root.height = max(root.height, height)
        places = (index[order], parent, columns.depth[order], columns.height[order])
        for idx, caller, depth, levels in zip(*(values.tolist() for values in places), strict=True):
            self.nodes[idx] = CallStackNode(caller, depth, levels)
            self.nodes[caller].children.append(idx)

    def _add_kernels(self, correlation: pd.DataFrame) -> None:
        here = correlation[correlation["cpu_index"].isin(self.df["index"])]
        for launch, kernel in here[["cpu_index", "gpu_index"]].to_numpy(dtype=np.int64).tolist():
            if kernel not in self.nodes:
                self.nodes[kernel] = CallStackNode(launch, self.nodes[launch].depth + 1, 0, DeviceType.GPU)
                self.nodes[launch].children.append(kernel)

    def save_call_stack_to_dataframe(self, apply_whole_graph: bool = False) -> None:
        """Write ``depth``, ``height`` and ``parent`` of this stack's events, or of all nodes, to the rank's frame."""
        below = (idx for idx, _ in self.below(self.root_index, lambda idx: True))
        chosen = [idx for idx in (self.nodes if apply_whole_graph else below) if idx >= 0]
        rows = pd.Index(self.full_df["index"]).get_indexer(pd.Index(chosen, dtype=np.int64))
        there = rows != NOWHERE
        for column in ("depth", "height", "parent"):
            values = np.array([getattr(self.nodes[idx], column) for idx in chosen], dtype=np.int64)
            known = self.full_df[column] if column in self.full_df else pd.Series(-1, self.full_df.index)
            whole = known.to_numpy(dtype=np.int64, copy=True, na_value=-1)
            whole[rows[there]] = values[there]
            self.full_df[column] = whole

    def update_parent_of_first_layer_nodes(self, new_parent_index: int) -> None:
        """Let an event of another stack, which shares its nodes with this one, call what nothing called here.

        ValueError if that event is in no stack.
        """
        if new_parent_index not in self.nodes:
            raise ValueError(f"event {new_parent_index} is in no call stack; give one of get_nodes()")
        self.adopt(self.nodes[self.root_index].children, new_parent_index)

    def adopt(self, children: Iterable[int], new_parent_index: int) -> None:
        """Let an event of another stack call these events, which nothing called; a root without events goes."""
        children, parent = list(children), self.nodes[new_parent_index]
        deeper = parent.depth + 1
        for child in children:
            for below, is_entered in self.visits(child):
                if is_entered:
                    self.nodes[below].depth += deeper
            self.nodes[child].parent = new_parent_index
        adopted = set(children)
        root = self.nodes[self.root_index]
        root.children = [child for child in root.children if child not in adopted]
        parent.children += children
        for above in self.get_path_to_root(new_parent_index):
            below_it = (self.nodes[child].height for child in self.nodes[above].children)
            self.nodes[above].height = 1 + max(below_it)
        if not root.children:
            del self.nodes[self.root_index]
            self.root_index = self.get_root(new_parent_index)

    def get_root(self, idx: int) -> int:
        """The root above an event; -1 if it is not there."""
        path = self.get_path_to_root(idx)
        return path[-1] if path else NULL_NODE_INDEX

    def get_leaf_nodes(self, idx: int, include_gpu_kernel: bool = False) -> list[int]:
        """The events below an event that called nothing, in order of time; kernels count if asked for."""
        return [below for below, is_leaf in self.below(idx, self._counted(include_gpu_kernel)) if is_leaf]

    def get_paths_to_leaves(self, idx: int, include_cuda_kernel: bool = False) -> list[list[int]]:
        """The way from an event to each event below it that called nothing; kernels count if asked for."""
        paths = []
        for leaf in self.get_leaf_nodes(idx, include_cuda_kernel):
            way = self.get_path_to_root(leaf)
            paths.append(way[: way.index(idx) + 1][::-1])
        return paths

    def get_descendants(self, idx: int, include_gpu_kernel: bool = False) -> list[int]:
        """All events below an event, in order of time; kernels count if asked for."""
        return [below for below, _ in self.below(idx, self._counted(include_gpu_kernel)) if below != idx]

    def _counted(self, with_kernels: bool) -> Callable[[int], bool]:
        return lambda idx: with_kernels or self.nodes[idx].device is not DeviceType.GPU

    def get_dataframe(self) -> pd.DataFrame:
        """The rows of the thread."""
        return self.df

    def get_depth(self) -> pd.Series:
        """How many callers are around each event of this stack, by ``index``."""
        below = [idx for idx, _ in self.below(self.root_index, lambda idx: True) if idx >= 0]
        depth = [self.nodes[idx].depth for idx in below]
        narrow = max(depth, default=0) <= _INT16
        return pd.Series(depth, below, dtype=pd.Int16Dtype() if narrow else pd.Int64Dtype(), name="depth")
