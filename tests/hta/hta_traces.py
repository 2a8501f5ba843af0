"""Traces of a few events, in whole microseconds unless a test says otherwise, opened with hta."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hta.trace_analysis import TraceAnalysis
from trace_files import write_trace

Event = dict[str, Any]


def event(name: str, ts: float, dur: float, *, cat: str = "cpu_op", pid: Any = 1, tid: Any = 1, **args: Any) -> Event:
    """A complete event; ``args`` are its args, underscores in their names for spaces."""
    args = {name.replace("_", " "): value for name, value in args.items()}
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def step(number: int, ts: float, dur: float, *, on_device: bool = False) -> Event:
    return event(f"ProfilerStep#{number}", ts, dur, cat="gpu_user_annotation" if on_device else "user_annotation")


def launch(correlation: int, ts: float, dur: float = 1, *, cat: str = "cuda_runtime") -> Event:
    name = "cuLaunchKernel" if cat == "cuda_driver" else "cudaLaunchKernel"
    return event(name, ts, dur, cat=cat, correlation=correlation)


def kernel(
    name: str, ts: float, dur: float, *, correlation: int = 1, stream: int = 7, cat: str = "kernel", **args: Any
) -> Event:
    return event(name, ts, dur, cat=cat, pid=0, tid=stream, stream=stream, correlation=correlation, **args)


def analysis(folder: Path, *events: Event, include_last_profiler_step: bool = False, **metadata: Any) -> TraceAnalysis:
    """A job of one rank with these events."""
    write_trace(folder / "rank-0.json", rank=0, events=list(events), **metadata)
    return TraceAnalysis(trace_dir=str(folder), include_last_profiler_step=include_last_profiler_step)
