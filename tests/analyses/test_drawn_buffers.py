"""Which buffers a drawn program holds at its peak."""

from __future__ import annotations

from pathlib import Path

import holotrace
from hlo_files import Allocation, Buffer, Computation, Instruction, Program, Shape
from xplane_files import Event, Line, Plane, space

KIB = 1024
F32 = Shape("f32", (KIB // 4, 1))


def program() -> bytes:
    """An input and an output of 4 KiB each; of the results between, 2 and 3 KiB are held at once, and then 3 and 1."""
    sizes = {"weights": 4, "first": 2, "second": 3, "third": 1, "out": 4}
    shapes = {name: Shape("f32", (size * KIB // 4,)) for name, size in sizes.items()}
    before = {"first": "weights", "second": "first", "third": "second", "out": "third"}
    instructions = [
        Instruction("weights", "parameter", shapes["weights"], scope="w"),
        *(Instruction(name, "fusion", shapes[name], (of,), scope=f"jit(f)/{name}") for name, of in before.items()),
    ]
    temporary = [Buffer("first", 2 * KIB), Buffer("second", 3 * KIB, 2 * KIB), Buffer("third", KIB)]
    allocations = [
        Allocation([Buffer("weights", 4 * KIB)], 4 * KIB, is_parameter=True),
        Allocation(temporary, 5 * KIB),
        Allocation([Buffer("out", 4 * KIB)], 4 * KIB, is_output=True),
    ]
    heap = ["first", "second", "-first", "third", "-second", "-third"]
    return Program([Computation("main", instructions)], allocations, heap).written()


def test_what_is_let_go_before_the_peak_is_not_in_it(tmp_path: Path) -> None:
    runs = Line("XLA Modules", [Event("jit_f(7)", 0, 10**9, {"run_id": 1})], id=2)
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(space(Plane("/device:TPU:0", [runs]), Plane("/host:metadata", programs={"jit_f(7)": program()})))
    job = holotrace.open(path)
    rows = job.peak_buffers().select("name", "role", "peak_bytes", "scope", "shape", "run_count").rows()
    assert sorted(rows) == [
        ("first", "temporary", 2 * KIB, "jit(f)/first", "f32[512]", 1),
        ("out", "output", 4 * KIB, "jit(f)/out", "f32[1024]", 1),
        ("second", "temporary", 3 * KIB, "jit(f)/second", "f32[768]", 1),
        ("weights", "input", 4 * KIB, "w", "f32[1024]", 1),
    ]
    assert job.peak_buffers()["share_ratio"].sum() == 1
    assert job.program_memory()["peak_bytes"].sum() == 13 * KIB
