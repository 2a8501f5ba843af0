"""Does each method of hta take a fifth of HTA's time, and all with loading a fortieth?"""

from __future__ import annotations

import json
import logging
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from math import isnan
from pathlib import Path
from typing import Any

from harness.bench import Bench
from harness.measure import Measurement, Results
from harness.question import Quantity, Row, Skipped, seconds, times_faster, typical

# What writes a copy of the trace; HTA's JSON encoder makes that slow.
_OVERLAYS = ("generate_trace_with_counters", "overlay_critical_path_analysis")
# What takes HTA less than a second, some of it a few milliseconds that differ by half from run to run.
_QUICK = (
    "get_temporal_breakdown",
    "get_comm_comp_overlap",
    "get_gpu_kernel_breakdown",
    "get_idle_time_breakdown",
    "get_cuda_kernel_launch_stats",
    "get_queue_length_summary",
    "get_queue_length_time_series",
    "get_time_spent_blocked_on_full_queue",
    "get_memory_bw_summary",
    "get_memory_bw_time_series",
    "get_gpu_user_annotation_breakdown",
)
_METHODS = (
    *_QUICK,
    "get_gpu_kernels_with_user_annotations",
    "get_aten_op_kernels_and_delay",
    "get_frequent_cuda_kernel_sequences",
    "critical_path_analysis",
    *_OVERLAYS,
)


def rows(bench: Bench) -> Iterator[Row | Skipped]:
    # The trace with most text.
    trace = max(bench.inputs.traces, key=lambda trace: trace.text_bytes)
    commands = {
        "hta": bench.ours_of("questions.hta_methods", trace.gzip),
        "HTA": bench.theirs("questions.hta_methods", trace.gzip),
    }
    every = {
        name: Measurement(f"{name}: all methods, {trace.name}", command, most_rounds=3 if name == "hta" else 1)
        for name, command in commands.items()
    }
    quick = {
        name: Measurement(f"{name}: quick methods, {trace.name}", (*command, *_QUICK), most_rounds=3)
        for name, command in commands.items()
    }
    yield Row(f"load and all methods, {trace.name}", *(_together(every, name) for name in every), times_faster(40))
    for name in _METHODS:
        goal = times_faster(30 if name in _OVERLAYS else 5)
        measured = quick if name in _QUICK else every
        yield Row(f"{name}, {trace.name}", *(seconds(one, label, name) for label, one in measured.items()), goal)


def _together(both: Mapping[str, Measurement], name: str) -> Quantity:
    """The time of loading and of all methods that answer in both packages."""

    def value(results: Results) -> float:
        return sum(typical(results, both[name], part) for part in _answered(both, results))

    return Quantity(name, "s", tuple(both.values()), value)


def _answered(both: Mapping[str, Measurement], results: Results) -> list[str]:
    return [
        part for part in ("load", *_METHODS) if not any(isnan(typical(results, one, part)) for one in both.values())
    ]


def measure(trace: str, names: Collection[str]) -> Mapping[str, float]:
    """Seconds of loading and of each of these methods after it; a method that raises has none."""
    with tempfile.TemporaryDirectory() as folder:
        return _measured(shutil.copy(trace, folder), Path(folder), names)


def _measured(trace: str, folder: Path, names: Collection[str]) -> Mapping[str, float]:
    from hta.trace_analysis import TraceAnalysis

    taken: dict[str, float] = {}
    kept: dict[str, Any] = {}
    started = time.perf_counter()
    analyzer = TraceAnalysis(trace_files={0: trace})
    taken["load"] = time.perf_counter() - started
    for name, call in _calls(analyzer, folder, kept).items():
        if name not in names:
            continue
        begun = time.perf_counter()
        try:
            kept[name] = call()
        except Exception as error:  # noqa: BLE001  HTA raises in one call of eight
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        taken[name] = time.perf_counter() - begun
    return {**taken, "seconds": sum(taken.values())}


def _calls(analyzer: Any, folder: Path, kept: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    given: dict[str, Callable[[], Any]] = {
        "get_temporal_breakdown": lambda: analyzer.get_temporal_breakdown(visualize=False),
        "get_comm_comp_overlap": lambda: analyzer.get_comm_comp_overlap(visualize=False),
        "get_gpu_kernel_breakdown": lambda: analyzer.get_gpu_kernel_breakdown(visualize=False),
        "get_idle_time_breakdown": lambda: analyzer.get_idle_time_breakdown(visualize=False),
        "get_cuda_kernel_launch_stats": lambda: analyzer.get_cuda_kernel_launch_stats(visualize=False),
        "get_time_spent_blocked_on_full_queue": lambda: analyzer.get_time_spent_blocked_on_full_queue(
            kept["get_queue_length_time_series"]
        ),
        "get_gpu_user_annotation_breakdown": lambda: analyzer.get_gpu_user_annotation_breakdown(visualize=False),
        "get_gpu_kernels_with_user_annotations": lambda: analyzer.get_gpu_kernels_with_user_annotations(rank=0),
        "get_frequent_cuda_kernel_sequences": lambda: analyzer.get_frequent_cuda_kernel_sequences(
            operator_name="aten::linear", output_dir=str(folder)
        ),
        "critical_path_analysis": lambda: analyzer.critical_path_analysis(
            rank=0, annotation="ProfilerStep", instance_id=1
        ),
        "overlay_critical_path_analysis": lambda: analyzer.overlay_critical_path_analysis(
            0, kept["critical_path_analysis"][0], str(folder)
        ),
    }
    return {name: given.get(name, getattr(analyzer, name)) for name in _METHODS}


if __name__ == "__main__":
    import plotly.graph_objects as go

    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    # get_aten_op_kernels_and_delay always draws.
    go.Figure.show = lambda *args, **kwargs: None
    print(json.dumps(measure(sys.argv[1], sys.argv[2:] or _METHODS)))
