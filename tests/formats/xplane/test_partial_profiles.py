"""Profiles of which only a part was recorded, and planes beside those of cores: what is there is shown."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

import holotrace
from holotrace import Job
from xplane_files import Event, Line, Plane, space

US = 1_000_000  # in ps


def opened(folder: Path, *planes: Plane) -> Job:
    path = folder / "host.xplane.pb"
    path.write_bytes(space(*planes))
    return holotrace.open(path)


def op(name: str, start: int, length: int, category: str = "loop fusion", **stats: int | str) -> Event:
    return Event(f"%{name}", start * US, length * US, {"hlo_category": category, **stats}, name)


def program(start: int, length: int, run: int = 1) -> Event:
    return Event("jit_f(9)", start * US, length * US, {"run_id": run})


def core(*ops: Event) -> Plane:
    return Plane("/device:TPU:0", [Line("XLA Modules", [program(0, 10)], id=2), Line("XLA Ops", ops, id=3)])


def sparse_core() -> Plane:
    return Plane(
        "/device:TPU:0 SparseCore 1",
        [
            Line("Sparse Core Modules", [program(2, 6)], id=2),
            Line("Sparse Core Ops", [op("gather.5", 2, 4, "gather"), op("scatter.6", 6, 2, "scatter")], id=3),
            Line("Sparse Core Syncs", [Event("sync", 3 * US, US)], id=4),
        ],
    )


def test_a_sparse_core_is_a_device_of_its_own_beside_the_core_of_its_chip(tmp_path: Path) -> None:
    job = opened(tmp_path, core(op("fusion.1", 0, 10)), sparse_core())
    devices = job.table("devices").select("device", pl.col("plane").cast(pl.String), "device_kind")
    assert devices.rows() == [(0, "/device:TPU:0", "TPU"), (0, "/device:TPU:0 SparseCore 1", "SparseCore")]
    times = job.duty_cycle().select("plane", "op_count", "work_ns", "idle_ns").sort("plane")
    assert times.rows() == [("/device:TPU:0", 1, 10_000, 0), ("/device:TPU:0 SparseCore 1", 2, 6_000, 4_000)]
    assert set(job.hlo_ops()["name"]) == {"fusion.1", "gather.5", "scatter.6"}


def test_lines_that_nobody_declared_are_shown(tmp_path: Path) -> None:
    network = Plane(
        "/device:CUSTOM:Megascale Trace", [Line("DCN transfers", [Event("send to slice 3", US, 5 * US)], id=1)]
    )
    job = opened(tmp_path, core(op("fusion.1", 0, 10)), sparse_core(), network)
    events = job.table("events").select(pl.col("name", "pid", "tid").cast(pl.String), "start_ns", "end_ns").rows()
    assert ("send to slice 3", "/device:CUSTOM:Megascale Trace", "DCN transfers", 1_000, 6_000) in events
    assert ("sync", "/device:TPU:0 SparseCore 1", "Sparse Core Syncs", 3_000, 4_000) in events
    # They are no work of a device.
    assert set(job.table("device_events")["name"].cast(pl.String)) == {"fusion.1", "gather.5", "scatter.6"}


@pytest.mark.slow
def test_the_timeline_has_them_too(tmp_path: Path) -> None:
    network = Plane(
        "/device:CUSTOM:Megascale Trace", [Line("DCN transfers", [Event("send to slice 3", US, 5 * US)], id=1)]
    )
    job = opened(tmp_path, core(op("fusion.1", 0, 10)), sparse_core(), network)
    job.write_timeline(tmp_path / "all.json.gz")
    written = json.loads(gzip.decompress((tmp_path / "all.json.gz").read_bytes()))["traceEvents"]
    names = {event["name"] for event in written if event["ph"] == "X"}
    assert {"fusion.1", "gather.5", "scatter.6", "sync", "send to slice 3"} <= names


def host_thread() -> Plane:
    calls = [
        Event("train", 0, 20 * US, {"_r": 1, "step_num": 3}),
        Event("PjitFunction(f)", US, 5 * US),
        Event("PJRT_LoadedExecutable_Execute", 2 * US, 2 * US),
    ]
    return Plane("/host:CPU", [Line("python", calls, id=7)])


def test_a_profile_of_the_host_alone_has_its_steps_and_says_that_devices_are_missing(tmp_path: Path) -> None:
    job = opened(tmp_path, host_thread())
    assert job.host_steps().select("step", "step_ns").rows() == [(3, 20_000)]
    assert job.duty_cycle().is_empty()
    assert job.table("xla_ops").is_empty()
    assert "device work not recorded" in job.problems()["problem"].to_list()


@pytest.mark.slow
def test_a_profile_of_devices_alone_has_gaps_that_nothing_explains(tmp_path: Path) -> None:
    job = opened(tmp_path, core(op("fusion.1", 0, 2), op("fusion.2", 8, 2)))
    gap = job.gaps(min_gap_ns=1).select("idle_ns", "cause", "unattributed_ns").rows()
    assert gap == [(6_000, "unattributed", 6_000)]
    assert job.table("cpu_ops").is_empty()
    assert job.host_steps().is_empty()


def test_without_programs_operations_have_what_their_events_say(tmp_path: Path) -> None:
    job = opened(tmp_path, core(op("fusion.1", 0, 4, tf_op="jit(f)/forward/dot:", source="a.py:3", flops=7)))
    assert job.table("hlo").is_empty()
    row = job.hlo_ops().row(0, named=True)
    assert (row["name"], row["category"], row["flops"], row["source"]) == ("fusion.1", "loop fusion", 7, "a.py:3")
    assert (row["shape"], row["layout"], row["target"]) == (None, None, None)
    assert job.scopes()["scope"].to_list() == ["f", "f/forward"]
    assert job.peak_buffers().is_empty()


def test_calls_are_there_for_who_asks_though_no_analysis_needs_them(tmp_path: Path) -> None:
    host = Plane("/host:CPU", [Line("python", [Event("call", 0, 10 * US), Event("inner", 2 * US, 3 * US)], id=7)])
    job = opened(tmp_path, host, core(op("fusion.1", 4, 2)))
    # What was kept of a question without calls is no answer to one for them.
    job.kernel_sequences()
    named = job.table("calls").filter(~pl.col("on_device"), pl.col("tid") == "python").sort("event_id")
    assert named.select(pl.col("name").cast(pl.String), "depth").rows() == [("call", 0), ("inner", 1)]


def test_a_profile_that_is_cut_off_has_every_whole_event_before_the_end(tmp_path: Path) -> None:
    """It was refused, with all planes before the one that is cut off."""
    events = [Event(f"%fusion.{at} = f32[8]", at * US, US, {"hlo_category": "fusion"}, "fusion") for at in range(9)]
    planes = [Plane(f"/device:TPU:{core}", [Line("XLA Ops", events, id=3)]) for core in range(2)]
    whole = space(planes[0])[: -len(space())]
    path = tmp_path / "host.xplane.pb"
    path.write_bytes((whole + space(planes[1]))[: len(whole) + 100])
    job = holotrace.open(path)
    assert job.table("xla_ops").filter(device=0).height == 9
    problems = dict(job.problems().select("problem", "count").iter_rows())
    assert problems["file cut off"] == 1
    # The names of the last plane would have come behind its events.
    assert problems["name missing"] == job.table("events").height - 9 > 0


def test_what_is_damaged_in_a_profile_is_left_out_and_said_and_all_else_is_read(tmp_path: Path) -> None:
    names = [f"%fusion.{at} = f32[8]" for at in range(9)]
    stats = {"hlo_category": "fusion", "source": "train.py:7"}
    events = [Event(name, at * US, US, stats, name[1:9]) for at, name in enumerate(names)]
    written = bytearray(space(Plane("/device:TPU:0", [Line("XLA Ops", events, id=3)])))
    # The length of the fourth event's last stat.
    at = [place for place in range(len(written)) if written[place:].startswith(b"train.py:7")][3] - 1
    written[at] = 0x7F
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(written)
    job = holotrace.open(path)
    operations = job.table("xla_ops").sort("start_ns")
    assert operations["start_ns"].diff().drop_nulls().to_list() == [1_000] * 8
    assert operations["source"].null_count() == 1
    assert job.problems().filter(problem="profile damaged").select("count", "first_offset").row(0)[0] == 1


@pytest.mark.parametrize("behind", [b"", b"no gzip"])
def test_a_packed_profile_with_another_checksum_is_read_and_said_to_be_damaged(behind: bytes, tmp_path: Path) -> None:
    """It was refused, though all of it was there."""
    packed = bytearray(gzip.compress(space(core(op("fusion.1", 0, 10)))))
    if not behind:
        packed[-5] ^= 1
    path = tmp_path / "host.xplane.pb.gz"
    path.write_bytes(packed + behind)
    job = holotrace.open(path)
    assert job.table("xla_ops")["name"].cast(pl.String).to_list() == ["fusion.1"]
    assert "compressed stream damaged" in job.problems()["problem"]


def test_a_profile_without_events_says_what_to_record(tmp_path: Path) -> None:
    """JAX with a host_tracer_level of 0 records only programs: there were no devices, no steps and no word of why."""
    (row,) = opened(tmp_path, Plane("/host:metadata"), Plane("/host:CPU")).problems().to_dicts()
    assert row["problem"] == "nothing recorded"
    assert "host_tracer_level" in row["action"]


def test_instructions_without_a_name_to_show_have_that_of_their_text(tmp_path: Path) -> None:
    text = "%copy-done.2 = f32[8]{0} copy-done((f32[8]{0}, f32[8]{0}, u32[]{:S(2)}) %copy-start.2)"
    job = opened(tmp_path, core(Event(text, 0, 10 * US, {"hlo_category": "copy-done"})))
    assert job.table("xla_ops")["name"].cast(pl.String).to_list() == ["copy-done.2"]
