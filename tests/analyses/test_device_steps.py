"""What devices do in each step, by their own programs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import polars as pl
import pytest

import holotrace
import xplane_files
from drawing import draw
from holotrace import Job
from holotrace.derive.device_steps import PARTS
from xplane_files import Event, Line, Plane, space

SUMMED = [f"{part}_ns" for part in PARTS]
US = 1_000_000  # in ps


def parts(job: Job, step: int) -> dict[str, int]:
    """The parts of a step of the first device that are there."""
    row = job.device_steps().filter(step=step, device=0).select(SUMMED).row(0, named=True)
    return {name.removesuffix("_ns"): ns for name, ns in row.items() if ns}


TWO_STEPS = """
    step |1111111122222222|
    call |a.b..KKKa.b.....|
    tpu  |.AAABB...AAABB..|
    A = fusion.1
    B = all-reduce.1
    K = backend_compile
"""


def test_a_step_of_a_device_has_the_time_that_kept_it_from_beginning() -> None:
    steps = draw(TWO_STEPS).device_steps()
    assert steps.select("step", "start_ns", "step_ns").rows() == [(1, 1_000, 5_000), (2, 6_000, 8_000)]
    assert parts(draw(TWO_STEPS), 1) == {"compute": 3_000, "exposed_comm": 2_000}
    assert parts(draw(TWO_STEPS), 2) == {"compute": 3_000, "exposed_comm": 2_000, "idle": 3_000}


def test_idle_time_has_the_cause_of_most_of_it() -> None:
    assert draw(TWO_STEPS).device_steps()["idle_cause"].to_list() == [None, "compilation"]


def test_idle_time_before_a_program_that_was_launched_in_time_is_queued() -> None:
    job = draw("""
        step |1111111122222222|
        call |a..a............|
        tpu  |.AAA...AAA......|
    """)
    assert job.device_steps()["idle_cause"].drop_nulls().to_list() == ["queued"]


def test_devices_have_steps_of_their_own() -> None:
    job = draw("""
        step |111122223333|
        call |a...a...a...|
        tpu  |.AA..AA..AA.|
        tpu  |...AA..AA.AA|
    """)
    table = job.device_steps()
    starts = table.sort("device", "step").group_by("device", maintain_order=True).agg("start_ns")["start_ns"]
    assert starts.to_list() == [[1_000, 3_000, 7_000], [3_000, 5_000, 9_000]]


def test_what_nothing_hides_is_exposed_and_what_is_hidden_stands_beside_it(tmp_path: Path) -> None:
    def op(name: str, category: str, start: int, length: int) -> Event:
        return Event(f"%{name}", start * US, length * US, {"hlo_category": category}, name)

    ops = [
        op("all-gather-start.1", "all-gather-start", 10, 1),
        op("fusion.1", "loop fusion", 11, 6),
        op("all-gather-done.1", "all-gather-done", 17, 2),
        op("copy-done.1", "copy-done", 20, 3),
        op("infeed.1", "infeed", 23, 4),
    ]
    lines = [
        Line("XLA Modules", [Event("jit_f(9)", 10 * US, 20 * US, {"run_id": 1})], id=2),
        Line("XLA Ops", ops, id=3),
        Line("Async XLA Ops", [op("all-gather-start.1", "all-gather", 10, 9)], id=4),
        Line("XLA TraceMe", [Event("barrier-cores", 27 * US, 2 * US)], id=6),
        Line("Steps", [Event("7", 5 * US, 40 * US)], id=1),
    ]
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(space(Plane("/device:TPU:0", lines)))
    job = holotrace.open(path)
    assert parts(job, 7) == {
        "compute": 6_000,
        "exposed_comm": 3_000,
        "copy": 3_000,
        "feed": 4_000,
        "core_wait": 2_000,
        "other": 2_000,
    }
    assert job.device_steps()["hidden_comm_ns"].to_list() == [6_000]


@cache
def opened(name: str) -> Job:
    return holotrace.open(xplane_files.found(name))


TPU = "found/openxla_xprof/tpu_inference_2.xplane.pb"


@pytest.mark.parametrize("name", [TPU, "ours/jax_cpu_gaps", "ours/torch_xla_cpu_spmd4", "ours/jax_cpu_multihost2x2"])
def test_the_parts_of_real_steps_sum_to_them_and_none_is_negative(name: str) -> None:
    table = opened(name).device_steps()
    assert table.height > 0
    assert (table.select(pl.sum_horizontal(SUMMED)).to_series() == table["step_ns"]).all()
    assert all(ns >= 0 for row in table.select(SUMMED).iter_rows() for ns in row)
    assert all(0 <= ratio <= 1 for ratio in table["compute_ratio"])


def test_cores_of_a_tpu_that_waits_for_copies_say_so_in_every_step() -> None:
    table = opened(TPU).device_steps()
    assert table.group_by("device").len().sort("device")["len"].to_list() == [100] * 4
    assert table.select(pl.col("copy_ns").sum() / pl.col("step_ns").sum()).item() > 0.96
    # The host was as far ahead as it could until it had launched all.
    early = table.filter(pl.col("step").is_between(2, 60), device=0)
    assert early.select((pl.col("back_pressure_ns") / pl.col("step_ns")).min()).item() > 0.99


def test_operations_have_their_shape_layout_and_source() -> None:
    row = opened(TPU).hlo_ops().filter(name="copy-done.5").row(0, named=True)
    assert (row["shape"], row["layout"]) == ("f32[5,1024,1024,256]", "{3,2,1,0:T(8,128)S(5)}")
    fusion = opened(TPU).hlo_ops().filter(name="broadcast_add_fusion").row(0, named=True)
    assert fusion["scope"] == "jit(f)/jit(main)/add"
    assert ".py:" in fusion["source"]


def test_custom_calls_of_one_name_say_what_they_call_and_on_which_shapes() -> None:
    calls = opened("found/mi300_jax08_gemm").hlo_ops().filter(name="custom-call.1", module="jit_dot")
    assert calls["target"].unique().to_list() == ["__cublas$gemm"]
    assert calls["shape"].str.extract(r"bf16\[(\d+),").to_list() == ["8192", "16384", "4096", "2048", "1024"]
