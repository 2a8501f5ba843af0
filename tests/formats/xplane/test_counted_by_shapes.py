"""What programs of CPUs and GPUs compute and move, told by the shapes in them; every figure here is by hand."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import holotrace
from hlo_files import Computation, Instruction, Program, Shape, Window
from holotrace import Job
from xplane_files import Event, Line, Plane, Stat, capture, found, space

MS = 10**9  # in ps
PROGRAM = 7


def f32(*dimensions: int) -> Shape:
    return Shape("f32", dimensions)


def bf16(*dimensions: int) -> Shape:
    return Shape("bf16", dimensions)


def parameter(name: str, shape: Shape, number: int = 0) -> Instruction:
    return Instruction(name, "parameter", shape, parameter=number)


def entry(*instructions: Instruction) -> Computation:
    return Computation("main", instructions)


def told(folder: Path, *computations: Computation) -> dict[str, tuple[int | None, int | None, str | None]]:
    """Operations, bytes and type of products of each instruction."""
    path = folder / "host.xplane.pb"
    program = Program(computations).written()
    path.write_bytes(space(Plane("/host:metadata", programs={f"jit_f({PROGRAM})": program})))
    table = holotrace.open(path).table("hlo")
    rows = table.select(
        pl.col("name").cast(pl.String), "flops", "accessed_bytes", pl.col("product_type").cast(pl.String)
    )
    return {name: (flops, moved, kind) for name, flops, moved, kind in rows.iter_rows()}


def test_a_product_of_matrices_is_two_operations_for_each_pair(tmp_path: Path) -> None:
    a, b = parameter("a", f32(4, 32, 64)), parameter("b", f32(4, 64, 16), 1)
    dot = Instruction("dot.1", "dot", f32(4, 32, 16), ("a", "b"), contracted=(2,))
    exact = Instruction("dot.2", "dot", f32(4, 32, 16), ("a", "b"), contracted=(2,), precision=2)
    rows = told(tmp_path, entry(a, b, dot, exact))
    flops, moved = 2 * 4 * 32 * 16 * 64, 4 * (4 * 32 * 64 + 4 * 64 * 16 + 4 * 32 * 16)
    assert rows["dot.1"] == (flops, moved, "f32")
    assert rows["dot.2"] == (flops, moved, "f32 highest")
    assert rows["a"] == (None, None, None)


def test_a_convolution_counts_no_padding(tmp_path: Path) -> None:
    image, kernel = parameter("image", f32(2, 8, 8, 3)), parameter("kernel", f32(3, 3, 3, 16), 1)
    same = Window(3, padding=(1, 1))
    padded = Instruction(
        "conv.1", "convolution", f32(2, 8, 8, 16), ("image", "kernel"), window=(same, same), is_convolution=True
    )
    stride = Window(3, stride=2)
    strided = Instruction(
        "conv.2", "convolution", f32(2, 3, 3, 16), ("image", "kernel"), window=(stride, stride), is_convolution=True
    )
    rows = told(tmp_path, entry(image, kernel, padded, strided))
    # Of 8 x 3 places of the window in each direction the first and the last lie in the padding.
    assert rows["conv.1"][0] == 2 * (8 * 3 - 2) ** 2 * 2 * 16 * 3
    assert rows["conv.2"][0] == 2 * (3 * 3) ** 2 * 2 * 16 * 3
    assert rows["conv.2"][1] == 4 * (2 * 8 * 8 * 3 + 3 * 3 * 3 * 16 + 2 * 3 * 3 * 16)


def test_a_fusion_computes_what_is_inside_and_moves_what_it_takes_and_gives(tmp_path: Path) -> None:
    inside = Computation(
        "fused",
        (
            parameter("p", bf16(128, 64)),
            parameter("q", bf16(64, 32), 1),
            Instruction("dot.3", "dot", bf16(128, 32), ("p", "q"), contracted=(1,)),
            Instruction("exp", "exponential", bf16(128, 32), ("dot.3",)),
        ),
        is_fusion=True,
    )
    a, b = parameter("a", bf16(128, 64)), parameter("b", bf16(64, 32), 1)
    fusion = Instruction("fusion.1", "fusion", bf16(128, 32), ("a", "b"), ("fused",))
    rows = told(tmp_path, inside, entry(a, b, fusion))
    assert rows["fusion.1"] == (2 * 128 * 32 * 64, 2 * (128 * 64 + 64 * 32 + 128 * 32), "bf16")
    table = holotrace.open(tmp_path / "host.xplane.pb").table("hlo").drop_nulls("inside")
    assert table.select(pl.col("name", "inside").cast(pl.String)).rows() == [("fusion.1", "dot exponential")]


def test_a_fusion_that_updates_a_part_moves_that_part(tmp_path: Path) -> None:
    inside = Computation(
        "fused",
        (
            parameter("cache", f32(1000, 64)),
            parameter("new", f32(1, 64), 1),
            parameter("at", Shape("s32"), 2),
            Instruction("put", "dynamic-update-slice", f32(1000, 64), ("cache", "new", "at")),
        ),
        is_fusion=True,
    )
    outer = (parameter("a", f32(1000, 64)), parameter("b", f32(1, 64), 1), parameter("c", Shape("s32"), 2))
    fusion = Instruction("fusion.1", "fusion", f32(1000, 64), ("a", "b", "c"), ("fused",))
    assert told(tmp_path, inside, entry(*outer, fusion))["fusion.1"] == (None, 2 * 4 * 64 + 4, None)


def test_a_fusion_that_reads_a_part_moves_that_part(tmp_path: Path) -> None:
    inside = Computation(
        "fused",
        (
            parameter("table", f32(1000, 64)),
            parameter("at", Shape("s32"), 1),
            Instruction("take", "dynamic-slice", f32(1, 64), ("table", "at")),
            Instruction("neg", "negate", f32(1, 64), ("take",)),
        ),
        is_fusion=True,
    )
    fusion = Instruction("fusion.1", "fusion", f32(1, 64), ("a", "b"), ("fused",))
    rows = told(tmp_path, inside, entry(parameter("a", f32(1000, 64)), parameter("b", Shape("s32"), 1), fusion))
    assert rows["fusion.1"] == (None, 2 * 4 * 64 + 4, None)


def test_calls_of_libraries_are_told_by_shapes_and_others_by_their_authors(tmp_path: Path) -> None:
    a, b = parameter("a", bf16(256, 512)), parameter("b", bf16(512, 128), 1)
    both = Shape("tuple", parts=(bf16(256, 128), Shape("s8", (4096,))))
    config = '{"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"]}}}'
    gemm = Instruction("gemm", "custom-call", both, ("a", "b"), target="__cublas$lt$matmul", config=config)
    declared = '{"custom_call_config":{"cost_estimate":{"flops":"1000","bytes_accessed":"500"}}}'
    pallas = Instruction("pallas", "custom-call", bf16(8), ("a",), target="__gpu$xla.gpu.triton", config=declared)
    other = Instruction("other", "custom-call", bf16(8), ("a",), target="mine")
    rows = told(tmp_path, entry(a, b, gemm, pallas, other))
    # What the library works in is no result.
    assert rows["gemm"] == (2 * 256 * 128 * 512, 2 * (256 * 512 + 512 * 128 + 256 * 128), "bf16")
    assert rows["pallas"][:2] == (1000, 500)
    assert rows["other"] == (None, 2 * 256 * 512 + 2 * 8, None)


def test_libraries_have_the_precision_of_products_in_their_configuration(tmp_path: Path) -> None:
    """All of a job in fp32 on an H100 was held against the peak of TF32, of which it reached a tenth."""
    a, b = parameter("a", f32(64, 128)), parameter("b", f32(128, 32), 1)
    config = (
        '{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"]},"precision_config":{"operand_precision":[%s]}}'
    )

    def call(name: str, precision: str) -> Instruction:
        given = Shape("tuple", parts=(f32(64, 32), Shape("s8", (64,))))
        return Instruction(name, "custom-call", given, ("a", "b"), target="__cublas$gemm", config=config % precision)

    rows = told(tmp_path, entry(a, b, call("exact", '"DEFAULT","HIGHEST"'), call("high", '"HIGH","HIGH"')))
    assert {name: rows[name][2] for name in ("exact", "high")} == {"exact": "f32 highest", "high": "f32"}


def test_the_gradients_of_a_convolution_by_cudnn_compute_as_much_as_it(tmp_path: Path) -> None:
    image, kernel, out = f32(2, 8, 8, 3), f32(3, 3, 3, 16), f32(2, 8, 8, 16)
    window = (Window(3, padding=(1, 1)),) * 2

    def call(name: str, target: str, shape: Shape, *operands: str) -> Instruction:
        given = Shape("tuple", parts=(shape, Shape("s8", (64,))))
        return Instruction(name, "custom-call", given, operands, target=target, window=window, is_convolution=True)

    rows = told(
        tmp_path,
        entry(
            *(parameter(name, shape) for name, shape in (("x", image), ("w", kernel), ("dy", out))),
            call("forward", "__cudnn$convForward", out, "x", "w"),
            call("of_input", "__cudnn$convBackwardInput", image, "dy", "w"),
            call("of_kernel", "__cudnn$convBackwardFilter", kernel, "x", "dy"),
        ),
    )
    flops = 2 * (8 * 3 - 2) ** 2 * 2 * 16 * 3
    assert [rows[name][0] for name in ("forward", "of_input", "of_kernel")] == [flops] * 3


def test_shapes_that_make_no_sense_are_not_counted(tmp_path: Path) -> None:
    huge = f32(1 << 40, 1 << 40)
    rows = told(
        tmp_path,
        entry(
            parameter("a", huge),
            Instruction("large", "dot", huge, ("a", "a"), contracted=(1,)),
            Instruction("beside", "dot", f32(8), ("a", "a"), contracted=(5,)),
            Instruction("alone", "dot", f32(8), (), contracted=(0,)),
            Instruction("itself", "fusion", f32(8), (), ("main",)),
        ),
    )
    assert {rows[name][0] for name in ("large", "beside", "alone", "itself")} == {None}


def gpu_job(folder: Path, kernels: list[Event], vendor: str = "Nvidia", capability: tuple[int, int] = (9, 0)) -> Job:
    """A GPU of the H100's make with these kernels of a program: one product, in bf16, of 2 x 1024 x 1024 x 1024."""
    shape = bf16(1024, 1024)
    product = Instruction("dot.1", "dot", shape, ("a", "b"), contracted=(1,))
    program = Program((entry(parameter("a", shape), parameter("b", shape, 1), product),)).written()
    about: dict[str, Stat] = {"device_vendor": vendor, "core_count": 132, "memory_bandwidth": 3_352_000_000_000}
    about |= {"compute_cap_major": capability[0], "compute_cap_minor": capability[1]}
    path = folder / "host.xplane.pb"
    path.write_bytes(
        space(
            Plane("/device:GPU:0", [Line("Stream #7(Compute)", kernels, id=7)], about),
            Plane("/host:metadata", programs={f"jit_f({PROGRAM})": program}),
        )
    )
    return holotrace.open(path)


