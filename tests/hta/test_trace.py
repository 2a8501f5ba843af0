"""A job as hta opens it: files, ranks, metadata, symbols."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from hta_traces import analysis, event, kernel, launch, step

from holotrace import TraceFormatError
from hta.common import trace_file
from hta.common.trace import Trace
from hta.trace_analysis import TraceAnalysis
from trace_files import write_trace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two ranks, the second of which starts 5 µs later."""
    for rank in (0, 1):
        write_trace(tmp_path / f"rank-{rank}.json.gz", rank=rank, events=[event(f"op {rank}", 100 + 5 * rank, 2)])
    return tmp_path


def test_a_folder_of_traces_is_a_job(folder: Path) -> None:
    t = TraceAnalysis(trace_dir=str(folder)).t
    assert t.get_ranks() == [0, 1]
    assert t.trace_files == {rank: str(folder / f"rank-{rank}.json.gz") for rank in (0, 1)}
    assert t.is_parsed


def test_files_are_given_as_a_list_or_by_rank_or_alone(folder: Path) -> None:
    files = [str(folder / f"rank-{rank}.json.gz") for rank in (0, 1)]
    assert TraceAnalysis(trace_files=files).t.get_ranks() == [0, 1]
    assert TraceAnalysis(trace_files={7: files[1]}).t.get_ranks() == [7]
    assert TraceAnalysis(trace_files=files[1]).t.get_ranks() == [1]


def test_relative_files_are_in_the_trace_folder(folder: Path) -> None:
    assert TraceAnalysis(trace_files={0: "rank-0.json.gz"}, trace_dir=str(folder)).t.get_ranks() == [0]


@pytest.mark.parametrize("name", ["absent.json", "notes.txt"])
def test_a_file_that_cannot_be_a_trace_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ValueError, match=r"Trace files validation failed\."):
        TraceAnalysis(trace_files={0: name}, trace_dir=str(tmp_path))


