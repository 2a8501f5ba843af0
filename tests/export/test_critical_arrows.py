"""Critical paths in copies of traces: which events are marked, and what arrows join."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import holotrace
from trace_files import REAL_TRACES, needs_real_traces, write_trace

HOST = {"ph": "X", "pid": 9, "tid": 9}
DEVICE = {"ph": "X", "cat": "kernel", "pid": 0, "tid": "stream 7"}


def launch(ts: float, number: int) -> dict[str, Any]:
    return {
        **HOST,
        "cat": "cuda_runtime",
        "name": "cudaLaunchKernel",
        "ts": ts,
        "dur": 2,
        "args": {"correlation": number},
    }


def kernel(name: str, ts: float, dur: float, number: int) -> dict[str, Any]:
    return {
        **DEVICE,
        "name": name,
        "ts": ts,
        "dur": dur,
        "args": {"correlation": number, "stream": 7, "device": 0},
    }


# The second kernel is launched while the first one runs.
EVENTS: list[dict[str, Any]] = [
    {**HOST, "cat": "cpu_op", "name": "aten::mm", "ts": 100, "dur": 50},
    launch(105.001, 1),
    kernel("first", 112.002, 88.003, 1),
    launch(110, 2),
    kernel("second", 201, 99, 2),
    {**HOST, "cat": "cpu_op", "name": "aten::add", "ts": 160, "dur": 5},
]


def events_of(file: Path) -> list[dict[str, Any]]:
    content = file.read_bytes()
    text = gzip.decompress(content) if file.suffix == ".gz" else content
    events: list[dict[str, Any]] = json.loads(text, parse_float=Decimal)["traceEvents"]
    return events


def marked(events: list[dict[str, Any]]) -> list[int]:
    return [n for n, event in enumerate(events) if event["ph"] == "X" and event.get("args", {}).get("critical") == 1]


def arrows(events: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    tails, heads = (
        [event for event in events if event.get("cat") == "critical_path" and event["ph"] == phase] for phase in "sf"
    )
    assert [tail["id"] for tail in tails] == [head["id"] for head in heads]
    return list(zip(tails, heads, strict=True))


def test_events_on_the_path_are_marked_and_arrows_join_them(tmp_path: Path) -> None:
    write_trace(tmp_path / "rank-0.json", rank=0, events=EVENTS)
    job = holotrace.open(tmp_path)
    [copy] = job.write_overlay(tmp_path / "out", critical_path=True)
    assert copy.name == "rank-0-with-critical-path.json"
    events = events_of(copy)
    assert [events[n]["name"] for n in marked(events)] == ["aten::mm", "cudaLaunchKernel", "first", "second"]
    ends = [[(end["pid"], end["tid"], str(end["ts"])) for end in arrow] for arrow in arrows(events)]
    assert ends == [
        [(9, 9, "105.001"), (0, "stream 7", "112.002")],
        # From the last nanosecond of the kernel, as another one may begin when it ends.
        [(0, "stream 7", "200.004"), (0, "stream 7", "201.000")],
    ]
    assert [tail["args"] for tail, _ in arrows(events)] == [
        {"kind": "launch_delay", "bound_by": "launch", "duration_ns": 7001},
        {"kind": "kernel_delay", "bound_by": "kernel_delay", "duration_ns": 995},
    ]


@needs_real_traces
@pytest.mark.parametrize(
    "file",
    [
        "hta/tests/data/critical_path/cuda_event_sync_multi_stream/event_sync_trace.json.gz",
        "ours/cpu_gloo_ddp4",
    ],
)
def test_marks_and_arrows_are_the_segments_of_the_analysis(tmp_path: Path, file: str) -> None:
    job = holotrace.open(REAL_TRACES / file).only(0)
    [copy] = job.write_overlay(tmp_path, critical_path=True)
    events = events_of(copy)
    segments = job.critical_path(by_segment=True)
    leads = segments.filter(segments["kind"] != "operator")
    found = arrows(events)
    assert [tail["args"] for tail, _ in found] == leads.select("kind", "bound_by", "duration_ns").to_dicts()
    times = [(int(1000 * tail["ts"]), int(1000 * head["ts"])) for tail, head in found]
    assert all(
        start_ns - tail_ns in (0, 1) and end_ns - head_ns in (0, 1)
        for (tail_ns, head_ns), (start_ns, end_ns) in zip(times, leads.select("start_ns", "end_ns").rows(), strict=True)
    )
    spans = job.table("events", columns=["event_id", "start_ns", "end_ns"])
    ids = marked(events)
    # What a host that computes exchanges has numbers behind those of the file.
    in_file = segments["event_id"].drop_nulls().is_in(spans["event_id"].implode())
    assert set(segments["event_id"].drop_nulls().filter(in_file)) <= set(ids)
    # What is marked begins or ends where a segment does.
    ends = {*segments["start_ns"], *segments["end_ns"]}
    of_marked = spans.filter(spans["event_id"].is_in(ids)).select("start_ns", "end_ns").rows()
    assert len(of_marked) == len(ids) and all(ends & {*span} for span in of_marked)


def test_counters_and_a_critical_path_go_into_one_copy(tmp_path: Path) -> None:
    write_trace(tmp_path / "rank-0.json.gz", rank=0, events=EVENTS)
    [copy] = holotrace.open(tmp_path).write_overlay(tmp_path / "out", counters=True, critical_path=True)
    assert copy.name == "rank-0-with-counters-and-critical-path.json.gz"
    events = events_of(copy)
    assert len(arrows(events)) == 2
    assert {event["ph"] for event in events} == {"X", "C", "s", "f"}


@pytest.mark.filterwarnings("ignore::holotrace.PartialDataWarning")
def test_a_rank_that_cannot_be_read_costs_no_other_its_path(tmp_path: Path) -> None:
    write_trace(tmp_path / "rank0.json", rank=0, events=EVENTS)
    gone = write_trace(tmp_path / "rank1.json", rank=1, events=EVENTS)
    job = holotrace.open(tmp_path)
    gone.unlink()
    copies = job.write_overlay(tmp_path / "out", critical_path=True)
    assert [copy.name for copy in copies] == ["rank-0-with-critical-path.json"]


def test_the_step_can_be_chosen(tmp_path: Path) -> None:
    steps = [
        {**HOST, "cat": "user_annotation", "name": f"ProfilerStep#{n}", "ts": ts, "dur": 55}
        for n, ts in ((1, 100), (2, 155))
    ]
    write_trace(tmp_path / "rank-0.json", rank=0, events=[*EVENTS, *steps])
    job = holotrace.open(tmp_path)
    [copy] = job.write_overlay(tmp_path / "out", critical_path=True, of_step=2)
    events = events_of(copy)
    assert [events[n]["name"] for n in marked(events)] == ["aten::add"]
    with pytest.raises(holotrace.MissingDataError, match="such a step"):
        job.write_overlay(tmp_path / "out", critical_path=True, of_step=9)
