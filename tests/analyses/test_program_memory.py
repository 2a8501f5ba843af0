"""Memory of compiled programs and of devices: what is in it, and what is lost."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import holotrace
import xplane_files
from holotrace.core.tables import BUFFERS, HEAP, MODULES
from holotrace.core.trace import RankTrace
from holotrace.job import Job
from holotrace.present.wording import sentence
from xla_drawing import frame

MIB = 1 << 20
# By the memory viewer of xprof 2.24.2, in bytes: peakHeapMib, totalBufferAllocationMib, indefiniteBufferAllocationMib.
OF_XPROF = {
    ("jax_cpu_gaps", "jit_train_step", 70): (9_513_716, 9_513_908, 2_952_428),
    ("jax_cpu_gaps", "jit_train_step", 32): (7_216_372, 7_216_564, 2_951_404),
    ("jax_cpu_gaps", "jit__normal", 18): (786_552, 787_256, 196_660),
    ("jax_cpu_gaps", "jit_init_fn", 30): (1_966_228, 1_966_228, 1_966_228),
    ("torch_xla_cpu_gaps", "SyncTensorsGraph.1603", 3): (14_223_017, 14_223_017, 2_547_113),
    ("torch_xla_cpu_gaps", "SyncTensorsGraph.1603", 1): (10_880_424, 10_880_424, 2_440_616),
    ("torch_xla_cpu_gaps", "SyncTensorsGraph.458", 2): (1_638_568, 1_638_568, 458_664),
    ("mi300_jax08_attention", "jit_matmul", 98): (167_772_160, 167_772_416, 92_274_688),
    ("mi300_jax08_attention", "jit__reduce_max", 49): (33_603_588, 33_603_588, 33_570_820),
    ("mi300_jax08_attention", "jit_add", 88): (201_326_592, 201_326_592, 201_326_592),
    ("openxla_xprof", "jit_f", 12190760917235803885): (21_474_836_512, 21_474_934_816, 32),
    ("openxla_xprof", "jit__psum", 9646411105960254074): (10_737_418_240, 10_737_418_240, 10_737_418_240),
}
# By its memory profile: heap, stack and free memory at the peak, and the most that was ever in use of the heap.
OF_ALLOCATORS = {
    ("openxla_xprof", "device 0"): (857_216, 21_491_712_000, 12_057_668_480, 16_106_341_504),
    ("openxla_xprof", "device 1"): (959_104, 21_491_712_000, 12_057_566_592, 10_737_555_584),
    ("openxla_xprof", "device 3"): (857_216, 21_491_712_000, 12_057_668_480, 10_737_555_584),
    ("mi300_jax08_attention", "GPU_0_bfc"): (452_985_344, 0, 154_153_254_400, 595_591_680),
    ("mi300_jax08_attention", "xla_gpu_host_bfc"): (256, 0, 68_719_476_480, 512),
}


def opened(name: str, folder: Path) -> Job:
    if name == "openxla_xprof":
        return holotrace.open(xplane_files.found("found/openxla_xprof/tpu_inference_2.xplane.pb"))
    if name.startswith("mi300"):
        return holotrace.open(xplane_files.found(f"found/{name}"))
    return holotrace.open(xplane_files.capture(name, folder))


@pytest.mark.parametrize("name", ["jax_cpu_gaps", "torch_xla_cpu_gaps", "mi300_jax08_attention", "openxla_xprof"])
def test_the_memory_of_programs_is_that_of_the_memory_viewer(name: str, tmp_path: Path) -> None:
    table = opened(name, tmp_path).program_memory().filter(memory=0)
    held = pl.sum_horizontal("input_bytes", "reused_bytes", "output_bytes", "constant_bytes")
    told = table.select("module", "program", "peak_bytes", "allocated_bytes", held=held)
    found = {(name, *row[:2]): row[2:] for row in told.iter_rows()}
    expected = {key: value for key, value in OF_XPROF.items() if key[0] == name}
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize("name", ["mi300_jax08_attention", "openxla_xprof"])
def test_the_memory_of_devices_is_that_of_the_memory_profile(name: str, tmp_path: Path) -> None:
    table = opened(name, tmp_path).device_memory()
    peaks = table.filter("is_peak").select("allocator", "heap_bytes", "stack_bytes", "free_bytes")
    most = dict(table.group_by("allocator").agg(pl.col("most_heap_bytes").max()).iter_rows())
    found = {(name, row[0]): (*row[1:], most[row[0]]) for row in peaks.iter_rows()}
    expected = {key: value for key, value in OF_ALLOCATORS.items() if key[0] == name}
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize("name", ["jax_cpu_gaps", "torch_xla_cpu_gaps"])
def test_buffers_at_the_peak_and_all_others_sum_up_to_it(name: str, tmp_path: Path) -> None:
    job = opened(name, tmp_path)
    keys = ["module", "program", "memory"]
    whole = job.program_memory().select(*keys, "peak_bytes", "padding_bytes").sort(keys)
    for top in (0, 3, 50):
        table = job.peak_buffers(top=top)
        summed = table.group_by(keys).agg(pl.col("peak_bytes", "padding_bytes").sum()).sort(keys)
        assert summed.equals(whole)
        shares = table.group_by(keys).agg(pl.col("share_ratio").sum())["share_ratio"]
        assert shares.to_list() == pytest.approx([1.0] * whole.height)


def test_a_buffer_is_told_with_its_shape_scope_and_line(tmp_path: Path) -> None:
    table = opened("jax_cpu_gaps", tmp_path).peak_buffers().filter(name="copy_bitcast_fusion.2", program=70)
    row = table.row(0, named=True)
    assert (row["role"], row["shape"], row["layout"], row["peak_bytes"]) == (
        "temporary",
        "f32[256,384]",
        "{1,0}",
        393_216,
    )
    assert row["scope"].endswith("transpose(jvp(forward))/block1/mlp/add_any")
    assert row["source"].endswith("jax_dp_train.py:42")


def buffer(name: str, size: int, **values: object) -> dict[str, object]:
    """A buffer with memory of its own, in MiB, that is held all the time."""
    own = {"allocation_bytes": size * MIB, "buffer_bytes": size * MIB, "peak_bytes": size * MIB, "allocation": name}
    flags = dict.fromkeys(("is_parameter", "is_output", "is_constant", "is_thread_local"), False)
    place = {"module": "jit_step", "program": 1, "memory": 0, "opcode": "fusion", "shape": f"f32[{size}]"}
    return place | flags | own | {"name": name, "data_bytes": size * MIB} | values


def job_of(*buffers: dict[str, object], runs: int = 2) -> Job:
    numbered = [row | {"allocation": at} for at, row in enumerate(buffers)]
    modules = [{"module": "jit_step", "program": 1, "start_ns": at, "end_ns": at + 1} for at in range(runs)]
    tables = {"buffers": frame(BUFFERS, numbered), "modules": frame(MODULES, modules)}
    return Job.from_ranks({0: RankTrace(0, tables)})


def said(job: Job) -> dict[str, str]:
    return {finding.rule: sentence(finding) for finding in job.findings()}


def test_outputs_beside_inputs_like_them_are_a_donation_missed() -> None:
    weights = [buffer(f"param.{at}", 40, is_parameter=True) for at in range(2)]
    results = [buffer(f"add.{at}", 40, is_output=True) for at in range(2)]
    batch = buffer("param.2", 10, is_parameter=True)
    job = job_of(*weights, *results, batch)
    assert job.program_memory().select("input_bytes", "output_bytes", "reusable_bytes").row(0) == (
        90 * MIB,
        80 * MIB,
        80 * MIB,
    )
    assert said(job)["donation-missed"] == (
        "Outputs have memory of their own beside 80.0 MiB of inputs like them (47%) in jit_step"
    )


def test_donated_inputs_are_no_donation_missed_nor_those_of_a_program_that_ran_once() -> None:
    donated = buffer("param.0", 40, is_parameter=True, is_output=True)
    assert "donation-missed" not in said(job_of(donated))
    assert job_of(donated).program_memory()["reused_bytes"].item() == 40 * MIB
    once = job_of(buffer("param.0", 40, is_parameter=True), buffer("add.0", 40, is_output=True), runs=1)
    assert "donation-missed" not in said(once)


def test_what_layouts_add_is_padding() -> None:
    padded = buffer("transpose.1", 128, data_bytes=1 * MIB)
    job = job_of(padded, buffer("fusion.1", 72))
    assert job.program_memory()["padding_bytes"].item() == 127 * MIB
    assert said(job)["padded-layouts"] == "Padding takes 127 MiB of memory (64%) in jit_step"


def test_memory_that_no_temporary_result_uses_at_the_peak_is_fragmented() -> None:
    part = {"allocation_bytes": 100 * MIB, "first": 0}
    job = job_of(buffer("fusion.1", 60, **part), buffer("param.0", 50, is_parameter=True))
    row = job.program_memory().row(0, named=True)
    assert (row["peak_bytes"], row["fragmented_bytes"], row["peak_at"]) == (110 * MIB, 40 * MIB, "fusion.1")
    assert said(job)["fragmented-program"] == "Fragmentation takes 40.0 MiB of memory (27%) in jit_step"


def test_what_would_have_to_go_to_halve_memory_is_named() -> None:
    large = [buffer(f"dot.{at}", 30, scope=f"jit(step)/model/block{at}/dot") for at in range(2)]
    job = job_of(*large, *(buffer(f"param.{at}", 10, is_parameter=True) for at in range(5)))
    assert said(job)["halving-memory"] == (
        "jit_step holds 110 MiB at its peak, half of it in 2 buffers: "
        "dot.0 (f32[30] of block0/dot) and dot.1 (f32[30] of block1/dot)"
    )


def memory(*rows: tuple[int, int, int, int]) -> Job:
    """Times, heap, stack and free memory."""
    told = [
        {"event_id": at, "allocator": "device 0", "time_ns": time, "bytes": 1, "allocated_bytes": heap}
        | {"reserved_bytes": stack, "free_bytes": free, "most_bytes": heap, "fragmentation_ratio": 0.5}
        for at, (time, heap, stack, free) in enumerate(rows)
    ]
    return Job.from_ranks({0: RankTrace(0, {"heap": frame(HEAP, told)})})


def test_no_peak_is_lost_where_many_changes_become_few_rows() -> None:
    job = memory(*((at, 95 if at == 777 else 10, 1, 100 - at % 3) for at in range(1_000)))
    table = job.device_memory(points=10)
    assert table.height == 10
    assert table.filter("is_peak").select("time_ns", "used_bytes").rows() == [(777, 96)]
    assert table["allocation_count"].sum() == 1_000


def test_memory_that_is_nearly_full_or_in_pieces_is_a_finding() -> None:
    assert said(memory((0, 10, 0, 90), (1, 40, 55, 5)))["nearly-full-memory"] == (
        "Memory of device 0 is 95% full at its peak (95 B)"
    )
    assert said(memory((0, 60, 0, 40)))["fragmented-memory"] == (
        "50% of the free memory of device 0 (40 B) is in small pieces at its peak"
    )
    assert "nearly-full-memory" not in said(memory((0, 60, 0, 40)))
