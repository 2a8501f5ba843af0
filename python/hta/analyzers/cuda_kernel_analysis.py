"""How work gets from the host to the device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pandas as pd
import polars as pl

from hta import figures, frames
from hta.analyzers.device_job import asked, job_of
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
    def visualize_cuda_launch_kernel_info(
        cls, rank: int, df: pd.DataFrame, runtime_cutoff: int, launch_delay_cutoff: int
    ) -> None:
        """Show what stands out among the launches of a rank."""
        for figure in figures.launch_stats(df, rank, runtime_cutoff, launch_delay_cutoff):
            figure.show()


def _tables(frame: pd.DataFrame, symbols: TraceSymbolTable, include_memory_events: bool) -> dict[str, pl.DataFrame]:
    events, launches = frames.launches(frame, symbols, _LAUNCHES)
    if not include_memory_events:
        launches = launches.filter(~pl.col("launch_name").str.contains("Memcpy|Memset"))
    return {"device_events": events, "launches": launches}
