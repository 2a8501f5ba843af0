"""The three questions that hta answers about where a device's time goes."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go
import pytest
from hta_traces import analysis, event, kernel
from hypothesis import given, settings
from hypothesis import strategies as st

from hta.trace_analysis import TraceAnalysis
from hta.utils.utils import get_kernel_type
from trace_files import write_trace

GEMM, NCCL, COPY, SYNC = "ampere_gemm", "ncclDevKernel_AllReduce", "Memcpy HtoD (Pinned -> Device)", "SyncBatchNorm"
TYPES = ("COMPUTATION", "COMMUNICATION", "MEMORY")

Spans = list[tuple[str, int, int]]
SPANS = st.lists(
    st.tuples(st.sampled_from([GEMM, NCCL, COPY, SYNC]), st.integers(0, 40), st.integers(0, 12)), max_size=9
)


def job(folder: Path, *ranks: Spans) -> TraceAnalysis:
    for rank, spans in enumerate(ranks):
        events = [kernel(name, ts, dur, correlation=n) for n, (name, ts, dur) in enumerate(spans, 1)]
        # Without any event a rank would not be there.
        write_trace(folder / f"rank-{rank}.json", rank=rank, events=[event("aten::mm", 0, 1), *events])
    return TraceAnalysis(trace_dir=str(folder))


def running(spans: Spans) -> dict[int, set[str]]:
    """The types of kernels that run in each microsecond, from the first start to the last end."""
    first, last = min(ts for _, ts, _ in spans), max(ts + dur for _, ts, dur in spans)
    return {
        now: {get_kernel_type(name) for name, ts, dur in spans if ts <= now < ts + dur} for now in range(first, last)
    }


@settings(max_examples=(settings().max_examples + 1) // 2)
@given(ranks=st.lists(SPANS, min_size=1, max_size=3))
def test_every_microsecond_is_counted_as_a_clock_would(
    tmp_path_factory: pytest.TempPathFactory, ranks: list[Spans]
) -> None:
    a = job(tmp_path_factory.mktemp("job"), *ranks)
    clocks = {rank: list(running(spans).values()) for rank, spans in enumerate(ranks) if spans}
    temporal = a.get_temporal_breakdown(visualize=False).set_index("rank")
    assert temporal.index.tolist() == list(clocks)
    for rank, clock in clocks.items():
        idle, compute = sum(not now for now in clock), sum("COMPUTATION" in now for now in clock)
        expected = [idle, compute, len(clock) - idle - compute, len(clock)]
        assert temporal.loc[rank].iloc[:4].tolist() == expected
        assert not clock or temporal.loc[rank].iloc[4:].sum() == pytest.approx(100, abs=0.02)

    together = Counter(" overlapping ".join(t for t in TYPES if t in now) for c in clocks.values() for now in c)
    del together[""]
    by_type, by_name = a.get_gpu_kernel_breakdown(visualize=False)
    assert dict(zip(by_type["kernel_type"], by_type["sum"], strict=True)) == together
    assert by_type["percentage"].sum() == pytest.approx(100 if together else 0, abs=0.4)
    typed = [dur for spans in ranks for name, _, dur in spans if name != SYNC]
    assert by_name["sum (us)"].sum() == sum(typed)

    overlap = a.get_comm_comp_overlap(visualize=False).set_index("rank")["comp_comm_overlap_pctg"]
    assert overlap.index.tolist() == list(range(len(ranks)))
    for rank, clock in clocks.items():
        comm = [now for now in clock if "COMMUNICATION" in now]
        hidden = sum("COMPUTATION" in now for now in comm)
        expected_ratio = 100 * hidden / len(comm) if comm else math.nan
        assert overlap[rank] == pytest.approx(expected_ratio, abs=0.0051, nan_ok=True)


def test_the_tables_have_htas_columns(tmp_path: Path) -> None:
    a = job(tmp_path, [(GEMM, 0, 10), (NCCL, 5, 10), (COPY, 20, 5)])
    temporal = a.get_temporal_breakdown(visualize=False)
    parts = ["idle_time", "compute_time", "non_compute_time"]
    times = [f"{part}(us)" for part in [*parts, "kernel_time"]]
    assert temporal.columns.tolist() == ["rank", *times, *(f"{part}_pctg" for part in parts)]
    assert temporal.iloc[0].tolist() == [0, 5, 10, 10, 25, 20, 40, 40]
    by_type, by_name = a.get_gpu_kernel_breakdown(visualize=False)
    assert by_type.to_dict("list") == {
        "kernel_type": ["COMMUNICATION", "COMPUTATION", "COMPUTATION overlapping COMMUNICATION", "MEMORY"],
        "sum": [5, 5, 5, 5],
        "percentage": [25.0] * 4,
    }
    statistics = ["sum (us)", "max (us)", "min (us)", "stddev", "mean (us)"]
    assert by_name.columns.tolist() == ["name", *statistics, "kernel_type", "rank"]
    assert by_name["name"].tolist() == [NCCL, GEMM, COPY]
    assert by_name.iloc[0, 1:6].tolist() == [10, 10, 10, 0, 10]
    assert isinstance(by_name.index, pd.RangeIndex)


def test_copies_can_be_left_out(tmp_path: Path) -> None:
    a = job(tmp_path, [(GEMM, 0, 10), (COPY, 5, 10)])
    by_type, by_name = a.get_gpu_kernel_breakdown(visualize=False, include_memory_kernels=False)
    assert by_type.to_dict("list") == {"kernel_type": ["COMPUTATION"], "sum": [10], "percentage": [100.0]}
    assert by_name["name"].tolist() == [GEMM]


def test_names_beyond_the_quantile_of_running_sums_are_folded(tmp_path: Path) -> None:
    # Running sums 50, 80, 95, 100: their median is 87.5.
    a = job(tmp_path, [("a", 0, 50), ("b", 100, 30), ("c", 200, 15), ("d", 300, 5)])
    _, table = a.get_gpu_kernel_breakdown(visualize=False, num_kernels=3, duration_ratio=0.5)
    assert dict(zip(table["name"], table["sum (us)"], strict=True)) == {"a": 50, "b": 30, "others": 20}


def test_few_names_are_never_folded(tmp_path: Path) -> None:
    a = job(tmp_path, [("a", 0, 50), ("b", 100, 30)])
    _, table = a.get_gpu_kernel_breakdown(visualize=False, num_kernels=2, duration_ratio=0)
    assert table["name"].tolist() == ["a", "b"]


def test_a_ratio_that_is_none_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        job(tmp_path, []).get_gpu_kernel_breakdown(visualize=False, duration_ratio=2)


def test_a_rank_without_device_work_does_not_hinder_the_others(tmp_path: Path) -> None:
    a = job(tmp_path, [], [(GEMM, 0, 10)])
    assert a.get_temporal_breakdown(visualize=False)["rank"].tolist() == [1]
    assert a.get_gpu_kernel_breakdown(visualize=False)[1]["rank"].tolist() == [1]


class TestFigures:
    """Plots are shown unless a caller does without."""

    @pytest.fixture
    def shown(self, monkeypatch: pytest.MonkeyPatch) -> list[go.Figure]:
        figures: list[go.Figure] = []
        monkeypatch.setattr(go.Figure, "show", lambda figure, *args, **kwargs: figures.append(figure))
        return figures

    @pytest.fixture
    def sparse(self, tmp_path: Path) -> TraceAnalysis:
        """Ranks 0 and 3, which compute and communicate."""
        for rank in (0, 3):
            events = [kernel(GEMM, 0, 10, correlation=1), kernel(NCCL, 5, 10, correlation=2)]
            write_trace(tmp_path / f"rank-{rank}.json", rank=rank, events=events)
        return TraceAnalysis(trace_dir=str(tmp_path))

    def test_the_temporal_breakdown_is_a_stacked_bar_per_rank(
        self, sparse: TraceAnalysis, shown: list[go.Figure]
    ) -> None:
        sparse.get_temporal_breakdown()
        (figure,) = shown
        assert figure.layout.title.text == "Temporal breakdown across ranks"
        assert [(bar.type, bar.name, bar.y[0]) for bar in figure.data] == [
            ("bar", "idle_time", 0),
            ("bar", "compute_time", pytest.approx(0.6667)),
            ("bar", "non_compute_time", pytest.approx(0.3333)),
        ]
        assert (figure.layout.yaxis.title.text, figure.layout.yaxis.tickformat) == ("Percentage", ".2%")

    def test_the_overlap_is_a_bar_per_rank(self, sparse: TraceAnalysis, shown: list[go.Figure]) -> None:
        sparse.get_comm_comp_overlap()
        (figure,) = shown
        assert figure.layout.title.text == "Computation-Communication Overlap"
        assert list(figure.data[0].y) == [0.5, 0.5]
        assert figure.layout.yaxis.title.text == "Computation-Communication Overlap Percentage"

    def test_the_kernel_breakdown_is_pies_and_the_mean_of_each_kernel(
        self, sparse: TraceAnalysis, shown: list[go.Figure]
    ) -> None:
        sparse.get_gpu_kernel_breakdown()
        assert [(figure.data[0].type, figure.layout.title.text) for figure in shown] == [
            ("pie", "Kernel Type Percentage Across All Ranks"),
            ("pie", 'Kernel type "COMPUTATION" - kernel distribution on each rank'),
            ("bar", f'Kernel type "COMPUTATION" - {GEMM}'),
            ("pie", 'Kernel type "COMMUNICATION" - kernel distribution on each rank'),
            ("bar", f'Kernel type "COMMUNICATION" - {NCCL}'),
        ]
        # One pie per rank, wherever its number lies.
        assert [pie.title.text for pie in shown[1].data] == ["Rank 0", "Rank 3"]

    def test_kernels_that_were_folded_have_a_slice_and_no_bar(
        self, sparse: TraceAnalysis, shown: list[go.Figure]
    ) -> None:
        sparse.get_gpu_kernel_breakdown(num_kernels=0, duration_ratio=0)
        assert [figure.data[0].type for figure in shown] == ["pie", "pie", "pie"]
        assert list(shown[1].data[0].labels) == ["others"]

    def test_types_of_less_than_a_promille_are_not_drawn(self, tmp_path: Path, shown: list[go.Figure]) -> None:
        a = job(tmp_path, [(GEMM, 0, 9_999), (NCCL, 10_000, 1)])
        by_type, _ = a.get_gpu_kernel_breakdown()
        assert by_type["percentage"].tolist() == [100.0, 0.0]
        assert list(shown[0].data[0].labels) == ["COMPUTATION"]

    def test_a_job_without_ranks_has_empty_plots(self, tmp_path: Path, shown: list[go.Figure]) -> None:
        a = TraceAnalysis(trace_dir=str(tmp_path))
        a.get_temporal_breakdown()
        a.get_comm_comp_overlap()
        a.get_gpu_kernel_breakdown()
        assert [figure.layout.title.text for figure in shown] == [
            "Temporal breakdown across ranks",
            "Computation-Communication Overlap",
            "Kernel Type Percentage Across All Ranks",
        ]

    def test_plots_can_be_done_without(self, tmp_path: Path, shown: list[go.Figure]) -> None:
        a = analysis(tmp_path, kernel(GEMM, 0, 10))
        a.get_temporal_breakdown(visualize=False)
        a.get_comm_comp_overlap(visualize=False)
        a.get_gpu_kernel_breakdown(visualize=False)
        assert not shown
