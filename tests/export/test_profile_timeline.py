"""Profiles of XLA as a trace of all hosts and devices on one clock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import holotrace
import xplane_files
from holotrace.job import Job
from xplane_files import Event, Line, Plane, space, started_at

US = 1_000_000  # ps
START_NS = 1_700_000_000_000_000_000


def written(job: Job, target: Path, **options: Any) -> dict[str, Any]:  # as Job.write_timeline takes them
    job.write_timeline(target, **options)
    trace: dict[str, Any] = json.loads(target.read_text())
    return trace


def spans(trace: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


@pytest.fixture
def hosts(tmp_path: Path) -> Job:
    return holotrace.open(xplane_files.capture("jax_cpu_multihost2x2", tmp_path))


def test_every_event_of_every_host_is_there_with_its_time(hosts: Job, tmp_path: Path) -> None:
    trace = written(hosts, tmp_path / "all.json")
    events = (
        hosts.table("events")
        .join(hosts.clocks(), on="rank")
        .with_columns(pl.col("start_ns", "end_ns") - pl.col("offset_ns"))
    )
    assert events["offset_ns"].n_unique() == len(hosts.ranks)  # one clock is ahead of the other
    assert len(spans(trace)) == events.height
    base = trace["baseTimeNanoseconds"]
    shown = sorted((event["name"], round(event["ts"] * 1000), round(event["dur"] * 1000)) for event in spans(trace))
    lengths = (events["end_ns"] - events["start_ns"]).to_list()
    starts = (events["start_ns"] - base).to_list()
    assert shown == sorted(zip(events["name"].to_list(), starts, lengths, strict=True))
    names = {event["args"]["name"] for event in trace["traceEvents"] if event.get("name") == "process_name"}
    assert {name.partition(" · ")[0] for name in names} == {"rank 0", "rank 1"}


def test_operations_tell_their_program_scope_and_line(hosts: Job, tmp_path: Path) -> None:
    told = [event["args"] for event in spans(written(hosts, tmp_path / "all.json")) if "hlo_category" in event["args"]]
    assert len(told) == hosts.table("xla_ops").height
    scoped = next(args for args in told if args.get("scope", "").endswith("attention/dot_general"))
    assert (scoped["module"], scoped["step"]) == ("jit_train_step", 0)
    assert scoped["source"].endswith(".py:38")
    assert all(value is not None for args in told for value in args.values())


@pytest.mark.slow
def test_a_step_and_less_detail_are_parts_of_it(hosts: Job, tmp_path: Path) -> None:
    whole = len(spans(written(hosts, tmp_path / "all.json")))
    step = spans(written(hosts, tmp_path / "step.json", of_step=4))
    assert 0 < len(step) < whole / 4
    device = spans(written(hosts, tmp_path / "device.json", detail="device"))
    assert len(device) == hosts.table("xla_ops").height


def test_cores_are_processes_of_their_own_on_the_clock_of_their_host(tmp_path: Path) -> None:
    run = {"run_id": 7, "device_ordinal": 0}
    host = Line("main", [Event("DoEnqueueProgram", 100 * US, 10 * US, run)], timestamp_ns=0)
    # The device's clock is 50 µs behind: it begins before it was told to.
    module = Line("XLA Modules", [Event("jit_f(3)", 60 * US, 20 * US, {"run_id": 7, "program_id": 3})], id=2)
    op = Line("XLA Ops", [Event("%dot.1", 65 * US, 10 * US, {"hlo_category": "dot", "program_id": 3}, "dot.1")], id=3)
    planes = (Plane("/host:CPU", [host]), Plane("/device:TPU:0", [module, op]))
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(space(*planes, started_at(START_NS, START_NS + 10**9)))
    job = holotrace.open(path)
    trace = written(job, tmp_path / "all.json")
    began = {event["name"]: (event["pid"], round(event["ts"] * 1000)) for event in spans(trace)}
    base = START_NS - trace["baseTimeNanoseconds"]
    assert began["DoEnqueueProgram"][1] == base + 100_000
    assert [began[name][1] - base for name in ("jit_f(3)", "dot.1")] == [100_000, 105_000]
    assert began["dot.1"][0] == began["jit_f(3)"][0] != began["DoEnqueueProgram"][0]