def kernel(name: str, start_ps: int, length_ps: int) -> Event:
    stats: dict[str, Stat] = {"hlo_op": "dot.1", "hlo_module": "jit_f", "program_id": PROGRAM}
    return Event(name, start_ps, length_ps, stats, name)


def test_a_product_of_several_kernels_counts_once(tmp_path: Path) -> None:
    parts = [kernel("gemm", 0, 8 * MS // 1000), kernel("sum_of_parts", MS, 2 * MS // 1000)]
    row = gpu_job(tmp_path, parts).hlo_ops().row(0, named=True)
    flops = 2 * 1024**3
    assert (row["op_count"], row["self_ns"], row["flops"], row["accessed_bytes"]) == (2, 10_000, flops, 6 * 1024**2)
    assert row["intensity"] == flops / (6 * 1024**2)
    assert row["tflops"] == pytest.approx(flops / 10e-6 / 1e12)


def test_gpus_are_held_against_the_peak_of_the_type_they_multiply_in(tmp_path: Path) -> None:
    job = gpu_job(tmp_path, [kernel("gemm", 0, 10 * MS // 1000)])
    row = job.hlo_ops().row(0, named=True)
    # 132 multiprocessors of capability 9.0: 4096 operations of each in a cycle of 1.83 GHz.
    peak = 132 * 4096 * 1.83e9
    assert row["flops_ratio"] == pytest.approx(2 * 1024**3 / 10e-6 / peak)
    assert row["bandwidth_ratio"] == pytest.approx(6 * 1024**2 / 10e-6 / 3.352e12)
    assert (row["bound_by"], row["caveat"]) == ("compute", None)
    whole = job.efficiency().row(0, named=True)
    assert (whole["model_flops"], whole["peak_tflops"]) == (2 * 1024**3, pytest.approx(peak / 1e12))
    assert whole["mfu_ratio"] == pytest.approx(row["flops_ratio"])
    assert whole["reason"] == "operations of products, by the shapes in the programs"


def test_memory_of_the_newest_of_amd_moves_twice_what_xla_declares(tmp_path: Path) -> None:
    job = gpu_job(tmp_path, [kernel("Cijk", 0, MS)], vendor="AMD", capability=(9, 4))
    assert job.table("devices").select("capability", "peak_bandwidth").row(0) == ("9.4", 2 * 3.352e12)


def test_published_products_have_the_operations_of_their_shapes() -> None:
    table = holotrace.open(found("found/mi300_jax08_gemm/tw003.xplane.pb")).hlo_ops()
    of_one = table.filter(name="custom-call.1").select("shape", pl.col("flops") / pl.col("op_count"))
    assert dict(of_one.iter_rows()) == {
        "(bf16[8192,8192], s8[79691776])": 2 * 8192 * 8192 * 4096,
        "(bf16[16384,4096], s8[41943040])": 2 * 16384 * 4096 * 1024,
        "(bf16[4096,4096], s8[67108864])": 2 * 4096 * 4096 * 4096,
        "(bf16[2048,2048], s8[67108864])": 2 * 2048 * 2048 * 8192,
        "(bf16[1024,1024], s8[4194304])": 2 * 1024 * 1024 * 1024,
    }


def test_cpu_devices_have_intensities_and_no_ratios_of_peaks(tmp_path: Path) -> None:
    job = holotrace.open(capture("jax_cpu_gaps", tmp_path))
    products = job.hlo_ops().filter(pl.col("flops") > 0)
    assert not products.is_empty()
    assert products["intensity"].is_not_null().all()
    assert products["flops_ratio"].null_count() == products.height
    whole = job.efficiency().filter(pl.col("step").is_null()).row(0, named=True)
    assert whole["model_flops"] == products["flops"].sum()
    assert (whole["mfu_ratio"], whole["reason"]) == (None, "the peak of the device is not known")
