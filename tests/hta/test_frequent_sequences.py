"""Frequent kernel sequences, and the copy of the trace that shows them, as HTA has them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest
from hta_traces import Event, analysis, event, kernel, launch

from hta.trace_analysis import TraceAnalysis
from trace_files import write_trace

PROFILER = event("PyTorch Profiler (0)", 0, 900, cat="Trace", pid="Spans", tid="PyTorch Profiler", Op_count=0)


def linear(ts: float, *kernels: str, correlation: int) -> list[Event]:
    """An operator of 50 µs with another in it, which launches kernels of 5 µs each."""
    made = [event("aten::linear", ts, 50, External_id=1), event("aten::addmm", ts + 5, 40)]
    for number, name in enumerate(kernels):
        made += [
            launch(correlation + number, ts + 10 + number),
            kernel(name, ts + 20 + 5 * number, 5, correlation=correlation + number),
        ]
    return made


def two_patterns(folder: Path) -> TraceAnalysis:
    three = ("memset", "gemm", "epilogue<a|b>(int)")
    return analysis(
        folder,
        PROFILER,
        *linear(100, *three, correlation=10),
        *linear(200, *three, correlation=20),
        *linear(300, "memset", "gemm", "other", correlation=30),
        *linear(400, "gemm", correlation=40),
        event("aten::relu", 500, 10, External_id=9),
    )


def frequent(a: TraceAnalysis, folder: Path, **options: Any) -> pd.DataFrame:
    (folder / "out").mkdir(exist_ok=True)
    return a.get_frequent_cuda_kernel_sequences("aten::linear", str(folder / "out"), **options)


def overlaid(folder: Path) -> list[Event]:
    events: list[Event] = json.loads((folder / "out" / "overlaid_rank-0.json").read_text())["traceEvents"]
    return events


def test_sequences_are_listed_by_how_often_they_are_there(tmp_path: Path) -> None:
    table = frequent(two_patterns(tmp_path), tmp_path)
    assert table.to_dict("list") == {
        "pattern": ["aten::linear|memset|gemm|epilogue<a|b>(int)", "aten::linear|memset|gemm|other"],
        "count": [2, 1],
        "GPU kernel duration (us)": [30.0, 15.0],
        "CPU op duration (us)": [100.0, 50.0],
    }
    assert table.dtypes.tolist()[1:] == ["int64", "float64", "float64"]


def test_the_most_frequent_ones_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[go.Figure] = []
    monkeypatch.setattr(go.Figure, "show", lambda figure, *args, **kwargs: shown.append(figure))
    frequent(two_patterns(tmp_path), tmp_path, top_k=1, visualize=True)
    (figure,) = shown
    assert figure.layout.title.text == "Top 1 frequent patterns for rank 0"
    assert (list(figure.data[0].x), list(figure.data[0].y)) == ([0], [2])
    assert figure.data[0].customdata.tolist() == [["aten::linear<br>memset<br>gemm<br>epilogue<a<br>b>(int)"]]


def test_the_name_in_htas_readme_is_another_for_the_same() -> None:
    assert TraceAnalysis.get_frequent_cuda_kernel_patterns is TraceAnalysis.get_frequent_cuda_kernel_sequences


def test_events_of_the_most_frequent_sequences_say_which_they_are(tmp_path: Path) -> None:
    a = two_patterns(tmp_path)
    frequent(a, tmp_path, top_k=1, compress_other_kernels=False)
    before = a.t.get_raw_trace_for_one_rank(0)["traceEvents"]
    pattern = {"aten::linear|memset|gemm|epilogue<a|b>(int)": 2}
    # Each of the first two has the operator, the one in it, three launches and three kernels.
    for place in range(1, 17):
        before[place]["args"]["Patterns"] = pattern
    assert overlaid(tmp_path) == before


def test_all_others_lose_their_args_and_have_numbers_for_names(tmp_path: Path) -> None:
    a = two_patterns(tmp_path)
    frequent(a, tmp_path, top_k=1)
    profiler, *events = overlaid(tmp_path)
    assert profiler["name"] == "PyTorch Profiler (0)"
    assert profiler["args"] == {str(number): name for number, name in enumerate(a.t.symbol_table.sym_table)}
    relu = events[-1]
    assert (profiler["args"][relu["name"]], relu["args"]) == ("aten::relu", {})
    assert events[0]["name"] == "aten::linear"


def test_only_the_least_deep_calls_of_a_name_count(tmp_path: Path) -> None:
    inner = event("aten::linear", 11, 2)
    a = analysis(tmp_path, *linear(0, "a", "b", "c", correlation=1), inner)
    assert frequent(a, tmp_path)["count"].tolist() == [1]


def test_a_range_that_the_device_shows_too_is_found_on_the_host(tmp_path: Path) -> None:
    on_host = event("aten::linear forward", 0, 60, cat="user_annotation")
    on_device = event("aten::linear forward", 20, 20, cat="gpu_user_annotation", pid=0, tid=7)
    a = analysis(tmp_path, on_host, on_device, *linear(5, "a", "b", "c", correlation=1))
    assert frequent(a, tmp_path)["pattern"].tolist() == ["aten::linear forward|a|b|c"]


@pytest.mark.parametrize(
    ("operator", "folder", "options"),
    [
        ("", "out", {}),
        ("aten::nothing", "out", {}),
        ("aten::linear", "absent", {}),
        ("aten::linear", "out", {"min_pattern_len": 9}),
    ],
)
def test_where_nothing_is_found_or_can_be_written_there_is_nothing(
    tmp_path: Path, operator: str, folder: str, options: dict[str, Any]
) -> None:
    (tmp_path / "out").mkdir()
    a = two_patterns(tmp_path)
    assert a.get_frequent_cuda_kernel_sequences(operator, str(tmp_path / folder), **options).empty
    assert list((tmp_path / "out").iterdir()) == []


def test_by_default_it_is_rank_0_or_the_first_where_there_is_none(tmp_path: Path) -> None:
    write_trace(tmp_path / "rank-3.json", rank=3, events=linear(100, "a", "b", "c", correlation=10))
    a = TraceAnalysis(trace_dir=str(tmp_path))
    assert frequent(a, tmp_path)["count"].tolist() == [1]
    assert (tmp_path / "out" / "overlaid_rank-3.json").exists()
    with pytest.raises(ValueError, match="rank 2 does not exist"):
        frequent(a, tmp_path, rank=2)


def test_without_ranks_there_is_nothing(tmp_path: Path) -> None:
    assert frequent(analysis(tmp_path), tmp_path).empty


def test_bug_1_kernels_shorter_than_a_microsecond_raise_nothing(tmp_path: Path) -> None:
    short = [kernel(name, 20.1 + number, 0.3, correlation=number) for number, name in enumerate("abc", start=1)]
    calls = [launch(number, 10.1 + number, 0.5) for number in (1, 2, 3)]
    a = analysis(tmp_path, event("aten::linear", 10, 20.5), *calls, *short)
    assert frequent(a, tmp_path)["pattern"].tolist() == ["aten::linear|a|b|c"]


def test_bug_11_events_are_found_in_the_file_whatever_was_left_out_of_the_frame(tmp_path: Path) -> None:
    other: Event = {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "main"}}
    a = analysis(tmp_path, other, other, *linear(100, "a", "b", "c", correlation=1), other)
    frequent(a, tmp_path, compress_other_kernels=False)
    marked = [event["name"] for event in overlaid(tmp_path) if "Patterns" in event.get("args", {})]
    assert marked == [
        "aten::linear",
        "aten::addmm",
        *["cudaLaunchKernel", "a", "cudaLaunchKernel", "b"],
        "cudaLaunchKernel",
        "c",
    ]


def test_bug_14_the_copy_is_packed_as_its_name_says(tmp_path: Path) -> None:
    two_patterns(tmp_path)
    packed = tmp_path / "packed" / "rank-0.json.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress((tmp_path / "rank-0.json").read_bytes()))
    frequent(TraceAnalysis(trace_files={0: str(packed)}), tmp_path)
    copy = tmp_path / "out" / "overlaid_rank-0.json.gz"
    assert len(json.loads(gzip.decompress(copy.read_bytes()))["traceEvents"]) == 30
