"""What can be wrong with a job of XLA, and which job it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

JAX, TORCH = "jax", "torch"
TPU, GPU = "tpu", "gpu"


@dataclass(frozen=True)
class Job:
    """A job to make: what runs where, how it is recorded, and what is wrong with it."""

    framework: str = JAX
    hosts: int = 1
    cores: int = 4  # of each host
    steps: int = 8
    seed: int = 1
    faults: tuple[str, ...] = ()
    # Whether the host reads the loss of the step before, as careful loops do; others read it after the last step.
    reads_previous: bool = True
    marks: bool = True
    python: bool = False
    protos: bool = True
    noise: float = 0.01
    loader: str = "range"  # range, tf.data, python
    layers: int = 3
    sharded: bool = False
    # What the host works in each step by itself, of what a device computes.
    host_ratio: float = 0.1
    # Whether JAX does that in calling the step, or a function of the program's own.
    works_in_calls: bool = True
    # Whether programs begin when the cores of all hosts are there, or those of each host by themselves.
    meets_all: bool = True
    # A GPU runs one kernel after another, launched as a graph, and is the only one of its job.
    accelerator: str = TPU

    def random(self, *what: object) -> Random:
        return Random(f"{what}/{self.seed}/{self.framework}")

    @property
    def members(self) -> int:
        return self.hosts * self.cores


@dataclass(frozen=True)
class Kind:
    """A fault: the class it has, whether one host or core has it, and texts of which a cause must say one."""

    cause: str
    of: str  # all, host, core, group
    texts: tuple[str, ...] = ()
    # Amounts: microseconds, or how much longer.
    low: float = 0.0
    high: float = 0.0


@dataclass(frozen=True)
class Fault:
    """What is wrong: an amount on a host, one of its cores, or all of them, in some steps."""

    kind: str
    amount: float
    host: int | None = None
    core: int | None = None
    every: int = 1
    first: int = 0
    last: int = 1 << 30

    def hits(self, host: int, step: int) -> bool:
        is_step = self.first <= step <= self.last and (step - self.first) % self.every == 0
        return is_step and self.host in (None, host)


_INPUT = ("data_load", "data_loading", "next_batch", "Iterator", "input", "GetNext")
_READ = ("asarray", "log_loss", "item", "TransferFrom", "read", "Sync", "float")
# By fault.
KINDS: dict[str, Kind] = {
    "recompile": Kind("compilation", "all", ("train_step", "SyncTensorsGraph"), 20e3, 400e3),
    "recompile-often": Kind("compilation", "all", ("train_step", "SyncTensorsGraph"), 3e3, 80e3),
    "input-of-all": Kind("input", "all", _INPUT, 1e3, 90e3),
    "input": Kind("input", "host", _INPUT, 1e3, 90e3),
    "read": Kind("synchronization", "all", _READ, 1, 1),
    "read-often": Kind("synchronization", "all", _READ, 1, 1),
    "upload": Kind("upload", "all", ("shard_args", "Transfer", "H2D", "device_put", "Linearize"), 1e3, 90e3),
    "result": Kind("synchronization", "all", ("asarray", "save_outputs", "TransferFrom"), 1e3, 60e3),
    "slow-core": Kind("slow-device", "core", ("slow",), 1.02, 1.7),
    "throttled": Kind("slow-device", "core", ("slow",), 1.1, 1.9),
    "longer": Kind("more-work", "core", ("attention",), 1.2, 4),
    "slow-host": Kind("slow-host", "host", (), 1.5, 40),
    "function": Kind("python-function", "host", ("score_samples",), 1e3, 90e3),
    "pause": Kind("host-pause", "host", (), 1e3, 90e3),
    "collection": Kind("garbage-collection", "host", ("gc", "garbage"), 1e3, 90e3),
    "checkpoint": Kind("checkpoint", "all", ("save", "checkpoint"), 10e3, 300e3),
    "logging": Kind("logging", "host", ("log_metrics", "write_summary"), 1e3, 90e3),
    "slow-link": Kind("slow-link", "group", ("gather", "reduce", "link"), 1.6, 9),
    "exposed": Kind("exposed-transfer", "all", ("reduce", "gather"), 0.05, 1),
    "callback": Kind("python-function", "all", ("callback", "recv", "check_values"), 300, 20e3),
    "infeed": Kind("input", "all", ("infeed",), 300, 20e3),
    # A TPU multiplies numbers of single precision in six passes.
    "fp32": Kind("inefficient-kernels", "all", ("fusion",), 5.5, 7),
    "inefficient": Kind("inefficient-kernels", "all", ("transpose_fusion", "broadcast"), 1.5, 40),
    "small": Kind("launch-bound", "all", (), 4, 400),
    "copies": Kind("copy", "all", ("copy",), 50, 6e3),
}


def can_have(job: Job, kind: str) -> bool:
    """Whether the fault means something in the job."""
    needed = {
        "host": job.hosts > 1,
        "core": job.members > 2,
        "group": job.hosts >= 4 and job.sharded and job.protos,
    }
    # Of a read, and of the host's work that it exposes, nobody could say which is wrong.
    ambiguous = kind in ("read", "read-often", "result") and job.framework == JAX and not job.works_in_calls
    is_of_jax = kind in ("small", "callback")
    # What operations of GPUs compute is known by the shapes of whole computations, which are not made up here, and a
    # batch on its way is a copy of the device's.
    is_of_tpu = kind in ("callback", "infeed", "inefficient", "fp32", "upload")
    return (
        needed.get(KINDS[kind].of, True)
        and not ambiguous
        and (kind != "exposed" or job.members > 1)
        and (not is_of_jax or job.framework == JAX)
        and (not is_of_tpu or job.accelerator == TPU)
    )


def planted(job: Job, kind: str, amount: float) -> Fault:
    """The fault, with an amount between the least (0) and the most (1) of its kind."""
    told, random = KINDS[kind], job.random("fault", kind)
    value = told.low * (told.high / told.low) ** amount if told.low > 0 else amount
    fault = Fault(kind, value)
    if told.of in ("host", "core"):
        fault = replace(fault, host=random.randrange(job.hosts))
    if told.of == "core":
        fault = replace(fault, core=random.randrange(job.cores))
    if told.of == "group":
        fault = replace(fault, host=random.randrange(2))
    if kind in ("recompile", "checkpoint"):
        step = random.randrange(1, max(2, job.steps - 1))
        fault = replace(fault, first=step, last=step)
    if kind == "recompile-often":
        fault = replace(fault, first=random.randrange(0, 2), last=random.randrange(2, max(3, job.steps - 1)))
    if kind in ("read-often", "result", "collection"):
        fault = replace(fault, every=random.choice((1, 2, 3)) if kind != "read-often" else 2)
    if kind == "throttled":
        fault = replace(fault, first=job.steps // 2)
    return fault


def any_job(kinds: tuple[str, ...], seed: int) -> Job:
    """A job of any kind and size that can have these faults."""
    for attempt in range(1000):
        random = Random(f"{kinds}/{seed}/{attempt}")
        python = random.random() < 0.4
        job = Job(
            random.choice((JAX, JAX, TORCH)),
            random.choice((1, 1, 2, 4)),
            random.choice((1, 2, 4, 8)),
            random.choice((4, 6, 8, 12, 20)),
            seed,
            kinds,
            reads_previous=random.random() < 0.7,
            marks=random.random() < 0.8,
            python=python,
            protos=random.random() < 0.7,
            noise=random.choice((0.002, 0.005, 0.01, 0.03)),
            loader=random.choice(("range", "tf.data")),
            layers=random.choice((2, 3, 4)),
            sharded=random.random() < 0.4,
            host_ratio=random.uniform(0.02, 0.4),
            works_in_calls=random.random() < 0.5,
            meets_all=random.random() < 0.5,
        )
        job = replace(job, python=python and job.framework == JAX)
        if job.framework == JAX and job.members == 1 and random.random() < 0.5:
            # By their shapes, which are made up, what its operations compute would be counted.
            job = replace(job, accelerator=GPU, protos=False)
        if job.members <= 16 and job.members * job.steps <= 128 and all(can_have(job, kind) for kind in kinds):
            return job
    raise ValueError(f"no job can have {kinds}")
