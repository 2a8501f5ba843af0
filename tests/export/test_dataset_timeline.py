"""The timeline of a dataset: that of the traces that it was made of, with the args that tables hold."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import holotrace
import xplane_files
from holotrace import sample
from holotrace.export import table_trace
from holotrace.loading.rank import load
from trace_files import REAL_TRACES, needs_real_traces, write_trace

ODD = 'a "b", \\n: {"c":null,"d":1}\n</script>'


def both(folder: Path, job: Path, **wanted: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The timelines of a job, and of the dataset that is made of it."""
    holotrace.convert(job, folder / "dataset")
    found = []
    for number, traces in enumerate((job, folder / "dataset")):
        holotrace.open(traces).write_timeline(folder / f"{number}.json", **wanted)
        found.append(json.loads((folder / f"{number}.json").read_text(encoding="utf-8")))
    return found[0], found[1]


def names(trace: dict[str, Any]) -> dict[tuple[Any, Any], str]:
    """What threads are called, by process and thread."""
    told = [event for event in trace["traceEvents"] if event["name"] == "thread_name"]
    return {(event["pid"], event["tid"]): event["args"]["name"] for event in told}


def shown(trace: dict[str, Any]) -> Counter[tuple[Any, ...]]:
    """Every event by phase, name, place, time and length; the numbers of processes are the timeline's own."""
    known = names(trace)
    return Counter(
        (e["ph"], e["name"], e.get("cat"), known.get((e["pid"], e.get("tid"))), e["ts"], e.get("dur"))
        for e in trace["traceEvents"]
        if e["ph"] != "M"
    )


def test_it_shows_the_same_events_on_the_same_tracks(tmp_path: Path) -> None:
    sample.write(tmp_path / "job", ranks=2, steps=2, stacks=True)
    of_traces, of_dataset = both(tmp_path, tmp_path / "job", critical_path=True)
    assert shown(of_dataset) == shown(of_traces)
    assert sorted(names(of_dataset).values()) == sorted(names(of_traces).values())
    # Also whose files they were.
    assert of_dataset["timelineOfRanks"] == of_traces["timelineOfRanks"]


@pytest.mark.parametrize("detail", ["device", "host"])
def test_so_it_does_with_less_detail(tmp_path: Path, detail: str) -> None:
    sample.write(tmp_path / "job", ranks=1, steps=2, stacks=True)
    of_traces, of_dataset = both(tmp_path, tmp_path / "job", detail=detail)
    assert shown(of_dataset) == shown(of_traces)


def test_args_are_those_that_tables_hold(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": "cpu_op", "name": ODD, "pid": 1, "tid": 1, "ts": 10, "dur": 9.5}
        | {"args": {"External id": 3, "Input Dims": [[2, 3], []], "Concrete Inputs": ["", ODD]}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 11, "dur": 2}
        | {"args": {"correlation": 7}},
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 20.001, "dur": 5}
        | {"args": {"correlation": 7, "stream": 7, "device": 0, "grid": [4, 1, 1]}},
        {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 12}
        | {"args": {"Addr": 1, "Bytes": -64, "Device Type": 1, "Device Id": 0, "Total Allocated": 5}},
        {"ph": "C", "name": "power", "pid": 0, "ts": 13, "args": {"watts": 250.5, "limit": 700}},
        {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 7, "pid": 1, "tid": 1, "ts": 11},
        {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": 7, "pid": 0, "tid": 7, "ts": 20.001, "bp": "e"},
    ]
    job = holotrace.open(write_trace(tmp_path / "rank-0.json", events=events))
    made = json.loads(table_trace.trace(load(job.sources[0], table_trace.READS)))["traceEvents"]
    told = {(event["ph"], event["name"]): event for event in made}
    assert [told[event["ph"], event["name"]]["ts"] for event in events] == [event["ts"] for event in events]
    dims, inputs = (told["X", ODD]["args"][key] for key in ("Input Dims", "Concrete Inputs"))
    assert (json.loads(dims), json.loads(inputs)) == ([[2, 3], []], ["", ODD])
    assert told["X", ODD]["args"]["External id"] == 3
    assert told["X", "cudaLaunchKernel"]["args"] == {"correlation": 7}
    assert told["X", "gemm"]["args"] == {"device": 0, "stream": 7, "correlation": 7, "grid": "[4, 1, 1]"}
    assert told["i", "[memory]"]["args"]["Bytes"] == -64
    assert told["C", "power"]["args"] == {"watts": 250.5, "limit": 700}
    assert told["f", "ac2g"]["id"] == told["s", "ac2g"]["id"] == 7


def test_an_empty_rank_is_a_trace_without_events(tmp_path: Path) -> None:
    job = holotrace.open(write_trace(tmp_path / "rank-0.json", events=[]))
    assert json.loads(table_trace.trace(load(job.sources[0], table_trace.READS))) == {"traceEvents": []}


def test_a_dataset_of_profiles_of_xla_is_shown_as_they_are(tmp_path: Path) -> None:
    folder = xplane_files.capture("jax_cpu_gaps", tmp_path / "logs")
    of_profile, of_dataset = both(tmp_path, folder)
    assert shown(of_dataset) == shown(of_profile)


@needs_real_traces
@pytest.mark.slow
def test_what_others_recorded_is_shown_as_it_is(tmp_path: Path) -> None:
    trace = REAL_TRACES / "param/et_replay/tests/inputs/resnet_kineto.json.gz"
    of_traces, of_dataset = map(shown, both(tmp_path, trace))
    assert not of_dataset - of_traces
    # Of many arrows only one end was recorded.
    assert {phase for phase, *_ in of_traces - of_dataset} == {"s", "f"}
