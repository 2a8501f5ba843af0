"""HTA's table of operators, the kernels they launch and how late these begin."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import plotly.graph_objects as go
import pytest
from hta_traces import analysis, event, kernel, launch

from hta.analyzers.cuda_kernel_analysis import CudaKernelAnalysis
from hta.trace_analysis import TraceAnalysis
from trace_files import write_trace

COLUMNS = ["aten_op_name", "kernel_sequence", "occurrence_count", "avg_aten_op_launch_delay", "avg_runtime_delay"]


def rows(a: TraceAnalysis, rank: int = 0) -> list[list[object]]:
    table = a.get_aten_op_kernels_and_delay([rank])[rank]
    assert table.columns.tolist() == COLUMNS
    return table.to_numpy().tolist()


def test_sequences_are_counted_and_delays_averaged(tmp_path: Path) -> None:
    a = analysis(
        tmp_path,
        event("aten::mm", 0, 20),
        launch(1, 2),
        launch(2, 5),
        kernel("k", 30, 5, correlation=1),
        kernel("l", 40, 5, correlation=2),
        event("aten::mm", 100, 20),
        launch(3, 105),
        launch(4, 107),
        kernel("k", 106, 5, correlation=3),
        kernel("l", 140, 5, correlation=4),
        event("aten::add", 200, 9),
        launch(5, 201),
        kernel("k", 205, 5, correlation=5),
    )
    assert rows(a) == [["aten::mm", "k -> l", 2, 3.5, 14.5], ["aten::add", "k", 1, 1.0, 4.0]]


def test_rows_are_sorted_by_what_is_asked_for_largest_first(tmp_path: Path) -> None:
    a = analysis(
        tmp_path,
        *(event("aten::a", 0, 9), launch(1, 1), kernel("k", 50, 5, correlation=1)),
        *(event("aten::b", 20, 9), launch(2, 24), kernel("k", 60, 5, correlation=2)),
    )
    table = a.get_aten_op_kernels_and_delay(sort_by=["avg_aten_op_launch_delay"])[0]
    assert table["aten_op_name"].tolist() == ["aten::b", "aten::a"]


def test_the_index_of_a_row_is_its_place_by_name(tmp_path: Path) -> None:
    names = ("aten::c", "aten::b", "aten::a", "aten::b")
    calls = [
        part
        for n, name in enumerate(names, 1)
        for part in (event(name, 20 * n, 9), launch(n, 20 * n + 1), kernel("k", 200 * n, 5, correlation=n))
    ]
    table = analysis(tmp_path, *calls).get_aten_op_kernels_and_delay()[0]
    assert table["aten_op_name"].to_dict() == {0: "aten::a", 1: "aten::b", 2: "aten::c"}
    assert table.index[0] == 1


def test_without_operators_names_are_text_all_the_same(tmp_path: Path) -> None:
    table = analysis(tmp_path, kernel("k", 1, 5)).get_aten_op_kernels_and_delay()[0]
    assert table.empty
    assert [table[column].dtype.kind for column in COLUMNS] == list("OOiff")


def test_bug_16_operators_of_other_threads_did_not_launch(tmp_path: Path) -> None:
    a = analysis(
        tmp_path,
        event("aten::mm", 0, 20),
        event("aten::other", 1, 18, tid=2),
        launch(1, 2),
        kernel("k", 30, 5, correlation=1),
    )
    assert rows(a) == [["aten::mm", "k", 1, 2.0, 28.0]]


def test_bug_16_each_rank_has_its_own_rows(tmp_path: Path) -> None:
    for rank in (0, 1):
        events = [event(f"aten::op{rank}", 0, 9), launch(1, 1), kernel("k", 5, 5, correlation=1)]
        write_trace(tmp_path / f"rank-{rank}.json", rank=rank, events=events)
    tables = TraceAnalysis(trace_dir=str(tmp_path)).get_aten_op_kernels_and_delay([0, 1])
    assert {rank: table["aten_op_name"].tolist() for rank, table in tables.items()} == {
        0: ["aten::op0"],
        1: ["aten::op1"],
    }


def test_bug_16_a_launch_of_several_kernels_lists_each(tmp_path: Path) -> None:
    a = analysis(tmp_path, event("aten::mm", 0, 20), launch(1, 2), kernel("k", 30, 5), kernel("l", 36, 5))
    assert rows(a) == [["aten::mm", "k -> l", 1, 2.0, 28.0]]


def test_bug_16_without_operators_the_table_is_empty(tmp_path: Path) -> None:
    assert rows(analysis(tmp_path, event("step", 0, 20), launch(1, 2), kernel("k", 30, 5))) == []


def test_bug_16_nothing_is_shown_unless_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[go.Figure] = []
    monkeypatch.setattr(go.Figure, "show", lambda figure, *args, **kwargs: shown.append(figure))
    a = analysis(tmp_path, event("aten::mm", 0, 20), launch(1, 2), kernel("k", 30, 5))
    table: pd.DataFrame = a.get_aten_op_kernels_and_delay()[0]
    assert shown == []
    CudaKernelAnalysis.visualize_aten_op_kernels_and_overhead(0, table)
    (figure,) = shown
    assert list(figure.data[0].header["values"])[:2] == ["ATen Operation", "Kernel Sequence"]
    assert figure.layout.title.text == "ATen Operations, Associated Kernels, ATen and Runtime Delays for Rank 0"


def test_copies_are_not_listed_and_amd_launches_are(tmp_path: Path) -> None:
    a = analysis(
        tmp_path,
        event("aten::copy_", 0, 20),
        event("hipMemcpyAsync", 2, 1, cat="cuda_runtime", correlation=1),
        kernel("Memcpy HtoD", 30, 5, correlation=1),
        event("aten::mm", 50, 20),
        event("hipExtModuleLaunchKernel", 52, 1, cat="cuda_runtime", correlation=2),
        kernel("Cijk", 60, 5, correlation=2),
    )
    assert rows(a) == [["aten::mm", "Cijk", 1, 2.0, 8.0]]
