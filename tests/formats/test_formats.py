"""A format is one declaration: everything else asks it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

import holotrace
from holotrace import InputError, MissingDataError
from holotrace.cli import main
from holotrace.core.schema import Table
from holotrace.core.source import RankSource
from holotrace.core.tables import ALL, CALLS, CPU_OPS, DEVICE_EVENTS
from holotrace.formats import FORMATS, Format, Head
from holotrace.formats.parsed import Parsed
from trace_files import write_trace

# Words that are formats' names by chance, with the files that say them.
_OTHER_WORDS = {"dataset": ["cli/convert.py"]}


def _is_toy(head: Head) -> bool:
    return head.text.startswith(b"TOY ")


def _rank(text: bytes) -> dict[str, int]:
    first = text.split(b"\n", 1)[0].split()
    return {"rank": int(first[1])} if len(first) > 1 and first[0] == b"TOY" else {}


def _read(source: RankSource, tables: Sequence[Table]) -> Parsed[pl.DataFrame]:
    """A line per kernel: name, start and duration in ns."""
    assert isinstance(source.path, Path)
    lines = [line.split() for line in source.path.read_text().splitlines()[1:]]
    kernels = pl.DataFrame(
        {
            "event_id": pl.Series(range(len(lines)), dtype=pl.UInt32),
            "category": pl.Series(["kernel"] * len(lines), dtype=pl.Categorical),
            "name": pl.Series([name for name, *_ in lines], dtype=pl.Categorical),
            "device": [0] * len(lines),
            "stream": [7] * len(lines),
            "start_ns": [int(start) for _, start, _ in lines],
            "end_ns": [int(start) + int(duration) for _, start, duration in lines],
        }
    )
    wanted = next((table for table in tables if table.name == DEVICE_EVENTS.name), None)
    there = [] if wanted is None else [name for name in wanted.column_names if name in kernels.columns]
    frames = {} if wanted is None else {wanted.name: kernels.select(there)}
    return Parsed(frames, {"made_by": "toy"}, {"entries": len(lines)}, 0)


TOY = Format(
    name="toy",
    title="a toy trace",
    suffixes=(".toy",),
    sniff=_is_toy,
    rank_of=_rank,
    read=_read,
    tables=(DEVICE_EVENTS,),
    why_not_copied="is a toy, which no timeline shows; give real traces",
)


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of two ranks in a format that was declared above."""
    monkeypatch.setitem(FORMATS, TOY.name, TOY)
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "a.toy").write_text("TOY 1\ngemm 0 1000\nncclDevKernel_AllReduce 500 1000\n")
    (tmp_path / "job" / "b.toy").write_text("TOY 0\ngemm 0 2000\n")
    (tmp_path / "job" / "notes.txt").write_text("nothing to see")
    return tmp_path / "job"


def test_a_new_format_is_found_and_read_by_its_declaration(toys: Path) -> None:
    job = holotrace.open(toys)
    assert [(source.rank, source.rank_from, source.format) for source in job.sources] == [
        (0, "trace", "toy"),
        (1, "trace", "toy"),
    ]
    assert job.table("device_events", columns=["kind"])["kind"].to_list() == [
        "compute",
        "compute",
        "communication",
    ]
    assert job.info()["event_count"].to_list() == [1, 2]
    # What the format lacks is empty, with its columns.
    assert job.table("cpu_ops").drop("rank").schema == CPU_OPS.empty().schema
    assert job.table("cpu_ops").is_empty()


def test_a_new_format_opens_beside_traces(toys: Path) -> None:
    write_trace(toys / "rank5.json", rank=5)
    assert [source.format for source in holotrace.open(toys).sources] == ["toy", "toy", "kineto"]


def test_a_new_format_is_reported_and_converted(toys: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    done = runner.invoke(main, ["report", str(toys), "-o", str(tmp_path / "report.html")])
    assert done.exit_code == 0, done.output
    assert "gemm" in (tmp_path / "report.html").read_text()
    done = runner.invoke(main, ["convert", str(toys), str(tmp_path / "dataset")])
    assert done.exit_code == 0, done.output
    columns = ["rank", "name", "kind", "start_ns", "end_ns"]
    assert_frame_equal(
        holotrace.open(tmp_path / "dataset").table("device_events", columns=columns),
        holotrace.open(toys).table("device_events", columns=columns),
        categorical_as_str=True,
    )


def test_a_new_format_is_refused_where_traces_are_copied_with_its_own_reason(toys: Path, tmp_path: Path) -> None:
    job = holotrace.open(toys)
    with pytest.raises(MissingDataError, match="no rank is in a trace-event file"):
        job.write_overlay(tmp_path / "out", counters=True)
    with pytest.raises(MissingDataError, match="is a toy, which no timeline shows; give real traces"):
        job.write_timeline(tmp_path / "out.json")


def test_a_file_that_a_format_refuses_is_left_out_of_a_folder_and_an_error_by_itself(
    toys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = replace(TOY, refuse=lambda head: "too small; make a larger one" if b"2000" in head.text else "")
    monkeypatch.setitem(FORMATS, TOY.name, refusing)
    found = holotrace.open(toys).found
    assert [source.rank for source in found.sources] == [1]
    assert [(row["problem"], row["example"]) for row in found.problems] == [("file left out", "too small")]
    with pytest.raises(InputError, match=r"b\.toy is too small; make a larger one"):
        holotrace.open(toys / "b.toy")


def test_every_table_is_in_some_format() -> None:
    known = {table.name for declared in FORMATS.values() for table in declared.tables if declared.name != "dataset"}
    assert known == {table.name for table in ALL} - {CALLS.name}


def test_no_module_outside_of_formats_spells_the_name_of_one() -> None:
    package = Path(holotrace.__file__).parent
    spelled = []
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if name.startswith("formats/"):
            continue
        constants = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
        spelled += [
            f"{name}:{node.lineno}: {node.value}"
            for node in constants
            if isinstance(node.value, str) and node.value in FORMATS and name not in _OTHER_WORDS.get(node.value, [])
        ]
    assert spelled == []
