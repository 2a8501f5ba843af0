"""Ways through the nodes of a call stack."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar

NON_EXISTENT_NODE_INDEX = -2
NULL_NODE_INDEX = -1


class Node(Protocol):
    """A place in the tree: who called, and what was called, in order of time."""

    @property
    def parent(self) -> int: ...
    @property
    def children(self) -> list[int]: ...


def root_index(tid: Any) -> int:
    """The number of the node above all events of a thread: minus that of the thread, -1 where it has none."""
    try:
        number = -abs(int(tid))
    except ValueError:
        return NULL_NODE_INDEX
    # Frames hold it in 64 bits, with the numbers of events.
    return number if -(2**63) < number < 0 else NULL_NODE_INDEX


N = TypeVar("N", bound=Node)


class StackWalk(Generic[N]):
    """A tree of nodes by the ``index`` of their events, below ``root_index``, which is no event."""

    nodes: Mapping[int, N]
    root_index: int

    def get_nodes(self) -> Mapping[int, N]:
        """All nodes, by ``index``, with the root."""
        return self.nodes

    def get_parent(self, idx: int) -> int:
        """The caller of an event; -2 if it is not there."""
        return self.nodes[idx].parent if idx in self.nodes else NON_EXISTENT_NODE_INDEX

    def get_children(self, idx: int) -> list[int]:
        """What an event called, in order of time; nothing if it is not there."""
        return self.nodes[idx].children if idx in self.nodes else []

    def get_path_to_root(self, idx: int) -> list[int]:
        """An event, its caller, and so on up to the root; nothing if it is not there."""
        path: list[int] = []
        while idx in self.nodes:
            path.append(idx)
            above = self.nodes[idx].parent
            # The root of HTA's older graphs is its own parent.
            if above == idx:
                break
            idx = above
        return path

    def dfs_traverse(self, enter_func: Callable[[int, N], None], exit_func: Callable[[int, N], None]) -> None:
        """Call ``enter_func`` with each event before those that it called, and ``exit_func`` after them."""
        for idx, is_entered in self.visits(self.root_index):
            if idx != self.root_index:
                (enter_func if is_entered else exit_func)(idx, self.nodes[idx])

    def visits(self, idx: int) -> Iterator[tuple[int, bool]]:
        """An event and all below it, each on the way down (True) and on the way up (False)."""
        waiting = [(idx, True)] if idx in self.nodes else []
        while waiting:
            visit = waiting.pop()
            yield visit
            idx, is_entered = visit
            if is_entered:
                waiting.append((idx, False))
                waiting += [(child, True) for child in reversed(self.nodes[idx].children)]

    def below(self, idx: int, is_counted: Callable[[int], bool]) -> Iterator[tuple[int, bool]]:
        """An event and the counted ones below it, in order of time, each with whether it is a leaf."""
        for below, is_entered in self.visits(idx):
            if is_entered and (below == idx or is_counted(below)):
                yield below, not any(is_counted(child) for child in self.nodes[below].children)
