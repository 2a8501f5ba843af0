"""One file as HTA's frame."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from hta_traces import event, kernel, launch

from holotrace import TraceFormatError
from hta.common import trace_parser
from hta.common.trace import Trace, parse_trace_dict
from hta.common.trace_parser import ParserBackend, infer_gpu_type, parse_trace_dataframe, parse_trace_file
from hta.configs.parser_config import ParserConfig
from trace_files import write_trace


@pytest.fixture
def file(tmp_path: Path) -> str:
    events = [event("aten::mm", 1000.25, 50.5, External_id=3), launch(1, 1010), kernel("gemm", 1020, 20)]
    return str(write_trace(tmp_path / "rank-4.json.gz", rank=4, events=events, baseTimeNanoseconds=7))


def test_a_file_is_its_metadata_its_frame_and_its_symbols(file: str) -> None:
    metadata, frame, symbols = parse_trace_file(file)
    assert metadata["distributedInfo"]["rank"] == 4
    assert metadata["device_type"] == "NVIDIA GPU"
    assert "traceEvents" not in metadata
    # The file's own clock, in whole microseconds.
    assert frame["ts"].tolist() == [1001, 1010, 1020]
    assert [symbols.sym_table[number] for number in frame["name"]] == ["aten::mm", "cudaLaunchKernel", "gemm"]
    assert frame["index_correlation"].tolist() == [-1, 2, 1]


def test_the_frame_is_the_one_that_a_trace_holds(file: str) -> None:
    t = Trace({0: file})
    t.parse_traces()
    pd.testing.assert_frame_equal(parse_trace_file(file)[1], t.get_trace(0))


def test_the_config_says_which_args_are_columns(file: str) -> None:
    few = ParserConfig(ParserConfig.get_minimum_args())
    assert "external_id" in parse_trace_file(file)[1]
    assert "external_id" not in parse_trace_dataframe(file, few)[1]
    assert parse_trace_dataframe(file, few.set_parse_all_args(True))[1]["external_id"].tolist() == [3, -1, -1]


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"does not end in \.gz"):
        parse_trace_file(str(tmp_path / "trace.txt"))


def test_json_is_read_as_it_is(file: str) -> None:
    assert [event["name"] for event in parse_trace_dict(file)["traceEvents"]] == [
        "aten::mm",
        "cudaLaunchKernel",
        "gemm",
    ]


def test_json_that_is_nested_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 200_000)
    with pytest.raises(TraceFormatError, match="nested too deeply"):
        parse_trace_dict(str(tmp_path / "deep.json"))


def test_metadata_is_all_but_the_events(file: str) -> None:
    with trace_parser._open_trace_file(file) as opened:
        metadata = trace_parser.parse_metadata_ijson(opened)
    assert metadata.keys() == {"schemaVersion", "distributedInfo", "baseTimeNanoseconds"}


def test_rounding_makes_whole_microseconds_and_no_negative_durations() -> None:
    raw = pd.DataFrame({"ts": [10.5, 10.2, 7.0], "dur": [2.0, 0.5, 1.0]})
    trace_parser.round_down_time_stamps(raw)
    assert raw.to_dict("list") == {"ts": [11, 11, 7], "dur": [1, 0, 1], "end": [12, 11, 8]}


def test_whole_times_are_left_as_they_are() -> None:
    raw = pd.DataFrame({"ts": [10], "dur": [0.5]})
    trace_parser.round_down_time_stamps(raw)
    assert raw.to_dict("list") == {"ts": [10], "dur": [0.5]}


def test_a_way_to_read_can_be_chosen_and_changes_nothing(file: str) -> None:
    default = ParserConfig.get_default_cfg()
    try:
        assert trace_parser.get_default_trace_parsing_backend() is ParserBackend.JSON
        trace_parser.set_default_trace_parsing_backend(ParserBackend.IJSON)
        assert trace_parser.get_default_trace_parsing_backend() is ParserBackend.IJSON
        assert len(parse_trace_file(file)[1]) == 3
    finally:
        ParserConfig.set_default_cfg(default)


def test_events_in_a_frame_are_parsed_like_those_of_a_file() -> None:
    raw = pd.DataFrame([event("a", 5, 2, correlation=9), {"ph": "M", "name": "process_name", "cat": None, "dur": None}])
    frame, symbols = trace_parser._compress_df(raw)
    assert frame[["ts", "dur", "correlation"]].to_numpy().tolist() == [[5, 2, 9]]
    assert symbols.sym_table == ["a", "cpu_op"]
    assert trace_parser._compress_df(raw[1:])[0].empty


@pytest.mark.parametrize(
    ("metadata", "symbol", "device"),
    [
        ({"distributedInfo": {"backend": "cpu:gloo,mtia:hccl"}}, "x", "MTIA"),
        (None, "runFunction - job_prep_and_submit_for_execution", "MTIA"),
        (None, "cudaLaunchKernel", "NVIDIA GPU"),
        (None, "hipLaunchKernel", "AMD GPU"),
        ({"distributedInfo": None}, "x", "UNKNOWN GPU"),
    ],
)
def test_the_device_is_told_by_library_and_calls(metadata: dict[str, object] | None, symbol: str, device: str) -> None:
    assert infer_gpu_type(metadata, {symbol: 0}) == device
