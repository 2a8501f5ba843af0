"""From the native reader's columns to declared tables."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import holotrace
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import ALL, CPU_OPS, DEVICE_EVENTS, EVENTS, PROBLEMS
from holotrace.formats.kineto import read as kineto

KERNEL = {
    "ph": "X",
    "cat": "kernel",
    "name": "k",
    "pid": 0,
    "tid": 7,
    "ts": 1,
    "dur": 1,
    "args": {"my arg": {"a": [1]}},
}


def written(path: Path, text: str) -> Path:
    file = path / "trace.json"
    file.write_text(text)
    return file


def test_every_table_comes_with_its_declared_columns_and_types(tmp_path: Path) -> None:
    made = ("kind", "rank", "file")
    tables = [replace(t, columns=tuple(c for c in t.columns if c.name not in made)) for t in kineto.TABLES]
    parsed = kineto.read(written(tmp_path, json.dumps([KERNEL])), tables)
    for table in tables:
        assert parsed.tables[table.name].schema == table.empty().schema, table.name
    assert parsed.tables["events"].height == 1


def test_tables_that_are_made_at_the_same_time_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, json.dumps([KERNEL, KERNEL | {"cat": "cpu_op", "name": "op"}]))
    tables = [EVENTS, DEVICE_EVENTS.only("event_id", "name"), CPU_OPS.only("event_id", "name")]
    one_by_one = kineto.read(file, tables).tables
    monkeypatch.setattr(kineto, "MANY", 0)
    assert [frame.height for frame in one_by_one.values()] == [2, 1, 1]
    for name, frame in kineto.read(file, tables).tables.items():
        assert_frame_equal(frame, one_by_one[name])


def test_what_the_end_of_a_span_says_belongs_to_the_span(tmp_path: Path) -> None:
    place = {"name": "pass", "pid": 0, "tid": 0}
    entries = [
        place | {"ph": "B", "ts": 1, "args": {"a": 1, "b": 1}},
        place | {"ph": "B", "ts": 2},
        place | {"ph": "E", "ts": 3, "args": {"b": 20}},
        place | {"ph": "E", "ts": 4, "args": {"b": 10}},
    ]
    named = replace(EVENTS, columns=tuple(Column(name, Unit.NUMBER, "An arg", arg=name) for name in "ab"))
    found = kineto.read(written(tmp_path, json.dumps(entries)), [named]).tables["events"]
    # Of two values the later counts, as in Chrome.
    assert found.rows() == [(1, 10), (None, 20)]


def test_an_arg_nobody_declared_is_read_by_its_name(tmp_path: Path) -> None:
    mine = replace(EVENTS, columns=(Column("mine", Unit.LABEL, "An arg of ours", arg="my arg"),))
    parsed = kineto.read(written(tmp_path, json.dumps([KERNEL])), [mine])
    assert parsed.tables["events"]["mine"].cast(pl.String).to_list() == ['{"a": [1]}']


def test_metadata_that_is_no_json_stays_text_and_hides_nothing(tmp_path: Path) -> None:
    digits = "9" * 6000
    text = f'{{"schemaVersion":1,"odd":{{a:1}},"long":{digits},"traceEvents":[{json.dumps(KERNEL)}]}}'
    parsed = kineto.read(written(tmp_path, text), [EVENTS])
    assert parsed.metadata == {"schemaVersion": 1, "odd": "{a:1}", "long": digits}
    assert parsed.tables["events"].height == 1


def test_every_entry_is_in_a_table_or_reported(tmp_path: Path) -> None:
    events = [KERNEL, {"ph": "C", "name": "c", "ts": 1, "args": {"v": 1}}, {"ph": "E", "ts": 1}, {}, 7]
    parsed = kineto.read(written(tmp_path, json.dumps(events)), [*ALL[:1], PROBLEMS.only("problem", "count")])
    counts = dict(parsed.counts)
    tabled = ("complete", "begins", "ends", "instants", "counters", "flows", "labels", "reported")
    assert counts["entries"] == 5 == sum(counts[name] for name in tabled)
    assert dict(parsed.tables["problems"].iter_rows()) == {"entry is no event": 2, "end without begin": 1}


def test_a_file_that_is_no_trace_names_file_offset_and_reason(tmp_path: Path) -> None:
    file = written(tmp_path, '{"a": 1}')
    with pytest.raises(
        holotrace.TraceFormatError,
        match=r"trace\.json: not a trace: at byte 8, it holds neither traceEvents nor another key of a trace",
    ):
        kineto.read(file, [EVENTS])
