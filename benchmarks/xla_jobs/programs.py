"""The compiled programs of a job: their operations, and how these are told in profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.protobuf import number, text

from xla_jobs.faults import CPU, GPU, TORCH, Fault, Job
from xla_jobs.profiles import Stats

PEAK_FLOPS, PEAK_BYTES = 918e12, 1638e9  # of a TPU, per second
GPU_BYTES = 3352e9  # of a GPU
_BACKWARD_US = 2 * 1340  # of a layer of the usual size
_TYPES = {"bf16": 16, "f32": 11, "s32": 4}


@dataclass(frozen=True)
class Operation:
    """One instruction of a program; ``us`` is how long it computes, or how long its transfer takes."""

    name: str
    category: str
    us: float = 0.0
    shape: str = "bf16[4096,4096]"
    scope: str = ""
    source: str = ""
    # Of what it could reach at best: of the peak, or of the memory's rate.
    efficiency: float = 0.6
    # A collective, or the start or the end of one: ``all-reduce``.
    collective: str = ""
    # The instruction that it awaits.
    awaits: str = ""
    # Groups of cores, by the number of the replica.
    groups: tuple[tuple[int, ...], ...] = ()
    # What only some cores have more of.
    kind: str = ""
    # How much of it a fault makes, and which.
    fault: str = ""
    fault_us: float = 0.0
    # Waits for the host as long as that, instead of computing.
    is_host: bool = False

    @property
    def opcode(self) -> str:
        base = self.name.rpartition(".")[0] or self.name
        return "fusion" if "fusion" in base else base

    @property
    def is_start(self) -> bool:
        return self.opcode.endswith("-start")

    @property
    def is_done(self) -> bool:
        return self.opcode.endswith("-done") and bool(self.awaits)

    def text(self) -> str:
        """As the compiler writes it."""
        operand = f"%{self.awaits}" if self.awaits else "%param.1"
        shape = self.shape + "{1,0:T(8,128)(2,1)}"
        groups = ",".join("{" + ",".join(map(str, group)) + "}" for group in self.groups)
        told = f", replica_groups={{{groups}}}" if groups else ""
        return f"%{self.name} = {shape} {self.opcode}({shape} {operand}){told}"

    def counted(self) -> tuple[int, int]:
        """Floating-point operations and bytes, as the compiler counts them."""
        seconds = self.us * self.efficiency * 1e-6
        if self.collective or self.is_host:
            return 0, 1 << 24
        is_product = "convolution" in self.category
        return (
            (round(seconds * PEAK_FLOPS), round(seconds * PEAK_BYTES * 0.2))
            if is_product
            else (round(seconds * 1e11), round(seconds * PEAK_BYTES))
        )


@dataclass(frozen=True)
class Program:
    """A compiled program; its operations run in this order."""

    name: str
    number: int
    operations: tuple[Operation, ...] = ()

    @property
    def title(self) -> str:
        return f"{self.name}({self.number})"

    @property
    def meets(self) -> bool:
        return any(operation.collective for operation in self.operations)

    def written(self) -> bytes:
        """As an ``HloProto``."""
        computation = text(1, b"main") + number(5, 1) + number(6, len(self.operations))
        for place, operation in enumerate(self.operations, 1):
            computation += text(2, _instruction(operation, place, self.operations))
        module = text(1, self.name.encode()) + text(2, b"main") + text(3, computation) + number(5, self.number)
        return text(1, module)


@dataclass
class Compiler:
    """Numbers the instructions of a program."""

    job: Job
    operations: list[Operation] = field(default_factory=list)

    def add(self, base: str, category: str, us: float, **more: Any) -> Operation:
        is_gpu = self.job.accelerator == GPU
        if is_gpu and category == "convolution fusion":
            # Products are those of a library.
            base = "custom-call"
        made = Operation(f"{base}.{len(self.operations) + 1}", category, us, **more)
        if is_gpu and category == "loop fusion":
            # Nothing but the shapes tells how much is moved.
            made = replace(made, shape=f"bf16[{round(1e-6 * us * made.efficiency * GPU_BYTES / 8192)},4096]")
        self.operations.append(made)
        return made

    def collective(
        self, opcode: str, us: float, *, groups: tuple[tuple[int, ...], ...], is_async: bool = True, shape: str = ""
    ) -> Operation:
        """A collective, or only its start; ``done`` ends that. Threads of CPUs stay in each until it is over."""
        is_async &= self.job.accelerator != CPU
        name = f"{opcode}-start" if is_async else opcode
        shape = shape or ("bf16[2048,4096]" if "gather" in opcode else "bf16[4096,4096]")
        return self.add(name, name, us, shape=shape, collective=opcode, groups=groups)

    def done(self, start: Operation) -> None:
        opcode = start.opcode.replace("-start", "-done")
        self.add(opcode, opcode, shape=start.shape, us=0.0, awaits=start.name, collective=start.collective)


def step_program(job: Job, faults: Sequence[Fault] = (), version: int = 0) -> Program:
    """One training step, or one iteration of a server."""
    compiler, random = Compiler(job), job.random("program")
    size = random.uniform(0.5, 2.0)
    told = {fault.kind: fault for fault in faults}
    _from_host(compiler, told)
    if job.serves:
        name = "jit_step_fun"
        _tokens(compiler, 0.4 * size)
    else:
        name = "SyncTensorsGraph.1603" if job.framework == TORCH else "jit_train_step"
        _layers(compiler, size, random.uniform(0.35, 0.8) * _BACKWARD_US * size, told)
    _loss(compiler, size, told)
    if not job.serves:
        for _ in range(3):
            scope = _scope(job, "update/add")
            compiler.add("fusion", "loop fusion", 160 * size, scope=scope, source="optim.py:40", efficiency=0.8)
    if "copies" in told:
        for _ in range(4):
            us = told["copies"].amount / 4
            shape = "f32[8192,8192]"
            compiler.add("copy", "copy", us, shape=shape, efficiency=0.8, fault="copies", fault_us=us)
    return Program(name, 0x1F00 + version * 7, tuple(compiler.operations))


def forward_program(job: Job) -> Program:
    """What PyTorch/XLA computes for the loss alone, which the step's program computes as well."""
    compiler, size = Compiler(job), job.random("program").uniform(0.5, 2.0)
    for layer in range(job.layers):
        _layer(compiler, size, f"layer_{layer}")
    _loss(compiler, size, {})
    # Names of another program's operations are their own.
    named = (replace(each, name=f"{each.opcode}.{place}") for place, each in enumerate(compiler.operations, 1000))
    return Program("SyncTensorsGraph.458", 0x2F00, tuple(named))


