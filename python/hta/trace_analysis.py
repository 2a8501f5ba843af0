"""The entry point of HTA's interface: a job's traces, and a method per question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from hta.analyzers.breakdown_analysis import BreakdownAnalysis
from hta.analyzers.communication_analysis import CommunicationAnalysis
from hta.common.constants import DEFAULT_TRACE_DIR
from hta.common.trace import Trace


class TraceAnalysis:
    """The traces of a job, as ``t``, and questions to them; times are in microseconds.

    Args:
        trace_files: A dict of rank to file, or files whose ranks are found out; by default those in ``trace_dir``.
        trace_dir: The folder that relative paths are in.
        include_last_profiler_step: Keep the last training step, which a recording often cuts off.
    """

    def __init__(
        self,
        trace_files: Mapping[int, str] | Sequence[str] | None = None,
        trace_dir: str = DEFAULT_TRACE_DIR,
        include_last_profiler_step: bool | None = False,
    ) -> None:
        self.t = Trace(trace_files, trace_dir)
        self.t.load_traces(include_last_profiler_step)

    def get_temporal_breakdown(self, visualize: bool = True) -> pd.DataFrame:
        """How long each rank's device was idle, computed, or did only something else: time and percent."""
        return BreakdownAnalysis.get_temporal_breakdown(self.t, visualize)

    def get_comm_comp_overlap(self, visualize: bool = True) -> pd.DataFrame:
        """What percentage of each rank's communication ran while the rank computed; NaN without communication."""
        return CommunicationAnalysis.get_comm_comp_overlap(self.t, visualize)

    def get_gpu_kernel_breakdown(
        self,
        visualize: bool = True,
        duration_ratio: float = 0.8,
        num_kernels: int = 10,
        include_memory_kernels: bool = True,
        image_renderer: str = "",
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Time by the kernel types that ran together, over all ranks; and by kernel name, type and rank.

        Args:
            visualize: Show both as pies, and the mean of each kernel by rank.
            duration_ratio: Of a type with more than ``num_kernels`` names, those that together exceed this quantile of
                the running sum of times are folded into "others".
            num_kernels: Names of a rank and type beyond so many are folded too.
            include_memory_kernels: Look at copies and fills as well.
            image_renderer: How plotly shows the figures, e.g. "notebook"; its default if empty.
        """
        return BreakdownAnalysis.get_gpu_kernel_breakdown(
            self.t, visualize, duration_ratio, num_kernels, include_memory_kernels, image_renderer
        )

    def get_profiler_steps(self) -> list[int]:
        """Training steps of all ranks, as far as they were kept."""
        return sorted({step for rank in self.t.get_ranks() for step in self.t.get_iterations(rank)})
