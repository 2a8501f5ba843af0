"""The graph of profiles of XLA: programs, what launched them, and who waited for them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_series_equal

import holotrace
from holotrace.graph import JobGraph
from holotrace.graph.engine import Changes
from holotrace.job import Job
from xplane_files import DATA, Event, Line, Plane, capture, found, space

_GPU = DATA.parent / "jax_gpu"
_CAPTURES = ("jax_cpu_2x4", "jax_cpu_gaps", "jax_cpu_multihost2x2", "torch_xla_cpu_gaps")
_TPU = "found/openxla_xprof/tpu_inference_2.xplane.pb"


def _job(name: str, folder: Path) -> Job:
    if name.endswith(".gz"):
        return holotrace.open(_GPU / name)
    return holotrace.open(found(name) if "/" in name else capture(name, folder))


@pytest.mark.parametrize("name", [*_CAPTURES, "clean.xplane.pb.gz", "read.xplane.pb.gz", _TPU])
def test_model_error_of_profiles_of_xla(name: str, tmp_path: Path) -> None:
    job = _job(name, tmp_path)
    graph = JobGraph.of(job)
    kept = graph.step_times(has_delays=True)
    assert_series_equal(kept["recorded_ns"], kept["replayed_ns"], check_names=False)
    told = job.replay().filter(pl.col("recorded_ns") > 0)
    assert told.select(pl.col("error_ratio").abs().mean()).item() < 0.02
    assert told.select(pl.col("explained_ratio").min()).item() > 0.9


def test_devices_are_busy_once_and_the_time_of_a_program_between_its_operations_is_its_own(tmp_path: Path) -> None:
    work = JobGraph.of(_job("jax_cpu_gaps", tmp_path)).activities.filter("is_device").sort("device", "start_ns")
    assert work["device"].unique().sort().to_list() == [0, 1, 2, 3]
    apart = work.select((pl.col("start_ns") - pl.col("end_ns").shift(1)).over("device").min())
    assert apart.item() >= 0
    assert work.filter(pl.col("name") == "jit_train_step")["event_id"].null_count() > 0


def test_a_thread_that_reads_a_result_waits_for_the_program_that_makes_it(tmp_path: Path) -> None:
    path = _job("read.xplane.pb.gz", tmp_path).job_path()
    reading = path.filter(pl.col("name") == "np.asarray(jax.Array)", pl.col("bound_by") == "host")
    assert float(reading["duration_ns"].sum()) < 0.02 * float(path["duration_ns"].sum())
    halved = holotrace.what_if(_job("read.xplane.pb.gz", tmp_path), {"compute": 0.5}).row(0, named=True)
    assert 0.35 < halved["saved_ratio"] < 0.5


def test_a_thread_that_stands_still_until_the_devices_do_waited_for_them(tmp_path: Path) -> None:
    job = _job("jax_cpu_2x4", tmp_path)
    path = job.job_path().filter(pl.col("step") == 0)
    share = path.group_by("bound_by").agg(pl.col("duration_ns").sum() / path["duration_ns"].sum())
    told = dict(share.iter_rows())
    assert told["communication"] > 0.5
    assert told["host"] < 0.4


def test_a_program_begins_when_a_launch_that_stood_still_returns() -> None:
    graph = JobGraph.of(holotrace.open(found(_TPU)))
    first = graph.activities.filter("is_device", pl.col("step") == 0).sort("start_ns").row(0, named=True)
    # Its launch took 3.8 s, in which the runtime moved what was in the device's memory.
    edges = graph.edges.filter(pl.col("to_point") == 2 * first["activity"], pl.col("from_point") % 2 == 1)
    launches = graph.activities.filter(pl.col("activity").is_in((edges["from_point"] // 2).implode()))
    launch = launches.filter(~pl.col("is_device")).row(0, named=True)
    assert launch["end_ns"] - launch["start_ns"] > 3_000_000_000
    assert 0 <= first["start_ns"] - launch["end_ns"] < 1_000_000


def test_each_kernel_that_a_thread_of_the_program_launches_waits_for_its_launch() -> None:
    graph = JobGraph.of(holotrace.open(found("found/mi300_jax08_attention")))
    kernels = graph.activities.filter("is_device", pl.col("kind") == "compute").select(point=pl.col("activity") * 2)
    of_host = graph.activities.filter(~pl.col("is_device"))["activity"].implode()
    launched = graph.edges.filter((pl.col("from_point") // 2).is_in(of_host))["to_point"].implode()
    assert kernels.height == 87
    assert kernels["point"].is_in(launched).all()


def test_a_launch_that_another_thread_holds_until_the_device_has_room_waits_for_the_device(tmp_path: Path) -> None:
    """A host that is two programs ahead was taken to be as slow as its device, so that a faster one gained nothing."""
    us, run_us, launched_us = 1_000_000, 10_000, 0
    python, runtime, ran, runs = [], [], [], []
    for number in range(12):
        start = 1_000 + number * run_us
        # The device has finished the last run but one.
        room = max(launched_us + 20, 1_000 + (number - 1) * run_us) if number > 1 else launched_us + 20
        runtime.append(Event("Acquire semaphore", (launched_us + 15) * us, (room - launched_us - 15) * us))
        enqueued = {"run_id": number, "queue_id": 0, "device_ordinal": 0}
        runtime.append(Event("DoEnqueueProgram", room * us, 10 * us, enqueued))
        runtime.append(
            Event("Execute", (launched_us + 10) * us, (room - launched_us + 10) * us, {"_ct": 5, "_c": number})
        )
        called = {"_pt": 5, "_p": number}
        python.append(Event("PjitFunction(f)", launched_us * us, (room - launched_us + 30) * us, called))
        launched_us = room + 50
        runs.append(Event("jit_f(7)", start * us, run_us * us, {"run_id": number, "queue_id": 0}))
        ran.append(Event(f"%fusion.{number}", start * us, run_us * us, {"hlo_category": "fusion"}, "fusion.1"))
    lines = [Line("XLA Modules", runs, id=2), Line("XLA Ops", ran, id=3)]
    host = Plane("/host:CPU", [Line("python", python, id=1), Line("py_xla_execute/7", runtime, id=2)])
    (tmp_path / "host.xplane.pb").write_bytes(space(Plane("/device:TPU:0", lines), host))
    halved = holotrace.what_if(holotrace.open(tmp_path), {"compute": 0.5}).row(0, named=True)
    assert halved["saved_ratio"] == pytest.approx(0.5, abs=0.02)


def test_copies_of_a_tpu_whose_host_is_ahead_are_worth_what_they_take() -> None:
    job = holotrace.open(found(_TPU))
    graph = JobGraph.of(job)
    copies = graph.activities.filter("is_device", pl.col("kind") == "memory").select("activity", own_ns=pl.lit(0))
    (replayed,) = graph.step_times([Changes(own=copies)]).select(pl.col("replayed_ns").sum()).row(0)
    # What is left is computing, and next to nothing of what was said of the host.
    assert replayed < 1.1 * int(job.factors()["compute_ns"][0])
