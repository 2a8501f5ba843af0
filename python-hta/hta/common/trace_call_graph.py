"""HTA's call graph: the call stacks of all threads, with what was launched below each event."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from hta.common.stack_columns import NOWHERE, Integers, StackColumns, stack_columns
from hta.common.stack_threads import BACKWARD, MAIN, Thread, continued, threads, where, with_continued
from hta.common.stack_walk import root_index
from hta.common.trace import Trace
from hta.common.trace_call_stack import CallStackGraph, CallStackIdentity, CallStackNode
from hta.common.trace_symbol_table import TraceSymbolTable

_COLUMNS = ["rank", "pid", "tid", "label", "stack_index", "stack_root", "count"]


@dataclass(frozen=True)
class _RankGraph:
    """What is known of one rank, by places in its frame."""

    threads: list[Thread]
    columns: StackColumns
    # Events of the backward thread that the main one called, and by which of its events.
    continued: Integers
    continues: Integers

    def root_of(self, thread: Thread) -> int:
        """The number of the node above all events of a thread; that of the main one if it called the backward one."""
        if thread.label == BACKWARD and len(self.continued):
            return root_index(next(other.tid for other in self.threads if other.label == MAIN))
        return root_index(thread.tid)


class CallGraph:
    """Who called whom on each thread of some ranks, and which kernels that launched.

    Adds to the frame of each rank: ``depth``, ``height`` (0 for kernels, 1 for events that call nothing but kernels, -1
    for ranges on the device), ``parent`` (the caller's ``index``; minus the thread's number for events that nothing
    called; the launch of a kernel) and, of the kernels that an event and all below it launched, ``num_kernels``,
    ``kernel_dur_sum``, ``kernel_span``, ``first_kernel_start``, ``last_kernel_end``. All are int64, in microseconds
    where they are times.

    If one thread has the training steps and one other the operators of autograd, its outermost events are called by the
    ``## backward ##`` range they run in, or where there is none by the step.

    Args:
        trace: Traces that were read.
        ranks: Ranks to look at, as far as they are there; by default all. ValueError if there is none.
    """

    def __init__(self, trace: Trace, ranks: list[int] | None = None) -> None:
        there = trace.get_ranks()
        chosen = there if not ranks else [rank for rank in ranks if rank in there]
        if not chosen:
            raise ValueError(f"No rank was found for the trace; there are ranks {there}.")
        self.trace_data = trace
        self.ranks = chosen
        self._graphs = {rank: _rank_graph(trace.get_trace(rank), trace.symbol_table) for rank in chosen}
        for rank, graph in self._graphs.items():
            _save(trace.get_trace(rank), graph)
        self.mapping = self._mapping()

    @staticmethod
    def from_dataframe(df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None, rank: int = -1) -> CallGraph:
        """The graph of one frame; without symbols its ``s_name`` and ``s_cat``, or ``name`` and ``cat``, are text."""
        trace = Trace({})
        trace.traces[rank] = df
        trace.symbol_table = symbol_table or TraceSymbolTable()
        return CallGraph(trace)

    def _mapping(self) -> pd.DataFrame:
        rows = [
            (rank, thread.pid, thread.tid, thread.label, graph.root_of(thread))
            for rank, graph in self._graphs.items()
            for thread in graph.threads
        ]
        table: pd.DataFrame = pd.DataFrame(rows, columns=["rank", "pid", "tid", "label", "stack_root"])
        # Stacks with the same root are counted.
        count = table.groupby(["rank", "stack_root"]).cumcount() + 1
        mapping: pd.DataFrame = table.assign(stack_index=np.arange(len(table)), count=count)[_COLUMNS]
        return mapping

    @cached_property
    def rank_to_stacks(self) -> dict[int, list[CallStackGraph]]:
        """The stacks of each rank; those of one rank share their nodes."""
        return {rank: self._stacks(rank, graph) for rank, graph in self._graphs.items()}

    def _stacks(self, rank: int, graph: _RankGraph) -> list[CallStackGraph]:
        frame = self.trace_data.get_trace(rank)
        index, columns = frame["index"].to_numpy(), graph.columns
        launched = np.flatnonzero((columns.height == 0) & (columns.caller != NOWHERE))
        pairs = pd.DataFrame({"cpu_index": index[columns.caller[launched]], "gpu_index": index[launched]})
        nodes: dict[int, CallStackNode] = {}
        stacks = [
            CallStackGraph(
                frame.iloc[thread.rows],
                CallStackIdentity(rank, thread.pid, thread.tid),
                pairs,
                frame,
                self.trace_data.symbol_table,
                nodes,
                save_call_stack_to_df=False,
            )
            for thread in graph.threads
        ]
        for stack, thread in zip(stacks, graph.threads, strict=True):
            if thread.label == BACKWARD:
                for caller in np.unique(graph.continues):
                    stack.adopt(index[graph.continued[graph.continues == caller]].tolist(), int(index[caller]))
        return stacks

    @cached_property
    def rank_to_nodes(self) -> dict[int, dict[int, CallStackNode]]:
        """The nodes of each rank, by ``index``."""
        return {rank: stacks[0].nodes if stacks else {} for rank, stacks in self.rank_to_stacks.items()}

    @property
    def call_stacks(self) -> list[CallStackGraph]:
        """The stacks of all ranks, in the order of ``mapping``."""
        return [stack for stacks in self.rank_to_stacks.values() for stack in stacks]

    def get_call_stacks(
        self, rank: int | None = None, pid: int | None = None, tid: int | None = None, stack_index: int | None = None
    ) -> Iterator[CallStackGraph]:
        """The stacks of this rank, process, thread and place in ``mapping``; each matters only if it is told."""
        for place, stack in enumerate(self.call_stacks):
            wanted = zip((rank, pid, tid, stack_index), (*stack.identity, place), strict=True)
            if all(asked is None or asked == has for asked, has in wanted):
                yield stack

    def get_node_attributes(self, index: int, rank: int | None = None) -> pd.Series:
        """The row of an event. ValueError if it is not there."""
        frame, row = self._row(index, rank)
        attributes: pd.Series = frame.iloc[row]
        return attributes

    def get_csg_of_node(self, index: int, rank: int | None = None) -> CallStackGraph:
        """The stack that an event is in, or the launch of a kernel. ValueError if it is in none."""
        chosen = self._rank_of(index, rank)
        _, row = self._row(index, chosen)
        graph = self._graphs[chosen]
        on_host = row if graph.columns.height[row] > 0 else graph.columns.caller[row]
        for thread, stack in zip(graph.threads, self.rank_to_stacks[chosen], strict=True):
            if on_host != NOWHERE and on_host in thread.rows:
                return stack
        raise ValueError(f"event {index} of rank {chosen} is in no call stack")

    def get_stack_of_node(self, index: int, rank: int | None = None, skip_ancestors: bool = False) -> pd.DataFrame:
        """The rows of an event, of all below it with the kernels, and of its callers; in order of time."""
        chosen = self._rank_of(index, rank)
        frame, row = self._row(index, chosen)
        caller = self._graphs[chosen].columns.caller
        is_chosen = np.zeros(len(frame), dtype=bool)
        below = np.array([row])
        while len(below):
            is_chosen[below] = True
            below = np.flatnonzero(is_chosen[caller] & (caller != NOWHERE) & ~is_chosen)
        above = row
        while not skip_ancestors and above != NOWHERE:
            is_chosen[above] = True
            above = caller[above]
        stack: pd.DataFrame = frame[is_chosen].sort_values(["ts", "depth"], kind="stable")
        return stack

    def get_gpu_kernels(self, rank: int | None = None) -> pd.DataFrame:
        """The rows that a rank launched on a device; by default of the first rank."""
        chosen = self.ranks[0] if rank is None else rank
        columns = self._graphs[chosen].columns
        kernels: pd.DataFrame = self.trace_data.get_trace(chosen)[(columns.height == 0) & (columns.caller != NOWHERE)]
        return kernels

    def _rank_of(self, index: int, rank: int | None) -> int:
        if rank is not None:
            return rank
        there = (r for r in self.ranks if (self.trace_data.get_trace(r)["index"].to_numpy() == index).any())
        return next(there, self.ranks[0])

    def _row(self, index: int, rank: int | None) -> tuple[pd.DataFrame, int]:
        chosen = self._rank_of(index, rank)
        if chosen not in self._graphs:
            raise ValueError(f"rank {chosen} is not in the graph; there are ranks {self.ranks}")
        frame = self.trace_data.get_trace(chosen)
        rows = np.flatnonzero(frame["index"].to_numpy() == index)
        if not len(rows):
            raise ValueError(f"event {index} is not in rank {chosen}; give the index of one of its rows")
        return frame, int(rows[0])


def _rank_graph(frame: pd.DataFrame, symbols: TraceSymbolTable) -> _RankGraph:
    # Triton's operators have a stream, ranges on the device have none.
    on_device = (frame["stream"].to_numpy() >= 0) & ~where(frame, symbols, "cat", "cpu_op".__eq__)
    on_host = ~on_device & ~where(frame, symbols, "cat", "gpu_user_annotation".__eq__)
    columns = stack_columns(frame, on_host, on_device)
    found = threads(frame, symbols, on_host)
    calls, callers = continued(frame, symbols, found, columns)
    if len(calls):
        backward = next(thread for thread in found if thread.label == BACKWARD)
        columns = with_continued(columns, backward, calls, callers)
    return _RankGraph(found, columns, calls, callers)


def _save(frame: pd.DataFrame, graph: _RankGraph) -> None:
    columns = graph.columns
    parent = np.where(columns.caller == NOWHERE, -1, frame["index"].to_numpy(dtype=np.int64)[columns.caller])
    for thread in graph.threads:
        outermost = thread.rows[columns.caller[thread.rows] == NOWHERE]
        parent[outermost] = root_index(thread.tid)
    frame["depth"] = columns.depth
    # Ranges on the device are in no stack.
    is_nowhere = (columns.depth < 0) & (frame["stream"].to_numpy() == -1)
    frame["height"] = np.where(is_nowhere, -1, columns.height)
    frame["parent"] = parent
    frame["num_kernels"] = columns.num_kernels
    frame["kernel_dur_sum"] = columns.kernel_dur_sum
    frame["kernel_span"] = np.where(columns.num_kernels > 0, columns.last_kernel_end - columns.first_kernel_start, 0)
    frame["first_kernel_start"] = columns.first_kernel_start
    frame["last_kernel_end"] = columns.last_kernel_end
