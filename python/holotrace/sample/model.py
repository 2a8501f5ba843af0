"""What the sample job runs: operators, the calls they make and the device work these start."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property

COMPUTE, COMMUNICATION, COPY = 7, 20, 24  # streams, numbered as PyTorch usually gets them
MULTIPROCESSORS = 132  # of an H100 SXM

# Host time that an operator spends around what it calls, and a leaf spends in all; typical of PyTorch on a server CPU.
_ENTER_NS, _LEAVE_NS, _BETWEEN_NS, _LEAF_NS = 1_400, 700, 350, 1_150


@dataclass(frozen=True)
class Work:
    """Something on a device queue; ``scales`` marks what runs longer on a slow device."""

    category: str
    name: str
    stream: int
    duration_ns: int
    args: str
    scales: bool = False


@dataclass(frozen=True)
class Call:
    """A call into the CUDA runtime or driver."""

    name: str
    cbid: int
    duration_ns: int
    work: Work | None = None

    @property
    def category(self) -> str:
        return "cuda_driver" if self.name.startswith("cuLaunch") else "cuda_runtime"


@dataclass(frozen=True)
class Op:
    """An operator and what happens inside; ``shapes`` is the args text that record_shapes adds.

    ``autograd`` is "forward" where the operator is put on the tape, "backward" where it comes from there.
    """

    name: str
    shapes: str = ""
    body: tuple[Op | Call, ...] = ()
    category: str = "cpu_op"
    autograd: str = ""
    flow: bool = False
    collective: bool = False
    frames: tuple[str, ...] = ()

    @cached_property
    def layout(self) -> Layout:
        return Layout.of(self)


@dataclass(frozen=True)
class Row:
    """One host event of an operator, at its place in time; ``owner`` counts the operators before it."""

    offset_ns: int
    end_ns: int
    node: Op | Call
    owner: int


@dataclass(frozen=True)
class Layout:
    """An operator's host events in order of start, its duration, and how many entries it adds to a trace."""

    rows: tuple[Row, ...]
    work_rows: tuple[Row, ...]
    duration_ns: int
    op_count: int
    entries: int

    @staticmethod
    def of(op: Op) -> Layout:
        rows = tuple(_place(op, 0, [0], 0))
        work_rows = tuple(row for row in rows if isinstance(row.node, Call) and row.node.work)
        ops = [row.node for row in rows if isinstance(row.node, Op)]
        # Work adds itself and the two ends of its arrow, an annotation its image on the device.
        entries = len(rows) + 3 * len(work_rows) + sum(o.flow for o in ops)
        entries += sum(o.category == "user_annotation" for o in ops)
        return Layout(rows, work_rows, rows[0].end_ns, len(ops), entries)


@cache
def stretched(op: Op, factor: float) -> Layout:
    """The layout of an operator on a host that takes ``factor`` times as long for all it does."""
    rows = tuple(
        Row(int(row.offset_ns * factor), int(row.end_ns * factor), row.node, row.owner) for row in op.layout.rows
    )
    work_rows = tuple(row for row in rows if isinstance(row.node, Call) and row.node.work)
    return replace(op.layout, rows=rows, work_rows=work_rows, duration_ns=rows[0].end_ns)


def _place(node: Op | Call, at: int, op_count: list[int], owner: int) -> Iterator[Row]:
    if isinstance(node, Call):
        yield Row(at, at + node.duration_ns, node, owner)
        return
    mine = op_count[0]
    op_count[0] += 1
    inside: list[Row] = []
    now = at + _ENTER_NS
    for child in node.body:
        placed = list(_place(child, now, op_count, mine))
        inside += placed
        now = placed[0].end_ns + _BETWEEN_NS
    end = now + _LEAVE_NS if node.body else at + _LEAF_NS
    yield Row(at, end, node, mine)
    yield from inside


def shapes(*dims: list[int], scalars: tuple[str, ...] = (), dtype: str = "c10::BFloat16") -> str:
    """Args text of an operator's tensor inputs, contiguous, followed by scalars."""
    strides = [_strides(shape) for shape in dims]
    blank: list[list[int]] = [[]] * len(scalars)
    concrete = [""] * len(dims) + list(scalars)
    types = [dtype] * len(dims) + ["Scalar"] * len(scalars)
    return (
        f'"Concrete Inputs": {json.dumps(concrete)}, "Input type": {json.dumps(types)}, '
        f'"Input Strides": {json.dumps(strides + blank)}, "Input Dims": {json.dumps(list(dims) + blank)}, '
    )


def _strides(shape: list[int]) -> list[int]:
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return strides


def kernel(
    name: str,
    duration_ns: int,
    grid: tuple[int, int, int],
    block: int,
    *,
    registers: int = 32,
    shared_bytes: int = 0,
    occupancy: int = 0,
    stream: int = COMPUTE,
    scales: bool = False,
) -> Work:
    """A kernel, with the launch geometry the profiler would note."""
    blocks = grid[0] * grid[1] * grid[2] / MULTIPROCESSORS
    args = (
        f'"registers per thread": {registers},      "shared memory": {shared_bytes},      '
        f'"blocks per SM": {blocks:.6f},      "warps per SM": {blocks * block / 32:.6f},      '
        f'"grid": {list(grid)},      "block": [{block}, 1, 1],      "est. achieved occupancy %": {occupancy}'
    )
    return Work("kernel", name, stream, duration_ns, args, scales)


def transfer(category: str, name: str, nbytes: int, duration_ns: int, stream: int) -> Work:
    """A copy between host and device, or a fill of device memory."""
    args = f'"bytes": {nbytes}, "memory bandwidth (GB/s)": {nbytes / duration_ns!r}'
    return Work(category, name, stream, duration_ns, args)


def launch(work: Work) -> Call:
    """The call that starts ``work``; cuBLAS and Triton go through other entry points than PyTorch's own kernels."""
    if work.category == "gpu_memset":
        return Call("cudaMemsetAsync", 51, 5_100, work)
    if work.category == "gpu_memcpy":
        return Call("cudaMemcpyAsync", 41, 6_400, work)
    if work.name.startswith("triton"):
        return Call("cuLaunchKernel", 307, 4_300, work)
    if work.name.startswith("nvjet"):
        return Call("cuLaunchKernelEx", 652, 4_700, work)
    if work.name.startswith("nccl") or "flash" in work.name:
        return Call("cudaLaunchKernelExC", 430, 5_600, work)
    return Call("cudaLaunchKernel", 211, 4_500, work)


def wait_event(stream: int, *, on: int) -> Call:
    """The call that makes ``stream`` wait for the event recorded last, which was recorded on another stream."""
    args = f'"wait_on_stream": {on},      '
    return Call("cudaStreamWaitEvent", 147, 1_100, Work("cuda_sync", "Stream Wait Event", stream, 900, args))


RECORD_EVENT = Call("cudaEventRecordWithFlags", 370, 1_300)
RECORD_DONE = Call("cudaEventRecord", 135, 1_200)
IS_CAPTURING = Call("cudaStreamIsCapturing", 317, 650)
GET_ATTRIBUTES = Call("cudaFuncGetAttributes", 15, 700)
OCCUPANCY = Call("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", 264, 800)
