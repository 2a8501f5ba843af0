"""Timelines of HTA's frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest
from hta_traces import analysis, event, kernel, launch, step

from hta.analyzers import timeline as gpu_timeline
from hta.common import timeline
from hta.common.timeline import (
    EventType,
    PlotFormat,
    Timeline,
    TimelinePlotSetting,
    align_module_with_kernels,
    auto_detect_setting,
    plot_events_timeline,
    prepare_timeline_events,
)
from hta.common.trace import Trace
from hta.common.trace_filter import GPUKernelFilter
from hta.common.trace_symbol_table import TraceSymbolTable


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[go.Figure]:
    figures: list[go.Figure] = []
    monkeypatch.setattr(go.Figure, "show", lambda self, **options: figures.append(self))
    return figures


@pytest.fixture
def t(tmp_path: Path) -> Trace:
    events = [step(1, 0, 5000), event("aten::mm", 10, 2000), launch(1, 20), kernel("gemm", 3000, 1500), launch(2, 30)]
    return analysis(tmp_path, *events, kernel("copy", 100, 7, correlation=2, stream=20)).t


def frame(**columns: list[Any]) -> pd.DataFrame:
    rows = len(next(iter(columns.values())))
    common: dict[str, list[Any]] = {"name": ["a"] * rows, "ts": [5] * rows, "dur": [1] * rows, "stream": [-1] * rows}
    table: pd.DataFrame = pd.DataFrame(common | columns)
    return table


def test_events_get_start_end_and_row(t: Trace) -> None:
    events = prepare_timeline_events(t.get_trace(0), TimelinePlotSetting(), t.symbol_table)
    rows = events.set_index("name")[["calibrated_start_global", "calibrated_end_global", "task"]]
    assert rows.loc["gemm"].tolist() == [3000, 4500, "gpu stream 007"]
    # Too short to be seen.
    assert rows.loc["copy"].tolist() == [100, 1100, "gpu stream 020"]
    assert rows.loc["aten::mm"].tolist() == [10, 2010, "cpu events"]


def test_times_and_lengths_may_stay_as_they_are() -> None:
    setting = TimelinePlotSetting(use_global_time=True, amplify_short_events=False)
    events = prepare_timeline_events(frame(ts=[7, 9]), setting)
    assert events["calibrated_start_global"].tolist() == [7, 9]
    assert events["calibrated_end_global"].tolist() == [8, 10]


def test_without_what_is_drawn_there_is_nothing() -> None:
    assert prepare_timeline_events(pd.DataFrame()).empty
    assert prepare_timeline_events(pd.DataFrame({"name": ["a"]})).empty
    assert plot_events_timeline("nothing", pd.DataFrame()) is None


@pytest.mark.parametrize(
    ("events", "setting", "tasks"),
    [
        (frame(stream=[7, 8]), {}, ["gpu stream 007", "gpu stream 008"]),
        (frame(stream=[7, 7]), {}, ["gpu events", "gpu events"]),
        (frame(depth=[0, 1]), {}, ["cpu level 000", "cpu level 001"]),
        (
            frame(depth=[0, 1], tid=[3, 4]),
            {"compress_threads": False},
            ["cpu thread 3 level 000", "cpu thread 4 level 001"],
        ),
        (frame(rank=[0, 12]), {}, ["rank 000 cpu events", "rank 012 cpu events"]),
        (frame(trace=["b", "a"]), {}, ["a cpu events", "b cpu events"]),
    ],
)
def test_rows_are_queues_levels_ranks_and_traces(
    events: pd.DataFrame, setting: dict[str, Any], tasks: list[str]
) -> None:
    assert prepare_timeline_events(events, TimelinePlotSetting(**setting))["task"].tolist() == tasks


def test_events_say_where_they_ran() -> None:
    setting = TimelinePlotSetting()
    for streams, kind in (
        ([7, 0], EventType.GPUEvents),
        ([-1, 0], EventType.AllEvents),
        ([-1, -1], EventType.CPUEvents),
    ):
        auto_detect_setting(frame(stream=streams), setting)
        assert setting.event_type is kind


def test_labels_are_short() -> None:
    assert timeline._simplify_name("autograd::engine::evaluate_function: TBackward0") == "autograd::TBackward0"
    kernel_name = "void (anonymous namespace)::permute_embeddings<float>(float const*, long)"
    assert timeline._simplify_name(kernel_name) == "(anonymous namespace)::permute_embeddings<float>"[:42] + "..."
    assert timeline._simplify_name("Memcpy HtoD (Pinned -> Device)") == "Memcpy HtoD (Pinned -> Device)"


def test_a_timeline_is_drawn_in_microseconds(t: Trace, shown: list[go.Figure]) -> None:
    chart = Timeline(t.get_trace(0), t.symbol_table, filter_func=GPUKernelFilter())
    assert not Timeline.is_timeline_events(t.get_trace(0), chart.setting)
    assert Timeline.is_timeline_events(chart.timeline_events, chart.setting)
    chart.plot("kernels")
    [figure] = shown
    bars = {bar.name: (list(bar.base), list(bar.x), list(bar.y)) for bar in figure.data}
    # Time counts from the first event that is drawn.
    assert bars == {"gemm": ([2900], [1500], ["gpu stream 007"]), "copy": ([0], [1000], ["gpu stream 020"])}
    assert figure.layout.xaxis.type == "linear"


def test_a_timeline_is_written_or_returned_on_request(t: Trace, tmp_path: Path) -> None:
    chart = Timeline(t.get_trace(0), t.symbol_table)
    chart.plot("saved", save_path=str(tmp_path / "kernels.html"))
    assert "gemm" in (tmp_path / "kernels.html").read_text()
    page = plot_events_timeline("page", chart.timeline_events, TimelinePlotSetting(plot_format=PlotFormat.HTML))
    assert page is not None and "<html>" in page and "gemm" in page


def test_names_of_files_and_titles() -> None:
    assert timeline.get_fig_title_from_fig_name("my_figure-name") == "My Figure Name"
    assert timeline.get_fig_name_from_fig_title("My Figure") == "my_figure"
    assert timeline.get_fig_title_from_fig_name("") == "Untitled Figure"


LAUNCHED = frame(
    index=[0, 1, 2],
    stream=[-1, 7, -1],
    name=["forward pass", "gemm", "loss"],
    first_kernel_start=[50, 50, -1],
    kernel_span=[30, 30, 0],
    num_kernels=[1, 1, 0],
)


def test_modules_are_as_long_as_their_work() -> None:
    aligned = align_module_with_kernels(LAUNCHED, ["forward", "loss"])
    assert aligned[["name", "stream", "ts", "dur"]].to_numpy().tolist() == [
        ["gemm", 7, 5, 1],
        ["forward pass", timeline.AnnotationStreamID, 50, 30],
    ]
    assert len(align_module_with_kernels(LAUNCHED, ["forward"], include_original_cpu_events=True)) == 3


def test_modules_are_found_by_their_symbols_too() -> None:
    symbols = TraceSymbolTable()
    symbols.add_symbols(LAUNCHED["name"])
    encoded = LAUNCHED.assign(name=[0, 1, 2])
    assert len(align_module_with_kernels(encoded, ["forward"], symbols)) == 2
    with pytest.raises(ValueError, match="names as text"):
        align_module_with_kernels(encoded, ["forward"])
    with pytest.raises(ValueError, match="make a CallGraph"):
        align_module_with_kernels(LAUNCHED.drop(columns="num_kernels"), ["forward"])


def test_kernels_of_ranks_and_streams_are_shown(t: Trace, shown: list[go.Figure]) -> None:
    gpu_timeline.plot_timeline_gpu_kernels_from_trace("all", t)
    gpu_timeline.plot_timeline_gpu_kernels_from_trace("one", t, ranks=[0], streams=[20], duration_threshold=5)
    everything, one = shown
    assert {bar.name for bar in everything.data} == {"gemm", "copy"}
    [bar] = one.data
    assert list(bar.y) == ["rank 0 stream 20"]
    # Milliseconds.
    assert list(bar.x) == [0.007]


def test_without_steps_all_kernels_are_shown(tmp_path: Path) -> None:
    t = analysis(tmp_path, launch(1, 1), kernel("gemm", 5, 2)).t
    rows = t.get_trace(0).assign(rank=0)
    assert gpu_timeline.prepare_timeline_gpu_events(rows, t.symbol_table)["label"].tolist() == ["gemm"]
    assert gpu_timeline.prepare_timeline_gpu_events(rows, t.symbol_table, iterations=[3]).empty


def test_a_job_without_ranks_has_an_empty_timeline(tmp_path: Path, shown: list[go.Figure]) -> None:
    gpu_timeline.plot_timeline_gpu_kernels_from_trace("none", Trace(trace_dir=str(tmp_path)))
    assert [list(bars.y) for bars in shown[0].data] == [[]]


def test_rows_that_cannot_be_drawn_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no columns \['iteration'"):
        gpu_timeline.prepare_timeline_gpu_events(pd.DataFrame({"name": [1]}), TraceSymbolTable())
    with pytest.raises(ValueError, match="no columns"):
        gpu_timeline.plot_timeline("none", pd.DataFrame({"name": [1]}))
