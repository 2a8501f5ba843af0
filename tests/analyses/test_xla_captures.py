"""What the analyses find in real captures: numbers that were measured by other means, and what happened in them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import polars as pl
import pytest

import holotrace
import symptoms
import xplane_files
from holotrace import Job
from holotrace.derive import intervals
from holotrace.present.wording import sentence

JAX, TORCH, HOSTS = "jax_cpu_gaps", "torch_xla_cpu_gaps", "jax_cpu_multihost2x2"
TPU, GPU, EXPORTED = "openxla_xprof/tpu_inference_2.xplane.pb", "mi300_jax08_attention", "vllm_tpu"
Captures = Callable[[str], Job]


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Captures:
    """Opens a capture by its name; it keeps its results, so tests share them."""

    @cache
    def opened(name: str) -> Job:
        if name in (TPU, GPU, EXPORTED):
            return holotrace.open(xplane_files.found(f"found/{name}"))
        return holotrace.open(xplane_files.capture(name, tmp_path_factory.mktemp(name)))

    return opened


def ms(ns: int) -> float:
    """As milliseconds, to the microsecond."""
    return round(ns / 1e6, 3)


def test_the_recompilation_of_the_jax_program_is_found_with_its_new_shape(capture: Captures) -> None:
    found = symptoms.of(capture(JAX))["recompilation"]
    assert sentence(found) == (
        "jit_train_step was compiled again in step 5, which took 1.06 s, called in train_step_dispatch, "
        "because s32[4,64] became s32[4,96]"
    )
    assert ms(found.cost_ns or 0) == 1057.682


def test_the_stalls_and_early_reads_of_the_jax_program_are_found(capture: Captures) -> None:
    found = symptoms.of(capture(JAX))
    assert sentence(found["input-stall"]) == "Input takes 63.2 ms longer than usual in steps 3 and 7 (data_load)"
    assert sentence(found["early-read"]) == "Reading results takes 30.2 ms in steps 3 and 7 (log_loss)"


def test_the_recompilation_at_the_new_sequence_length_is_found(capture: Captures) -> None:
    found = symptoms.of(capture(TORCH))["recompilation"]
    assert sentence(found) == (
        "SyncTensorsGraph.1603 was compiled again in step 9, which took 3.36 s, because s64[16,32] became s64[16,48]"
    )
    assert ms(found.cost_ns or 0) == 3364.166


def test_the_graph_that_item_cut_off_is_a_forced_execution(capture: Captures) -> None:
    found = symptoms.of(capture(TORCH))["forced-execution"]
    assert sentence(found) == (
        "SyncTensorsGraph.458 ran 3 times in the middle of a step for 8.24 ms since a result was read in log_loss"
    )
    table = capture(TORCH).program_launches()
    modules = capture(TORCH).table("modules")
    taken = modules.select((pl.col("end_ns") - pl.col("start_ns")).sum()).item()
    assert (table["run_count"].sum(), table["device_ns"].sum()) == (15, taken)
    assert table["tracing_ns"].null_count() == 0


def test_small_programs_of_eager_jax_are_a_finding(capture: Captures) -> None:
    found = symptoms.of(capture(GPU))["small-programs"]
    assert sentence(found).startswith("Devices wait 27.0 ms for the launch of jit_matmul, jit_multiply, jit_add and 9")


def test_the_graph_that_item_cut_off_is_found_to_be_compiled(capture: Captures) -> None:
    compiled = capture(TORCH).compilations().filter(step=3)
    assert compiled.select("module", "cause").row(0) == ("SyncTensorsGraph.458", "first_use")
    assert ms(compiled["compile_ns"].item()) == 1083.929


def test_the_stalls_and_items_of_the_torch_xla_program_are_found(capture: Captures) -> None:
    found = symptoms.of(capture(TORCH))
    assert sentence(found["input-stall"]) == "Input takes 101 ms longer than usual in steps 6 and 11 (data_loading)"
    assert sentence(found["early-read"]) == "Reading results takes 8.21 ms in steps 3, 7 and 11 (log_loss)"
    assert "FINISH_UPDATE" in sentence(found["host-bound-device"])


@pytest.mark.parametrize(
    ("name", "first", "milliseconds"),
    [
        (JAX, 0, [16.471, 6.544, 1.687, 73.852, 1.130, 1186.911, 76.360, 53.264, 1.127, 0.661]),
        (
            TORCH,
            3,
            [1148.581, 54.9, 55.64, 106.115, 55.522, 50.55, 3419.995, 43.784, 85.771, 24.88, 28.271, 36.991],
        ),
    ],
)
def test_steps_are_as_long_as_on_the_host(capture: Captures, name: str, first: int, milliseconds: list[float]) -> None:
    table = capture(name).host_steps()
    assert table["step"].to_list() == list(range(first, first + len(milliseconds)))
    assert [ms(ns) for ns in table["step_ns"]] == pytest.approx(milliseconds, abs=0.0011)
    parts = table.select(pl.sum_horizontal(pl.col("^.*_ns$").exclude("step_ns"))).to_series()
    assert (parts == table["step_ns"]).all()


def test_the_duty_of_the_jax_devices(capture: Captures) -> None:
    table = capture(JAX).duty_cycle()
    assert table["op_count"].to_list() == [1210] * 4
    assert {ms(ns) for ns in table["window_ns"]} == {1458.741}
    assert [round(100 * ratio, 2) for ratio in table["work_ratio"]] == [17.77, 17.52, 15.89, 17.49]


def test_the_longest_gap_of_the_jax_program_is_its_compilation(capture: Captures) -> None:
    job = capture(JAX)
    gap = job.gaps().filter(device=0).sort("idle_ns").row(-1, named=True)
    begun = job.table("steps")["start_ns"].min()
    assert (ms(gap["start_ns"] - begun), ms(gap["idle_ns"]), ms(gap["compilation_ns"])) == (148.572, 1132.41, 1057.682)
    assert (gap["step"], gap["cause"], gap["detail"]) == (5, "compilation", "jit_train_step")


def test_the_gaps_of_the_torch_xla_program_tell_what_the_host_did(capture: Captures) -> None:
    gaps = capture(TORCH).gaps().sort("idle_ns", descending=True).head(4)
    assert gaps.select("step", "cause", "detail").rows() == [
        (9, "compilation", "SyncTensorsGraph.1603"),
        (3, "compilation", "SyncTensorsGraph.458"),
        (6, "input", "data_loading"),
        (11, "input", "data_loading"),
    ]
    assert [ms(ns) for ns in gaps["compilation_ns"]] == [3364.166, 1083.929, 0.0, 0.0]
    assert [round(ns / 1e6, 1) for ns in gaps["input_ns"][2:]] == [53.1, 52.8]


def test_the_gaps_of_one_thread_of_a_cpu_device(capture: Captures) -> None:
    # A device is busy if any of its threads is, so its own gaps are shorter.
    gaps = capture(TORCH).gaps(by_stream=True)
    per_thread = gaps.group_by("stream", maintain_order=True).agg(pl.col("idle_ns").sort(descending=True).head(4))
    assert [3409.894, 1125.412, 98.925, 85.497] in [[ms(ns) for ns in each] for each in per_thread["idle_ns"]]


@pytest.mark.parametrize("name", [JAX, TORCH, HOSTS, TPU, GPU])
def test_gaps_of_any_length_make_up_the_idle_time(capture: Captures, name: str) -> None:
    idle = capture(name).gaps(min_gap_ns=1).group_by("rank", "device").agg(pl.col("idle_ns").sum())
    window = capture(name).duty_cycle().filter(pl.col("op_count") > 0)
    told = window.select("rank", "device", idle_ns=pl.col("window_ns") - pl.col("busy_ns"))
    assert idle.sort("rank", "device").rows() == told.sort("rank", "device").rows()


def test_the_phases_of_the_jax_program(capture: Captures) -> None:
    table = capture(JAX).phases().filter(device=0)
    times = dict(table.select("phase", pl.col("work_ns") / 1e6).rows())
    assert {phase: round(time, 1) for phase, time in times.items() if phase != "other"} == {
        "backward": 207.3,
        "forward": 43.5,
        "update": 8.8,
    }
    assert round(times["other"], 2) == 0.16


def test_the_phases_of_the_torch_xla_program_on_device_and_host(capture: Captures) -> None:
    table = capture(TORCH).phases()
    assert table.filter(phase="backward")["share_ratio"].item() > 0.5
    host = dict(table.select("phase", pl.col("host_ns") / 1e6).rows())
    assert round(host["forward"] + host["backward"] + host["update"], 1) == round(77.996 + 61.617 + 211.827, 1)


def test_scopes_of_the_jax_program_are_its_modules(capture: Captures) -> None:
    table = capture(JAX).scopes()
    assert {"train_step/forward/block0/attention", "train_step/forward/block1/mlp", "train_step/update"} <= set(
        table["scope"].drop_nulls()
    )
    whole = table.filter(depth=0)["total_ns"].sum()
    assert table["self_ns"].sum() == whole == capture(JAX).hlo_ops()["self_ns"].sum()


@pytest.mark.parametrize("name", [JAX, TORCH])
def test_ranges_of_the_host_are_no_modules_of_programs(capture: Captures, name: str) -> None:
    """The range in which the loss is printed was told to be the module of what the step before had traced."""
    assert capture(name).modules().is_empty()


def test_the_devices_of_two_hosts(capture: Captures) -> None:
    table = capture(HOSTS).duty_cycle()
    assert table.select("rank", "device").rows() == [(0, 0), (0, 1), (1, 2048), (1, 2049)]
    assert [round(ns / 1e6, 2) for ns in table["busy_ns"]] == [355.67, 363.11, 383.26, 388.97]


def test_a_tpu_that_waits_for_its_host_is_busy_but_does_not_work(capture: Captures) -> None:
    table = capture(TPU).duty_cycle()
    assert [ms(ns) for ns in table["busy_ns"]] == [78784.928, 78789.509, 78781.987, 78766.282]
    assert [ms(ns) for ns in table["hull_ns"]] == [92562.843, 90456.241, 90763.124, 90418.148]
    assert round(100 * table.select(pl.col("busy_ns").sum() / pl.col("hull_ns").sum()).item(), 2) == 86.52
    assert sentence(symptoms.of(capture(TPU))["waiting-device"]) == "Devices wait for 97% of the time they are busy"


def test_operations_of_the_tpu_by_category(capture: Captures) -> None:
    table = capture(TPU).hlo_ops(by_category=True)
    reduced = table.filter(category="all-reduce").row(0, named=True)
    assert (reduced["op_count"], ms(reduced["self_ns"])) == (12, 1460.345)
    fusions = table.filter(category="loop fusion").row(0, named=True)
    assert 0.8 < fusions["bandwidth_ratio"] < 0.9
    assert table.filter(category="copy-done")["caveat"].item().startswith("waits for something under way")


@pytest.mark.parametrize(
    ("name", "milliseconds"), [(JAX, [86.5, 73.7, 51.4, 93.0]), (HOSTS, [224.5, 249.6, 263.2, 247.9])]
)
def test_the_time_in_collectives_of_each_device(capture: Captures, name: str, milliseconds: list[float]) -> None:
    ops = capture(name).table("xla_ops").filter("is_collective").sort("rank", "device")
    devices = ops.partition_by("rank", "device", maintain_order=True)
    assert [round(intervals.total_ns(device) / 1e6, 1) for device in devices] == milliseconds
    if name == JAX:
        told = sentence(symptoms.of(capture(JAX))["costly-collective"])
        assert told == "Collectives take 30% of the device time, all-reduce.9 most of all"


def test_operations_of_an_exported_tpu_trace_by_category(capture: Captures) -> None:
    table = capture(EXPORTED).hlo_ops(by_category=True).head(4)
    assert table.select("category", "op_count").rows() == [
        ("convolution fusion", 2 * 257),
        ("custom-call", 2 * 190),
        ("all-reduce", 2 * 129),
        ("loop fusion", 2 * 654),
    ]
    of_one = [round(ns / 2e6) for ns in table["self_ns"]]
    assert of_one == [42, 17, 3, 3]


def test_runs_of_the_exported_trace_begin_before_their_launch_and_are_put_right(capture: Captures) -> None:
    table = capture(EXPORTED).skew()
    assert (table["shift_ns"] > 500_000).all()
    assert sentence(symptoms.of(capture(EXPORTED))["shifted-clock"]) == (
        "Device clocks are off by 681 µs or more against their host"
    )


def test_the_clock_of_the_tpu_drifts_and_is_said_to(capture: Captures) -> None:
    table = capture(TPU).skew()
    assert (table["most_shift_ns"] < -196_000_000).all()
    assert table["shift_ns"].null_count() == 4
    assert (table["least_stretch_ratio"] < 0.95).all() and (table["most_stretch_ratio"] > 1.05).all()
    assert "contradict each other by 198" in sentence(symptoms.of(capture(TPU))["drifting-clock"])


def test_programs_of_the_tpu_that_were_compiled_are_named_after_their_functions(capture: Captures) -> None:
    assert capture(TPU).compilations()["module"].to_list() == [
        "jit_convert_element_type",
        "jit_broadcast_in_dim",
        "jit__psum",
        "jit_f",
    ]


def test_a_gpu_that_is_idle_for_its_first_launch(capture: Captures) -> None:
    row = capture(GPU).duty_cycle().filter(device=0).row(0, named=True)
    assert (row["op_count"], ms(row["busy_ns"]), ms(row["window_ns"])) == (105, 3.846, 32.563)
    longest = capture(GPU).gaps().sort("idle_ns").row(-1, named=True)
    assert (ms(longest["idle_ns"]), longest["cause"]) == (20.693, "dispatch")
    assert sentence(symptoms.of(capture(GPU))["silent-device"]) == "7 of 8 devices recorded no operation"
