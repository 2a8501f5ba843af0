"""PyTorch's memory timeline: what is held when, and files that are none."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

import holotrace
from holotrace.formats.torch.memory_timeline import COLUMNS

PARAMETER, INPUT, ACTIVATION, UNKNOWN = 0, 2, 4, 7


def timeline(folder: Path, *entries: list[int]) -> pl.DataFrame:
    path = folder / "memory.raw.json.gz"
    path.write_bytes(gzip.compress(json.dumps(entries).encode()))
    return holotrace.memory_timeline(path)


def test_what_is_held_adds_up_by_category(tmp_path: Path) -> None:
    table = timeline(
        tmp_path, [10, 1, 100, PARAMETER], [20, 1, 7, ACTIVATION], [20, 1, 5, INPUT], [30, 3, -7, ACTIVATION]
    )
    assert table.columns == [column.name for column in COLUMNS]
    assert table.select("time_ns", "parameter_bytes", "input_bytes", "activation_bytes").rows() == [
        (10, 100, 0, 0),
        (20, 100, 5, 7),
        (30, 100, 5, 0),
    ]


def test_what_was_there_before_is_held_from_the_first_time_on(tmp_path: Path) -> None:
    table = timeline(tmp_path, [-1, 0, 100, UNKNOWN], [-1, 0, 20, UNKNOWN], [50, 1, 5, UNKNOWN])
    assert table.select("time_ns", "unknown_bytes").rows() == [(50, 120), (50, 125)]


def test_a_timeline_without_entries_is_an_empty_table(tmp_path: Path) -> None:
    assert timeline(tmp_path).schema == {column.name: column.unit.dtype for column in COLUMNS}


def test_plain_json_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "memory.json").write_text("[[1, 1, 3, 0]]")
    assert holotrace.memory_timeline(tmp_path / "memory.json")["parameter_bytes"].to_list() == [3]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "entry 0 is no"),
        (b"nonsense", "error deserializing JSON"),
        (b'{"traceEvents": []}', "error deserializing"),
        (b"[[1, 1, 3]]", "entry 0 is no"),
        (b"[[1, 1, 3, 0], [1, 1, 3, 9]]", "entry 1 is no"),
        (b"\xff\xfe", "can't decode"),
        (gzip.compress(b"[[1, 1, 3, 0]]", mtime=0)[:-9], "ended before"),
    ],
)
def test_a_file_that_is_no_timeline_is_an_error(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(holotrace.TraceFormatError, match=rf"x\.json is not a memory timeline: .*{said}"):
        holotrace.memory_timeline(tmp_path / "x.json")


def test_an_error_says_little_of_a_long_entry(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(f'[[1, 1, "{"9" * 5000}", 0]]')
    with pytest.raises(holotrace.TraceFormatError) as caught:
        holotrace.memory_timeline(tmp_path / "x.json")
    assert len(str(caught.value)) < 300 + len(str(tmp_path))


def test_a_missing_file_is_an_error() -> None:
    with pytest.raises(holotrace.InputError, match=r"none\.json cannot be read"):
        holotrace.memory_timeline("none.json")
