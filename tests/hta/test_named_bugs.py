"""What HTA gets wrong and hta does not; the numbers are those of docs/differences-from-hta.md."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from hta_traces import Event, analysis, event, kernel, launch, step

import holotrace
from hta.common.trace import Trace, add_fwd_bwd_links, add_iteration
from hta.configs.parser_config import ParserBackend, ParserConfig
from hta.trace_analysis import TraceAnalysis
from trace_files import write_trace


def test_bug_1_an_event_within_one_microsecond_does_not_end_before_it_starts(tmp_path: Path) -> None:
    # Rounded up it starts at 101, rounded down it ends at 100.
    frame = analysis(tmp_path, event("aten::add", 100.2, 0.5), event("aten::mul", 100.2, 1.9)).t.get_trace(0)
    assert frame["dur"].tolist() == [0, 1]
    assert (frame["end"] == frame["ts"] + frame["dur"]).all()


def test_bug_2_the_devices_steps_do_not_say_what_the_host_did_when(tmp_path: Path) -> None:
    t = analysis(
        tmp_path,
        *(step(number, 100 * number, 100) for number in (1, 2, 3)),
        # The device is half a step behind.
        *(step(number, 100 * number + 50, 100, on_device=True) for number in (1, 2, 3)),
        launch(1, 210),
        kernel("gemm", 260, 20, correlation=1),
        launch(2, 310),
        kernel("gemm", 360, 20, correlation=2),
    ).t
    kept = t.get_trace(0).set_index("correlation")
    assert kept.loc[1, "iteration"].tolist() == [2, 2]
    # The last step is left out, with the kernel it launched.
    assert 2 not in kept.index
    assert t.get_iterations() == [1, 2]


def test_bug_26_a_range_on_the_device_belongs_to_the_hosts_range_that_it_shows(tmp_path: Path) -> None:
    def on_device(name: str, ts: int, dur: int, **args: int) -> Event:
        return event(name, ts, dur, cat="gpu_user_annotation", pid=0, tid=7, **args)

    def on_host(name: str, ts: int, dur: int, external: int) -> Event:
        return event(name, ts, dur, cat="user_annotation", External_id=external)

    a = analysis(
        tmp_path,
        *(step(number, 100 * number, 100) for number in (1, 2, 3)),
        *(on_host("forward", 100 * number + 10, 20, external=number) for number in (1, 2, 3)),
        *(launch(number, 100 * number + 15) for number in (1, 2, 3)),
        # The device is more than a step behind.
        *(kernel(f"gemm{number}", 100 * number + 150, 40, correlation=number) for number in (1, 2, 3)),
        *(on_device("forward", 100 * number + 150, 40, External_id=number) for number in (1, 2, 3)),
        on_device("forward", 260, 5, External_id=9),
        on_device("forward", 310, 5),
    )
    table = a.get_gpu_user_annotation_breakdown(visualize=False)
    assert table is not None
    # Both of the steps that are kept, and the one whose range of the host is not there, by its own time.
    assert table[["name", "sum (us)", "max (us)"]].to_numpy().tolist() == [["forward", 85, 40]]
    kernels = a.get_gpu_kernels_with_user_annotations(0)
    assert kernels is not None
    assert kernels[["s_name", "s_user_annotation"]].to_numpy().tolist() == [["gemm1", "forward"], ["gemm2", "forward"]]
    frame = a.t.get_trace(0)
    is_range = frame["cat"] == a.t.symbol_table.sym_index["gpu_user_annotation"]
    assert frame[is_range]["iteration"].tolist() == [1, 2, 2]
    rebuilt = frame.drop(columns="iteration")
    add_iteration(rebuilt, a.t.symbol_table)
    assert rebuilt[is_range]["iteration"].tolist() == [1, 2, 2]


def test_bug_3_kernels_on_stream_0_belong_to_the_step_that_launched_them(tmp_path: Path) -> None:
    events = [step(5, 100, 100), launch(1, 110), kernel("gemm", 250, 20, stream=0)]
    frame = analysis(tmp_path, *events).t.get_trace(0)
    assert frame["iteration"].tolist() == [5, 5, 5]
    assert frame["iteration"].dtype.kind == "i"


def test_bug_4_ends_are_on_the_same_clock_as_starts(tmp_path: Path) -> None:
    frame = analysis(tmp_path, event("a", 1_000_000, 5), event("b", 1_000_010, 5)).t.get_trace(0)
    assert frame["end"].tolist() == [5, 15]


def test_bug_4_what_begins_after_the_last_step_ends_is_no_part_of_it(tmp_path: Path) -> None:
    events = [step(1, 1000, 100), step(2, 1100, 100), event("in", 1150, 5), event("after", 1300, 5)]
    t = analysis(tmp_path, *events, include_last_profiler_step=True).t
    t.decode_symbol_ids()
    assert t.get_trace(0)["s_name"].tolist() == ["ProfilerStep#1", "ProfilerStep#2", "in"]


def test_bug_5_statistics_are_of_runs_where_names_are_folded_too(tmp_path: Path) -> None:
    runs = [("a", 40), ("a", 20), ("b", 6), ("b", 2), ("c", 1)]
    kernels = [kernel(name, 100 * place, dur, correlation=place) for place, (name, dur) in enumerate(runs, 1)]
    _, table = analysis(tmp_path, *kernels).get_gpu_kernel_breakdown(visualize=False, num_kernels=1, duration_ratio=1)
    rows = table.set_index("name")[["sum (us)", "max (us)", "min (us)", "mean (us)", "stddev"]]
    assert rows.loc["a"].tolist() == pytest.approx([60, 40, 20, 30, 14.142], abs=0.001)
    assert rows.loc["others"].tolist() == pytest.approx([9, 6, 1, 3, 2.646], abs=0.001)


def test_bug_9_times_of_short_traces_do_not_overflow(tmp_path: Path) -> None:
    frame = analysis(tmp_path, event("a", 0, 100), event("b", 100, 100)).t.get_trace(0)
    assert frame["end"].tolist() == [100, 200]
    assert {str(frame[column].dtype) for column in ("ts", "dur", "end")} == {"int64"}


def test_bug_10_a_rank_is_found_in_compact_text(tmp_path: Path) -> None:
    text = json.dumps({"distributedInfo": {"rank": 3}, "traceEvents": [event("a", 0, 1)]}, separators=(",", ":"))
    (tmp_path / "trace.json").write_text(text)
    assert TraceAnalysis(trace_dir=str(tmp_path)).t.get_ranks() == [3]


def test_bug_10_files_without_a_rank_do_not_replace_each_other(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        write_trace(tmp_path / name, events=[event("a", 0, 1)])
    assert TraceAnalysis(trace_dir=str(tmp_path)).t.get_ranks() == [0, 1]


def test_bug_13_a_kernel_launched_by_runtime_and_driver_counts_once(tmp_path: Path) -> None:
    a = analysis(
        tmp_path,
        step(1, 0, 100),
        launch(1, 10, 5),
        launch(1, 11, 3, cat="cuda_driver"),
        kernel("gemm", 20, 40),
        step(2, 100, 100),
    )
    assert a.get_gpu_kernel_breakdown(visualize=False)[1]["sum (us)"].tolist() == [40]


@pytest.mark.parametrize("text", ['{"traceEvents": []}', '{"schemaVersion": 1}'])
def test_bug_17_a_trace_without_events_is_a_job_without_ranks(tmp_path: Path, text: str) -> None:
    (tmp_path / "rank-0.json").write_text(text)
    a = TraceAnalysis(trace_files={0: "rank-0.json"}, trace_dir=str(tmp_path))
    assert a.t.get_ranks() == a.t.get_iterations() == a.get_profiler_steps() == []
    tables = [a.get_temporal_breakdown(False), a.get_comm_comp_overlap(False), *a.get_gpu_kernel_breakdown(False)]
    assert all(table.empty and len(table.columns) for table in tables)


def test_bug_17_a_bare_array_of_events_is_a_trace(tmp_path: Path) -> None:
    (tmp_path / "rank-0.json").write_text(json.dumps([event("a", 0, 1)]))
    assert len(TraceAnalysis(trace_dir=str(tmp_path)).t.get_trace(0)) == 1


@pytest.mark.parametrize("backend", ParserBackend)
def test_bug_11_a_rows_index_is_its_events_position_in_the_file(tmp_path: Path, backend: ParserBackend) -> None:
    config = ParserConfig()
    config.set_parser_backend(backend)
    events = [event("f.py: call", 1, 9, cat="python_function"), {"ph": "M", "name": "process_name"}, event("a", 2, 1)]
    write_trace(tmp_path / "t.json", rank=0, events=events)
    t = Trace(trace_dir=str(tmp_path), parser_config=config)
    t.parse_traces()
    assert t.get_trace(0)["index"].tolist() == [0, 2]


def test_bug_12_forward_and_backward_operators_are_linked_where_arrows_are_given() -> None:
    arrows = [
        {"ph": "s", "cat": "fwdbwd", "pid": 1, "tid": 1, "ts": 1, "id": 5},
        {"ph": "f", "cat": "fwdbwd", "pid": 1, "tid": 2, "ts": 9, "id": 5},
    ]
    raw = pd.DataFrame([event("forward", 1, 1), event("backward", 9, 1, tid=2), *arrows]).assign(index=range(4))
    add_fwd_bwd_links(raw)
    assert raw[["fwdbwd_index", "fwdbwd"]].to_numpy().tolist() == [[1, 0], [0, 1], [-1, -1], [-1, -1]]


def test_bug_21_an_absent_arg_is_its_default_value_whatever_reads_it(tmp_path: Path) -> None:
    config = ParserConfig()
    config.set_parser_backend(ParserBackend.IJSON_BATCH_AND_COMPRESS)
    write_trace(tmp_path / "t.json", rank=0, events=[event("a", 1, 1), launch(3, 5), kernel("k", 9, 1, correlation=3)])
    t = Trace(trace_dir=str(tmp_path), parser_config=config)
    t.parse_traces()
    assert t.get_trace(0)["correlation"].tolist() == [-1, 3, 3]
    assert t.get_trace(0)["index_correlation"].tolist() == [-1, 2, 1]


def test_bug_22_types_are_told_by_name_here_and_by_category_in_holotrace(tmp_path: Path) -> None:
    a = analysis(tmp_path, launch(1, 1), kernel("SyncBatchNormForward", 5, 10, device=0))
    assert a.get_gpu_kernel_breakdown(visualize=False)[1].empty
    assert holotrace.open(tmp_path).kernels()["kind"].to_list() == ["compute"]
