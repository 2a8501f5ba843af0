"""Figures of published XLA profiles that were taken from their planes by hand."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import polars as pl
import pytest

import holotrace
from holotrace import Job
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
    asked = holotrace.open(dataset).query("SELECT DISTINCT program FROM modules WHERE module = 'jit_broadcast_in_dim'")
    assert asked["program"].to_list() == [11287434908481120160]
