"""Figures of published XLA profiles that were taken from their planes by hand."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from statistics import median

import polars as pl
import pytest

import holotrace
from holotrace import Job
from holotrace.derive import arrivals, collectives
from xplane_files import found

TPU, GEMM = "openxla_xprof/tpu_inference_2.xplane.pb", "mi300_jax08_gemm/tw003.xplane.pb"
FUSION = "broadcast_add_fusion"


@cache
def opened(name: str) -> Job:
    return holotrace.open(found(f"found/{name}"))


def seconds(ns: int) -> float:
    return round(ns / 1e9, 2)


def test_operations_take_as_long_as_on_the_clock_of_the_device() -> None:
    operations = opened(TPU).hlo_ops()
    times = dict(operations.select("name", "self_ns").iter_rows())
    assert [seconds(times[name]) for name in ("copy-done.2", "copy-done.4", "copy-done.5")] == [77.64, 77.77, 72.95]
    ratios = dict(operations.select("name", "bandwidth_ratio").iter_rows())
    assert [round(ratios[name], 3) for name in (FUSION, f"{FUSION}.1")] == [0.822, 0.804]
    kernels = dict(opened(TPU).kernels().select("name", "sum_ns").iter_rows())
    assert kernels == pytest.approx({name: times[name] for name in kernels}, abs=1)
    # To each run whole nanoseconds.
    work = dict(opened(TPU).operator_efficiency().select("name", "work_ns").iter_rows())
    assert work == pytest.approx({name: times[name] for name in work}, abs=400)


def test_cores_that_wait_for_their_copies_do_not_wait_for_the_host() -> None:
    (found,) = opened(TPU).factors().to_dicts()
    assert found["host_ratio"] > 0.99
    assert found["copy_ratio"] == pytest.approx(0.03, abs=0.001)


def test_scopes_and_phases_take_as_long_as_on_the_clock_of_the_device() -> None:
    scopes = opened(TPU).scopes()
    assert round(scopes.filter(scope="f")["total_ns"].item() / 1e9, 3) == 9.62
    phases = opened(TPU).phases()
    assert [round(ns / 1e9, 3) for ns in phases["work_ns"]] == [2.774, 2.769, 2.77, 2.771]


def test_phases_and_scopes_agree_on_what_is_work_and_what_is_waiting() -> None:
    scopes, phases = opened(TPU).scopes().filter(depth=0), opened(TPU).phases()
    assert scopes["total_ns"].sum() == phases["work_ns"].sum()
    assert scopes["wait_ns"].sum() == phases["wait_ns"].sum()
    assert seconds(int(phases["wait_ns"].sum())) == 304.03


def test_asynchronous_copies_are_counted_once() -> None:
    kernels = opened(TPU).kernels()
    assert (kernels["count"].sum(), round(int(kernels["sum_ns"].sum()) / 1e9, 1)) == (6_013, 315.1)
    copy = kernels.filter(name="copy-start.4").row(0, named=True)
    assert (copy["count"], round(copy["sum_ns"] / 1e3, 1)) == (400, 2.4)


def test_programs_of_one_name_are_told_apart() -> None:
    calls = opened(GEMM).hlo_ops().filter(name="custom-call.1", module="jit_dot")
    assert calls.select("op_count", pl.col("self_ns") // 1000).rows() == [(3, us) for us in (1833, 552, 449, 352, 31)]
    assert calls["program"].n_unique() == 5


def test_ids_of_programs_are_unsigned() -> None:
    job = opened(TPU)
    row = job.hlo_ops().filter(module="jit_broadcast_in_dim").row(0, named=True)
    assert row["program"] == 11287434908481120160
    for table in ("modules", "xla_ops", "hlo"):
        assert 11287434908481120160 in job.table(table)["program"]


def test_what_moves_beside_an_operation_gives_it_no_rate() -> None:
    beside = opened(TPU).hlo_ops().filter(pl.col("name").str.contains("copy-(start|done)"))
    assert beside.height == 12
    rates = beside.select("flops_ratio", "bandwidth_ratio", "tflops", "bandwidth_gbps")
    assert rates.null_count().row(0) == (12,) * 4
    ratios = opened(TPU).hlo_ops().select(pl.col("flops_ratio", "bandwidth_ratio").max())
    assert max(ratios.row(0)) <= 1


def test_a_dataset_keeps_ids_of_programs(tmp_path: Path) -> None:
    dataset = holotrace.convert(found(f"found/{TPU}"), tmp_path / "dataset").path
    operations = holotrace.open(dataset).hlo_ops()
    assert operations.equals(opened(TPU).hlo_ops())
    asked = holotrace.open(dataset).query(
        "SELECT DISTINCT program FROM modules_table WHERE module = 'jit_broadcast_in_dim'"
    )
    assert asked["program"].to_list() == [11287434908481120160]


def test_steps_that_were_not_marked_are_as_long_as_the_device_took() -> None:
    steps = opened(TPU).table("steps")
    lengths = (steps["end_ns"] - steps["start_ns"]).to_list()
    assert round(median(lengths) / 1e6, 1) == 784.1
    modules = opened(TPU).table("modules").filter(pl.col("module").cast(pl.String) == "jit_f")
    of_each = modules.sort("start_ns").partition_by("device", maintain_order=True)
    assert [device["step"].to_list() for device in of_each] == [list(range(100))] * 4
    between = [round(median(device["start_ns"].diff().drop_nulls().to_list()) / 1e6) for device in of_each]
    assert between == [784] * 4


def test_waiting_for_a_busy_device_is_no_dispatch() -> None:
    steps = opened(TPU).host_steps().filter(pl.col("step").is_between(2, 60))
    assert steps.select((pl.col("back_pressure_ns") / pl.col("step_ns")).min()).item() > 0.99
    assert steps.select((pl.col("dispatch_ns") / pl.col("step_ns")).max()).item() < 0.001


@pytest.mark.parametrize("name", [TPU, GEMM, "mi300_jax08_attention", "vllm_tpu"])
def test_no_time_of_a_device_is_negative_and_its_parts_sum_to_the_window(name: str) -> None:
    table = opened(name).duty_cycle()
    parts = table.select("work_ns", "wait_ns", "idle_ns")
    assert all(ns >= 0 for row in parts.iter_rows() for ns in row)
    assert (parts.sum_horizontal() == table["window_ns"]).all()


@pytest.mark.parametrize("name", [TPU, GEMM, "mi300_jax08_attention", "vllm_tpu"])
def test_a_critical_path_is_not_longer_than_its_step(name: str) -> None:
    path = opened(name).critical_path().group_by("rank").agg(pl.col("step_ratio").sum())
    assert all(0 < ratio <= 1 + 1e-9 for ratio in path["step_ratio"])


def test_cores_of_one_host_are_compared_by_when_they_came_to_their_barrier() -> None:
    cores = opened(TPU).stragglers()
    assert cores.select("device", "collective_count", "uncompared_count").rows() == [(n, 3, 0) for n in range(4)]
    calls = opened(TPU).map(collectives.calls, collectives.READS)[0].with_columns(rank=pl.lit(0, pl.Int32))
    first = arrivals.of_ranks(calls).sort("start_ns").head(4).sort("device")
    starts = [round(ns / 1e6, 3) for ns in first["start_ns"] - first["start_ns"].min()]
    assert starts == [340.973, 314.325, 0.0, 329.199]
    # Its cores were at barrier-cores for 0.003, 26.651, 340.978 and 11.777 ms.
    waited = [ns / 1e6 for ns in first["waited_ns"]]
    assert waited == pytest.approx([0.003, 26.651, 340.978, 11.777], abs=0.01)
    # TPU:0 came last, 341 ms after TPU:2.
    assert first.sort("waited_ns")["device"].to_list() == [0, 3, 1, 2]


def test_cores_of_one_host_wait_for_each_other_in_communication() -> None:
    cores = opened(TPU).communication()
    assert cores.select("device", "count", "compared_count").rows() == [(n, 3, 3) for n in (2, 1, 3, 0)]
    waited = dict(cores.select("device", pl.col("waited_ns") / 1e6).iter_rows())
    assert {device: round(ms) for device, ms in waited.items()} == {0: 25, 1: 55, 2: 341, 3: 45}
