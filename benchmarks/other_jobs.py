"""Made-up jobs of another kind than the sample's: other loops, libraries, sizes and recordings, each with one fault.

They share no code with ``holotrace.sample``: what its simulation and the search for causes take for granted alike would
otherwise never be tried. Times are microseconds. A rank is a generator that gives way at each collective, and goes on
when all its members have come; the truth of a fault is the length of the job minus its length without it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

COMPUTE, COMM, COPIES = 7, 20, 24
MAIN, AUTOGRAD = 0, 41  # added to the process id


@dataclass(frozen=True)
class Other:
    """A job to make: what runs how, and what is wrong with it."""

    loop: str = "ddp"  # ddp, fsdp, tensor, pipeline, experts, serving
    fault: str | None = None
    ranks: int = 4
    steps: int = 5
    seed: int = 1
    is_amd: bool = False
    stacks: bool = False
    marks: bool = True
    shapes: bool = True
    missing: int | None = None
    layers: int = 3

    def random(self, what: str) -> Random:
        return Random(f"{what}/{self.seed}/{self.loop}/{self.fault}")


@dataclass(frozen=True)
class Fault:
    """What is wrong: an amount (a time or a factor) on ranks and in steps."""

    kind: str
    amount: float
    ranks: tuple[int, ...] = ()
    every: int = 1
    first: int = 0

    def hits(self, rank: int, step: int) -> bool:
        return (not self.ranks or rank in self.ranks) and step >= self.first and (step - self.first) % self.every == 0


# By fault: the class it has, the amounts, whether one rank has it, and texts of which a finding must say one.
KINDS: dict[str, tuple[str, tuple[float, float], bool, tuple[str, ...]]] = {
    "loader": ("input", (8e3, 30e3), True, ("DataLoader", "get_batch", "input")),
    "loader-of-all": ("input", (8e3, 30e3), False, ("DataLoader", "get_batch", "input")),
    "tokenize": ("python-function", (6e3, 20e3), True, ("tokenize_rows",)),
    "logging": ("logging", (6e3, 20e3), True, ("log_scalars", "wandb")),
    "logging-every-third": ("logging", (20e3, 40e3), True, ("log_scalars", "wandb")),
    "checkpoint": ("checkpoint", (60e3, 150e3), True, ("save",)),
    "collection": ("garbage-collection", (8e3, 25e3), True, ("gc", "garbage")),
    "pause": ("host-pause", (8e3, 25e3), True, ()),
    "items": ("synchronization", (1, 1), False, ("item",)),
    "mask": ("synchronization", (1, 1), False, ("nonzero",)),
    "pageable": ("copy", (5e3, 12e3), False, ("HtoD",)),
    "slow-device": ("slow-device", (1.07, 1.3), True, ("slow",)),
    "throttled": ("slow-device", (1.2, 1.4), True, ("slow",)),
    "longer": ("more-work", (1.15, 1.5), True, ("mm", "gemm", "Cijk", "attention")),
    "turns": ("uneven-work", (1.25, 1.6), False, ("mm", "gemm", "Cijk", "attention")),
    "hot-expert": ("expert-imbalance", (1.5, 2.5), True, ("expert", "grouped_mm", "all_to_all", "tokens")),
    "slow-host": ("slow-host", (14.0, 25.0), True, ()),
    "launch-bound": ("launch-bound", (1, 1), False, ("launch",)),
    "slow-link": ("slow-link", (4.0, 8.0), True, ("reduce", "gather", "all_to_all", "link")),
    "exposed": ("exposed-transfer", (1, 1), False, ("gather",)),
    "allocator": ("allocator", (3e3, 8e3), True, ("Malloc", "Free")),
    "recompile": ("compilation", (50e3, 150e3), False, ("compil", "dynamo")),
    "slow-stage": ("pipeline-bubble", (1.5, 2), True, ("stage",)),
}
# Faults that a loop can have; the others can have any that are not of one loop alone.
_OF_LOOP = {"hot-expert": ("experts",), "slow-stage": ("pipeline",), "exposed": ("fsdp",), "slow-link": ("nodes",)}
_NOT_SERVING = ("loader", "loader-of-all", "checkpoint", "throttled", "turns", "exposed", "logging-every-third")


def can_have(loop: str, fault: str) -> bool:
    """Whether the fault means something in the loop."""
    if fault in _OF_LOOP:
        return loop in _OF_LOOP[fault]
    if loop == "pipeline":
        return fault not in ("longer", "turns", "launch-bound", "items", "mask", "pageable")
    if loop == "experts" and fault == "launch-bound":
        return False
    return not (loop == "serving" and fault in (*_NOT_SERVING, "mask", "pageable", "longer", "launch-bound"))


@dataclass(frozen=True)
class Truth:
    """What is wrong with a job that was made, and what it costs."""

    fault: Fault | None
    cost_us: float
    job_us: float
    text: tuple[str, ...] = ()
    kind: str = ""
    steps: tuple[int, ...] = ()


@dataclass
class _Event:
    category: str
    name: str
    thread: int
    start: float
    end: float
    args: dict[str, Any]


@dataclass
class _Meeting:
    """A collective that ranks come to: by rank, when its device was ready for it."""

    members: tuple[int, ...]
    transfer: float
    come: dict[int, float] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        return len(self.come) == len(self.members)


Waiting = Generator[tuple[Any, ...], None, None]


class Rank:
    """One rank as it runs: its host's clock, its streams, and what was recorded."""

    def __init__(self, job: Other, rank: int, fault: Fault | None, meetings: dict[Any, _Meeting]) -> None:
        self.job, self.rank, self.fault, self.meetings = job, rank, fault, meetings
        # Kernels are short in a launch-bound job; without its fault their host is fast.
        self.is_fast = fault is None and job.fault == "launch-bound"
        self.shortness = 0.05 if job.fault == "launch-bound" else 1.0
        self.noise = job.random(f"noise of {rank}")
        self.now = 1_000.0 + self.noise.random() * 60
        self.streams: dict[int, float] = {}
        self.events: list[_Event] = []
        self.thread = MAIN
        self.step = 0
        self.correlation = 0
        self.external = 0
        self.counts: dict[Any, int] = {}

    def has(self, *kinds: str) -> float | None:
        """The amount of the fault, if it is of these kinds and strikes here and now."""
        if self.fault and self.fault.kind in kinds and self.fault.hits(self.rank, self.step):
            return self.fault.amount
        return None

    @property
    def slowness(self) -> float:
        return (self.has("slow-host") or 1.0) * (1.0 if self.shortness == 1 else 0.2 if self.is_fast else 3.0)

    def spend(self, us: float, *, exactly: bool = False) -> None:
        """Lets the host's time pass; exactly so long, or as long as hosts differ."""
        self.now += us if exactly else us * self.slowness * (0.9 + 0.2 * self.noise.random())

    def leaf(self, category: str, name: str, us: float, **args: Any) -> _Event:
        start = self.now
        self.spend(us)
        event = _Event(category, name, self.thread, start, self.now, args)
        self.events.append(event)
        return event

    @contextmanager
    def open(self, category: str, name: str, **args: Any) -> Iterator[None]:
        """A range around what is done within."""
        if category == "python_function" and not self.job.stacks:
            yield
            return
        event = _Event(category, name, self.thread, self.now, 0.0, args)
        self.events.append(event)
        self.spend(0.4)
        if category in ("cpu_op", "user_annotation"):
            self.external += 1
            event.args["External id"] = self.external
        outer = self.external
        yield
        self.external = max(outer, self.external)
        self.spend(0.4)
        event.end = self.now

    def runtime(self, name: str) -> str:
        return name.replace("cuda", "hip", 1) if self.job.is_amd else name

    def call(self, name: str, us: float) -> int:
        self.correlation += 1
        args = {"correlation": self.correlation, "External id": self.external, "cbid": 1}
        self.leaf("cuda_runtime", self.runtime(name), us, **args)
        return self.correlation

    def enqueue(self, category: str, name: str, us: float, stream: int, after: float = 0.0, **args: Any) -> float:
        """Puts work on a stream after the launching call that was recorded last; when it ends."""
        start = max(self.now + 3, self.streams.get(stream, 0.0) + 1.2, after)
        end = start + us
        self.streams[stream] = end
        args = {"device": self.rank % 8, "stream": stream, "correlation": self.correlation} | args
        args["External id"] = self.external
        self.events.append(_Event(category, name, -stream, start, end, args))
        return end

    def kernel(self, name: str, us: float, grid: int, *, after: float = 0.0) -> float:
        factor = (self.has("slow-device", "throttled") or 1.0) * (0.99 + 0.02 * self.noise.random())
        self.call("cudaLaunchKernel", 4.2)
        return self.enqueue("kernel", name, us * factor, COMPUTE, after, grid=[grid, 1, 1], block=[256, 1, 1])

    def operator(self, name: str, kernel: str, us: float, dims: list[list[int]], *, after: float = 0.0) -> float:
        """An operator that launches one kernel."""
        args = {"Input Dims": dims, "Input type": ["c10::BFloat16"] * len(dims)} if self.job.shapes else {}
        tokens = dims[0][0]
        with self.open("cpu_op", name, **args):
            self.spend(3)
            return self.kernel(kernel, us * tokens / 4096, max(1, tokens // 32), after=after)

    def wait(self, call: str, until: float) -> None:
        """The host waits until the device has come so far."""
        self.correlation += 1
        start = self.now
        self.now = max(self.now + 3, until + 6)
        args = {"correlation": self.correlation, "External id": self.external}
        self.events.append(_Event("cuda_runtime", self.runtime(call), self.thread, start, self.now, args))

    def copy(self, name: str, us: float, stream: int, nbytes: int) -> float:
        self.call("cudaMemcpyAsync", 6)
        return self.enqueue("gpu_memcpy", name, us, stream, bytes=nbytes)

    def meet(self, what: _Collective, after: float, *, stream: int = COMM) -> Generator[tuple[Any, ...], None, float]:
        """Takes part in a collective that may begin after a time; when its transfer has ended."""
        with (
            self.open("cpu_op", f"c10d::{what.operator}"),
            self.open("cpu_op", "record_param_comms", **what.args(self.rank)),
        ):
            self.spend(6)
            self.call("cudaLaunchKernelExC", 5)
            ready = max(self.now + 4, self.streams.get(stream, 0.0) + 1.5, after)
            key = (what.name, what.group, what.members, self.counts.get((what.name, what.members), 0))
            self.counts[what.name, what.members] = key[-1] + 1
            meeting = self.meetings.setdefault(key, _Meeting(what.members, 0.0))
            meeting.transfer = max(meeting.transfer, what.transfer * self.shortness)
            meeting.come[self.rank] = ready
            yield key
            end = max(meeting.come.values()) + meeting.transfer + self.noise.random() * 2
            self.streams[stream] = ready
            kernel = what.kernel(self.job)
            self.streams[stream] = end
            args = {"device": self.rank % 8, "stream": stream, "correlation": self.correlation, **what.args(self.rank)}
            args |= {"grid": [16, 1, 1], "block": [512, 1, 1], "External id": self.external}
            self.events.append(_Event("kernel", kernel, -stream, ready, end, args))
        return end


@dataclass(frozen=True)
class _Collective:
    name: str
    operator: str
    elements: int
    members: tuple[int, ...]
    transfer: float
    group: str = "0"
    peer: int | None = None

    def args(self, rank: int) -> dict[str, Any]:
        told = {
            "Collective name": self.name,
            "In msg nelems": self.elements,
            "Out msg nelems": self.elements,
            "Group size": len(self.members),
            "dtype": "BFloat16",
            "Process Group Name": self.group,
            "Process Group Description": "default_pg",
            "Process Group Ranks": str(list(self.members)),
        }
        if self.peer is not None:
            other = next(member for member in self.members if member != rank)
            told |= {"Src Rank": other} if "recv" in self.name else {"Dst Rank": other}
        return told

    def kernel(self, job: Other) -> str:
        if job.is_amd:
            return "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)"
        kinds = {"allreduce": "AllReduce_Sum_bf16_RING_LL", "_allgather_base": "AllGather_RING_LL"}
        kinds |= {"_reduce_scatter_base": "ReduceScatter_Sum_bf16_RING_LL"}
        return f"ncclDevKernel_{kinds.get(self.name, 'SendRecv')}(ncclDevKernelArgsStorage<4096ul>)"


NVIDIA = {
    "mm": "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8>(Params)",
    "attention": "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>(Flash_fwd_params)",
    "norm": "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_3",
    "adam": "void at::native::multi_tensor_apply_kernel<at::native::TensorListMetadata<4>>(FusedAdam)",
}
AMD = {
    "mm": "Cijk_Ailk_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x256x64_MI16x16x1_SN",
    "attention": "void ck_tile::kentry<ck_tile::FmhaFwdKernel<128>>(FmhaFwdKargs)",
    "norm": "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float)",
    "adam": "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::FusedAdam>(T)",
}


def _tokens(r: Rank) -> int:
    """Tokens that a rank has in this step."""
    if (more := r.has("longer")) is not None:
        return int(4096 * more) // 64 * 64
    turn = r.fault is not None and r.fault.kind == "turns" and (r.step * 3 + r.job.seed) % r.job.ranks == r.rank
    if turn and r.fault:
        return int(4096 * r.fault.amount) // 64 * 64
    return 4096


def _layer(r: Rank, scale: float = 1.0) -> float:
    """The forward pass of a layer; when it ends."""
    names, tokens = AMD if r.job.is_amd else NVIDIA, _tokens(r)
    small = r.shortness
    with r.open("python_function", f"nn.Module: DecoderLayer_{r.counts.get('layer', 0)}"):
        r.operator("aten::native_layer_norm", names["norm"], 60 * scale * small, [[tokens, 2048]])
        r.operator("aten::mm", names["mm"], 420 * scale * small, [[tokens, 2048], [2048, 6144]])
        r.operator("aten::_flash_attention_forward", names["attention"], 380 * scale * small, [[tokens, 16, 128]])
        r.operator("aten::mm", names["mm"], 300 * scale * small, [[tokens, 6144], [6144, 2048]])
        _strikes_in_layer(r)
        return r.operator("aten::add", names["norm"], 50 * scale * small, [[tokens, 2048]])


def _strikes_in_layer(r: Rank) -> None:
    if r.has("items") is not None:
        with r.open("cpu_op", "aten::item"), r.open("cpu_op", "aten::_local_scalar_dense"):
            end = r.copy("Memcpy DtoH (Device -> Pageable)", 1.5, COMPUTE, 4)
            r.wait("cudaStreamSynchronize", end)
    if r.has("mask") is not None:
        with r.open("cpu_op", "aten::index"), r.open("cpu_op", "aten::nonzero"):
            end = r.copy("Memcpy DtoH (Device -> Pageable)", 1.5, COMPUTE, 8)
            r.wait("cudaStreamSynchronize", end)


def _stall(r: Rank, us: float) -> None:
    """The device has run dry when the host has spent this."""
    r.spend(us, exactly=True)


def _begin(r: Rank) -> None:
    """What a step begins with: the batch, and most of what can go wrong on the host."""
    with (
        r.open("python_function", "torch/utils/data/dataloader.py(701): __next__"),
        r.open("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"),
    ):
        r.spend(5)
        _stall(r, r.has("loader", "loader-of-all") or 0)
    if r.has("tokenize"):
        with r.open("python_function", "data/rows.py(33): tokenize_rows"), r.open("user_annotation", "tokenize_rows"):
            _stall(r, r.has("tokenize") or 0)
    slow = r.has("pageable")
    end = r.copy(
        "Memcpy HtoD (Pageable -> Device)" if slow else "Memcpy HtoD (Pinned -> Device)", slow or 8, 7, 1 << 22
    )
    if slow:
        r.wait("cudaStreamSynchronize", end)


def _compiled(r: Rank) -> None:
    if r.has("recompile") and r.step == 2:
        with r.open("cpu_op", "CompiledFunction"), r.open("user_annotation", "_compile.compile_inner (dynamo_timed)"):
            _stall(r, r.has("recompile") or 0)


def _end(r: Rank) -> None:
    """What a step ends with."""
    if us := r.has("logging", "logging-every-third"):
        with (
            r.open("python_function", "train/loop.py(88): log_scalars"),
            r.open("user_annotation", "log_scalars"),
            r.open("python_function", "wandb/sdk/wandb_run.py(1830): log"),
        ):
            _stall(r, us)
    if us := r.has("checkpoint"):
        with (
            r.open("python_function", "train/loop.py(120): save_state"),
            r.open("user_annotation", "save_state"),
            r.open("python_function", "torch/serialization.py(850): save"),
        ):
            for _ in range(4):
                _stall(r, us / 8)
                end = r.copy("Memcpy DtoH (Device -> Pageable)", us / 8, COMPUTE, 1 << 26)
                r.wait("cudaStreamSynchronize", end)


def _in_the_middle(r: Rank) -> None:
    """What can stop a host between two operators."""
    if us := r.has("collection"):
        with (
            r.open("python_function", "<built-in function collect>")
            if r.job.stacks
            else r.open("user_annotation", "Python GC")
        ):
            _stall(r, us)
    _stall(r, r.has("pause") or 0)
    if us := r.has("allocator"):
        with r.open("cpu_op", "aten::empty"):
            for name, part in (("cudaFree", 0.6), ("cudaMalloc", 0.4)):
                r.correlation += 1
                start = r.now
                # Freeing waits for the device.
                r.now = max(r.now, r.streams.get(COMPUTE, 0.0)) if name == "cudaFree" else r.now
                r.spend(us * part, exactly=True)
                args = {"correlation": r.correlation, "External id": r.external}
                r.events.append(_Event("cuda_runtime", r.runtime(name), r.thread, start, r.now, args))


def _optimizer(r: Rank, after: float) -> float:
    names = AMD if r.job.is_amd else NVIDIA
    end = 0.0
    with r.open("user_annotation", "Optimizer.step#AdamW.step"):
        for _ in range(3):
            end = r.operator("aten::_fused_adamw_", names["adam"], 150 * r.shortness, [[4096, 2048]], after=after)
    return end


def _world(r: Rank) -> tuple[int, ...]:
    return tuple(range(r.job.ranks))


def _ddp(r: Rank) -> Waiting:
    """Gradients are reduced while others are computed; with ``nodes`` also between pairs of ranks of a node."""
    for _ in range(r.job.layers):
        _layer(r)
        if r.job.loop == "nodes":
            half = r.job.ranks // 2
            mine = tuple(range(half)) if r.rank < half else tuple(range(half, 2 * half))
            us = 220 * (r.has("slow-link") or 1.0)
            what = _Collective("alltoall_base", "alltoall_base_", 1 << 20, mine, us, group="1" if mine[0] else "2")
            end = yield from r.meet(what, r.streams[COMPUTE])
            r.streams[COMPUTE] = end
    _in_the_middle(r)
    last = 0.0
    r.thread = AUTOGRAD
    for layer in range(r.job.layers):
        done = _layer(r, 2.0)
        if r.job.ranks > 1:
            transfer = 900 if layer < r.job.layers - 1 else 200
            elements = 40_000_000 if layer < r.job.layers - 1 else 8_000_000
            what = _Collective("allreduce", "allreduce_", elements, _world(r), transfer)
            last = yield from r.meet(what, done)
    r.thread = MAIN
    _optimizer(r, last)


def _fsdp(r: Rank) -> Waiting:
    """Parameters are gathered one layer ahead, or when they are needed."""
    world, late = _world(r), r.has("exposed")

    def gather(after: float) -> Generator[tuple[Any, ...], None, float]:
        return r.meet(_Collective("_allgather_base", "_allgather_base_", 30_000_000, world, 500), after)

    for thread, scale in ((MAIN, 1.0), (AUTOGRAD, 2.0)):
        r.thread = thread
        ahead = yield from gather(r.streams.get(COMPUTE, 0.0) if late else 0.0)
        for layer in range(r.job.layers):
            ready = ahead
            if not late and layer + 1 < r.job.layers:
                ahead = yield from gather(0.0)
            r.streams[COMPUTE] = max(r.streams.get(COMPUTE, 0.0), ready)
            done = _layer(r, scale)
            if late and layer + 1 < r.job.layers:
                ahead = yield from gather(done)
            if scale > 1:
                size = _Collective("_reduce_scatter_base", "_reduce_scatter_base_", 30_000_000, world, 450)
                yield from r.meet(size, done, stream=COMM + 4)
        if thread == MAIN:
            _in_the_middle(r)
    r.thread = MAIN
    _optimizer(r, r.streams[COMM + 4])


def _tensor(r: Rank) -> Waiting:
    """Each layer ends in a small all-reduce on its way."""
    for scale in (1.0, 2.0):
        r.thread = MAIN if scale == 1 else AUTOGRAD
        for _ in range(r.job.layers):
            done = _layer(r, scale)
            end = yield from r.meet(_Collective("allreduce", "allreduce_", 8_388_608, _world(r), 45), done)
            r.streams[COMPUTE] = end
        if scale == 1:
            _in_the_middle(r)
    r.thread = MAIN
    _optimizer(r, 0.0)


def _experts(r: Rank) -> Waiting:
    """Tokens go to experts and back; their number differs a little from rank to rank and step to step."""
    names, world = AMD if r.job.is_amd else NVIDIA, _world(r)
    for scale in (1.0, 2.0):
        r.thread = MAIN if scale == 1 else AUTOGRAD
        for _ in range(r.job.layers):
            done = _layer(r, scale)
            tokens = int(4096 * (0.99 + 0.02 * r.noise.random()) * (r.has("hot-expert") or 1.0))
            end = yield from r.meet(_Collective("all_to_allv", "alltoall_base_", tokens * 2048, world, 60), done)
            r.streams[COMPUTE] = end
            with r.open("python_function", "moe/layer.py(77): experts"):
                done = r.operator("aten::_grouped_mm", names["mm"], 500 * scale, [[tokens, 2048], [8, 2048, 4096]])
            end = yield from r.meet(_Collective("all_to_allv", "alltoall_base_", tokens * 2048, world, 60), done)
            r.streams[COMPUTE] = end
        if scale == 1:
            _in_the_middle(r)
    r.thread = MAIN
    _optimizer(r, 0.0)


def _pipeline(r: Rank) -> Waiting:
    """Stages in a row: all forward passes, then all backward ones, of four micro-batches for each stage."""
    stages, slow = r.job.ranks, r.has("slow-stage") or 1.0

    def pair(sender: int, name: str, after: float) -> Generator[tuple[Any, ...], None, float]:
        other = sender + 1 if name == "f" else sender - 1
        what = _Collective("send" if r.rank == sender else "recv ", "send", 1 << 22, tuple(sorted((sender, other))), 40)
        shown = replace(what, name=what.name.strip(), operator=what.name.strip(), peer=other)
        return _p2p(r, shown, (name, sender), after)

    for name, scale in (("f", 1.0), ("b", 2.0)):
        ahead, first, final = (1, 0, stages - 1) if name == "f" else (-1, stages - 1, 0)
        for _ in range(4 * stages):
            if r.rank != first:
                r.streams[COMPUTE] = max(
                    r.streams.get(COMPUTE, 0.0), (yield from pair(r.rank - ahead, name, r.streams.get(COMPUTE, 0.0)))
                )
            for _ in range(round(2 * slow)):
                done = _layer(r, scale / 2)
            if r.rank != final:
                yield from pair(r.rank, name, done)
        if name == "f":
            _in_the_middle(r)
    _optimizer(r, 0.0)


def _p2p(r: Rank, what: _Collective, way: Any, after: float) -> Generator[tuple[Any, ...], None, float]:
    """A send or receive on a stream of its direction; both ends have one number."""
    stream = COMM + (0 if way[0] == "f" else 4) + (1 if what.name == "send" else 2)
    with (
        r.open("cpu_op", f"c10d::{what.operator}"),
        r.open("cpu_op", "record_param_comms", **what.args(r.rank)),
    ):
        r.spend(6)
        r.call("cudaLaunchKernelExC", 5)
        ready = max(r.now + 4, r.streams.get(stream, 0.0) + 1.5, after if what.name == "send" else 0.0)
        number = r.counts.get(way, 0)
        r.counts[way] = number + 1
        meeting = r.meetings.setdefault((way, number), _Meeting(what.members, what.transfer))
        meeting.come[r.rank] = ready
        yield (way, number)
        end = max(meeting.come.values()) + meeting.transfer
        r.streams[stream] = end
        args = {"device": r.rank % 8, "stream": stream, "correlation": r.correlation, **what.args(r.rank)}
        args |= {"grid": [2, 1, 1], "block": [512, 1, 1], "External id": r.external}
        r.events.append(_Event("kernel", what.kernel(r.job), -stream, ready, end, args))
    return end


def _serving(r: Rank) -> Waiting:
    """A server: one long pass over a prompt, then short ones that graphs launch, each read back."""
    names = AMD if r.job.is_amd else NVIDIA
    for turn in range(6):
        with r.open("python_function", "vllm/v1/engine/core.py(330): step"):
            with r.open("user_annotation", "execute_context_4(512)_generation_0(0)" if not turn else "execute_new_0"):
                if turn == 2:
                    _in_the_middle(r)
                    _end(r)
                    if us := r.has("tokenize"):
                        with (
                            r.open("python_function", "server/text.py(3): tokenize_rows"),
                            r.open("user_annotation", "tokenize_rows"),
                        ):
                            _stall(r, us)
                for _ in range(r.job.layers):
                    if turn:
                        r.call("cudaGraphLaunch", 8)
                        factor = r.has("slow-device") or 1.0
                        for name, us in (("norm", 20), ("mm", 240), ("attention", 160), ("mm", 200)):
                            noise = 0.99 + 0.02 * r.noise.random()
                            done = r.enqueue(
                                "kernel", names[name], us * factor * noise, COMPUTE, grid=[64, 1, 1], block=[256, 1, 1]
                            )
                    else:
                        done = _layer(r)
                    if r.job.ranks > 1:
                        what = _Collective("allreduce", "allreduce_", 1 << 18, _world(r), 15)
                        r.streams[COMPUTE] = yield from r.meet(what, done)
            with r.open("python_function", "vllm/v1/worker/gpu_model_runner.py(2100): sample_tokens"):
                end = r.copy("Memcpy DtoH (Device -> Pinned)", 2, COMPUTE, 256)
                r.wait("cudaEventSynchronize", end)


LOOPS: dict[str, Callable[[Rank], Waiting]] = {
    "ddp": _ddp,
    "fsdp": _fsdp,
    "tensor": _tensor,
    "experts": _experts,
    "pipeline": _pipeline,
    "serving": _serving,
    "nodes": _ddp,
}


def _run(r: Rank) -> Waiting:
    for step in range(r.job.steps):
        r.step = step
        marked = r.job.marks and r.job.loop != "serving"
        start = r.now
        place = len(r.events)
        with r.open("python_function", "train/loop.py(60): train_step"):
            if r.job.loop != "serving":
                _begin(r)
                _compiled(r)
            yield from LOOPS[r.job.loop](r)
            if r.job.loop != "serving":
                # The loss is read, as most loops do.
                with r.open("cpu_op", "aten::item"), r.open("cpu_op", "aten::_local_scalar_dense"):
                    end = r.copy("Memcpy DtoH (Device -> Pageable)", 1.5, COMPUTE, 4)
                    r.wait("cudaStreamSynchronize", end)
                _end(r)
        if marked:
            r.events.insert(
                place, _Event("user_annotation", f"ProfilerStep#{r.step + 3}", MAIN, start, r.now - 0.05, {})
            )


def _simulated(job: Other, fault: Fault | None) -> list[Rank]:
    meetings: dict[Any, _Meeting] = {}
    ranks = [Rank(job, rank, fault, meetings) for rank in range(job.ranks)]
    runs = {rank.rank: _run(rank) for rank in ranks}
    waits: dict[int, Any] = {}
    while runs:
        ready = [rank for rank in runs if rank not in waits or meetings[waits[rank]].is_complete]
        if not ready:
            raise RuntimeError(f"ranks wait for each other: {waits}")
        for rank in ready:
            waits.pop(rank, None)
            try:
                waits[rank] = next(runs[rank])
            except StopIteration:
                del runs[rank]
    return ranks


def _length(ranks: list[Rank]) -> float:
    return max(event.end for rank in ranks for event in rank.events if event.thread < 0 or event.name) - 1_000


def _planted(job: Other) -> Fault | None:
    if job.fault is None:
        return None
    _, (low, high), of_one, _ = KINDS[job.fault]
    random = job.random("fault")
    amount = low + (high - low) * random.random()
    every, first = 1, 0
    if job.fault in ("logging-every-third", "checkpoint"):
        every, first = 3, random.randrange(2)
    if job.fault == "throttled":
        first = job.steps // 2
    ranks: tuple[int, ...] = (
        (random.choice([rank for rank in range(job.ranks) if rank != job.missing]),) if of_one else ()
    )
    if job.fault == "slow-link":
        ranks = tuple(range(job.ranks // 2)) if random.random() < 0.5 else tuple(range(job.ranks // 2, job.ranks))
    if job.fault == "slow-stage":
        ranks = (random.randrange(1, job.ranks),)
    return Fault(job.fault, amount, ranks, every, first)


def write(folder: Path, job: Other) -> Truth:
    """Writes the job's traces, and says what is wrong with it."""
    fault = _planted(job)
    ranks = _simulated(job, fault)
    clocks = job.random("clocks")
    for rank in ranks:
        offset = clocks.random() * 3_000 if job.ranks > 2 and job.seed % 2 else 0.0
        if rank.rank != job.missing:
            (folder / f"host{rank.rank // 8}_{rank.rank}.{rank.rank}.pt.trace.json").write_text(
                json.dumps(_document(job, rank, offset)), encoding="utf-8"
            )
    whole = _length(ranks)
    if fault is None:
        return Truth(None, 0.0, whole)
    kind, _, _, text = KINDS[fault.kind]
    hit = tuple(step + 3 for step in range(job.steps) if fault.hits(fault.ranks[0] if fault.ranks else 0, step))
    return Truth(fault, whole - _length(_simulated(job, None)), whole, text, kind, hit)


def _document(job: Other, rank: Rank, offset: float) -> dict[str, Any]:
    pid = 500 + 13 * rank.rank
    events: list[dict[str, Any]] = []
    for event in rank.events:
        on_device = event.thread < 0
        place = {"pid": rank.rank % 8, "tid": -event.thread} if on_device else {"pid": pid, "tid": pid + event.thread}
        # On the grid of nanoseconds, so that what follows begins where this ends.
        start_ns, end_ns = round((event.start + offset) * 1e3), round((event.end + offset) * 1e3)
        times = {"ts": start_ns / 1e3, "dur": (end_ns - start_ns) / 1e3}
        events.append({"ph": "X", "cat": event.category, "name": event.name, **place, **times, "args": event.args})
        if on_device or "correlation" not in event.args:
            continue
        arrow = {"id": event.args["correlation"], "cat": "ac2g", "name": "ac2g", "pid": pid, "tid": pid + event.thread}
        events.append({"ph": "s", "ts": times["ts"], **arrow})
    world = {"backend": "nccl", "rank": rank.rank, "world_size": job.ranks}
    device = {"id": rank.rank % 8, "name": "AMD Instinct MI300X" if job.is_amd else "NVIDIA A100-SXM4-80GB"}
    return {
        "schemaVersion": 1,
        "deviceProperties": [device],
        **({"distributedInfo": world} if job.ranks > 1 else {}),
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        "traceEvents": events,
    }
