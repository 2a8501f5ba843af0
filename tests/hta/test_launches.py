"""Launches, their work and the delay between, as HTA returns and shows them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import plotly.graph_objects as go
import pytest
from hta_traces import Event, analysis, event, kernel, launch

from hta.trace_analysis import TraceAnalysis
from trace_files import write_trace

COLUMNS = ["correlation", "cpu_duration", "gpu_duration", "launch_delay"]
EVENTS = [
    event("start", 0, 1),
    launch(1, 10, 5),
    launch(2, 20, 80),
    event("cudaMemcpyAsync", 110, 4, cat="cuda_runtime", correlation=3),
    kernel("a", 18, 3, correlation=1),
    kernel("b", 90, 30, correlation=2),
    kernel("Memcpy HtoD", 300, 7, correlation=3, cat="gpu_memcpy"),
]


def stats(a: TraceAnalysis, **options: object) -> pd.DataFrame:
    """Of rank 0."""
    return a.get_cuda_kernel_launch_stats(visualize=False, **options)[0]  # type: ignore[arg-type]  # any of its options


def called(name: str, ts: float, correlation: int, cat: str = "cuda_runtime") -> Event:
    return event(name, ts, 5, cat=cat, correlation=correlation)


def test_a_row_per_launch(tmp_path: Path) -> None:
    table = stats(analysis(tmp_path, *EVENTS))
    assert table.columns.tolist() == COLUMNS
    # Work that begins before its call has ended is not delayed.
    assert table.values.tolist() == [[1, 5, 3, 3], [2, 80, 30, 0], [3, 4, 7, 186]]
    assert table.index.tolist() == [0, 1, 2]


def test_copies_and_fills_can_be_left_out(tmp_path: Path) -> None:
    assert stats(analysis(tmp_path, *EVENTS), include_memory_events=False)["correlation"].tolist() == [1, 2]


def test_a_launch_without_work_and_work_without_a_launch_are_no_rows(tmp_path: Path) -> None:
    table = stats(analysis(tmp_path, event("first", 0, 1), launch(1, 10), kernel("a", 20, 5, correlation=2)))
    assert table.empty
    assert table.columns.tolist() == COLUMNS


def test_waiting_is_not_launched(tmp_path: Path) -> None:
    wait = [called("cudaStreamWaitEvent", 5, 4), kernel("Stream Wait Event", 10, 9, cat="cuda_sync", correlation=4)]
    assert stats(analysis(tmp_path, *EVENTS, *wait))["correlation"].tolist() == [1, 2, 3]


def test_ranks_are_keys(tmp_path: Path) -> None:
    for rank in (2, 5):
        write_trace(tmp_path / f"rank-{rank}.json", rank=rank, events=EVENTS)
    a = TraceAnalysis(trace_dir=str(tmp_path))
    assert list(a.get_cuda_kernel_launch_stats(visualize=False)) == [2]
    assert list(a.get_cuda_kernel_launch_stats(ranks=[5, 2], visualize=False)) == [5, 2]
    with pytest.raises(ValueError, match="rank 7 does not exist"):
        a.get_cuda_kernel_launch_stats(ranks=[7])


def test_without_ranks_there_is_nothing(tmp_path: Path) -> None:
    assert analysis(tmp_path).get_cuda_kernel_launch_stats() == {}


def test_what_stands_out_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[go.Figure] = []
    monkeypatch.setattr(go.Figure, "show", lambda figure, *args, **kwargs: shown.append(figure))
    analysis(tmp_path, *EVENTS).get_cuda_kernel_launch_stats(launch_delay_cutoff=150)
    assert [(figure.layout.title.text, [x for trace in figure.data for x in trace.x]) for figure in shown] == [
        ("Short GPU kernels (gpu op duration < cpu op duration) on rank 0", [5]),
        ("Runtime Event Duration Outliers (duration > 50 us)  on rank 0", [80]),
        ("Launch Delay Outliers (duration > 150 us) on rank 0", [186]),
    ]


@pytest.mark.parametrize(
    "call", ["cuLaunchKernel", "cuLaunchKernelEx", "cudaLaunchCooperativeKernel", "hipLaunchKernel", "cudaMemcpy"]
)
def test_bug_15_every_call_that_launches_counts(tmp_path: Path, call: str) -> None:
    a = analysis(tmp_path, event("start", 0, 1), called(call, 10, 1), kernel("a", 20, 3, stream=0))
    assert stats(a).values.tolist() == [[1, 5, 3, 5]]


def test_bug_15_each_kernel_of_a_graph_counts(tmp_path: Path) -> None:
    kernels = [kernel(f"k{ts}", ts, 3) for ts in (20, 30)]
    a = analysis(tmp_path, event("start", 0, 1), called("cudaGraphLaunch", 10, 1), *kernels)
    assert stats(a).values.tolist() == [[1, 5, 3, 5], [1, 5, 3, 15]]
