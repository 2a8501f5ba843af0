"""HTA's look at PyTorch's memory timeline: which kinds of tensors held how much memory, and when."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

import plotly.graph_objects as go

import holotrace
from hta import figures

_IMAGE = Path("images") / "memory_plot.png"


class Category(Enum):
    """What a tensor is for, as PyTorch's profiler numbers it."""

    INPUT = 1
    TEMPORARY = 2
    ACTIVATION = 3
    GRADIENT = 4
    AUTOGRAD_DETAIL = 5
    PARAMETER = 6
    OPTIMIZER_STATE = 7


class MemoryAnalysis:
    """A memory timeline, to be drawn.

    Args:
        path: What the profiler's ``export_memory_timeline`` wrote, in its raw form.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def _process_raw_events(self) -> tuple[list[int], list[list[int]]]:
        """Times of changes in ns, and for each the bytes held by category; in HTA others call this too."""
        table = holotrace.memory_timeline(self.path)
        return table["time_ns"].to_list(), [list(row) for row in table.drop("time_ns").iter_rows()]

    def plot_memory_timeline(self, save_graph: bool = False) -> None:
        """Draw the memory that each category held over time, or save that as images/memory_plot.png here."""
        figure: go.Figure = figures.memory_timeline(holotrace.memory_timeline(self.path))
        if save_graph:
            _IMAGE.parent.mkdir(parents=True, exist_ok=True)
            figure.write_image(_IMAGE)
        else:
            figure.show()
