"""How work gets from the host to the device."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

import pandas as pd
import polars as pl

from hta._bridge import figures, frame_tables, frames
from hta._bridge.job import asked, job_of
from hta._bridge.sequences import frequent_kernel_sequences
from hta.common.trace import Trace
from hta.common.trace_symbol_table import TraceSymbolTable

# Calls whose every row on a stream counts, whatever its category; of other calls only kernels, copies and fills do.
_LAUNCHES = frozenset(
    {
        "cudaLaunchKernel",
        "cudaLaunchKernelExC",
        "cudaMemcpyAsync",
        "cudaMemsetAsync",
        "runFunction - job_prep_and_submit_for_execution",
    }
)
# Calls that launch kernels, one each; HTA's, and AMD's.
_KERNEL_LAUNCH = re.compile(r"cuda.*LaunchKernel|cuLaunchKernel|runFunction|hip.*Launch.*Kernel")


class CudaKernelAnalysis:
    """Questions about kernels and the host calls that launch them."""

    @classmethod
    def cuda_kernel_launch_stats(  # noqa: PLR0917  HTA's signature
        cls,
        t: Trace,
        ranks: Sequence[int] | None = None,
        runtime_cutoff: int = 50,
        launch_delay_cutoff: int = 100,
        include_memory_events: bool = True,
        visualize: bool = True,
    ) -> dict[int, pd.DataFrame]:
        """Each launch of these ranks: how long call and work took, and how long after the call the work began."""
        chosen = asked(t, ranks)
        job = job_of(t, chosen, partial(_tables, include_memory_events=include_memory_events))
        table = job.launch_stats(each=True).select(
            "rank",
            "correlation",
            cpu_duration=frames.us("call_ns"),
            gpu_duration=frames.us("device_ns"),
            launch_delay=frames.us("max_delay_ns"),
        )
        result = {rank: frames.to_pandas(table.filter(rank=rank).drop("rank")) for rank in chosen}
        if visualize:
            for rank, rows in result.items():
                cls.visualize_cuda_launch_kernel_info(rank, rows, runtime_cutoff, launch_delay_cutoff)
        return result

    @classmethod
    def get_frequent_cuda_kernel_sequences(  # noqa: PLR0917  HTA's signature
        cls,
        t: Trace,
        operator_name: str,
        output_dir: str,
        min_pattern_len: int = 3,
        rank: int = 0,
        top_k: int = 5,
        visualize: bool = True,
        compress_other_kernels: bool = True,
    ) -> pd.DataFrame:
        """Each sequence of kernels that recurs under an operator; writes a copy of the trace that shows them."""
        table = frequent_kernel_sequences(
            t, operator_name, output_dir, min_pattern_len, rank, top_k, compress_other_kernels
        )
        if visualize and not table.empty:
            figures.kernel_sequences(table.head(top_k), rank).show()
        return table

    @classmethod
    def visualize_cuda_launch_kernel_info(
        cls, rank: int, df: pd.DataFrame, runtime_cutoff: int, launch_delay_cutoff: int
    ) -> None:
        """Show what stands out among the launches of a rank."""
        for figure in figures.launch_stats(df, rank, runtime_cutoff, launch_delay_cutoff):
            figure.show()

    @classmethod
    def get_aten_op_kernels_and_delay(
        cls, trace: Trace, ranks: Sequence[int] | None = None, sort_by: Sequence[str] | None = None
    ) -> dict[int, pd.DataFrame]:
        """Each sequence of kernels that ``aten::`` operators of these ranks launched, and how late they began."""
        chosen = asked(trace, ranks)
        # HTA knows nothing of launches outside of all operators.
        table = job_of(trace, chosen, _aten_tables).operator_kernels().filter(source="operator")
        result = table.select(
            "rank",
            aten_op_name="operator",
            kernel_sequence="kernels",
            occurrence_count="count",
            avg_aten_op_launch_delay=frames.fractional_us("mean_launch_delay_ns"),
            avg_runtime_delay=frames.fractional_us("mean_work_delay_ns"),
        )
        by_name = result.sort("aten_op_name", "kernel_sequence")
        order = list(sort_by or ["occurrence_count"])
        # By pandas, whose order of equal rows is HTA's; a row's index is its place by name.
        return {
            rank: frames.to_pandas(by_name.filter(rank=rank).drop("rank")).sort_values(order, ascending=False)
            for rank in chosen
        }

    @classmethod
    def visualize_aten_op_kernels_and_overhead(cls, rank: int, df: pd.DataFrame) -> None:
        """Show what ``get_aten_op_kernels_and_delay`` returned for a rank."""
        figures.aten_op_kernels(df, rank).show()


def _aten_tables(frame: pd.DataFrame, symbols: TraceSymbolTable) -> dict[str, pl.DataFrame]:
    return frame_tables.launched_under(
        frame,
        symbols,
        is_op=lambda name: name.startswith("aten::"),
        is_call=lambda name: _KERNEL_LAUNCH.match(name) is not None,
    )


def _tables(frame: pd.DataFrame, symbols: TraceSymbolTable, include_memory_events: bool) -> dict[str, pl.DataFrame]:
    events, launches = frame_tables.launches(frame, symbols, _LAUNCHES)
    if not include_memory_events:
        launches = launches.filter(~pl.col("launch_name").str.contains("Memcpy|Memset"))
    return {"device_events": events, "launches": launches}
