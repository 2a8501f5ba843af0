"""Small trace files as PyTorch writes them, and where real ones are."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

REAL_TRACES = Path(os.environ.get("HOLOTRACE_REAL_TRACES", Path(__file__).parents[2] / "shared" / "data")) / "kineto"
needs_real_traces = pytest.mark.skipif(
    not REAL_TRACES.is_dir(), reason="no real traces: point HOLOTRACE_REAL_TRACES at a folder with kineto/ in it"
)

# A step that launches a matrix product and an all-reduce, which overlap by half.
EVENTS: list[dict[str, Any]] = [
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "pid": 1, "tid": 1, "ts": 100, "dur": 50},
    {
        "ph": "X",
        "cat": "cuda_runtime",
        "name": "cudaLaunchKernel",
        "pid": 1,
        "tid": 1,
        "ts": 101,
        "dur": 2,
        "args": {"correlation": 7},
    },
    {
        "ph": "X",
        "cat": "kernel",
        "name": "ampere_gemm",
        "pid": 0,
        "tid": 7,
        "ts": 110.5,
        "dur": 20,
        "args": {"correlation": 7, "stream": 7, "device": 0},
    },
    {
        "ph": "X",
        "cat": "kernel",
        "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclWork*)",
        "pid": 0,
        "tid": 20,
        "ts": 120.5,
        "dur": 20,
        "args": {"correlation": 8, "stream": 20, "device": 0},
    },
]

# What a collective of two ranks says of itself.
ALL_REDUCE: dict[str, Any] = {
    "Collective name": "allreduce",
    "In msg nelems": 1_000,
    "Out msg nelems": 1_000,
    "Group size": 2,
    "dtype": "Float",
    "Process Group Name": "0",
    "Process Group Ranks": "[0, 1]",
}


def write_trace(
    path: Path,
    *,
    rank: int | None = None,
    world: int | None = None,
    backend: str = "nccl",
    at_the_end: bool = False,
    events: list[dict[str, Any]] = EVENTS,
    indent: int | None = None,
    **metadata: Any,  # any other top-level key, whatever it holds
) -> Path:
    """Write a trace; ``.gz`` is compressed. ``at_the_end`` puts the rank behind 200 KB of events."""
    size = {} if world is None else {"world_size": world}
    info = {} if rank is None else {"distributedInfo": {"backend": backend, "rank": rank, **size}}
    filler = [{"ph": "M", "name": "process_name", "pid": n, "args": {"name": "x" * 60}} for n in range(2000)]
    trace: dict[str, Any] = {"schemaVersion": 1, **metadata}
    trace |= {"traceEvents": [*events, *filler], **info} if at_the_end else {**info, "traceEvents": events}
    text = json.dumps(trace, indent=indent)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path
