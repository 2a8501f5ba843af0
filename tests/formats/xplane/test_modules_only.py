"""Profiles of devices of which little was recorded: programs without operations, waiting without work."""

from __future__ import annotations

from pathlib import Path

import polars as pl

import holotrace
from holotrace import Job
from xplane_files import Event, Line, Plane, space

US = 1_000_000  # in ps


def event(name: str, start: int, length: int, category: str = "") -> Event:
    return Event(f"%{name}" if category else name, start * US, length * US, {"hlo_category": category}, name)


def drawn(folder: Path, *lines: Line) -> Job:
    path = folder / "host.xplane.pb"
    path.write_bytes(space(Plane("/device:TPU:0", lines)))
    return holotrace.open(path)


def programs(*starts: int) -> Line:
    return Line("XLA Modules", [Event("jit_f(9)", start * US, 10 * US, {"run_id": start}) for start in starts], id=2)


def test_programs_without_operations_are_the_work_of_their_device(tmp_path: Path) -> None:
    job = drawn(tmp_path, programs(5, 20, 35))
    duty = job.duty_cycle().row(0, named=True)
    assert (duty["op_count"], duty["program_count"]) == (0, 3)
    assert (duty["window_ns"], duty["work_ns"], duty["idle_ns"]) == (40_000, 30_000, 10_000)
    assert job.gaps(min_gap_ns=1)["idle_ns"].to_list() == [5_000, 5_000]
    assert job.kernels().select("name", "kind", "count", "sum_ns").rows() == [("jit_f", "compute", 3, 30_000)]
    assert "silent-device" not in {finding.rule for finding in job.findings()}
    assert "operations not recorded" in job.problems()["problem"].to_list()


def test_programs_with_operations_are_no_work_of_their_own(tmp_path: Path) -> None:
    job = drawn(tmp_path, programs(0), Line("XLA Ops", [event("fusion.1", 2, 3, "loop fusion")], id=3))
    assert job.table("device_events")["name"].cast(pl.String).to_list() == ["fusion.1"]
    assert job.duty_cycle()["work_ns"].to_list() == [3_000]


def test_waiting_before_the_first_operation_is_no_negative_idle_time(tmp_path: Path) -> None:
    ops = Line("XLA Ops", [event("fusion.1", 50, 3, "loop fusion")], id=3)
    waits = Line("XLA TraceMe", [event("barrier-cores", 0, 40)], id=6)
    duty = drawn(tmp_path, ops, waits).duty_cycle().row(0, named=True)
    assert (duty["window_ns"], duty["work_ns"], duty["wait_ns"], duty["idle_ns"]) == (53_000, 3_000, 40_000, 10_000)