def _from_host(compiler: Compiler, told: Mapping[str, Fault]) -> None:
    """What programs wait for the host for, before anything else."""
    if "callback" in told:
        compiler.add("send", "host send", 2.0)
        scope = _scope(compiler.job, "io_callback")
        us = told["callback"].amount
        compiler.add("recv-done", "host recv-done", us, is_host=True, scope=scope, fault="callback", fault_us=us)
    if "infeed" in told:
        scope = _scope(compiler.job, "infeed")
        us = told["infeed"].amount
        compiler.add("infeed", "infeed", us, is_host=True, scope=scope, fault="infeed", fault_us=us)


def _layers(compiler: Compiler, size: float, transfer: float, told: Mapping[str, Fault]) -> None:
    """Layers forward and backward, with what is gathered before and reduced after each."""
    job = compiler.job
    # Within the memory of one host little time is needed.
    transfer *= 0.02 if job.accelerator == CPU else 1
    everybody = (tuple(range(job.members)),)
    groups = _halves(job) if job.sharded and job.hosts >= 4 else everybody
    is_sharded = job.sharded and job.members > 1
    ahead = compiler.collective("all-gather", 260 * size, groups=groups) if is_sharded else None
    for layer in range(job.layers):
        if ahead:
            compiler.done(ahead)
            is_last = layer == job.layers - 1
            # Asked for one layer ahead.
            ahead = None if is_last else compiler.collective("all-gather", 260 * size, groups=groups)
        _layer(compiler, size, f"layer_{layer}")
    reductions = []
    for layer in reversed(range(job.layers)):
        _layer(compiler, 2 * size, f"layer_{layer}", backward=True)
        if job.members > 1:
            opcode = "reduce-scatter" if job.sharded else "all-reduce"
            us = transfer if layer else transfer / 8
            last = compiler.collective(opcode, us, is_async="exposed" not in told, groups=groups)
            reductions += [last] if last.is_start else []
    for start in reductions:
        compiler.done(start)
    if groups != everybody:
        # Halves that each hold all of the state agree on the gradients' norm.
        compiler.collective("all-reduce", 25.0, is_async=False, groups=everybody, shape="f32[1]")


def _tokens(compiler: Compiler, size: float) -> None:
    """Layers of which each core has a part: what follows needs the sum of all, which is small."""
    job = compiler.job
    for layer in range(2 * job.layers):
        _layer(compiler, size, f"layer_{layer}")
        if job.members > 1:
            everybody = (tuple(range(job.members)),)
            compiler.collective("all-reduce", 9.0, is_async=False, groups=everybody, shape="bf16[64,4096]")


