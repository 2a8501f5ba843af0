"""Kernels of a CUDA graph, of which the profiler knows the graph only, are the program's instructions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import holotrace
from hlo_files import Computation, Instruction, Program, Shape
from holotrace import Job
from xplane_files import Event, Line, Plane, space

US = 1_000_000  # in ps
GPU = Path(__file__).parents[2] / "data" / "jax_gpu"
F32 = Shape("f32", (8,))
ENTRY = (
    Instruction("p", "parameter", F32),
    Instruction("loop_add_fusion", "fusion", F32, ("p",), ("body",), scope="jit(f)/first/add"),
    Instruction("custom-call.1", "custom-call", F32, ("loop_add_fusion",), scope="jit(f)/first/dot"),
    Instruction("custom-call.2", "custom-call", F32, ("custom-call.1",), scope="jit(f)/second/dot"),
    Instruction("loop_add_fusion.1", "fusion", F32, ("custom-call.2",), ("body",), scope="jit(f)/second/add"),
    Instruction("custom-call.3", "custom-call", F32, ("loop_add_fusion.1",), scope="jit(f)/second/dot"),
)
BODY = Computation("body", (Instruction("x", "parameter", F32), Instruction("y", "add", F32, ("x", "x"))), True)
# The second fusion is equal to the first and has its kernel; the last call is two kernels.
KERNELS = ("loop_add_fusion", "gemm", "Memset 0", "gemm", "loop_add_fusion", "gemm", "sum_of_parts")
RAN = [ENTRY[at].name for at in (1, 2, 3, 3, 4, 5, 5)]


def job(folder: Path, *launches: tuple[str, ...], program: Program | None = None, buffers: tuple[str, ...] = ()) -> Job:
    """A program whose command buffers are launched so often, with these kernels; without a buffer they are its own."""
    written = (program or Program((BODY, Computation("main", ENTRY)))).written()
    kernels = [
        Event(
            name,
            (100 * run + 10 * nth) * US,
            9 * US,
            {"hlo_op": buffer or name, "hlo_module": "jit_f", "program_id": 7, "correlation_id": run},
        )
        for run, (names, buffer) in enumerate(
            zip(launches, buffers or ("command_buffer",) * len(launches), strict=True), 1
        )
        for nth, name in enumerate(names)
    ]
    path = folder / "host.xplane.pb"
    gpu = Plane("/device:GPU:0", [Line("Stream #7(Compute)", kernels, id=7)])
    path.write_bytes(space(gpu, Plane("/host:metadata", programs={"jit_f(7)": written})))
    return holotrace.open(path)


def names(job: Job) -> list[str]:
    found: list[str] = job.table("xla_ops").sort("start_ns")["name"].cast(pl.String).to_list()
    return found


def test_kernels_of_a_command_buffer_are_the_instructions_in_the_order_of_the_program(tmp_path: Path) -> None:
    made = job(tmp_path, KERNELS, KERNELS)
    assert names(made) == 2 * RAN
    scopes = made.scopes().filter(depth=1).sort("scope").select("scope", "total_ns").rows()
    assert scopes == [("f/first", 36_000), ("f/second", 90_000)]
    assert made.table("device_events").sort("start_ns")["name"].cast(pl.String).to_list() == [*KERNELS, *KERNELS]


def test_instructions_of_a_command_buffer_run_in_the_order_of_the_schedule_however_they_are_written(
    tmp_path: Path,
) -> None:
    """All of a JAX 0.11 program was one operation, command_buffer_1, so that nothing told its scopes, FLOPs and MFU."""
    in_order = [each.name for each in ENTRY]
    program = Program((BODY, Computation("main", (ENTRY[4], *ENTRY[:4], ENTRY[5]))), schedule=in_order)
    assert names(job(tmp_path, KERNELS, KERNELS, program=program)) == 2 * RAN


LOOP = Computation(
    "loop",
    (
        Instruction("q", "parameter", F32),
        Instruction("loop_multiply_fusion", "fusion", F32, ("q",), ("body",), scope="jit(f)/layers/mul"),
        Instruction("custom-call.7", "custom-call", F32, ("loop_multiply_fusion",), scope="jit(f)/layers/dot"),
    ),
)


def test_each_pass_of_a_loop_is_a_command_buffer_of_what_the_loop_does(tmp_path: Path) -> None:
    """Layers that JAX scans over were all one operation; the first run of a program has no command buffers at all."""
    chosen = Instruction("loop_select_fusion", "fusion", F32, ("p",), ("body",))
    loop = Instruction("while.1", "while", F32, ("p",), ("loop",))
    called = replace(ENTRY[2], operands=("loop_select_fusion",))
    added = replace(ENTRY[4], operands=("while.1",))
    program = Program((BODY, LOOP, Computation("main", (ENTRY[0], chosen, called, loop, added, ENTRY[5]))))
    launches = {
        "": ("loop_select_fusion", "custom-call.1"),
        "command_buffer_1": ("loop_select_fusion", "gemm"),
        "command_buffer_2": ("loop_multiply_fusion", "gemm", "sum_of_parts"),
        "command_buffer_3": KERNELS[4:],
    }
    order = [*launches][:3] + [*launches][2:]
    made = job(tmp_path, *(launches[each] for each in order), program=program, buffers=tuple(order))
    of_loop = ["loop_multiply_fusion", "custom-call.7", "custom-call.7"]
    assert names(made)[2:] == ["loop_select_fusion", "custom-call.1", *of_loop, *of_loop, *RAN[4:]]


@pytest.mark.parametrize(
    "other",
    [
        ("gemm", "loop_mul_fusion", "gemm", "loop_add_fusion", "gemm"),
        KERNELS[:4],
        (*KERNELS, "loop_add_fusion"),
    ],
)
def test_a_command_buffer_whose_kernels_are_not_those_of_the_program_is_left_as_it_is(
    tmp_path: Path, other: tuple[str, ...]
) -> None:
    assert set(names(job(tmp_path, other))) == {"command_buffer"}


@pytest.mark.parametrize("name", ["read", "clean"])
def test_a_training_on_an_h100_has_scopes_phases_and_mfu_though_it_is_one_cuda_graph(name: str) -> None:
    job = holotrace.open(GPU / f"{name}.xplane.pb.gz")
    assert job.table("xla_ops")["scope"].is_null().mean() < 0.1  # type: ignore[operator]  # a share
    phases = dict(job.phases().select("phase", "share_ratio").rows())
    assert phases["forward"] == pytest.approx(0.36, abs=0.01)
    assert phases["backward"] == pytest.approx(0.62, abs=0.01)
    layers = job.scopes().filter(pl.col("scope").str.contains(r"^step/layer_\d$"))
    assert layers.height == 8
    assert layers.select(pl.col("total_ns").max() / pl.col("total_ns").min()).item() < 1.1
    steps = job.efficiency()
    assert steps["mfu_ratio"].is_between(0.35, 0.51).all()
    assert steps["model_flops"].drop_nulls()[1:].n_unique() == 1
