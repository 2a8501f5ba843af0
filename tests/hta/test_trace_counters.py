"""Queue lengths and bandwidths over time, as hta returns them."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest
from hta_traces import Event, analysis, event, kernel, launch

from hta.analyzers.trace_counters import TraceCounters
from hta.trace_analysis import TraceAnalysis
from trace_files import write_trace

STATISTICS = ["count", "mean", "std", "min", "25%", "50%", "75%", "max"]
HTOD = "Memcpy HtoD (Pinned -> Device)"


def pair(correlation: int, launched: int, started: int, stream: int = 7) -> list[Event]:
    """A launch and its kernel of 5 µs."""
    return [launch(correlation, launched), kernel("gemm", started, 5, correlation=correlation, stream=stream)]


def copy(ts: int, dur: float, gbps: float | None, *, name: str = HTOD) -> Event:
    found = kernel(name, ts, dur, correlation=ts + 1, cat="gpu_memcpy")
    if gbps is not None:
        found["args"]["memory bandwidth (GB/s)"] = gbps
    return found


def same(ours: pd.DataFrame | None, other: pd.DataFrame | None) -> bool:
    return ours is not None and other is not None and ours.equals(other) and not ours.empty


# Stream 7 holds one launch from 10 to 20, two from 20 to 40, one until 50; stream 9 one from 30 to 35.
LAUNCHES = [event("first", 0, 1), *pair(1, 10, 40), *pair(2, 20, 50), *pair(3, 30, 35, stream=9), event("last", 100, 1)]


def test_a_series_has_a_row_for_each_launch_and_each_start(tmp_path: Path) -> None:
    (rank, series), *others = analysis(tmp_path, *LAUNCHES).get_queue_length_time_series().items()
    assert (rank, others) == (0, [])
    assert series.columns.tolist() == ["ts", "pid", "tid", "stream", "queue_length"]
    assert series[["ts", "queue_length"]].to_numpy().tolist() == [[10, 1], [20, 2], [40, 1], [50, 0], [30, 1], [35, 0]]
    assert series["stream"].tolist() == [7, 7, 7, 7, 9, 9]
    assert series["queue_length"].dtype == "int64"


def test_within_a_microsecond_a_queue_changes_in_the_order_of_nanoseconds(tmp_path: Path) -> None:
    # The first kernel starts, and 300 ns later the second is launched: the queue never holds two.
    events = [
        event("first", 0, 1),
        launch(1, 10.2),
        kernel("a", 20.2, 5, correlation=1),
        launch(2, 20.5),
        kernel("b", 30.5, 5, correlation=2),
    ]
    a = analysis(tmp_path, *events)
    series = a.get_queue_length_time_series()[0]
    assert series[["ts", "queue_length"]].to_numpy().tolist() == [[11, 1], [21, 0], [21, 1], [31, 0]]
    # A recording in whole microseconds does not say which came first: then it was the launch.
    (tmp_path / "whole").mkdir()
    whole = analysis(tmp_path / "whole", *({**entry, "ts": int(entry["ts"])} for entry in events))
    assert whole.get_queue_length_time_series()[0]["queue_length"].tolist() == [1, 2, 1, 0]


def test_rows_of_a_series_carry_the_index_of_their_event_and_the_place_of_the_kernel(tmp_path: Path) -> None:
    a = analysis(tmp_path, *LAUNCHES)
    series = a.get_queue_length_time_series()[0]
    assert series.index.name == "index"
    names = a.t.get_trace(0).loc[series.index, "name"].map(a.t.symbol_table.get_sym_table_series())
    assert names.tolist() == ["cudaLaunchKernel"] * 2 + ["gemm"] * 2 + ["cudaLaunchKernel", "gemm"]
    # The host's launches ran in process 1.
    assert series["pid"].tolist() == [0] * 6
    assert series["tid"].tolist() == series["stream"].tolist()


def test_a_launch_of_several_kernels_is_shown_where_the_last_of_them_ran(tmp_path: Path) -> None:
    kernels = [kernel("gemm", ts, 5, correlation=1, stream=stream) for stream, ts in ((7, 20), (9, 30))]
    series = analysis(tmp_path, event("first", 0, 1), launch(1, 10), *kernels).get_queue_length_time_series()[0]
    assert series[["ts", "stream", "tid"]].to_numpy().tolist() == [[10, 7, 9], [20, 7, 7], [10, 9, 9], [30, 9, 9]]


def test_a_series_may_be_written_to(tmp_path: Path) -> None:
    series = analysis(tmp_path, *LAUNCHES).get_queue_length_time_series()[0]
    for column in series:
        series.loc[series["stream"] == 7, column] = 9
    assert series["ts"].tolist() == [9, 9, 9, 9, 30, 35]


def test_the_tutorials_name_of_the_series_is_the_same_method(tmp_path: Path) -> None:
    a = analysis(tmp_path, *LAUNCHES)
    assert same(a.get_queue_length_series()[0], a.get_queue_length_time_series()[0])


def test_only_htas_list_of_calls_are_launches(tmp_path: Path) -> None:
    graph = event("cudaGraphLaunch", 5, 2, cat="cuda_runtime", correlation=1)
    a = analysis(tmp_path, event("aten::mm", 0, 1), graph, kernel("gemm", 20, 5, correlation=1))
    assert a.get_queue_length_time_series() == {}
    assert a.get_queue_length_summary() is None


def test_a_summary_describes_the_samples_of_each_stream(tmp_path: Path) -> None:
    a = analysis(tmp_path, *LAUNCHES)
    summary = a.get_queue_length_summary()
    assert summary is not None
    assert summary.index.tolist() == [(0, 7), (0, 9)]
    assert summary.index.names == ["rank", "stream"]
    assert summary.columns.equals(pd.MultiIndex.from_product([["queue_length"], STATISTICS]))
    described = pd.Series([1.0, 2.0, 1.0, 0.0]).describe()
    assert summary.to_numpy()[0].tolist() == pytest.approx(described.tolist())


def test_a_summary_of_a_series_leaves_the_series_as_it_was(tmp_path: Path) -> None:
    a = analysis(tmp_path, *LAUNCHES)
    series = a.get_queue_length_time_series()
    before = series[0].copy()
    summary = a.get_queue_length_summary_from_time_series(series)
    assert same(series[0], before)
    assert same(summary, a.get_queue_length_summary())
    assert a.get_queue_length_summary_from_time_series({}) is None


def test_time_on_a_full_queue_counts_until_the_next_change(tmp_path: Path) -> None:
    a = analysis(tmp_path, *LAUNCHES)
    full = a.get_time_spent_blocked_on_full_queue(a.get_queue_length_time_series(), max_queue_length=2)
    assert full.to_dict("list") == {
        "rank": [0],
        "stream": [7],
        "duration_at_max_queue_length": [20],
        # The trace lasts from 0 to 100.
        "relative_duration_at_max_queue_length": [0.2],
    }
    assert isinstance(full.index, pd.RangeIndex)


def test_a_queue_that_is_never_full_has_no_row(tmp_path: Path) -> None:
    a = analysis(tmp_path, *LAUNCHES)
    for series in (a.get_queue_length_time_series(), {}):
        full = a.get_time_spent_blocked_on_full_queue(series)
        assert full.empty
        assert len(full.columns) == 4


def test_bug_6_every_stream_that_was_full_has_a_row(tmp_path: Path) -> None:
    a = analysis(tmp_path, *LAUNCHES)
    full = a.get_time_spent_blocked_on_full_queue(a.get_queue_length_time_series(), max_queue_length=1)
    assert full[["stream", "duration_at_max_queue_length"]].to_numpy().tolist() == [[7, 40], [9, 5]]


def test_bug_13_a_launch_that_was_recorded_twice_waits_once(tmp_path: Path) -> None:
    twice = [launch(1, 10), launch(1, 11, cat="cuda_driver"), kernel("gemm", 40, 5, correlation=1)]
    series = analysis(tmp_path, event("aten::mm", 0, 1), *twice).get_queue_length_time_series()[0]
    assert series["queue_length"].tolist() == [1, 0]


def test_ranks_are_those_asked_for_and_by_default_the_first(tmp_path: Path) -> None:
    for rank in (2, 5):
        write_trace(tmp_path / f"rank-{rank}.json", rank=rank, events=[event("a", 0, 1), *pair(1, 10, 40)])
    a = TraceAnalysis(trace_dir=str(tmp_path))
    assert list(a.get_queue_length_time_series()) == [2]
    assert list(a.get_queue_length_time_series([5, 2])) == [2, 5]
    with pytest.raises(ValueError, match="rank 7 does not exist"):
        a.get_memory_bw_summary([7])


def test_bandwidths_of_a_kind_add_up_and_end_at_0(tmp_path: Path) -> None:
    copies = [copy(10, 20, 5.0), copy(20, 20, 3.0), copy(15, 5, 700.0, name="Memset (Device)")]
    series = analysis(tmp_path, event("a", 0, 1), *copies).get_memory_bw_time_series()[0]
    assert series.columns.tolist() == ["ts", "pid", "name", "memory_bw_gbps"]
    assert series.drop(columns="pid").to_numpy().tolist() == [
        [10, "Memcpy HtoD", 5],
        [20, "Memcpy HtoD", 8],
        [30, "Memcpy HtoD", 3],
        [40, "Memcpy HtoD", 0],
        [15, "Memset", 700],
        [20, "Memset", 0],
    ]
    assert series["ts"].dtype == "float64"


def test_a_copy_within_one_microsecond_lasts_one(tmp_path: Path) -> None:
    series = analysis(tmp_path, event("a", 0, 1), copy(10, 0, 5.0)).get_memory_bw_time_series()[0]
    assert series[["ts", "memory_bw_gbps"]].to_numpy().tolist() == [[10, 5], [11, 0]]


def test_a_summary_describes_bandwidth_while_there_is_any(tmp_path: Path) -> None:
    summary = analysis(tmp_path, event("a", 0, 1), copy(10, 20, 5.0), copy(50, 20, 3.0)).get_memory_bw_summary()
    assert summary is not None
    assert summary.index.names == ["rank", "name"]
    (row,) = summary.itertuples()
    assert row[0] == (0, "Memcpy HtoD")
    assert list(row[1:]) == pytest.approx([2, 4, math.sqrt(2), 3, 3.5, 4, 4.5, 5])


def test_bug_24_no_remains_of_rounding_are_counted_as_bandwidth(tmp_path: Path) -> None:
    # 0.1 + 0.2 - 0.1 - 0.2 is not 0 in floating point.
    a = analysis(tmp_path, event("a", 0, 1), copy(10, 20, 0.1), copy(15, 20, 0.2))
    assert a.get_memory_bw_time_series()[0]["memory_bw_gbps"].tolist()[-1] == 0
    summary = a.get_memory_bw_summary()
    assert summary is not None
    assert summary[("memory_bw_gbps", "count")].tolist() == [3]
    assert summary[("memory_bw_gbps", "min")].tolist() == pytest.approx([0.1])


def test_without_copies_there_is_no_summary_and_without_bandwidth_an_empty_one(tmp_path: Path) -> None:
    assert analysis(tmp_path / "none", event("a", 0, 1)).get_memory_bw_summary() is None
    summary = analysis(tmp_path / "unknown", event("a", 0, 1), copy(10, 20, None)).get_memory_bw_summary()
    assert summary is not None
    assert summary.empty
    assert summary.columns.equals(pd.MultiIndex.from_product([["memory_bw_gbps"], STATISTICS]))


def test_a_rank_without_bandwidth_does_not_hinder_the_others(tmp_path: Path) -> None:
    for rank, gbps in enumerate((None, 5.0)):
        write_trace(tmp_path / f"rank-{rank}.json", rank=rank, events=[event("a", 0, 1), copy(10, 20, gbps)])
    summary = TraceAnalysis(trace_dir=str(tmp_path)).get_memory_bw_summary([0, 1])
    assert summary is not None
    assert summary.index.tolist() == [(1, "Memcpy HtoD")]


def test_the_class_answers_as_the_methods_do(tmp_path: Path) -> None:
    a = analysis(tmp_path, *LAUNCHES, copy(60, 20, 5.0))
    assert same(TraceCounters.get_queue_length_summary(a.t), a.get_queue_length_summary())
    assert same(TraceCounters.get_memory_bw_summary(a.t), a.get_memory_bw_summary())
