"""What can be wrong with a job of XLA, and which job it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

JAX, TORCH = "jax", "torch"
TPU, GPU, CPU = "tpu", "gpu", "cpu"
# What is recorded: everything, no operations but whole programs, or nothing of hosts.
ALL, PROGRAMS, DEVICES = "all", "programs", "devices"


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
    accelerator: str = TPU
    # Whether a GPU's kernels are launched as a graph, or one after the other.
    launches_graphs: bool = True
    records: str = ALL
    # Whether it answers requests, in iterations that each need what the one before has made.
    serves: bool = False

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
    "recompile": Kind("compilation", "all", ("train_step", "step_fun", "SyncTensorsGraph"), 20e3, 400e3),
    "recompile-often": Kind("compilation", "all", ("train_step", "step_fun", "SyncTensorsGraph"), 3e3, 80e3),
    "input-of-all": Kind("input", "all", _INPUT, 1e3, 90e3),
    "input": Kind("input", "host", _INPUT, 1e3, 90e3),
    "read": Kind("synchronization", "all", _READ, 1, 1),
    "read-often": Kind("synchronization", "all", _READ, 1, 1),
    # Reads a result of the forward pass before the graph of the step is complete.
    "cut": Kind("synchronization", "all", _READ, 1, 1),
    "upload": Kind("upload", "all", ("shard_args", "Transfer", "H2D", "device_put", "Linearize"), 1e3, 90e3),
    "result": Kind("synchronization", "all", ("asarray", "save_outputs", "TransferFrom"), 1e3, 60e3),
    "slow-core": Kind("slow-device", "core", ("slow",), 1.02, 1.7),
    "throttled": Kind("slow-device", "core", ("slow",), 1.1, 1.9),
    "longer": Kind("more-work", "core", ("attention", "sdpa"), 1.2, 4),
    "slow-host": Kind("slow-host", "host", (), 1.5, 40),
    "function": Kind("python-function", "host", ("score_samples",), 1e3, 90e3),
    "function-of-all": Kind("python-function", "all", ("score_samples",), 1e3, 90e3),
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
    "copies": Kind("copy", "all", ("copy", "MemcpyD2D"), 50, 6e3),
}


# Faults of hosts that every kind of device shows, by what it stands still for.
_OF_HOSTS = (
    *("recompile", "recompile-often", "input-of-all", "input", "read", "read-often", "cut", "result", "slow-host"),
    *("function", "function-of-all", "pause", "collection", "checkpoint", "logging"),
)
# What devices show that hosts have no part in.
_OF_DEVICES = (
    *("slow-core", "throttled", "longer", "slow-link", "exposed", "callback", "infeed", "fp32", "inefficient"),
    "copies",
)
# What operations of GPUs compute is known by the shapes of whole computations, which are not made up here, and a batch
# on its way is a copy of the device's.
_OF_TPU = ("callback", "infeed", "inefficient", "fp32", "upload")
_OF_TRAINING = (
    *("input", "input-of-all", "read-often", "result", "checkpoint", "exposed", "infeed", "upload", "fp32"),
    "slow-link",
)
# Whoever waits for its devices in each step anyway reads nothing early.
_OF_AHEAD = ("read", "read-often", "result", "cut")
# In how many jobs these come not in each step, but in every n-th, or since one.
_SOMETIMES = ("input-of-all", "input", "function", "function-of-all", "pause", "logging", "upload")
_SOMETIMES_RATIO = 0.4


def can_have(job: Job, kind: str) -> bool:
    """Whether the fault means something in the job."""
    needed = {
        "host": job.hosts > 1,
        "core": job.members > 2,
        "group": job.hosts >= 4 and job.sharded and job.protos,
    }
    # Of a read, and of the host's work that it exposes, nobody could say which is wrong.
    ambiguous = kind in ("read", "read-often", "result") and job.framework == JAX and not job.works_in_calls
    return (
        needed.get(KINDS[kind].of, True)
        and not ambiguous
        and (kind != "exposed" or job.members > 1)
        # PyTorch/XLA collects graphs by running the program's own code, which is launching.
        and (kind not in ("small", "callback", "function-of-all") or job.framework == JAX)
        # A program as a whole may be long since it waits for others.
        and (kind != "cut" or (job.framework == TORCH and job.records == ALL))
        and (kind not in _OF_TPU or job.accelerator == TPU)
        # Devices that are threads of a host share its cores.
        and ((kind in _OF_HOSTS and kind not in _OF_AHEAD) or job.accelerator != CPU)
        and (kind not in _OF_TRAINING or not job.serves)
        and _is_recorded(job, kind)
    )


def _is_recorded(job: Job, kind: str) -> bool:
    if job.records == DEVICES:
        return kind in _OF_DEVICES
    return job.records == ALL or kind in _OF_HOSTS


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
    if kind in _SOMETIMES and random.random() < _SOMETIMES_RATIO:
        every, first = random.choice(((2, 0), (3, 0), (1, job.steps // 2)))
        fault = replace(fault, every=every, first=first)
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
        if job.framework == JAX:
            job = _of_jax(job, random)
        if job.accelerator == TPU and random.random() < 0.2:
            # Of programs alone nobody knows whether those of several hosts wait for each other.
            job = replace(job, records=random.choice((PROGRAMS, DEVICES) if job.hosts == 1 else (DEVICES,)))
        if job.members <= 16 and job.members * job.steps <= 128 and all(can_have(job, kind) for kind in kinds):
            return job
    raise ValueError(f"no job can have {kinds}")


def _of_jax(job: Job, random: Random) -> Job:
    """The job on any device that JAX has, in training or not."""
    job = replace(job, accelerator=random.choice((TPU, TPU, GPU, CPU)), serves=random.random() < 0.2)
    if job.serves:
        # Servers run far more iterations than are recorded, and wait for each.
        job = replace(job, steps=20, marks=False, reads_previous=False, host_ratio=0.5 * job.host_ratio)
    if job.accelerator == GPU:
        # Kernels do not tell who meets: programs do.
        return replace(job, launches_graphs=random.random() < 0.5, sharded=job.sharded and job.protos)
    if job.accelerator == CPU:
        # Hosts that wait for each step have little to do in between.
        job = replace(job, steps=min(8, job.steps), host_ratio=0.02 * job.host_ratio, works_in_calls=True)
        return replace(job, sharded=False, meets_all=False, serves=False)
    return job
