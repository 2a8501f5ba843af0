"""Faults that a sample job can have, and what the trace names as responsible for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random

from holotrace.errors import UsageError


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a job.

    ``amount`` is a time in ns where the fault is a delay, and a factor where it stretches something.
    """

    kind: str
    """The class of the cause, as ``causes`` names it."""
    amount: float
    ranks: tuple[int, ...] = ()
    """The ranks that have it; empty: all."""
    every: int = 1
    """It comes back in every n-th step."""
    first: int = 0
    """Position of the first step that has it."""

    def hits(self, rank: int, position: int) -> bool:
        """Whether a rank has it in the step at that position."""
        here = not self.ranks or rank in self.ranks
        return here and position >= self.first and (position - self.first) % self.every == 0


@dataclass(frozen=True)
class Kind:
    """A class of faults: where it strikes, how hard, and the text of the trace that is responsible for it."""

    meaning: str
    amounts: tuple[float, float]
    responsible: tuple[str, ...]
    """Names of which a finding should say one; empty where the trace names nothing."""
    of_one: bool = True
    """One rank has it; else all have."""
    periods: tuple[int, ...] = (1,)
    in_stacks: bool = False
    """Only recorded Python functions name what is responsible."""


_MS = 1e6
KINDS: Mapping[str, Kind] = {
    "input": Kind("the data loader is late", (4 * _MS, 18 * _MS), ("DataLoader",), periods=(1, 2)),
    "input-of-all": Kind("the data loaders of all ranks are late", (6 * _MS, 20 * _MS), ("DataLoader",), of_one=False),
    "python-function": Kind(
        "a Python function holds the host up", (5 * _MS, 15 * _MS), ("log_metrics",), in_stacks=True
    ),
    "checkpoint": Kind(
        "a checkpoint is saved", (25 * _MS, 90 * _MS), ("save_checkpoint",), periods=(3,), in_stacks=True
    ),
    "host-pause": Kind("the host pauses without a word in the trace", (8 * _MS, 20 * _MS), ()),
    "slow-device": Kind("all kernels take longer", (1.06, 1.25), ()),
    "more-work": Kind(
        "the rank has longer sequences", (1.12, 1.4), ("aten::mm", "aten::linear", "MmBackward0", "flash_attn")
    ),
    "uneven-work": Kind(
        "the turn of longer sequences goes around", (1.2, 1.5), ("aten::mm", "flash_attn"), of_one=False
    ),
    "synchronization": Kind("a value is read back in every layer", (1, 1), ("aten::item",), of_one=False),
    "allocator": Kind(
        "device memory is allocated and freed in steps", (0.9 * _MS, 2 * _MS), ("cudaMalloc", "cudaFree")
    ),
    "compilation": Kind("code is compiled in a step", (40 * _MS, 120 * _MS), ("compile",), periods=(3,)),
    "slow-host": Kind("all that the host does takes longer", (3.0, 6.0), ()),
    "launch-bound": Kind("the host launches kernels slower than they run", (1, 1), (), of_one=False),
    "slow-link": Kind("transfers of some ranks take longer", (5.0, 12.0), ("alltoall_base_", "all_to_all")),
    "exposed-transfer": Kind(
        "parameters are gathered when they are needed", (1, 1), ("all_gather", "allgather"), of_one=False
    ),
    "copy": Kind("batches come from pageable memory", (6 * _MS, 12 * _MS), ("Memcpy HtoD",), of_one=False),
}


def planted(name: str, *, ranks: tuple[int, ...], steps: int, seed: int) -> Fault:
    """The fault called ``name`` in a job of ``ranks`` and so many steps; the same seed gives the same one."""
    if name not in KINDS:
        raise UsageError(f"there is no fault {name!r}; choose among {', '.join(KINDS)}")
    kind, random = KINDS[name], Random(f"{name}/{seed}")
    low, high = kind.amounts
    fault = Fault(name, low + (high - low) * random.random(), every=random.choice(kind.periods))
    if fault.every > 1:
        fault = replace(fault, first=min(random.randrange(fault.every), max(0, steps - 1)))
    if name == "slow-link":
        # The ranks of one node share the link.
        half = len(ranks) // 2
        return replace(fault, ranks=random.choice((ranks[:half], ranks[half:])))
    return replace(fault, ranks=(random.choice(ranks),)) if kind.of_one else fault


def factor(faults: tuple[Fault, ...], kind: str, rank: int, position: int) -> float:
    """How much longer something takes because of faults of that kind."""
    result = 1.0
    for fault in faults:
        result *= fault.amount if fault.kind == kind and fault.hits(rank, position) else 1.0
    return result


def delay_ns(faults: tuple[Fault, ...], kind: str, rank: int, position: int) -> int:
    """How long something is held up by faults of that kind."""
    return int(sum(fault.amount for fault in faults if fault.kind == kind and fault.hits(rank, position)))


Costs = Callable[[tuple[Fault, ...]], int]


def costs(faults: tuple[Fault, ...], job_ns: Costs) -> dict[Fault, int]:
    """What each fault costs the job: its length with all faults minus its length without that one."""
    whole = job_ns(faults)
    return {fault: whole - job_ns(tuple(other for other in faults if other is not fault)) for fault in faults}
