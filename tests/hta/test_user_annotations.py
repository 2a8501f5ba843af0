"""hta says how long named ranges take, and in which of them each kernel runs."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import plotly.graph_objects as go
import pytest
from hta_traces import Event, analysis, event, kernel, launch
from hypothesis import given, settings
from hypothesis import strategies as st

from hta._bridge.annotations import _shortest_over
from hta.trace_analysis import TraceAnalysis
from trace_files import write_trace

COLUMNS = ["name", "sum (us)", "max (us)", "min (us)", "stddev", "mean (us)", "rank"]
TIMES = st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12))


def on_device(name: str, ts: float, dur: float, stream: int = 7) -> Event:
    return event(name, ts, dur, cat="gpu_user_annotation", pid=0, tid=stream)


def on_host(name: str, ts: float, dur: float) -> Event:
    return event(name, ts, dur, cat="user_annotation")


def ranges_of(a: TraceAnalysis) -> dict[str, str]:
    """The range that each kernel runs in."""
    frame = a.get_gpu_kernels_with_user_annotations(0)
    assert frame is not None
    return dict(zip(frame["s_name"], frame["s_user_annotation"], strict=True))


class TestKernels:
    def test_a_kernel_is_in_the_shortest_range_that_runs_at_the_same_time(self, tmp_path: Path) -> None:
        a = analysis(
            tmp_path,
            on_device("forward", 0, 100),
            on_device("attention", 20, 30),
            on_device("elsewhere", 0, 200, stream=9),
            kernel("first", 5, 10, correlation=1),
            kernel("inner", 25, 10, correlation=2),
            kernel("reaches_out_of_it", 45, 20, correlation=3),
            kernel("touches", 100, 5, correlation=4),
        )
        assert ranges_of(a) == {
            "first": "forward",
            "inner": "attention",
            "reaches_out_of_it": "attention",
            "touches": "",
        }

    def test_bug_18_a_kernel_without_duration_is_in_the_range_around_it(self, tmp_path: Path) -> None:
        a = analysis(
            tmp_path,
            on_device("r", 10, 10),
            kernel("inside", 15, 0, correlation=1),
            kernel("at_its_start", 10, 0, correlation=2),
            kernel("at_its_end", 20, 0, correlation=3),
        )
        assert ranges_of(a) == {"inside": "r", "at_its_start": "", "at_its_end": ""}

    def test_rows_are_the_devices_with_all_columns(self, tmp_path: Path) -> None:
        a = analysis(tmp_path, on_device("r<int>(x)", 0, 50), launch(1, 0), kernel("f<4>(int)", 10, 5, correlation=1))
        columns = a.t.get_trace(0).columns.tolist()
        frame = a.get_gpu_kernels_with_user_annotations(0)
        assert frame is not None
        assert frame.columns.tolist() == [*columns, "user_annotation", "s_name", "s_cat", "s_user_annotation"]
        assert frame.loc[0, ["s_name", "s_cat", "s_user_annotation"]].tolist() == ["f", "kernel", "r"]
        assert isinstance(frame.index, pd.RangeIndex)
        assert a.t.get_trace(0).columns.tolist() == columns
        whole = a.get_gpu_kernels_with_user_annotations(0, shorten_names=False)
        assert whole is not None and whole.loc[0, "s_user_annotation"] == "r<int>(x)"
        numbers = a.get_gpu_kernels_with_user_annotations(0, expand_names=False)
        assert numbers is not None and "s_name" not in numbers
        assert a.t.symbol_table.sym_table[numbers["user_annotation"].iloc[0]] == "r<int>(x)"

    def test_a_kernel_outside_of_all_ranges_has_none(self, tmp_path: Path) -> None:
        frame = analysis(tmp_path, on_device("r", 0, 5), kernel("k", 10, 5)).get_gpu_kernels_with_user_annotations(
            0, expand_names=False
        )
        assert frame is not None and frame["user_annotation"].tolist() == [-1]

    def test_without_ranges_on_the_device_there_is_nothing_to_tell(self, tmp_path: Path) -> None:
        assert (
            analysis(tmp_path, on_host("r", 0, 5), kernel("k", 1, 2)).get_gpu_kernels_with_user_annotations(0) is None
        )

    @settings(deadline=None)
    @given(kernels=st.lists(TIMES, max_size=12), ranges=st.lists(TIMES, max_size=8))
    def test_comparing_each_with_each_gives_the_same(
        self, kernels: list[tuple[int, int, int]], ranges: list[tuple[int, int, int]]
    ) -> None:
        def frame(times: list[tuple[int, int, int]]) -> pd.DataFrame:
            rows = [(0, tid, ts, ts + dur) for tid, ts, dur in times]
            built: pd.DataFrame = pd.DataFrame(rows, columns=["pid", "tid", "ts", "end"], dtype="int64")
            return built

        found = _shortest_over(frame(kernels), frame(ranges))
        for (tid, ts, dur), place in zip(kernels, found, strict=True):
            lengths = {
                number: length
                for number, (on, start, length) in enumerate(ranges)
                if on == tid and ts < start + length and start < ts + dur
            }
            assert (place in lengths and lengths[place] == min(lengths.values())) if lengths else place == -1


class TestBreakdown:
    def test_each_range_is_described(self, tmp_path: Path) -> None:
        a = analysis(
            tmp_path, on_device("b", 0, 10), on_device("a", 20, 30), on_device("a", 60, 10), on_host("h", 0, 7)
        )
        table = a.get_gpu_user_annotation_breakdown(visualize=False)
        assert table is not None
        assert table.columns.tolist() == COLUMNS
        assert table.iloc[:, :4].to_numpy().tolist() == [["a", 40, 30, 10], ["b", 10, 10, 10]]
        assert table["stddev"].tolist() == [pytest.approx(14.142, abs=1e-3), 0]
        assert table["mean (us)"].tolist() == [20, 10]
        assert isinstance(table.index, pd.RangeIndex)

    def test_ranges_of_the_host_can_be_chosen(self, tmp_path: Path) -> None:
        a = analysis(tmp_path, on_device("d", 0, 10), on_host("h", 0, 7))
        table = a.get_gpu_user_annotation_breakdown(use_gpu_annotation=False, visualize=False)
        assert table is not None
        assert table[["name", "sum (us)"]].to_numpy().tolist() == [["h", 7]]

    def test_rows_are_in_order_of_rank_and_name(self, tmp_path: Path) -> None:
        for rank in (2, 0):
            write_trace(tmp_path / f"rank-{rank}.json", rank=rank, events=[on_device("b", 0, 9), on_device("a", 0, 1)])
        table = TraceAnalysis(trace_dir=str(tmp_path)).get_gpu_user_annotation_breakdown(visualize=False)
        assert table is not None
        assert table[["rank", "name"]].to_numpy().tolist() == [[0, "a"], [0, "b"], [2, "a"], [2, "b"]]

    def test_names_that_are_allowed_are_never_folded(self, tmp_path: Path) -> None:
        # Running sums 50, 80, 95, 100: their median is 87.5.
        times = {"a": 50, "b": 30, "c.x": 15, "d.x": 4, "e": 1}
        a = analysis(tmp_path, *(on_device(name, 100, dur) for name, dur in times.items()))

        def sums(allowed: list[str] | None) -> dict[str, int]:
            table = a.get_gpu_user_annotation_breakdown(
                visualize=False, num_kernels=3, duration_ratio=0.5, allowlist_patterns=allowed
            )
            assert table is not None
            return dict(zip(table["name"], table["sum (us)"], strict=True))

        assert sums(None) == {"a": 50, "b": 30, "c.x": 15, "others": 5}
        assert sums(["d.x", "?"]) == {"a": 50, "b": 30, "c.x": 15, "d.x": 4, "others": 1}
        # A pattern is no regular expression.
        assert sums(["d?x", "."]) == {"a": 50, "b": 30, "c.x": 15, "d.x": 4, "others": 1}

    def test_without_ranges_there_is_nothing_to_tell(self, tmp_path: Path) -> None:
        a = analysis(tmp_path, on_host("h", 0, 5))
        assert a.get_gpu_user_annotation_breakdown(visualize=False) is None

    def test_ranges_are_plotted_unless_a_caller_does_without(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shown: list[go.Figure] = []
        monkeypatch.setattr(go.Figure, "show", lambda figure, *args, **kwargs: shown.append(figure))
        a = analysis(tmp_path, on_device("r", 0, 10))
        a.get_gpu_user_annotation_breakdown(visualize=False)
        assert not shown
        a.get_gpu_user_annotation_breakdown()
        assert [figure.data[0].type for figure in shown] == ["pie", "bar"]
