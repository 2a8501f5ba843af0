"""Writing the sample job: who is late, who stalls, whose clock is off, who is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from random import Random

from holotrace.errors import UsageError
from holotrace.sample.files import file_name, save
from holotrace.sample.layers import (
    BACKWARD,
    FORWARD,
    LOSS,
    LOSS_BACKWARD,
    OPTIMIZER,
    READ_LOSS,
    UPLOAD,
    WAIT,
    collective,
)
from holotrace.sample.model import Op
from holotrace.sample.process import LAYERS_PER_BUCKET, OPTIMIZER_KERNELS, Arrival, Process, Run, Shape
from holotrace.sample.recorder import Recorder
from holotrace.sample.text import RankText

GROUND_TRUTH = "GROUND_TRUTH.txt"  # no trace's name, so that reading the folder passes it by

_FIRST_STEP = 10
_SLOWNESS = 1.06  # of the straggler's matrix products
_STALL_NS = 18_000_000
_CLOCK_OFFSET_NS = 1_734_251
_FIXED = 50  # labels and marks of a file
_RANGES = 12  # annotations, their Python calls and memory marks, at most, of a step or a micro-batch


@dataclass(frozen=True)
class Truth:
    """What was planted in a sample job; times are exact."""

    ranks: tuple[int, ...]
    missing_ranks: tuple[int, ...]
    steps: tuple[int, ...]
    # The rank whose matrix products are slow, and per step how long the others' last waited for it, over all
    # collectives: its start minus the latest start of another rank, where it came last.
    straggler_rank: int | None
    late_ns: Mapping[int, int]
    # By rank and step: how long a collective ran while no compute kernel did.
    exposed_ns: Mapping[int, Mapping[int, int]]
    # The step in which every rank's data loader, and so its device, stood still, and for how long.
    stall_step: int | None
    stall_ns: int
    # The rank whose clock runs ahead of all others, by how much.
    clock_rank: int | None
    clock_offset_ns: int

    def summary(self) -> str:
        """One line per fact, but for exposed communication, which each rank and step has."""
        lines = [
            f"ranks present: {len(self.ranks)} of {len(self.ranks) + len(self.missing_ranks)}",
            f"missing ranks: {list(self.missing_ranks)}",
            f"straggler: {_where('rank', self.straggler_rank)}",
            *(f"straggler late in step {step}: {late} ns" for step, late in self.late_ns.items()),
            f"host-bound gap: {self.stall_ns} ns in the data loaders of all ranks, {_where('step', self.stall_step)}",
            f"clock ahead: {self.clock_offset_ns} ns, {_where('rank', self.clock_rank)}",
        ]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        """One line per fact."""
        exposed = (
            f"exposed communication: rank {rank}, step {step}: {ns} ns\n"
            for rank, steps in self.exposed_ns.items()
            for step, ns in steps.items()
        )
        return self.summary() + "".join(exposed)


def write(
    out_dir: str | PathLike[str],
    *,
    ranks: int = 8,
    steps: int = 5,
    seed: int = 1,
    events: int | None = None,
    stacks: bool = False,
    compress: bool = True,
    missing_ranks: tuple[int, ...] | None = None,
    executor: Executor | None = None,
) -> Truth:
    """Write a sample job's traces, one file per rank, and say what was planted in them.

    The same arguments give the same bytes. What was planted is also written beside the traces, as GROUND_TRUTH.txt.

    Args:
        ranks: files to write.
        events: entries of each file, exactly, unless that is too few for ``steps`` steps of one layer. Files of a
            chosen length are recorded without shapes, as long recordings are.
        stacks: record Python functions and modules.
        compress: write .json.gz rather than .json.
        missing_ranks: ranks of the job that left no file; by default one, the last, where several are written. The
            job's world is ``ranks`` and these: 8 ranks are ranks 0 to 7 of a world of 9.
        executor: where ranks are written, e.g. a process pool; here by default.
    """
    if ranks < 1 or steps < 1:
        raise UsageError(f"a sample job of {ranks} ranks and {steps} steps is empty; ask for at least one of each.")
    missing = missing_ranks if missing_ranks is not None else (ranks,) if ranks > 1 else ()
    plan = _plan(ranks, steps, seed=seed, events=events, stacks=stacks, missing=missing)
    directory = Path(out_dir)
    with _writing(directory):
        _prepare(directory, {file_name(rank, compress=compress) for rank in plan.present})
    arrivals = _arrivals(plan)
    meetings = [max(arrival.time_ns for arrival in together.values()) for together in arrivals]
    each = partial(_write_rank, plan, meetings, directory, events=events, stacks=stacks, compress=compress)
    with _writing(directory):
        exposed = dict(zip(plan.present, (executor.map if executor else map)(each, plan.present), strict=True))
    truth = Truth(
        ranks=plan.present,
        missing_ranks=missing,
        steps=plan.shape.steps,
        straggler_rank=plan.straggler,
        late_ns=_lateness(arrivals, plan),
        exposed_ns=exposed,
        stall_step=plan.shape.stall_step,
        stall_ns=plan.shape.stall_ns,
        clock_rank=plan.clock_rank,
        clock_offset_ns=_CLOCK_OFFSET_NS if plan.clock_rank is not None else 0,
    )
    with _writing(directory):
        (directory / GROUND_TRUTH).write_text(str(truth), encoding="utf-8")
    return truth


def _write_rank(
    plan: _Plan, meetings: list[int], directory: Path, rank: int, *, events: int | None, stacks: bool, compress: bool
) -> Mapping[int, int]:
    """Write one rank's file; returns what it exposed of communication in each step."""
    text = RankText(rank, plan.world, clock_offset_ns=plan.clock_offset_ns(rank), shapes=events is None)
    recorder = Recorder(text, stacks=stacks)
    process = plan.process(rank, recorder)
    _replay(process.run(), meetings)
    save(directory, recorder, process.now_ns, events=events, compress=compress)
    return process.exposed_ns


