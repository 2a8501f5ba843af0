"""What can be wrong with a job, and which job it is."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


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
    "clocks": ("slow-device", (1.2, 1.4), True, ("slow",)),
    "evaluate": ("evaluation", (4, 8), True, ("evaluate",)),
    "wide": ("wrong-type", (7, 9), False, ("mm",)),
    "lengths": ("uneven-work", (1, 1), False, ("mm", "attention")),
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
_OF_LOOP = {
    "clocks": ("ddp", "fsdp"),
    "evaluate": ("ddp",),
    "wide": ("ddp", "tensor"),
    "lengths": ("ddp",),
    "hot-expert": ("experts",),
    "slow-stage": ("pipeline",),
    "exposed": ("fsdp",),
    "slow-link": ("nodes",),
}
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


def planted(job: Other) -> Fault | None:
    if job.fault is None:
        return None
    _, (low, high), of_one, _ = KINDS[job.fault]
    random = job.random("fault")
    amount = low + (high - low) * random.random()
    every, first = 1, 0
    if job.fault in ("logging-every-third", "checkpoint", "evaluate"):
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
