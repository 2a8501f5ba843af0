"""Servers of language models: without steps, and often without ranges or stacks, one turn comes after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import holotrace
from holotrace.diagnosis.job import less_ahead
from holotrace.diagnosis.job.candidates import Candidate
from holotrace.diagnosis.job.meetings import Change
from holotrace.diagnosis.rank import host, turns
from trace_files import write_trace

TURNS = 6
GRAMMAR, PREPARE = "vllm/utils.py(40): apply_grammar_bitmask", "vllm/worker.py(15): _prepare_inputs"
LOOP = "vllm/executor.py(660): worker_busy_loop"


class Recorded:
    """A trace of one host and one device that is written event by event, in microseconds."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.number = 0
        self.free = 0

    def host(self, cat: str, name: str, ts: int, dur: int, **args: int) -> None:
        event = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": args}
        self.events.append(event)

    def work(self, name: str, ts: int, dur: int, call: str = "cudaLaunchKernel", count: int = 1) -> None:
        """Launches work, which begins when the device is free."""
        self.number += 1
        self.host("cuda_runtime", call, ts, 4, correlation=self.number)
        cat = "gpu_memcpy" if "Memcpy" in call else "kernel"
        for _ in range(count):
            begun = max(self.free, ts + 5)
            self.free = begun + dur
            args = {"correlation": self.number, "stream": 7, "device": 0}
            place = {"pid": 0, "tid": 7, "ts": begun, "dur": dur}
            self.events.append({"ph": "X", "cat": cat, "name": name, **place, "args": args})

    def opened(self, folder: Path) -> holotrace.Job:
        write_trace(folder / "rank-0.json", events=self.events)
        return holotrace.open(folder)


def causes(job: holotrace.Job) -> list[tuple[str, str | None, float]]:
    told = job.causes().select("cause", "responsible", (pl.col("cost_ns") / 1e6).round(1))
    return list(told.iter_rows())


def test_what_is_between_calls_outside_of_ranges_is_interpreting(tmp_path: Path) -> None:
    """Of tokens that are read one by one half was told as unrecorded, as nothing is open between two operators."""
    trace, at = Recorded(), 0
    for _ in range(TURNS):
        trace.work("decode", at, 2_000)
        for _token in range(30):
            at += 14
            trace.work("Memcpy DtoH (Device -> Pageable)", at, 1, "cudaMemcpyAsync")
            returned = trace.free + 2
            trace.host("cuda_runtime", "cudaStreamSynchronize", at + 5, returned - at - 5)
            trace.host("cpu_op", "aten::item", at - 2, returned - at + 3)
            at = returned
        at += 14
    ((cause, responsible, cost),) = causes(trace.opened(tmp_path))
    assert (cause, responsible) == ("synchronization", "aten::item")
    assert cost == pytest.approx(30 * 0.021 * TURNS, abs=0.7)


@pytest.mark.parametrize(("per_graph", "counted"), [(40, TURNS), (2, 0)])
def test_without_ranges_a_turn_is_what_its_graph_launches(tmp_path: Path, per_graph: int, counted: int) -> None:
    """A server's logits were told as parameters that are gathered too late: all turns were counted as one."""
    trace = Recorded()
    for turn in range(TURNS):
        trace.work("layer", 1_000 * turn, 10, "cudaGraphLaunch", per_graph)
        trace.work("sample", 1_000 * turn + 20, 10)
    assert list(trace.opened(tmp_path).map(turns.count, host.READS)) == [counted]


def test_inputs_are_late_only_since_the_host_stood_still_before(tmp_path: Path) -> None:
    """Gaps between copies of inputs are short: the loop around them was told beside what had made it late."""
    trace, at, last = Recorded(), 0, 0
    for _ in range(TURNS):
        begun, at = at, at + 180
        for _copy in range(8):
            trace.host("cpu_op", "aten::copy_", at - 1, 8)
            trace.work("Memcpy HtoD (Pinned -> Device)", at, 1, "cudaMemcpyAsync")
            at += 22
        at += 100
        trace.host("python_function", PREPARE, begun, at - begun)
        trace.work("decode", at, 1_300)
        trace.work("Memcpy DtoH (Device -> Pinned)", at + 20, 2, "cudaMemcpyAsync")
        at += 40
        # The tokens of the turn before are there.
        returned = max(at, last) + 2
        trace.host("cuda_runtime", "cudaEventSynchronize", at, returned - at)
        last, at = trace.free, returned + 3
        trace.host("python_function", LOOP, at, 3_152)
        trace.host("python_function", GRAMMAR, at + 1, 3_000)
        at += 3_152
    ((cause, responsible, cost),) = causes(trace.opened(tmp_path))
    assert (cause, responsible) == ("python-function", GRAMMAR)
    # Without it a turn takes little longer than its device works.
    assert cost == pytest.approx(trace.free / 1_000 - 1.32 * TURNS, rel=0.1)


@pytest.mark.parametrize(
    ("cause", "later_ns", "lost_ns", "left"),
    [
        pytest.param("python-function", 90.0, 100.0, ["input"], id="the same time"),
        pytest.param("python-function", 60.0, 100.0, ["python-function", "input"], id="a part of it"),
        pytest.param("python-function", 290.0, 300.0, ["python-function", "input"], id="more than that"),
        pytest.param("synchronization", 90.0, 100.0, ["synchronization", "input"], id="something else"),
    ],
)
def test_what_would_be_hidden_is_told_once(cause: str, later_ns: float, lost_ns: float, left: list[str]) -> None:
    """Preparing inputs was told beside the function that had made one of two ranks late for that."""
    prepares = Candidate(cause, Change({0: [(9, lost_ns)]}), (0,))
    delays = Candidate("input", Change({0: [(5, 200.0)]}, later={0: [(9, later_ns)]}), (0,))
    told = less_ahead.without_what_they_hide([(prepares, 17), (delays, 30)])
    assert [each.cause for each, _ in told] == left