def _where(kind: str, number: int | None) -> str:
    return f"no {kind}" if number is None else f"{kind} {number}"


@contextmanager
def _writing(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"{directory} cannot be written: {error.strerror}; name a folder that can") from error


def _prepare(directory: Path, names: set[str]) -> None:
    """Make the folder; traces of another job in it would be taken for ranks of this one."""
    directory.mkdir(parents=True, exist_ok=True)
    strangers = sorted(path.name for path in directory.glob("*.pt.trace.json*") if path.name not in names)
    if strangers:
        raise UsageError(f"{directory} holds other traces already ({strangers[0]}); choose an empty folder.")


@dataclass(frozen=True)
class _Plan:
    """Who takes part in the job, and what is wrong with whom."""

    present: tuple[int, ...]
    world: tuple[int, ...]
    shape: Shape
    seed: int
    straggler: int | None
    clock_rank: int | None

    def clock_offset_ns(self, rank: int) -> int:
        return _CLOCK_OFFSET_NS if rank == self.clock_rank else 0

    def process(self, rank: int, recorder: Recorder | None = None) -> Process:
        slowness = _SLOWNESS if rank == self.straggler else 1.0
        return Process(self.shape, f"{self.seed}/{rank}", slowness=slowness, recorder=recorder)


def _plan(ranks: int, steps: int, *, seed: int, events: int | None, stacks: bool, missing: tuple[int, ...]) -> _Plan:
    world = tuple(range(ranks + len(missing)))
    present = tuple(rank for rank in world if rank not in missing)
    if len(present) != ranks:
        raise UsageError(f"missing_ranks has to name different ranks below {len(world)}; it is {list(missing)}.")
    straggler, clock_rank = Random(seed).sample(present, 2) if ranks > 1 else (None, None)
    numbers = tuple(range(_FIRST_STEP, _FIRST_STEP + steps))
    # The first step has no device work before it, so a gap there could not be seen.
    stall_step = numbers[steps // 2] if steps > 1 else None
    micro_batches, layers = (2, 8) if events is None else _size((events - _FIXED) // steps, stacks=stacks)
    shape = Shape(numbers, micro_batches, layers, stall_step, _STALL_NS if stall_step is not None else 0)
    return _Plan(present, world, shape, seed, straggler, clock_rank)


def _size(events: int, *, stacks: bool) -> tuple[int, int]:
    """How many micro-batches of how many layers make the most of a step of ``events`` entries."""

    def count(*ops: Op) -> int:
        return sum(op.layout.entries + stacks * len(op.frames) for op in ops)

    def communication(*kinds: str) -> int:
        return sum(count(collective(kind, 1, 1).op, WAIT) for kind in kinds)

    def size(layers: int) -> tuple[int, int, int]:
        """What a step of so many layers comes to: entries, micro-batches, layers."""
        layer = count(*FORWARD, *BACKWARD) + 2 * stacks
        micro_batch = layers * layer + count(LOSS, LOSS_BACKWARD) + communication("all_to_all") + _RANGES
        buckets = -(-layers // LAYERS_PER_BUCKET)
        reduced = communication(*["reduce_scatter"] * buckets, "all_reduce", "all_gather", "all_gather")
        rest = reduced + OPTIMIZER_KERNELS * count(OPTIMIZER) + count(UPLOAD, READ_LOSS) + _RANGES
        micro_batches = max(1, (events - rest) // micro_batch)
        return rest + micro_batches * micro_batch, micro_batches, layers

    sizes = [size(layers) for layers in range(1, 33)]
    fitting = [size for size in sizes if size[0] <= events] or sizes[:1]
    # Deep models look more like the real thing, as long as little is left to be filled up.
    _, micro_batches, layers = max(fitting, key=lambda size: (min(size[0], 0.95 * events), size[2]))
    return micro_batches, layers


def _arrivals(plan: _Plan) -> list[dict[int, Arrival]]:
    """Run all ranks side by side: who arrived when at each collective, in order."""
    runs = {rank: plan.process(rank).run() for rank in plan.present}
    together = {rank: next(run) for rank, run in runs.items()}
    meetings: list[dict[int, Arrival]] = []
    while together:
        meetings.append(together)
        last = max(arrival.time_ns for arrival in together.values())
        together = {rank: arrival for rank, run in runs.items() if (arrival := _advance(run, last))}
    return meetings


def _advance(run: Run, time_ns: int) -> Arrival | None:
    try:
        return run.send(time_ns)
    except StopIteration:
        return None


def _replay(run: Run, meetings: list[int]) -> None:
    next(run)
    for time_ns in meetings:
        _advance(run, time_ns)


def _lateness(arrivals: list[dict[int, Arrival]], plan: _Plan) -> dict[int, int]:
    if plan.straggler is None:
        return {}
    late = dict.fromkeys(plan.shape.steps, 0)
    for together in arrivals:
        mine = together[plan.straggler]
        others = max(arrival.time_ns for rank, arrival in together.items() if rank != plan.straggler)
        late[mine.step] += max(0, mine.time_ns - others)
    return late
