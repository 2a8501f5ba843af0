"""Copies of traces with more in them: what is added, and where they are written."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import holotrace
from trace_files import write_trace

LAUNCH = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "dur": 1.5}
WORK = {"ph": "X", "pid": 0, "tid": 7, "dur": 2}


def launched(number: int, ts: float, work_ts: float) -> list[dict[str, Any]]:
    args = {"correlation": number, "stream": 7, "device": 0}
    return [
        {**LAUNCH, "ts": ts, "args": {"correlation": number}},
        {**WORK, "cat": "kernel", "name": "gemm", "ts": work_ts, "args": args},
    ]


COPY = {
    **WORK,
    "cat": "gpu_memcpy",
    "name": 'Memcpy "HtoD"',
    "ts": 1765622428262.125,
    "args": {"stream": 7, "device": 0, "correlation": 99, "memory bandwidth (GB/s)": 2.5, "bytes": 5000},
}


def counters(file: Path) -> list[tuple[Any, ...]]:
    content = file.read_bytes()
    text = gzip.decompress(content) if file.suffix == ".gz" else content
    events = json.loads(text, parse_float=str)["traceEvents"]
    return [(event["pid"], event["name"], event["ts"], event["args"]) for event in events if event["ph"] == "C"]


def test_counters_are_exact_to_the_nanosecond(tmp_path: Path) -> None:
    write_trace(tmp_path / "rank-0.json", rank=0, events=[*launched(1, 1000.001, 1001.5), COPY])
    [copy] = holotrace.open(tmp_path).write_overlay(tmp_path / "out", counters=True)
    assert counters(copy) == [
        (0, "stream 7", "1000.001", {"launches waiting": 1}),
        (0, "stream 7", "1001.500", {"launches waiting": 0}),
        (0, 'Memcpy "HtoD"', "1765622428262.125", {"GB/s": "2.5"}),
        (0, 'Memcpy "HtoD"', "1765622428264.125", {"GB/s": "0.0"}),
    ]


def test_all_else_is_as_it_was_recorded(tmp_path: Path) -> None:
    write_trace(tmp_path / "rank-0.json.gz", rank=0, events=launched(1, 1, 2))
    [copy] = holotrace.open(tmp_path).write_overlay(tmp_path / "out", counters=True)
    before, after = (gzip.decompress(file.read_bytes()) for file in (tmp_path / "rank-0.json.gz", copy))
    end = before.rindex(b"}", 0, before.rindex(b"]")) + 1
    assert after.startswith(before[:end]) and after.endswith(before[end:])


def test_each_rank_that_launched_has_a_copy_of_its_own(tmp_path: Path) -> None:
    write_trace(tmp_path / "a" / "trace.json", rank=0, events=launched(1, 1, 2))
    write_trace(tmp_path / "b" / "trace.json", rank=1, events=launched(1, 1, 2))
    write_trace(tmp_path / "c" / "trace.json", rank=2, events=[{**LAUNCH, "ts": 1}])
    copies = holotrace.open(tmp_path, recursive=True).write_overlay(tmp_path / "out", counters=True)
    assert [copy.name for copy in copies] == ["rank-0-with-counters.json", "rank-1-with-counters.json"]
    assert holotrace.open(tmp_path / "out").ranks == (0, 1)


def test_without_device_work_there_is_nothing_to_write(tmp_path: Path) -> None:
    write_trace(tmp_path / "rank-0.json", rank=0, events=[{**LAUNCH, "ts": 1}])
    with pytest.raises(holotrace.MissingDataError, match="record with"):
        holotrace.open(tmp_path).write_overlay(tmp_path / "out", counters=True)
    assert not (tmp_path / "out").exists()


def test_something_has_to_be_asked_for(tmp_path: Path) -> None:
    write_trace(tmp_path / "rank-0.json", rank=0, events=launched(1, 1, 2))
    with pytest.raises(holotrace.UsageError, match="say what to add"):
        holotrace.open(tmp_path).write_overlay(tmp_path / "out")


def test_only_trace_event_files_are_copied(tmp_path: Path) -> None:
    write_trace(tmp_path / "rank-0.json", rank=0, events=launched(1, 1, 2))
    holotrace.convert(tmp_path / "rank-0.json", tmp_path / "dataset")
    with pytest.raises(holotrace.MissingDataError, match="trace-event file"):
        holotrace.open(tmp_path / "dataset").write_overlay(tmp_path / "out", counters=True)


def test_no_copies_are_written_among_the_traces(tmp_path: Path) -> None:
    write_trace(tmp_path / "rank-0.json", rank=0, events=launched(1, 1, 2))
    (tmp_path / "link").symlink_to(tmp_path)
    for folder in (tmp_path, tmp_path / "link"):
        with pytest.raises(holotrace.UsageError, match="would claim their ranks; name another folder"):
            holotrace.open(tmp_path).write_overlay(folder, counters=True)
    assert holotrace.open(tmp_path).ranks == (0,)


def test_a_trace_that_is_read_is_never_written(tmp_path: Path) -> None:
    write_trace(tmp_path / "rank-1-with-counters.json", rank=0, events=launched(1, 1, 2))
    write_trace(tmp_path / "rank-1.json", rank=1, events=launched(1, 1, 2))
    before = (tmp_path / "rank-1-with-counters.json").read_bytes()
    with pytest.raises(holotrace.UsageError, match="name another folder"):
        holotrace.open(tmp_path).write_overlay(tmp_path, counters=True)
    assert (tmp_path / "rank-1-with-counters.json").read_bytes() == before
    with pytest.raises(holotrace.UsageError, match="name another folder"):
        holotrace.open(tmp_path).write_overlay(tmp_path / "rank-1.json", counters=True)