def _loss(compiler: Compiler, size: float, told: Mapping[str, Fault]) -> None:
    job = compiler.job
    if "fp32" in job.faults:
        # The logits, which may be the only product of full precision.
        passes = told["fp32"].amount if "fp32" in told else 1.0
        compiler.add(
            "fusion",
            "convolution fusion",
            320 * size * passes,
            shape="f32[8192,4096]" if passes > 1 else "bf16[8192,4096]",
            scope=_scope(job, "loss/logits/dot_general"),
            source="model.py:80",
            efficiency=0.6 / passes,
            fault="fp32",
            fault_us=320 * size * (passes - 1),
        )
    times = told["inefficient"].amount if "inefficient" in told else 1.0
    compiler.add(
        "transpose_fusion",
        "loop fusion",
        120 * size * times,
        shape="f32[8192,8192]",
        scope=_scope(job, "loss/transpose"),
        source="model.py:88",
        efficiency=0.75 / times,
        fault="inefficient",
        fault_us=120 * size * (times - 1),
    )


def _scope(job: Job, path: str) -> str:
    if job.framework == TORCH:
        return f"Training_Step.1/{path}"
    return f"jit({'step_fun' if job.serves else 'train_step'})/{path}"


def _halves(job: Job) -> tuple[tuple[int, ...], ...]:
    half = job.hosts // 2 * job.cores
    return tuple(range(half)), tuple(range(half, job.members))


def _layer(compiler: Compiler, size: float, name: str, *, backward: bool = False) -> None:
    job = compiler.job
    outer = ("transpose(jvp(forward))" if backward else "jvp(forward)") if job.framework != TORCH else "forward.2"
    scope = _scope(job, f"{outer}/{name}")
    product, plain = "convolution fusion", "loop fusion"
    compiler.add("fusion", plain, 60 * size, scope=f"{scope}/norm/mul", source="model.py:31", efficiency=0.7)
    compiler.add("fusion", product, 320 * size, scope=f"{scope}/attention/qkv/dot_general", source="model.py:40")
    compiler.add(
        "attention",
        "custom-call",
        260 * size,
        scope=f"{scope}/attention/splash",
        source="model.py:44",
        kind="attention",
    )
    compiler.add("fusion", product, 180 * size, scope=f"{scope}/attention/out/dot_general", source="model.py:52")
    compiler.add("fusion", product, 480 * size, scope=f"{scope}/mlp/dot_general", source="model.py:61")
    compiler.add("fusion", plain, 40 * size, scope=f"{scope}/mlp/add", source="model.py:66", efficiency=0.75)


def small_program(job: Job, place: int) -> Program:
    """One operation that is a program of its own, as where nothing is compiled as a whole."""
    name = ("jit_add", "jit_multiply", "jit__where", "jit_square")[place % 4]
    category = Operation("add.1", "loop fusion", 4.0, shape="f32[1024,1024]", efficiency=0.5)
    return Program(name, 0x90 + place % 4, (category,))


def shared_stats(operation: Operation, program: Program, place: int) -> Stats:
    """What an operation's name stands for in a profile."""
    flops, size = operation.counted()
    return {
        "hlo_category": operation.category,
        "program_id": program.number,
        "symbol_id": place,
        "flops": flops,
        "model_flops": flops,
        "bytes_accessed": size,
        "raw_bytes_accessed": size,
        "shape_with_layout": operation.shape + "{1,0:T(8,128)(2,1)}",
        **({"tf_op": operation.scope + ":"} if operation.scope else {}),
        **({"source": operation.source} if operation.source else {}),
    }


def _instruction(it: Operation, place: int, every: Sequence[Operation]) -> bytes:
    kind, _, dims = it.shape.rstrip("]").partition("[")
    shape = number(2, _TYPES[kind]) + b"".join(number(3, int(each)) for each in dims.split(",") if each)
    told = text(2, it.scope.encode())
    if it.source:
        file, _, line = it.source.partition(":")
        told += text(3, file.encode()) + number(4, int(line))
    found = text(1, it.name.encode()) + text(2, it.opcode.encode()) + text(3, shape) + text(7, told) + number(35, place)
    if it.awaits:
        names = [each.name for each in every]
        found += number(36, names.index(it.awaits) + 1)
    groups = (text(1, b"".join(number(1, each) for each in group)) for group in it.groups)
    members = b"".join(groups)
    return found + (text(87, members) if it.groups else b"")


def renumbered(program: Program, version: int) -> Program:
    """The same, compiled again for other shapes."""
    return replace(program, number=program.number + 7 * version)
