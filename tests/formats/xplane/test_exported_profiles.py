"""Traces exported from profiles of XLA: what is left is read, what is lost is said."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import holotrace
from holotrace.formats.xplane import exported
from holotrace.job import Job
from trace_files import EVENTS
from xplane_files import Event, Line, Plane, found, space

NAMES = [
    {"ph": "M", "pid": 3, "name": "process_name", "args": {"name": "/device:TPU:0"}},
    {"ph": "M", "pid": 3, "tid": 2, "name": "thread_name", "args": {"name": "XLA Modules"}},
    {"ph": "M", "pid": 3, "tid": 3, "name": "thread_name", "args": {"name": "XLA Ops"}},
    {"ph": "M", "pid": 701, "name": "process_name", "args": {"name": "/host:CPU"}},
    {"ph": "M", "pid": 701, "tid": 9, "name": "thread_name", "args": {"name": "python"}},
]


def event(pid: int, tid: int, name: str, ts: float, dur: float, **args: str) -> dict[str, Any]:
    return {"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": ts, "dur": dur, "args": args}


def opened(folder: Path, *events: dict[str, Any]) -> Job:
    run = folder / "plugins" / "profile" / "2026_01_01_00_00_00"
    run.mkdir(parents=True)
    content = {
        "displayTimeUnit": "ns",
        "metadata": {"highres-ticks": True},
        "traceEvents": [*NAMES, *events, {}],
    }
    (run / "host.trace.json.gz").write_bytes(gzip.compress(json.dumps(content).encode()))
    return holotrace.open(folder)


def test_what_an_export_holds_is_in_the_tables_of_profiles(tmp_path: Path) -> None:
    job = opened(
        tmp_path,
        event(701, 9, "train", 0, 100, step_num="7"),
        event(701, 9, "DoEnqueueProgram", 10, 5, run_id="4", queue_id="0", device_ordinal="0"),
        event(3, 2, "jit_f(9)", 50, 40, run_id="4", queue_id="0"),
        event(3, 3, "while.1", 50, 30, hlo_category="while", long_name="%while.1 = f32[] while()"),
        event(3, 3, "all-reduce.2", 55, 20, hlo_category="all-reduce", bytes_accessed="64"),
    )
    operations = job.table("xla_ops")
    assert operations["name"].cast(pl.String).to_list() == ["while.1", "all-reduce.2"]
    assert operations["self_ns"].to_list() == [10_000, 20_000]
    assert operations["accessed_bytes"].to_list() == [None, 64]
    assert operations.select("module_id", "program", "run", "step").unique().row(0) == (0, 9, 4, 7)
    assert job.table("device_events")["kind"].cast(pl.String).to_list() == ["communication"]
    assert job.problems()["problem"].to_list() == ["exported trace"]


def test_a_profile_beside_its_export_is_read_instead(tmp_path: Path) -> None:
    job = opened(tmp_path, event(3, 3, "a", 0, 1))
    (export,) = job.sources
    profile = Path(str(export.path)).with_name("host.xplane.pb")
    profile.write_bytes(space(Plane("/device:TPU:0", [Line("XLA Ops", [Event("%a", 0, 1)])])))
    assert [source.path for source in holotrace.open(tmp_path).sources] == [profile]


def test_an_export_that_stopped_at_its_cap_says_that_the_end_is_missing(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(exported, "CAPS", (8, 5_000_000))
    job = opened(tmp_path, event(3, 3, "a", 0, 1), event(3, 3, "b", 2, 1))
    row = job.problems().filter(problem="events cut off").row(0, named=True)
    assert row["action"] == "the end of the run is missing: the export stopped at 8 events"


def test_published_export_has_its_published_numbers() -> None:
    operations = holotrace.open(found("found/vllm_tpu")).table("xla_ops")
    on_line = operations.filter(pl.col("line").cast(pl.String) == "XLA Ops")
    assert dict(on_line.group_by("device").len().iter_rows()) == {0: 3454, 1: 3454}
    by_category = (
        on_line.filter(device=0)
        .group_by(pl.col("category").cast(pl.String))
        .agg(pl.len(), us=pl.col("self_ns").sum() / 1e3)
    )
    found_in = {category: (count, us) for category, count, us in by_category.iter_rows()}
    # An export is rounded to nanoseconds, each operation by itself.
    assert found_in["convolution fusion"] == (257, pytest.approx(42_308.7, abs=0.15))
    assert found_in["all-reduce"] == (129, pytest.approx(3_433.8, abs=0.15))
    assert found_in["custom-call"] == (190, pytest.approx(17_013.5, abs=0.15))


def test_bytes_of_a_profile_are_a_job(tmp_path: Path) -> None:
    content = space(Plane("/device:TPU:0", [Line("XLA Ops", [Event("%a", 0, 2000, display="a")])]))
    job = holotrace.open(content)
    assert job.table("device_events")["end_ns"].to_list() == [2]
    assert job.info()["file"].to_list() == ["bytes"]


def test_bytes_of_anything_else_are_refused() -> None:
    for content in (b"", b"anything", b"\x80\x04 a pickle"):
        with pytest.raises(holotrace.InputError, match=r"bytes is "):
            holotrace.open(content)


def test_bytes_of_a_trace_are_a_job() -> None:
    job = holotrace.open(gzip.compress(json.dumps({"traceEvents": EVENTS}).encode()))
    assert job.table("device_events").height == 2
    assert job.info()["file"].to_list() == ["bytes"]
