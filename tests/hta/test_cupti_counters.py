"""Hardware counters in HTA's frames, and the operators they were read for."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from hta_traces import Event, analysis, event, kernel, launch

from hta.analyzers.cupti_counter_analysis import CUDA_SASS_INSTRUCTION_COUNTER_FLOPS
from hta.trace_analysis import TraceAnalysis
from trace_files import REAL_TRACES, needs_real_traces, write_trace

GOLDEN = REAL_TRACES.parent.parent / "golden" / "hta_cupti.json"


def counted(name: str, ts: float, **counters: float) -> Event:
    return event(name, ts, 1, cat="cuda_profiler_range", pid=0, tid=0) | {"args": counters}


EVENTS = [
    event("linear", 0, 9),
    event("addmm", 1, 5),
    launch(1, 2),
    launch(2, 20),
    counted("gemm", 50, flops=7, ratio=0.5),
]


def test_counters_are_columns_of_the_frame(tmp_path: Path) -> None:
    frame = analysis(tmp_path, *EVENTS, counted("add", 60, flops=5_000_000_000, dur=3)).t.get_trace(0)
    assert frame["flops"].tolist() == [-1, -1, -1, -1, 7, 5_000_000_000]
    assert frame["ratio"].tolist() == [-1, -1, -1, -1, 0.5, -1]
    # No counter takes the place of what every frame has.
    assert frame["dur"].tolist()[-2:] == [1, 1]


def test_each_kernel_has_the_operators_of_its_launch(tmp_path: Path) -> None:
    [table] = analysis(tmp_path, *EVENTS, counted("add", 60, flops=1)).get_cupti_counter_data_with_operators()
    assert table["name"].tolist() == ["gemm", "add"]
    assert table["cat"].tolist() == ["cuda_profiler_range"] * 2
    assert table["flops"].tolist() == [7, 1]
    assert table["index_runtime"].tolist() == [2, 3]
    assert table["op_stack"].tolist() == [["linear", "addmm"], []]
    assert table["top_level_op"].tolist() == ["linear", ""]
    assert table["bottom_level_op"].tolist() == ["addmm", ""]


def test_a_rank_without_a_launch_for_each_kernel_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert analysis(tmp_path, *EVENTS).get_cupti_counter_data_with_operators() == []
    assert "rank 0 is left out" in caplog.text


def test_without_counters_there_is_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert analysis(tmp_path, launch(1, 2), kernel("gemm", 5, 2)).get_cupti_counter_data_with_operators() == []
    assert "no hardware counters" in caplog.text


def test_ranks_are_asked_for(tmp_path: Path) -> None:
    for rank in (0, 1):
        write_trace(tmp_path / f"rank-{rank}.json", rank=rank, events=[launch(1, 2), counted(f"k{rank}", 9, flops=1)])
    a = TraceAnalysis(trace_dir=str(tmp_path))
    assert [table["name"].item() for table in a.get_cupti_counter_data_with_operators()] == ["k0"]
    assert [table["name"].item() for table in a.get_cupti_counter_data_with_operators([1, 0])] == ["k1", "k0"]


def test_a_fused_operation_is_two() -> None:
    assert sorted(CUDA_SASS_INSTRUCTION_COUNTER_FLOPS.values()) == [1] * 6 + [2] * 3
    assert CUDA_SASS_INSTRUCTION_COUNTER_FLOPS["smsp__sass_thread_inst_executed_op_hfma_pred_on.sum"] == 2


@needs_real_traces
@pytest.mark.skipif(not GOLDEN.is_file(), reason="no record of what HTA returned")
def test_figures_are_htas() -> None:
    a = TraceAnalysis(trace_dir=str(REAL_TRACES / "hta" / "tests" / "data" / "cupti_profiler"))
    [ours] = a.get_cupti_counter_data_with_operators()
    [golden] = json.loads(GOLDEN.read_text())["get_cupti_counter_data_with_operators"]["value"]
    htas = pd.DataFrame(golden["data"], columns=golden["columns"]).set_index("index")
    # Others that HTA returned are those of a method that had been called before.
    assert set(htas.columns) - set(ours.columns) == {"user_annotation", "s_user_annotation"}
    assert ours.columns[-4:].tolist() == ["index_runtime", "op_stack", "top_level_op", "bottom_level_op"]
    assert set(CUDA_SASS_INSTRUCTION_COUNTER_FLOPS) < set(ours.columns)
    # HTA leaves events of process 0 out of its call stacks.
    for column in ours.columns.drop(["index", "depth", "height"]):
        assert ours.set_index("index")[column].tolist() == htas.loc[ours["index"], column].tolist()
