"""Counters in a copy of a trace, as HTA writes them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest
from hta_traces import analysis, event, kernel, launch

from hta._bridge.counters import with_suffix
from hta.common.trace import Trace
from hta.trace_analysis import TimeSeriesTypes, TraceAnalysis

COPY: Any = {"bytes": 4096, "memory_bandwidth_(GB/s)": 2.5}


def launched_and_copied(folder: Path) -> TraceAnalysis:
    return analysis(
        folder,
        event("aten::mm", 1000, 50),
        launch(1, 1010),
        kernel("gemm", 1030, 5, correlation=1),
        kernel("Memcpy HtoD (Pageable -> Device)", 1040, 4, correlation=2, cat="gpu_memcpy", **COPY),
        traceName="one",
    )


def read(file: Path) -> Any:
    content = file.read_bytes()
    return json.loads(gzip.decompress(content) if file.suffix == ".gz" else content)


def counter(ts: float, name: str, **args: float) -> dict[str, Any]:
    return {"pid": 0, "ts": ts, "args": args, "ph": "C", "name": name}


def test_counters_come_behind_the_events_of_a_copy(tmp_path: Path) -> None:
    launched_and_copied(tmp_path).generate_trace_with_counters()
    before, after = read(tmp_path / "rank-0.json"), read(tmp_path / "rank-0_with_counters.json")
    queue = [{**counter(ts, "Queue Length", **{"Queue Length": n}), "id": 7} for ts, n in ((1010, 1), (1030, 0))]
    moved = [counter(ts, "Memcpy HtoD", **{"Memcpy BW": rate}) for ts, rate in ((1040, 2.5), (1044, 0))]
    assert after == {**before, "traceEvents": [*before["traceEvents"], *queue, *moved]}


def test_a_trace_that_writes_in_its_own_way_is_given_the_whole_copy(tmp_path: Path) -> None:
    class Kept(Trace):
        written: ClassVar[list[tuple[str, Mapping[str, Any]]]] = []

        def write_raw_trace(self, output_file: str, trace_contents: Mapping[str, Any]) -> None:
            self.written.append((output_file, trace_contents))

    a = launched_and_copied(tmp_path)
    a.t = Kept({0: str(tmp_path / "rank-0.json")}, str(tmp_path))
    a.t.load_traces()
    a.generate_trace_with_counters()
    ((file, copy),) = Kept.written
    assert file == str(tmp_path / "rank-0_with_counters.json")
    assert not Path(file).exists()
    before = read(tmp_path / "rank-0.json")
    assert {**copy, "traceEvents": copy["traceEvents"][:4]} == before
    assert {event["ph"] for event in copy["traceEvents"][4:]} == {"C"}
    assert len(copy) == len(before)


def test_one_kind_of_counter_under_a_suffix_of_ones_own(tmp_path: Path) -> None:
    a = launched_and_copied(tmp_path)
    a.generate_trace_with_counters(TimeSeriesTypes.MEMCPY_BANDWIDTH, ranks=[0], output_suffix="-moved")
    names = {event["name"] for event in read(tmp_path / "rank-0-moved.json")["traceEvents"] if event["ph"] == "C"}
    assert names == {"Memcpy HtoD"}


def test_a_rank_without_counters_gets_no_copy(tmp_path: Path) -> None:
    analysis(tmp_path, event("aten::mm", 1, 50)).generate_trace_with_counters()
    assert [file.name for file in tmp_path.iterdir()] == ["rank-0.json"]


def test_the_suffix_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="without slashes"):
        launched_and_copied(tmp_path).generate_trace_with_counters(output_suffix="/../../other")


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("/a.json/rank0.json.gz", "/a.json/rank0_c.json.gz"),
        ("rank0.json", "rank0_c.json"),
        ("rank0.pt.trace.json.zst", "rank0.pt.trace_c.json.zst"),
        ("rank0.gz", "rank0_c.gz"),
    ],
)
def test_bug_14_the_suffix_is_put_into_the_name_only(file: str, expected: str) -> None:
    assert with_suffix(file, "_c") == expected


def test_bug_14_a_file_is_packed_as_its_name_says(tmp_path: Path) -> None:
    t = launched_and_copied(tmp_path).t
    trace = t.get_raw_trace_for_one_rank(0)
    assert trace["traceName"] == "one"
    t.write_raw_trace(str(tmp_path / "raw.json"), trace)
    t.write_raw_trace(str(tmp_path / "raw.json.gz"), trace)
    assert read(tmp_path / "raw.json") == read(tmp_path / "raw.json.gz") == trace
    with pytest.raises(ValueError, match="rank 3 does not exist"):
        t.get_raw_trace_for_one_rank(3)


def test_any_time_series_becomes_counters_on_the_clock_of_the_trace(tmp_path: Path) -> None:
    t = launched_and_copied(tmp_path).t
    series: pd.DataFrame = pd.DataFrame({"pid": ["gpu", 0], "ts": [0, 5], "level": [1, 2]})
    assert t.convert_time_series_to_events(series, "Level", "level") == [
        {"pid": "gpu", "ts": 1000, "args": {"Level": 1}, "ph": "C", "name": "Level"},
        {"pid": "0", "ts": 1005, "args": {"Level": 2}, "ph": "C", "name": "Level"},
    ]
    assert t.convert_time_series_to_events(series.drop(columns="pid"), "Level", "level") == []


def test_a_process_whose_number_is_longer_than_64_bits_has_counters(tmp_path: Path) -> None:
    t = launched_and_copied(tmp_path).t
    series: pd.DataFrame = pd.DataFrame({"pid": [2**63], "ts": [0], "level": [1]})
    assert [event["pid"] for event in t.convert_time_series_to_events(series, "Level", "level")] == [str(2**63)]


def test_an_arrow_has_two_ends() -> None:
    ends = [Trace.flow_event(1, 2, 3, 4, start, "path", "critical", {"weight": 5}) for start in (True, False)]
    arrow = {"id": 1, "pid": 2, "tid": 3, "ts": 4, "cat": "critical", "name": "path", "args": {"weight": 5}}
    assert ends == [{"ph": "s", **arrow}, {"ph": "f", **arrow, "bp": "e"}]
