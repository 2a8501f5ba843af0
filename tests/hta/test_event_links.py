"""Links between rows of a frame that one brings oneself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hta_traces import analysis, event, kernel, launch, step

from hta.common.trace import (
    add_fwd_bwd_links,
    add_iteration,
    get_cpu_gpu_correlation,
    trace_event_timestamp_to_unixtime_ns,
    transform_correlation_to_index,
)
from hta.common.trace_symbol_table import TraceSymbolTable

LAUNCHES = [
    step(1, 0, 100),
    step(2, 100, 100),
    step(3, 200, 100),
    launch(1, 50),
    kernel("gemm", 150, 10, stream=0),
    launch(2, 110),
    kernel("gemm", 160, 10, correlation=2),
    # What of the device shows as a step does not count.
    step(1, 90, 100, on_device=True),
]


def test_links_made_again_are_those_that_were_read(tmp_path: Path) -> None:
    t = analysis(tmp_path, *LAUNCHES).t
    frame = t.get_trace(0)
    again = frame.drop(columns=["index_correlation", "iteration"])
    transform_correlation_to_index(again, t.symbol_table)
    steps = add_iteration(again, t.symbol_table)
    pd.testing.assert_frame_equal(again[frame.columns], frame)
    assert steps[["s_name", "iteration"]].to_numpy().tolist() == [["ProfilerStep#1", 1], ["ProfilerStep#2", 2]]


def test_work_on_any_stream_is_paired_with_its_launch(tmp_path: Path) -> None:
    pairs = get_cpu_gpu_correlation(analysis(tmp_path, *LAUNCHES).t.get_trace(0))
    assert pairs.to_dict("list") == {"gpu_index": [4, 6], "cpu_index": [3, 5]}


def test_a_frame_without_correlations_gets_no_links() -> None:
    frame = pd.DataFrame({"index": [0], "stream": [7], "name": [0]})
    assert "index_correlation" not in transform_correlation_to_index(frame, TraceSymbolTable())


def test_arrows_to_the_backward_pass_link_operators_that_begin_where_they_do() -> None:
    def arrow(phase: str, ts: int, tid: int, flow: int) -> dict[str, object]:
        return {"ph": phase, "cat": "fwdbwd", "name": "fwdbwd", "pid": 1, "tid": tid, "ts": ts, "id": flow}

    events = [
        event("forward", 10, 5),
        event("other", 20, 5),
        event("backward", 100, 5, tid=2),
        arrow("s", 10, 1, 8),
        arrow("f", 100, 2, 8),
        # Leaves where nothing begins.
        arrow("s", 11, 1, 9),
        arrow("f", 20, 1, 9),
    ]
    raw = pd.DataFrame(events).assign(index=np.arange(len(events)))
    add_fwd_bwd_links(raw)
    assert raw["fwdbwd_index"].tolist() == [2, -1, 0, -1, -1, -1, -1]
    assert raw["fwdbwd"].tolist() == [0, -1, 1, -1, -1, -1, -1]


def test_without_arrows_nothing_is_added() -> None:
    raw = pd.DataFrame([event("a", 1, 1)])
    add_fwd_bwd_links(raw)
    assert "fwdbwd" not in raw


def test_a_time_counts_from_what_the_file_says() -> None:
    assert trace_event_timestamp_to_unixtime_ns(1.5, {"baseTimeNanoseconds": 10}) == 1510
    for metadata in ({}, {"baseTimeNanoseconds": None}):
        with pytest.raises(KeyError):
            trace_event_timestamp_to_unixtime_ns(1.5, metadata)
