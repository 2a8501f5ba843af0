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


def launched(calls: list[tuple[str, float]], handed: list[float]) -> list[dict[str, Any]]:
    """Calls of a thread of the program, and one program after the other that another thread hands to the device."""
    runs = [
        made
        for run, at in enumerate(handed)
        for made in (
            event(701, 20, "DoEnqueueProgram", at, 5, run_id=str(run), queue_id="0", device_ordinal="0"),
            event(3, 2, "jit_f(9)", 200 + 40 * run, 40, run_id=str(run), queue_id="0"),
        )
    ]
    return [*(event(701, 9, name, at, 4) for name, at in calls), *runs]


def launches(job: Job) -> list[tuple[str, int]]:
    calls = job.table("host_calls").select("name", launch_id="event_id")
    runs = job.table("modules").join(calls, on="launch_id", how="left").sort("start_ns")
    return [(name, ns // 1000) for name, ns in runs.select(pl.col("name").cast(pl.String), "launch_ns").iter_rows()]


def test_programs_of_an_export_go_back_to_the_calls_of_the_program_in_their_order(tmp_path: Path) -> None:
    # An export does not say which call hands over which program: the third is handed over after the fourth call.
    call = "PJRT_LoadedExecutable_Execute"
    asked = [(call, 10.0), (call, 50.0), (call, 90.0), (call, 130.0)]
    job = opened(tmp_path, *launched(asked, [20, 60, 135, 145]))
    assert launches(job) == asked


def test_programs_that_an_export_has_no_call_of_are_their_own_launches(tmp_path: Path) -> None:
    call = "PJRT_LoadedExecutable_Execute"
    job = opened(tmp_path, *launched([(call, 10.0), (call, 90.0)], [20, 60, 100]))
    assert launches(job) == [("DoEnqueueProgram", 20), ("DoEnqueueProgram", 60), ("DoEnqueueProgram", 100)]


def test_what_was_launched_before_an_export_begins_is_no_matter_of_its_first_call(tmp_path: Path) -> None:
    call = "TpuLoadedExecutable::Execute"
    job = opened(tmp_path, *launched([(call, 30.0), (call, 90.0), (call, 170.0)], [20, 60, 100]))
    runs = job.table("modules").sort("start_ns")
    assert [ns and ns // 1000 for ns in runs["launch_ns"]] == [None, 30, 90]


def test_graphs_of_an_export_go_back_to_what_had_them_executed(tmp_path: Path) -> None:
    asked = [("ScheduleSyncTensorsGraph", 10.0), ("ScheduleSyncTensorsGraph", 50.0)]
    others = [event(701, 21, "PJRT_LoadedExecutable_Execute", at, 4) for at in (16, 56)]
    job = opened(tmp_path, *others, *launched(asked, [20, 60]))
    assert launches(job) == asked


def test_kernels_of_an_export_are_of_programs_by_their_names(tmp_path: Path) -> None:
    names = {"hlo_module": "jit_f", "hlo_op": "fusion.1"}
    gpu = [
        {"ph": "M", "pid": 2, "name": "process_name", "args": {"name": "/device:GPU:0"}},
        {"ph": "M", "pid": 2, "tid": 7, "name": "thread_name", "args": {"name": "Stream #7(Compute)"}},
    ]
    ran = [event(2, 7, "fusion_1", 20.0 + 50 * run, 30, correlation_id=str(run), **names) for run in (1, 2)]
    calls = [
        made
        for run in (1, 2)
        for made in (
            event(701, 9, "jit_f:XLA GPU module", 50.0 * run, 9),
            event(701, 9, "cuLaunchKernelEx", 50.0 * run + 4, 3, correlation_id=str(run)),
        )
    ]
    runs = opened(tmp_path, *gpu, *calls, *ran).table("modules").sort("start_ns")
    assert runs.select(pl.col("module").cast(pl.String), "program", "op_count").rows() == [("jit_f", None, 1)] * 2
    assert [ns // 1000 for ns in runs["launch_ns"]] == [54, 104]


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
