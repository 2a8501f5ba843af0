"""A trace written anew differs in what was asked for, and in nothing else."""

from __future__ import annotations

import gzip
import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import holotrace
from holotrace import Edit, rewrite

EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1.5, "dur": 2}

texts = st.text(max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
events = st.fixed_dictionaries(
    {"ph": st.sampled_from("XBEiCM"), "name": texts, "pid": st.integers(0, 3), "ts": st.integers(0, 100)},
    optional={"dur": st.integers(0, 5), "args": st.dictionaries(texts, values, max_size=4), "cat": texts, "x": values},
)
layouts = st.sampled_from(
    [{}, {"indent": 1}, {"separators": (",", ":")}, {"ensure_ascii": False}, {"separators": (" , ", "  :\n")}]
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rewritten")


def write(folder: Path, text: str) -> Path:
    path = folder / "trace.json"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    return path


def with_ends(listed: list[dict[str, Any]], dropped: list[int]) -> set[int]:
    """Numbers of these events, and of the ends of those that only begin."""
    gone = set(dropped)
    begun: dict[int, list[int]] = defaultdict(list)
    for number, event in enumerate(listed):
        if event["ph"] == "B":
            begun[event["pid"]].append(number)
        elif event["ph"] == "E" and begun[event["pid"]] and begun[event["pid"]].pop() in dropped:
            gone.add(number)
    return gone


@settings(max_examples=60, deadline=None)
@given(st.lists(events, max_size=12), st.dictionaries(texts, values, max_size=2), layouts, st.data())
def test_only_the_events_that_were_named_differ(
    folder: Path, listed: list[dict[str, Any]], metadata: dict[str, Any], layout: dict[str, Any], data: st.DataObject
) -> None:
    trace = {**metadata, "traceEvents": listed, "schemaVersion": 1}
    path = write(folder, json.dumps(trace, **layout))
    rewrite(path, folder / "same.json")
    assert (folder / "same.json").read_bytes() == path.read_bytes()

    numbers = st.lists(st.integers(0, len(listed) - 1), max_size=4, unique=True) if listed else st.just([])
    edited, dropped = data.draw(numbers), data.draw(numbers)
    rewrite(
        path,
        folder / "other.json",
        edits=[Edit(pl.Series(edited, dtype=pl.UInt32), args={"critical": [1, "é"]}, fields={"name": "new"})],
        drop=dropped,
        append=[json.dumps(EVENT)],
    )
    for number in edited:
        event = listed[number]
        listed[number] = {**event, "name": "new", "args": {**event.get("args", {}), "critical": [1, "é"]}}
    gone = with_ends(listed, dropped)
    trace["traceEvents"] = [event for number, event in enumerate(listed) if number not in gone] + [EVENT]
    assert json.loads((folder / "other.json").read_text(encoding="utf-8")) == trace


def test_numbers_are_those_of_the_tables(tmp_path: Path) -> None:
    other = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}, {"ph": "s", "id": 1, "ts": 1}]
    listed = [*other, EVENT, {**EVENT, "cat": "python_function"}, *other, {**EVENT, "name": "found"}]
    path = write(tmp_path, json.dumps({"schemaVersion": 1, "traceEvents": listed}))
    found = holotrace.open(path).table("events").filter(pl.col("name") == "found")["event_id"]
    rewrite(path, tmp_path / "marked.json", edits=[Edit(found, {"critical": 1})])
    assert json.loads((tmp_path / "marked.json").read_text())["traceEvents"] == [
        *listed[:-1],
        {**EVENT, "name": "found", "args": {"critical": 1}},
    ]


def test_only_some_categories_and_what_is_edited_stay(tmp_path: Path) -> None:
    other = {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}
    listed = [
        other,
        {**EVENT, "cat": "kernel"},
        {**EVENT, "cat": "user_annotation"},
        EVENT,
        {**EVENT, "name": "edited"},
    ]
    path = write(tmp_path, json.dumps({"schemaVersion": 1, "traceEvents": listed}))
    edits = [Edit([4], fields={"cat": "kernel"})]
    for only in (["user_annotation"], "user_annotation"):
        rewrite(path, tmp_path / "some.json", edits=edits, only=only)
        kept = json.loads((tmp_path / "some.json").read_text())["traceEvents"]
        assert kept == [other, listed[2], {**EVENT, "name": "edited", "cat": "kernel"}]


def test_the_suffix_says_how_it_is_packed(tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps({"traceEvents": [EVENT] * 1000}))
    for name in ("a.json", "a.json.gz", "a.json.zst"):
        rewrite(path, tmp_path / name)
    assert (tmp_path / "a.json").read_bytes() == path.read_bytes()
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()) == path.read_bytes()
    with zstandard.open(tmp_path / "a.json.zst") as packed:
        assert packed.read() == path.read_bytes()


def test_the_file_may_be_read_by_whom_any_new_file_may(tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps([EVENT]))
    rewrite(path, tmp_path / "copy.json")
    assert (tmp_path / "copy.json").stat().st_mode == path.stat().st_mode


def test_the_trace_itself_is_never_written(tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps([EVENT]))
    os.link(path, tmp_path / "linked.json")
    (tmp_path / "pointing.json").symlink_to(path)
    for target in (path, tmp_path / "linked.json", tmp_path / "pointing.json"):
        with pytest.raises(holotrace.UsageError, match="name another file"):
            rewrite(path, target, drop=[0])
    assert json.loads(path.read_text()) == [EVENT]


def test_a_link_in_the_way_is_replaced_and_not_followed(tmp_path: Path) -> None:
    path, other = write(tmp_path, json.dumps([EVENT])), tmp_path / "other.txt"
    other.write_text("precious")
    (tmp_path / "copy.json").symlink_to(other)
    rewrite(path, tmp_path / "copy.json")
    assert other.read_text() == "precious"
    assert json.loads((tmp_path / "copy.json").read_text()) == [EVENT]


def test_what_cannot_be_done_is_an_error_that_leaves_nothing_behind(tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps([EVENT]))
    with pytest.raises(holotrace.UsageError, match="not all of these events"):
        rewrite(path, tmp_path / "copy.json", drop=[1])
    for wrong in (pl.Series([-1]), pl.Series([2**32]), pl.Series(["a"]), pl.Series([0, None])):
        with pytest.raises(holotrace.UsageError, match="whole numbers from 0"):
            rewrite(path, tmp_path / "copy.json", drop=wrong)
    with pytest.raises(holotrace.UsageError, match="whole numbers from 0"):
        rewrite(path, tmp_path / "copy.json", drop=[-1])
    with pytest.raises(holotrace.InputError, match="cannot be written"):
        rewrite(path, tmp_path / "nowhere" / "copy.json")
    with pytest.raises(holotrace.InputError, match="cannot be written"):
        rewrite(tmp_path / "absent.json", tmp_path / "copy.json")
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