@pytest.mark.parametrize("name", ["absent", "empty"])
def test_a_folder_without_traces_is_a_job_without_ranks(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    assert TraceAnalysis(trace_dir=str(tmp_path / name)).t.get_all_traces() == {}


def test_a_file_that_is_no_trace_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(TraceFormatError, match=r"t\.json"):
        TraceAnalysis(trace_files=["t.json"], trace_dir=str(tmp_path))


def test_a_rank_that_cannot_be_read_is_left_out_and_said_to_be(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "broken.json").write_text("nothing")
    files = {0: "rank-0.json.gz", 1: "broken.json"}
    with caplog.at_level(logging.WARNING, "hta"):
        assert TraceAnalysis(files, str(folder)).t.get_ranks() == [0]
    assert "rank 1 is left out" in caplog.text
    assert "broken.json" in caplog.text


def test_of_two_files_of_one_rank_the_last_is_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("a.json", "b.json"):
        write_trace(tmp_path / name, rank=3, events=[event(name, 0, 1)])
    t = TraceAnalysis(trace_dir=str(tmp_path)).t
    assert t.trace_files == {3: str(tmp_path / "b.json")}
    assert "a.json" in caplog.text


def test_all_ranks_count_time_from_the_first_event_of_the_job(folder: Path) -> None:
    t = TraceAnalysis(trace_dir=str(folder)).t
    assert t.min_ts == 100
    assert [t.get_trace(rank)["ts"].tolist() for rank in (0, 1)] == [[0], [5]]


def test_ranks_can_be_read_in_part(folder: Path) -> None:
    t = Trace(trace_dir=str(folder))
    t.parse_traces(max_ranks=1)
    assert t.get_ranks() == [0]
    t.parse_single_rank(1)
    t.align_and_filter_trace()
    assert t.get_ranks() == [0, 1]
    assert t.min_ts == 100


def test_a_rank_without_steps_keeps_its_rows_where_others_have_steps(tmp_path: Path) -> None:
    steps = [step(number, 100 * number, 90) for number in (1, 2)]
    write_trace(tmp_path / "rank-0.json", rank=0, events=[*steps, event("aten::mm", 110, 5), event("aten::mm", 210, 5)])
    write_trace(tmp_path / "rank-1.json", rank=1, events=[event("aten::mm", 110, 5), event("aten::mm", 210, 5)])
    t = TraceAnalysis(trace_dir=str(tmp_path)).t
    assert [len(t.get_trace(rank)) for rank in t.get_ranks()] == [2, 2]


def test_a_rank_that_is_not_there_is_an_error_that_says_which_are(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"rank 2 does not exist; the job has ranks \[0, 1\]"):
        TraceAnalysis(trace_dir=str(folder)).t.get_trace(2)


def test_metadata_is_kept_with_the_device(tmp_path: Path) -> None:
    t = analysis(tmp_path, launch(1, 7), schemaVersion=1, baseTimeNanoseconds=2_000_000).t
    assert t.meta_data == {
        0: {
            "schemaVersion": 1,
            "distributedInfo": {"backend": "nccl", "rank": 0},
            "baseTimeNanoseconds": 2_000_000,
            "device_type": "NVIDIA GPU",
        }
    }
    assert t.get_device_type() == "NVIDIA GPU"
    assert t.get_trace_start_unixtime_ns(0) == 2_007_000


@pytest.mark.parametrize(
    ("call", "backend", "device"),
    [
        ("hipLaunchKernel", "nccl", "AMD GPU"),
        ("runFunction - job_prep_and_submit_for_execution", "nccl", "MTIA"),
        ("anything", "cpu:gloo,mtia:hccl", "MTIA"),
        ("anything", "nccl", "UNKNOWN GPU"),
    ],
)
def test_the_device_is_told_by_its_runtime_or_library(tmp_path: Path, call: str, backend: str, device: str) -> None:
    write_trace(tmp_path / "t.json", rank=0, backend=backend, events=[event(call, 0, 1, cat="runtime")])
    assert TraceAnalysis(trace_dir=str(tmp_path)).t.get_device_type() == device


def test_names_and_categories_are_numbers_of_one_table_for_all_ranks(folder: Path) -> None:
    t = TraceAnalysis(trace_dir=str(folder)).t
    assert sorted(t.symbol_table.get_sym_table()) == ["cpu_op", "op 0", "op 1"]
    for rank in (0, 1):
        row = t.get_trace(rank).iloc[0]
        assert [t.symbol_table.sym_table[row[column]] for column in ("cat", "name")] == ["cpu_op", f"op {rank}"]


def test_decoded_names_are_columns_of_their_own(tmp_path: Path) -> None:
    t = analysis(tmp_path, event("void at::native::f<4>(int)", 0, 1)).t
    t.decode_symbol_ids()
    assert t.get_trace(0)[["s_name", "s_cat"]].iloc[0].tolist() == ["at::native::f", "cpu_op"]
    t.decode_symbol_ids(use_shorten_name=False)
    assert t.get_trace(0)["s_name"].tolist() == ["void at::native::f<4>(int)"]


def test_how_long_a_trace_is(tmp_path: Path) -> None:
    assert analysis(tmp_path, event("a", 10, 5), event("b", 40, 500)).t.get_trace_duration(0) == 30


def test_symbols_have_the_same_numbers_in_every_run(folder: Path) -> None:
    tables = [TraceAnalysis(trace_dir=str(folder)).t.symbol_table.sym_table for _ in range(2)]
    assert tables[0] == tables[1]


def test_text_is_read_as_it_was_meant(tmp_path: Path) -> None:
    text = json.dumps({"traceEvents": [event('naïve \u2192 "x"', 0, 1)]})
    (tmp_path / "t.json").write_text(text)
    assert 'naïve → "x"' in TraceAnalysis(trace_dir=str(tmp_path)).t.symbol_table.sym_index


def test_a_trace_that_was_read_is_not_read_again(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    t = TraceAnalysis(trace_dir=str(folder)).t
    first = t.get_trace(0)
    t.load_traces()
    assert t.get_trace(0) is first
    assert "read already" in caplog.text


def test_a_rank_that_is_not_there_has_no_steps(folder: Path) -> None:
    assert TraceAnalysis(trace_dir=str(folder)).t.get_iterations(99) == []


def test_files_of_another_type_are_refused() -> None:
    with pytest.raises(TypeError, match="trace_files is a int; give a dict"):
        Trace(trace_files=42)  # type: ignore[arg-type]


def test_a_rank_that_is_guessed_is_said_to_be(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_trace(tmp_path / "trace.json", events=[event("a", 1, 1)])
    assert trace_file.get_trace_files(str(tmp_path)) == {0: str(tmp_path / "trace.json")}
    assert "trace file does not have the rank" in caplog.text


def test_of_two_files_of_a_rank_the_last_is_taken_and_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a.json", "b.json"):
        write_trace(tmp_path / name, rank=3, events=[event("a", 1, 1)])
    assert trace_file.get_trace_files(str(tmp_path)) == {3: str(tmp_path / "b.json")}
    assert "a.json has the same rank 3 as another file" in caplog.text


@pytest.mark.parametrize("name", ["t.json", "new/t.json.gz"])
def test_json_is_written_as_its_name_says_and_read_back(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    trace_file.write_trace({"traceEvents": []}, path)
    assert Path(path).read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")
    trace_file.update_trace_rank(path, 5)
    assert trace_file.read_trace(path) == {"traceEvents": [], "distributedInfo": {"rank": 5}}


def test_a_file_of_another_suffix_is_not_read() -> None:
    with pytest.raises(ValueError, match=r"does not end in \.gz or \.json"):
        trace_file.read_trace("notes.txt")


def test_copies_of_old_mtia_recordings_get_their_step_and_stream(tmp_path: Path) -> None:
    t = analysis(tmp_path, step(3, 0, 50), kernel("dma_request", 10, 5, stream=4), event("dma_request", 60, 5, tid=9)).t
    frame = t._fix_mtia_memory_kernels(t.get_trace(0))
    assert frame is t.get_trace(0)
    assert frame["iteration"].tolist() == [3, 3, -1]
    assert frame["stream"].tolist() == [-1, 4, 9]
