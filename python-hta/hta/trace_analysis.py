"""The entry point of HTA's interface: a job's traces, and a method per question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from hta.analyzers.breakdown_analysis import BreakdownAnalysis
from hta.analyzers.communication_analysis import CommunicationAnalysis
from hta.analyzers.counter_overlay import DEFAULT_SUFFIX, TimeSeriesTypes, generate_trace_with_counters
from hta.analyzers.cuda_kernel_analysis import CudaKernelAnalysis
from hta.analyzers.cupti_counter_analysis import CuptiCounterAnalysis
from hta.analyzers.idle_time import idle_time_breakdown
from hta.analyzers.straggler import find_stragglers_with_late_start_comm_kernels
from hta.analyzers.straggler_analysis import StragglerAnalysis
from hta.analyzers.trace_counters import TraceCounters
from hta.common.constants import CUDA_MAX_LAUNCH_QUEUE_PER_STREAM, DEFAULT_TRACE_DIR
from hta.common.trace import Trace

if TYPE_CHECKING:
    from hta.analyzers.critical_path_graph import CPGraph

__all__ = ["CUDA_MAX_LAUNCH_QUEUE_PER_STREAM", "TimeSeriesTypes", "TraceAnalysis"]


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

    def get_idle_time_breakdown(  # noqa: PLR0917  HTA's signature
        self,
        ranks: Sequence[int] | None = None,
        streams: Sequence[int] | None = None,
        visualize: bool = True,
        visualize_pctg: bool = True,
        show_idle_interval_stats: bool = False,
        consecutive_kernel_delay: int = 30,
    ) -> tuple[pd.DataFrame, pd.DataFrame | None]:
        """How long each stream had nothing to do, by cause; and what describes the gaps, if asked for.

        A stream waited for the host where work was launched after all earlier work had ended. Work that was launched in
        time and follows within the delay was held up by kernels; the rest has other causes.

        Args:
            ranks: Ranks to look at; rank 0 by default.
            streams: Streams to look at; all by default.
            visualize: Show a bar per stream; streams are then text in the first table, as in HTA.
            visualize_pctg: Show shares instead of times.
            show_idle_interval_stats: Return the second table as well.
            consecutive_kernel_delay: Microseconds from which on a gap is no pause between kernels.
        """
        return idle_time_breakdown(
            self.t, ranks, streams, visualize, visualize_pctg, show_idle_interval_stats, consecutive_kernel_delay
        )

    def get_cuda_kernel_launch_stats(
        self,
        ranks: Sequence[int] | None = None,
        runtime_cutoff: int = 50,
        launch_delay_cutoff: int = 100,
        include_memory_events: bool = True,
        visualize: bool = True,
    ) -> dict[int, pd.DataFrame]:
        """Each launch: how long call and work took, and how long after the call the work began; by rank.

        Args:
            ranks: Ranks to look at; rank 0 by default.
            runtime_cutoff: Microseconds from which on the plots show a call as an outlier.
            launch_delay_cutoff: Microseconds from which on the plots show a delay as an outlier.
            include_memory_events: Look at copies and fills as well.
            visualize: Show histograms of short kernels and of outliers.
        """
        return CudaKernelAnalysis.cuda_kernel_launch_stats(
            self.t, ranks, runtime_cutoff, launch_delay_cutoff, include_memory_events, visualize
        )

    def get_aten_op_kernels_and_delay(
        self, ranks: Sequence[int] | None = None, sort_by: Sequence[str] | None = None
    ) -> dict[int, pd.DataFrame]:
        """Each sequence of kernels that an ``aten::`` operator launches: how often, and how late it begins; by rank.

        ``avg_aten_op_launch_delay`` is the time from the start of the operator to its first launch,
        ``avg_runtime_delay`` that from there to the start of the first kernel.

        Args:
            ranks: Ranks to look at; rank 0 by default.
            sort_by: Columns to sort by, largest first; ``occurrence_count`` by default.
        """
        return CudaKernelAnalysis.get_aten_op_kernels_and_delay(self.t, ranks, sort_by)

    def get_frequent_cuda_kernel_sequences(  # noqa: PLR0917  HTA's signature
        self,
        operator_name: str,
        output_dir: str,
        min_pattern_len: int = 3,
        rank: int = 0,
        top_k: int = 5,
        visualize: bool = False,
        compress_other_kernels: bool = True,
    ) -> pd.DataFrame:
        """Sequences of kernels that recur under an operator with all that it calls, the most frequent first.

        Writes ``overlaid_<name of the trace>`` into ``output_dir``: a copy of the trace in which the events of the most
        frequent sequences have an arg ``Patterns``.

        Args:
            operator_name: Calls whose name contains this; of those within others only the least deep ones count.
            output_dir: A folder that is there.
            min_pattern_len: Fewest kernels of a sequence.
            rank: Which rank.
            top_k: So many sequences are shown in the copy and the plot.
            visualize: Show how often each was launched.
            compress_other_kernels: Of all other events of the copy, take the args away and write a number in the place
                of the name; the profiler's own event says which is which.
        """
        return CudaKernelAnalysis.get_frequent_cuda_kernel_sequences(
            self.t, operator_name, output_dir, min_pattern_len, rank, top_k, visualize, compress_other_kernels
        )

    # The name that HTA's README calls it by.
    get_frequent_cuda_kernel_patterns = get_frequent_cuda_kernel_sequences

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

    def get_queue_length_time_series(self, ranks: Sequence[int] | None = None) -> dict[int, pd.DataFrame]:
        """The length of each stream's queue after every change; by rank, of rank 0 by default."""
        return TraceCounters.get_queue_length_time_series(self.t, ranks)

    # The spelling of HTA's tutorial.
    get_queue_length_series = get_queue_length_time_series

    def get_queue_length_summary(self, ranks: Sequence[int] | None = None) -> pd.DataFrame | None:
        """What describes the queue length of each rank and stream; of rank 0 by default; None without launches."""
        return TraceCounters.get_queue_length_summary(self.t, ranks)

    def get_queue_length_summary_from_time_series(
        self, queue_length_dict: Mapping[int, pd.DataFrame]
    ) -> pd.DataFrame | None:
        """What describes series that ``get_queue_length_time_series`` returned; None without any."""
        return TraceCounters.get_queue_length_summary_from_time_series(queue_length_dict)

    def get_time_spent_blocked_on_full_queue(
        self, queue_length_dict: Mapping[int, pd.DataFrame], max_queue_length: int = CUDA_MAX_LAUNCH_QUEUE_PER_STREAM
    ) -> pd.DataFrame:
        """How long the queue of each rank and stream was full, as far as it ever was, in time and as a share."""
        return TraceCounters.get_time_spent_blocked_on_full_queue(self.t, queue_length_dict, max_queue_length)

    def get_memory_bw_time_series(self, ranks: Sequence[int] | None = None) -> dict[int, pd.DataFrame]:
        """The bandwidth of each kind of copy after every start and end of one; by rank, of rank 0 by default."""
        return TraceCounters.get_memory_bw_time_series(self.t, ranks)

    def generate_trace_with_counters(
        self,
        time_series: TimeSeriesTypes | None = None,
        ranks: Sequence[int] | None = None,
        output_suffix: str = DEFAULT_SUFFIX,
    ) -> None:
        """Write queue lengths and bandwidths, as counters to look at in Perfetto, into a copy next to each trace.

        Args:
            time_series: Which of the two; both by default.
            ranks: Ranks to write; rank 0 by default.
            output_suffix: What the name of a copy has more than that of its trace, before ``.json``.
        """
        generate_trace_with_counters(self.t, time_series, ranks, output_suffix)

    def get_memory_bw_summary(self, ranks: Sequence[int] | None = None) -> pd.DataFrame | None:
        """What describes the bandwidth of each rank and kind of copy; of rank 0 by default; None without copies."""
        return TraceCounters.get_memory_bw_summary(self.t, ranks)

    def get_gpu_kernels_with_user_annotations(
        self, rank: int, expand_names: bool = True, shorten_names: bool = True
    ) -> pd.DataFrame | None:
        """A rank's device rows, each with the named range it runs in, as ``user_annotation``; -1 outside of all.

        Of several ranges of the same queue that run at the same time, the shortest. None where there are no ranges on
        the device.

        Args:
            rank: Which rank.
            expand_names: Add the strings of names, categories and ranges: ``s_name``, ``s_cat``, ``s_user_annotation``.
            shorten_names: Without template arguments and parameters.
        """
        return BreakdownAnalysis.get_gpu_kernels_with_user_annotations(self.t, rank, expand_names, shorten_names)

    def get_gpu_user_annotation_breakdown(  # noqa: PLR0917  HTA's signature
        self,
        use_gpu_annotation: bool = True,
        visualize: bool = True,
        duration_ratio: float = 0.8,
        num_kernels: int = 1000,
        allowlist_patterns: list[str] | None = None,
        image_renderer: str | None = None,
    ) -> pd.DataFrame | None:
        """Time of each named range by rank; None where there are none.

        Args:
            use_gpu_annotation: Ranges as the profiler drew them on the device; else those of the host.
            visualize: Show them as pies, and the mean of each range by rank.
            duration_ratio: Of more than ``num_kernels`` names, those that together exceed this quantile of the running
                sum of times are folded into "others".
            num_kernels: Names of a rank beyond so many are folded too.
            allowlist_patterns: Names that contain one of these are never folded.
            image_renderer: How plotly shows the figures, e.g. "notebook"; its default if left out.
        """
        return BreakdownAnalysis.get_gpu_user_annotation_breakdown(
            self.t, use_gpu_annotation, visualize, duration_ratio, num_kernels, allowlist_patterns, image_renderer
        )

    def get_cupti_counter_data_with_operators(self, ranks: Sequence[int] | None = None) -> list[pd.DataFrame]:
        """For each rank the kernels that hardware counters were read for, with the operators that launched them.

        Columns are those of the trace, with names as text and one per counter, and ``index_runtime``, the row of the
        launch; ``op_stack``, the operators around it from the outermost on; ``top_level_op`` and ``bottom_level_op``.
        Ranks are left out where there is not one launch for each kernel.

        Args:
            ranks: Ranks to look at; rank 0 by default.
        """
        return CuptiCounterAnalysis.get_counter_data_with_operators(self.t, ranks)

    def get_profiler_steps(self) -> list[int]:
        """Training steps of all ranks, as far as they were kept."""
        return StragglerAnalysis.get_profiler_steps(self.t)

    def get_potential_stragglers(
        self,
        profiler_steps: list[int] | None = None,
        num_candidates: int = 2,
        visualize: bool = False,
        straggler_identification_impl: Callable[..., pd.Series] = find_stragglers_with_late_start_comm_kernels,
    ) -> list[int]:
        """The ranks that are most likely to hold the others up, most likely first; none where nothing tells.

        Args:
            profiler_steps: Training steps to look at; all by default.
            num_candidates: So many ranks at most, one at least.
            visualize: Show when each rank started the kernel that decides.
            straggler_identification_impl: What decides: gets the rows of all ranks, the symbol table, the number of
                candidates and ``visualize``, and returns a score by rank, the largest for the worst.
        """
        return StragglerAnalysis.get_potential_stragglers(
            self.t, profiler_steps, num_candidates, visualize, straggler_identification_impl
        )

    def critical_path_analysis(
        self,
        rank: int,
        annotation: str,
        instance_id: int | tuple[int, int] | None,
        data_load_events: list[str] | None = None,
    ) -> tuple[CPGraph, bool] | None:
        """The graph of what waited for what in a part of a rank's trace, and whether it has a critical path.

        None where no event has such a name, or not as often. The graph is a networkx graph; see ``summary`` and
        ``get_critical_path_breakdown`` of it for what bounds the path.

        Args:
            rank: Which rank.
            annotation: What names of events contain that span the part, e.g. "ProfilerStep"; all of the trace if empty.
            instance_id: Which of these events, from 0, or a pair of the first and last of them; the first by default.
            data_load_events: What names of events that load data contain.
        """
        from hta.analyzers.critical_path_analysis import CriticalPathAnalysis  # noqa: PLC0415  # imports networkx

        return CriticalPathAnalysis.critical_path_analysis(self.t, rank, annotation, instance_id, data_load_events)

    def overlay_critical_path_analysis(
        self,
        rank: int,
        critical_path_graph: CPGraph,
        output_dir: str,
        only_show_critical_events: bool = True,
        show_all_edges: bool = False,
    ) -> str:
        """Write a copy of a rank's trace that shows its critical path; returns its path, "" where it cannot be.

        Args:
            rank: Which rank.
            critical_path_graph: What ``critical_path_analysis`` returned.
            output_dir: The folder to write to; it is made where it is not there.
            only_show_critical_events: Leave out other events, but for named ranges and Python functions.
            show_all_edges: Draw arrows for all edges, where all events are shown.
        """
        from hta.analyzers.critical_path_analysis import CriticalPathAnalysis  # noqa: PLC0415  # imports networkx

        return CriticalPathAnalysis.overlay_critical_path_analysis(
            self.t, rank, critical_path_graph, output_dir, only_show_critical_events, show_all_edges
        )
