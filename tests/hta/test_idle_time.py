"""Idle time of streams by cause, as HTA returns and shows it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import plotly.graph_objects as go
import pytest
from hta_traces import Event, analysis, event, kernel, launch

from hta.analyzers.breakdown_analysis import BreakdownAnalysis
from hta.trace_analysis import TraceAnalysis
from trace_files import write_trace

SUMS = ["rank", "stream", "idle_category", "idle_time", "idle_time_ratio"]
STATISTICS = ["rank", "stream", "count", "mean", "std", "min", "25%", "50%", "75%", "max"]
EVENTS = [
    event("start", 0, 1),
    *(launch(n, ts) for n, ts in ((1, 10), (2, 11), (3, 12), (4, 400), (5, 13))),
    kernel("a", 20, 10, correlation=1),
    # Launched in time: after 5 µs, and after 60.
    kernel("b", 35, 10, correlation=2),
    kernel("c", 105, 10, correlation=3),
    # Launched when c had ended long ago.
    kernel("d", 405, 10, correlation=4),
    kernel("e", 30, 5, correlation=5, stream=20),
]


def quiet(a: TraceAnalysis, **options: object) -> pd.DataFrame:
    return a.get_idle_time_breakdown(visualize=False, **options)[0]  # type: ignore[arg-type]  # any of its options


@pytest.fixture
def two_ranks(tmp_path: Path) -> TraceAnalysis:
    for rank in (0, 3):
        write_trace(tmp_path / f"rank-{rank}.json", rank=rank, events=EVENTS)
    return TraceAnalysis(trace_dir=str(tmp_path))


def test_a_row_per_stream_and_cause(tmp_path: Path) -> None:
    sums = quiet(analysis(tmp_path, *EVENTS))
    assert sums.columns.tolist() == SUMS
    assert sums.values.tolist() == [
        [0, 7, "host_wait", 290.0, 0.82],
        [0, 7, "kernel_wait", 5.0, 0.01],
        [0, 7, "other", 60.0, 0.17],
        # The only kernel of its stream.
        [0, 20, "other", 0.0, pytest.approx(float("nan"), nan_ok=True)],
    ]
    assert [sums[column].dtype.kind for column in ("rank", "stream", "idle_time", "idle_time_ratio")] == list("iiff")


def test_gaps_are_described_if_asked_for(tmp_path: Path) -> None:
    a = analysis(tmp_path, *EVENTS)
    assert a.get_idle_time_breakdown(visualize=False)[1] is None
    table = a.get_idle_time_breakdown(visualize=False, show_idle_interval_stats=True)[1]
    assert table is not None
    assert table.columns.tolist() == STATISTICS
    assert table.index.name == "idle_category"
    assert table.index.tolist() == ["host_wait", "kernel_wait", "other", "other"]
    assert table["count"].tolist() == [1.0, 1.0, 1.0, 0.0]
    assert table["max"].tolist()[:3] == [290.0, 5.0, 60.0]
    assert table["std"].isna().all()


def test_the_delay_between_kernels_can_be_said(tmp_path: Path) -> None:
    a = analysis(tmp_path, *EVENTS)
    sums = quiet(a, consecutive_kernel_delay=61)
    assert sums.loc[sums["idle_category"] == "kernel_wait", "idle_time"].tolist() == [65.0]
    for delay in (0, -1):
        assert "kernel_wait" not in set(quiet(a, consecutive_kernel_delay=delay)["idle_category"])


def test_streams_come_in_the_order_they_are_asked_for(tmp_path: Path) -> None:
    a = analysis(tmp_path, *EVENTS)
    assert quiet(a, streams=[20, 7])["stream"].tolist() == [20, 7, 7, 7]
    assert quiet(a, streams=[99])["stream"].tolist() == []


def test_rows_of_each_rank_are_counted_by_themselves_in_the_order_asked_for(two_ranks: TraceAnalysis) -> None:
    sums = quiet(two_ranks, ranks=[3, 0])
    assert sums["rank"].tolist() == [3] * 4 + [0] * 4
    assert sums.index.tolist() == [0, 1, 2, 3] * 2
    assert quiet(two_ranks)["rank"].unique().tolist() == [0]


def test_without_rank_0_the_first_rank_is_looked_at(tmp_path: Path) -> None:
    write_trace(tmp_path / "rank-3.json", rank=3, events=EVENTS)
    assert quiet(TraceAnalysis(trace_dir=str(tmp_path)))["rank"].unique().tolist() == [3]


def test_a_rank_that_is_not_there_is_an_error(two_ranks: TraceAnalysis) -> None:
    with pytest.raises(ValueError, match="rank 1 does not exist"):
        quiet(two_ranks, ranks=[1])


@pytest.mark.parametrize("events", [[], [event("a", 0, 1)], [kernel("Stream Sync", 5, 9, cat="cuda_sync")]])
def test_without_work_the_tables_are_empty(
    tmp_path: Path, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(go.Figure, "show", lambda figure, *args, **kwargs: None)
    sums, described = analysis(tmp_path, *events).get_idle_time_breakdown(show_idle_interval_stats=True)
    assert sums.columns.tolist() == SUMS
    assert described is not None
    assert described.columns.tolist() == STATISTICS
    assert sums.empty and described.empty


def test_waiting_is_no_work(tmp_path: Path) -> None:
    sums = quiet(analysis(tmp_path, *EVENTS, kernel("Stream Sync", 120, 280, cat="cuda_sync", correlation=4)))
    assert sums.loc[0, "idle_time"] == 290.0


def test_each_rank_is_shown_and_its_streams_are_text_then(
    two_ranks: TraceAnalysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[go.Figure] = []
    monkeypatch.setattr(go.Figure, "show", lambda figure, *args, **kwargs: shown.append(figure))
    sums, _ = two_ranks.get_idle_time_breakdown(ranks=[0, 3])
    assert sums["stream"].unique().tolist() == ["7", "20"]
    titles = [figure.layout.title.text for figure in shown]
    assert titles == [f"Idle time breakdown on rank {rank} per CUDA stream" for rank in (0, 3)]
    assert shown[0].layout.yaxis.title.text == "Percentage"
    # Not rounded to two places, as the table is.
    assert [bars.y[0] for bars in shown[0].data] == pytest.approx([290 / 355, 5 / 355, 60 / 355])
    two_ranks.get_idle_time_breakdown(visualize_pctg=False)
    assert shown[2].layout.yaxis.title.text == "Idle time (us)"


def test_the_class_behind_it_looks_at_one_rank(two_ranks: TraceAnalysis) -> None:
    sums, _ = BreakdownAnalysis.get_idle_time_breakdown(two_ranks.t, 30, rank=3, visualize=False)
    pd.testing.assert_frame_equal(sums, quiet(two_ranks, ranks=[3]))


def test_bug_23_a_kernel_within_another_leaves_no_gap_behind_it(tmp_path: Path) -> None:
    nested = [kernel(f"k{n}", ts, dur, correlation=n) for n, (ts, dur) in enumerate([(0, 100), (10, 10), (110, 5)], 1)]
    sums = quiet(analysis(tmp_path, *nested))
    # HTA: -90 before the second and 90 before the third.
    assert sums[["idle_category", "idle_time"]].values.tolist() == [["kernel_wait", 10.0], ["other", 0.0]]


def test_bug_23_a_kernel_without_a_launch_does_not_wait_for_the_files_first_event(tmp_path: Path) -> None:
    # Its link is 0, which is not the event of this number.
    kernels = [kernel("a", 10, 5, correlation=1), kernel("b", 100, 5, correlation=2)]
    sums = quiet(analysis(tmp_path, event("first", 50, 1), *kernels))
    assert sums[["idle_category", "idle_time"]].values.tolist() == [["other", 85.0]]
