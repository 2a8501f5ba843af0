"""Two traces compared as HTA compares them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest
from hta_traces import event, kernel, launch, step

from hta.common.trace import Trace
from hta.trace_analysis import TraceAnalysis
from hta.trace_diff import DeviceType, LabeledTrace, TraceDiff
from trace_files import REAL_TRACES, needs_real_traces, write_trace

DATA = Path(__file__).parents[1] / "data"
SAMPLE = DATA / "hta" / "sample_2_ranks"
REFERENCE = json.loads((DATA / "trace_diff" / "sample_2_ranks.json").read_text())


@pytest.fixture
def folders(tmp_path: Path) -> tuple[str, str]:
    """A step of two additions and a kernel, and one where something else was added instead of one."""
    begin = [step(1, 100, 100), event("add", 110, 10), launch(1, 125)]
    gemm = kernel("void gemm<4>(int)", 130, 20, correlation=1)
    write_trace(tmp_path / "a" / "0.json", rank=0, events=[*begin, event("add", 160, 5), gemm])
    write_trace(tmp_path / "b" / "0.json", rank=0, events=[*begin, event("mul", 160, 7), gemm])
    return str(tmp_path / "a"), str(tmp_path / "b")


def test_names_are_compared_by_counts_and_microseconds(folders: tuple[str, str]) -> None:
    table = TraceDiff.compare_traces(*folders)
    assert table.index.name == "name"
    assert table.columns.tolist() == [
        "Control_counts",
        "Control_total_duration",
        "Test_counts",
        "Test_total_duration",
        "diff_counts",
        "diff_duration",
        "counts_change_categories",
    ]
    assert table.loc["add"].tolist() == [2, 15, 1, 10, -1, -5, "-"]
    assert table.loc["mul"].tolist() == [0, 0, 1, 7, 1, 7, "+"]
    assert table.loc["cudaLaunchKernel", "counts_change_categories"] == "="
    # The test's own names come last.
    assert table.index.tolist() == ["ProfilerStep#1", "add", "cudaLaunchKernel", "void gemm<4>(int)", "mul"]
    assert TraceDiff.compare_traces(folders[0], folders[0]).dtypes.iloc[:6].unique().tolist() == ["int64"]


def test_names_may_be_shortened_and_sides_chosen(folders: tuple[str, str]) -> None:
    device = TraceDiff.compare_traces(*folders, device_type=DeviceType.GPU, use_short_name=True)
    assert (device.index.name, device.index.tolist()) == ("short_name", ["gemm"])
    assert "add" in TraceDiff.compare_traces(*folders, device_type=DeviceType.CPU).index


def test_operators_are_listed_by_their_change(folders: tuple[str, str]) -> None:
    assert TraceDiff.ops_diff(*folders) == {
        "added": ["mul"],
        "deleted": [],
        "increased": [],
        "decreased": ["add"],
        "unchanged": ["ProfilerStep#1", "cudaLaunchKernel", "void gemm<4>(int)"],
    }
    back = TraceDiff.ops_diff(folders[1], folders[0])
    assert (back["deleted"], back["increased"]) == (["mul"], ["add"])


def test_traces_are_named_by_their_labels(folders: tuple[str, str]) -> None:
    same = LabeledTrace("x", trace_dir=folders[0]), LabeledTrace("x", trace_dir=folders[1])
    assert TraceDiff.compare_traces(*same).columns[2] == "x_control_test_counts"
    assert same[1].label == "x"
    assert LabeledTrace(trace_dir=folders[0]).label.startswith("t")


def test_all_steps_are_there_and_times_are_absolute(tmp_path: Path) -> None:
    write_trace(tmp_path / "0.json", events=[step(1, 100, 100), step(2, 200, 100), event("a", 250, 5)])
    trace = LabeledTrace("x", trace_dir=str(tmp_path))
    assert (trace.ranks(), trace.iterations()) == ([0], [1, 2])
    assert trace.extract_ops(0, 2)["ts"].tolist() == [200, 250]
    assert trace.extract_ops()["iteration"].unique().tolist() == [1]
    assert trace.extract_ops(0, [1, 2]).shape[0] == 3


def test_a_trace_that_was_read_stays_as_it_is(folders: tuple[str, str]) -> None:
    t = TraceAnalysis(trace_dir=folders[0]).t
    table = TraceDiff.compare_traces(LabeledTrace("read", t=t), Trace(trace_dir=folders[0]))
    assert (table["diff_counts"] == 0).all()
    assert t.get_trace(0)["ts"].min() == 0


def test_a_summary_counts_each_category_and_name(folders: tuple[str, str]) -> None:
    trace = LabeledTrace("x", trace_dir=folders[0])
    summary = trace.get_ops_summary(trace.extract_ops(device_type=DeviceType.GPU))
    assert summary[["cat", "name", "short_name", "counts", "total_duration"]].to_numpy().tolist() == [
        ["kernel", "void gemm<4>(int)", "gemm", 1, 20]
    ]
    assert summary["name_id"].tolist() == [trace.s_map["void gemm<4>(int)"]]


def test_bug_19_rows_of_several_ranks_have_the_rank_they_are_of() -> None:
    trace = LabeledTrace("x", trace_dir=str(SAMPLE))
    ops = trace.extract_ops([1, 0])
    assert ops.columns[:2].tolist() == ["rank", "idx"]
    for rank in (0, 1):
        mine = ops[ops["rank"] == rank]
        assert mine["idx"].tolist() == mine["index"].tolist() == trace.extract_ops(rank)["index"].tolist()


def test_a_trace_without_steps_is_compared_as_a_whole(tmp_path: Path) -> None:
    write_trace(tmp_path / "0.json", events=[event("a", 1, 5)])
    assert TraceDiff.compare_traces(str(tmp_path), str(tmp_path))["Control_counts"].tolist() == [1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"rank": 7}, r"Invalid argument rank=7"),
        ({"rank": [0, 7]}, r"Invalid argument rank=\[0, 7\]"),
        ({"rank": "x"}, "Invalid type for argument `rank` x"),
        ({"iteration": 7}, "Invalid argument iteration=7"),
        ({"iteration": "x"}, "Invalid type for argument `iteration` x"),
    ],
)
def test_ranks_and_steps_that_are_not_there_are_refused(
    folders: tuple[str, str], arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        LabeledTrace("x", trace_dir=folders[0]).extract_ops(**arguments)


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="either a trace object or a valid trace dir"):
        LabeledTrace("x", trace_dir=str(tmp_path / "none"))
    with pytest.raises(ValueError, match="Invalid argument type"):
        TraceDiff.compare_traces(3, 4)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(ValueError, match="doesn't have any rank"):
        TraceDiff.compare_traces(str(tmp_path), str(tmp_path))


def test_plots_show_both_sides_and_the_difference(folders: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[go.Figure] = []
    saved: list[str] = []
    monkeypatch.setattr(go.Figure, "show", lambda figure, *_: shown.append(figure))
    monkeypatch.setattr(go.Figure, "write_image", lambda _, path: saved.append(path))
    table = TraceDiff.compare_traces(*folders)
    TraceDiff.visualize_counts_diff(table)
    TraceDiff.visualize_duration_diff(table)
    TraceDiff.visualize_counts_diff(table, show_image=False, export_image_path="x.png")
    assert [figure.layout.title.text for figure in shown] == ["Ops Count Comparison", "Ops Duration Comparison"]
    assert {bar.name: list(bar.y) for bar in shown[1].data} == {
        "Control": table["Control_total_duration"].tolist(),
        "Test": table["Test_total_duration"].tolist(),
        "Difference": table["diff_duration"].tolist(),
    }
    assert saved == ["x.png"]


def test_only_comparisons_are_drawn() -> None:
    with pytest.raises(ValueError, match="give what compare_traces returned"):
        TraceDiff.visualize_counts_diff(pd.DataFrame())


@pytest.mark.parametrize("case", REFERENCE, ids=lambda case: ", ".join(case["options"]))
def test_comparisons_are_htas(case: dict[str, Any]) -> None:
    options = {**case["options"], "device_type": DeviceType[case["options"].get("device_type", "ALL")]}
    traces = LabeledTrace("a", trace_dir=str(SAMPLE)), LabeledTrace("b", trace_dir=str(SAMPLE))
    table = TraceDiff.compare_traces(*traces, **options)
    assert table.columns.tolist() == case["columns"]
    recorded = pd.DataFrame(case["rows"], columns=[table.index.name, *case["columns"]]).set_index(table.index.name)
    assert table.index.tolist() == recorded.index.tolist()
    for column in ("a_counts", "b_counts", "diff_counts", "counts_change_categories"):
        assert table[column].tolist() == recorded[column].tolist()
    for side in ("a", "b"):
        # HTA takes a microsecond off for each event that is shorter than that (BUG-1).
        more = table[f"{side}_total_duration"] - recorded[f"{side}_total_duration"]
        assert more.between(0, table[f"{side}_counts"]).all()
        assert more.eq(0).sum() > len(more) / 2
    options.pop("use_short_name", None)
    assert TraceDiff.ops_diff(*traces, **options) == case["ops_diff"]


@needs_real_traces
def test_recorded_traces_change_as_hta_says() -> None:
    folder = REAL_TRACES / "hta" / "tests" / "data" / "trace_compare"
    diff = TraceDiff.ops_diff(str(folder / "base"), str(folder / "test"), 1, 1, 1010, 1010, device_type=DeviceType.CPU)
    assert {change: len(names) for change, names in diff.items()} == {
        "added": 3,
        "deleted": 1,
        "increased": 0,
        "decreased": 0,
        "unchanged": 5,
    }
