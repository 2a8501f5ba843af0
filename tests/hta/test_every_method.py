"""Every method on every recorded trace: it answers, or says with the right columns that there is nothing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest

import holotrace
from hta.trace_analysis import TraceAnalysis
from quick import every
from trace_files import REAL_TRACES

# Writes beside the traces, which are not ours.
WRITING = ("generate_trace_with_counters",)
STATISTICS = ["sum (us)", "max (us)", "min (us)", "stddev", "mean (us)"]
COLUMNS: dict[str, list[Any]] = {
    "get_temporal_breakdown": [
        *("rank", "idle_time(us)", "compute_time(us)", "non_compute_time(us)", "kernel_time(us)"),
        *("idle_time_pctg", "compute_time_pctg", "non_compute_time_pctg"),
    ],
    "get_comm_comp_overlap": ["rank", "comp_comm_overlap_pctg"],
    "get_gpu_kernel_breakdown": [["kernel_type", "sum", "percentage"], ["name", *STATISTICS, "kernel_type", "rank"]],
    "get_idle_time_breakdown": ["rank", "stream", "idle_category", "idle_time", "idle_time_ratio"],
    "get_cuda_kernel_launch_stats": ["correlation", "cpu_duration", "gpu_duration", "launch_delay"],
    "get_queue_length_time_series": ["ts", "pid", "tid", "stream", "queue_length"],
    "get_memory_bw_time_series": ["ts", "pid", "name", "memory_bw_gbps"],
    "get_gpu_user_annotation_breakdown": ["name", *STATISTICS, "rank"],
    "get_time_spent_blocked_on_full_queue": [
        *("rank", "stream", "duration_at_max_queue_length", "relative_duration_at_max_queue_length"),
    ],
}


def recordings() -> dict[str, list[Path]]:
    """Files that may be traces, by where they come from."""
    files = sorted(path for path in REAL_TRACES.rglob("*") if path.name.endswith((".json", ".gz")) and path.is_file())
    sources = dict.fromkeys(path.relative_to(REAL_TRACES).parts[0] for path in files)
    return {source: [path for path in files if (REAL_TRACES / source) in path.parents] for source in sources}


def methods(a: TraceAnalysis, folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every public method that can be asked without the result of another."""
    ranks = a.t.get_ranks()
    arguments: dict[str, Any] = {
        "visualize": False,
        "ranks": ranks,
        "rank": ranks[0],
        "queue_length_dict": a.get_queue_length_time_series(ranks),
        "annotation": "ProfilerStep",
        "instance_id": 0,
        "operator_name": "aten::mm",
        "output_dir": str(folder),
    }
    for name, method in inspect.getmembers(a, inspect.ismethod):
        parameters = inspect.signature(method).parameters.values()
        needed = {parameter.name for parameter in parameters if parameter.default is parameter.empty}
        if not name.startswith("_") and name not in WRITING and needed <= arguments.keys():
            given = {
                parameter.name: arguments[parameter.name] for parameter in parameters if parameter.name in arguments
            }
            yield name, partial(method, **given)


RECORDINGS = recordings()


@pytest.mark.parametrize("source", every(24, RECORDINGS))
def test_no_method_raises_on_a_recorded_trace(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(go.Figure, "show", lambda self, **options: None)
    for path in RECORDINGS[source]:
        try:
            a = TraceAnalysis(trace_files=[str(path)])
        except holotrace.TraceFormatError:
            continue
        if not a.t.get_ranks():
            continue
        asked = dict(methods(a, tmp_path))
        assert asked.keys() >= COLUMNS.keys()
        for name, ask in asked.items():
            result = ask()
            for table, columns in _tables(result, COLUMNS.get(name)):
                assert table.columns.tolist() == columns, f"{name} of {path}"


def _tables(result: Any, columns: list[Any] | None) -> Iterator[tuple[pd.DataFrame, list[str]]]:
    """The tables of a result that have fixed columns, and these."""
    if columns is None:
        return
    if isinstance(result, pd.DataFrame):
        yield result, columns
    elif isinstance(result, dict):
        yield from ((table, columns) for table in result.values())
    elif isinstance(result, tuple):
        each = columns if isinstance(columns[0], list) else [columns]
        yield from zip(result, each, strict=False)
