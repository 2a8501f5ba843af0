"""Writing the sample job: who is late, who stalls, whose clock is off, who is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from random import Random

from holotrace.errors import UsageError
from holotrace.sample import faults as planting
from holotrace.sample.faults import Fault
from holotrace.sample.files import file_name, save
from holotrace.sample.layers import OPTIMIZER, READ_LOSS, TOKENS, UPLOAD, WAIT, collective, layers
from holotrace.sample.model import Op
from holotrace.sample.process import LAYERS_PER_BUCKET, OPTIMIZER_KERNELS, Arrival, Place, Process, Run, Shape
from holotrace.sample.recorder import Recorder
from holotrace.sample.text import RankText

GROUND_TRUTH = "GROUND_TRUTH.txt"  # no trace's name, so that reading the folder passes it by

_FIRST_STEP = 10
_SLOWNESS = 1.06  # of the straggler's matrix products
_STALL_NS = 18_000_000
_CLOCK_OFFSET_NS = 1_734_251
_FIXED = 50  # labels and marks of a file
_SMALL_TOKENS = 96  # so few that kernels end before the host has launched the next
_FEW_TOKENS = 1024  # so few that a slow host cannot keep its device busy
_FAST_HOST = 0.1  # what launches would cost next to nothing with
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
    # How long the job takes, and each fault that was asked for with what it costs the job: its length with all faults
    # minus its length in a simulation without that one. The costliest is the first.
    job_ns: int = 0
    costs_ns: Mapping[Fault, int] = field(default_factory=dict)
    # Whether the traces have the Python functions of their hosts.
    stacks: bool = False

    def summary(self) -> str:
        """One line per fact, but for exposed communication, which each rank and step has."""
        lines = [
            f"ranks present: {len(self.ranks)} of {len(self.ranks) + len(self.missing_ranks)}",
            f"missing ranks: {list(self.missing_ranks)}",
            f"job: {self.job_ns} ns",
            *(self._fault(number, *item) for number, item in enumerate(self.costs_ns.items(), 1)),
            f"straggler: {_where('rank', self.straggler_rank)}",
            *(f"straggler late in step {step}: {late} ns" for step, late in self.late_ns.items()),
            f"host-bound gap: {self.stall_ns} ns in the data loaders of all ranks, {_where('step', self.stall_step)}",
            f"clock ahead: {self.clock_offset_ns} ns, {_where('rank', self.clock_rank)}",
        ]
        return "\n".join(lines) + "\n"

    def _fault(self, number: int, fault: Fault, cost_ns: int) -> str:
        ranks = f"ranks {list(fault.ranks)}" if fault.ranks else "all ranks"
        hit = [step for position, step in enumerate(self.steps) if fault.hits(self.hit_rank(fault), position)]
        kind = planting.KINDS[fault.kind]
        names = " or ".join(kind.responsible) or "nothing in the trace"
        if kind.in_stacks and not self.stacks:
            names = f"nothing in the trace; with --stacks: {names}"
        return f"fault {number}: {fault.kind}, {ranks}, steps {hit}, costs {cost_ns} ns; responsible: {names}"

    def hit_rank(self, fault: Fault) -> int:
        """A rank that has the fault."""
        return (fault.ranks or self.ranks)[0]

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
    faults: Sequence[str] | None = None,
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
        faults: names of ``holotrace.sample.KINDS``; the job then has these and no others, ``[]`` none at all. Ranks,
            steps and sizes follow from the seed. By default a straggler, a stall and a clock that is off.
        executor: where ranks are written, e.g. a process pool; here by default.
    """
    if ranks < 1 or steps < 1:
        raise UsageError(f"a sample job of {ranks} ranks and {steps} steps is empty; ask for at least one of each.")
    missing = missing_ranks if missing_ranks is not None else (ranks,) if ranks > 1 and faults is None else ()
    plan = _plan(ranks, steps, seed=seed, events=events, stacks=stacks, missing=missing)
    if faults is not None:
        plan = _with_faults(plan, faults)
    directory = Path(out_dir)
    with _writing(directory):
        _prepare(directory, {file_name(rank, compress=compress) for rank in plan.present})
    course = _course(plan)
    step_ns = course.job_ns // len(plan.shape.steps)
    each = partial(
        _write_rank, plan, course.meetings, step_ns, directory, events=events, stacks=stacks, compress=compress
    )
    with _writing(directory):
        exposed = dict(zip(plan.present, (executor.map if executor else map)(each, plan.present), strict=True))
    costs = planting.costs(plan.faults, lambda having: _course(_without(plan, having)).job_ns)
    truth = Truth(
        ranks=plan.present,
        missing_ranks=missing,
        steps=plan.shape.steps,
        straggler_rank=plan.straggler,
        late_ns=_lateness(course.arrivals, plan),
        exposed_ns=exposed,
        stall_step=plan.shape.stall_step,
        stall_ns=plan.shape.stall_ns,
        clock_rank=plan.clock_rank,
        clock_offset_ns=_CLOCK_OFFSET_NS if plan.clock_rank is not None else 0,
        job_ns=course.job_ns,
        costs_ns=dict(sorted(costs.items(), key=lambda item: -item[1])),
        stacks=stacks,
    )
    with _writing(directory):
        (directory / GROUND_TRUTH).write_text(str(truth), encoding="utf-8")
    return truth


def simulated_ns(
    changes: Sequence[Fault] = (),
    *,
    ranks: int = 8,
    steps: int = 5,
    seed: int = 1,
    faults: Sequence[str] = (),
    without_faults: bool = False,
) -> int:
    """How long the sample job with these faults takes when it is simulated with further changes, in ns.

    Beside the kinds that faults have, changes may be ``network``, ``loader`` and ``fast-host``: factors for all
    transfers, for loading data, and for all that the host does.

    Args:
        changes: Factors may be below 1.
        ranks: As for ``write``.
        without_faults: Simulate the job as it would be without its faults.
    """
    plan = _with_faults(_plan(ranks, steps, seed=seed, events=None, stacks=False, missing=()), faults)
    plan = _without(plan, ()) if without_faults else plan
    return _course(replace(plan, faults=(*plan.faults, *changes))).job_ns


def _write_rank(
    plan: _Plan,
    meetings: Mapping[int, list[int]],
    step_ns: int,
    directory: Path,
    rank: int,
    *,
    events: int | None,
    stacks: bool,
    compress: bool,
) -> Mapping[int, int]:
    """Write one rank's file; returns what it exposed of communication in each step."""
    text = RankText(
        rank,
        plan.world,
        plan.experts(rank),
        clock_offset_ns=plan.clock_offset_ns(rank),
        shapes=events is None,
        step_ns=step_ns,
    )
    recorder = Recorder(text, stacks=stacks)
    process = plan.process(rank, recorder)
    _replay(process.run(), meetings[rank])
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
    faults: tuple[Fault, ...] = ()
    # Ranks that exchange tokens: all of them, or those of one node.
    nodes: tuple[tuple[int, ...], ...] = ()

    def experts(self, rank: int) -> tuple[int, ...]:
        return next((node for node in self.nodes if rank in node), self.world)

    def clock_offset_ns(self, rank: int) -> int:
        return _CLOCK_OFFSET_NS if rank == self.clock_rank else 0

    def process(self, rank: int, recorder: Recorder | None = None) -> Process:
        slowness = _SLOWNESS if rank == self.straggler else 1.0
        place = Place(rank, self.world, self.experts(rank))
        seed = f"{self.seed}/{rank}"
        return Process(self.shape, place, seed, slowness=slowness, recorder=recorder, faults=self.faults)


def _plan(ranks: int, steps: int, *, seed: int, events: int | None, stacks: bool, missing: tuple[int, ...]) -> _Plan:
    world = tuple(range(ranks + len(missing)))
    present = tuple(rank for rank in world if rank not in missing)
    if len(present) != ranks:
        raise UsageError(f"missing_ranks has to name different ranks below {len(world)}; it is {list(missing)}.")
    straggler, clock_rank = Random(seed).sample(present, 2) if ranks > 1 else (None, None)
    numbers = tuple(range(_FIRST_STEP, _FIRST_STEP + steps))
    # The first step has no device work before it, so a gap there could not be seen.
    stall_step = numbers[steps // 2] if steps > 1 else None
    micro_batches, depth = (2, 8) if events is None else _size((events - _FIXED) // steps, stacks=stacks)
    shape = Shape(numbers, micro_batches, depth, stall_step, _STALL_NS if stall_step is not None else 0)
    return _Plan(present, world, shape, seed, straggler, clock_rank)


def _with_faults(plan: _Plan, names: Sequence[str]) -> _Plan:
    """The same job with these faults in place of the usual flaws; what it is like otherwise follows from the seed."""
    random = Random(f"{plan.seed}/shape")
    steps = len(plan.shape.steps)
    faults = tuple(planting.planted(name, ranks=plan.present, steps=steps, seed=plan.seed) for name in names)
    tokens = random.choice((TOKENS // 2, TOKENS * 3 // 4, TOKENS))
    tokens = _FEW_TOKENS if "slow-host" in names else tokens
    tokens = _SMALL_TOKENS if "launch-bound" in names else tokens
    half = len(plan.world) // 2
    nodes = (plan.world[:half], plan.world[half:]) if half > 1 else ()
    shape = replace(
        plan.shape,
        stall_step=None,
        stall_ns=0,
        tokens=tokens,
        layers=plan.shape.layers + random.choice((-4, -2, 0, 2)) if plan.shape.layers > 4 else plan.shape.layers,
        gathers="exposed-transfer" in names,
    )
    return replace(plan, shape=shape, straggler=None, clock_rank=None, faults=faults, nodes=nodes)


def _without(plan: _Plan, faults: tuple[Fault, ...]) -> _Plan:
    """The same job with these of its faults only."""
    gone = {fault.kind for fault in plan.faults} - {fault.kind for fault in faults}
    # A host that is too slow for its device is one whose launches would cost nothing otherwise.
    instead = (Fault("fast-host", _FAST_HOST),) if "launch-bound" in gone else ()
    return replace(plan, faults=faults + instead)


def _size(events: int, *, stacks: bool) -> tuple[int, int]:
    """How many micro-batches of how many layers make the most of a step of ``events`` entries."""

    def count(*ops: Op) -> int:
        return sum(op.layout.entries + stacks * len(op.frames) for op in ops)

    def communication(*kinds: str) -> int:
        return sum(count(collective(kind, 1, 1).op, WAIT) for kind in kinds)

    def size(depth: int) -> tuple[int, int, int]:
        """What a step of so many layers comes to: entries, micro-batches, layers."""
        ops = layers()
        layer = count(*ops.forward, *ops.backward) + 2 * stacks
        micro_batch = depth * layer + count(ops.loss, ops.loss_backward) + communication("all_to_all") + _RANGES
        buckets = -(-depth // LAYERS_PER_BUCKET)
        reduced = communication(*["reduce_scatter"] * buckets, "all_reduce", "all_gather", "all_gather")
        rest = reduced + OPTIMIZER_KERNELS * count(OPTIMIZER) + count(UPLOAD, READ_LOSS) + _RANGES
        micro_batches = max(1, (events - rest) // micro_batch)
        return rest + micro_batches * micro_batch, micro_batches, depth

    sizes = [size(depth) for depth in range(1, 33)]
    fitting = [size for size in sizes if size[0] <= events] or sizes[:1]
    # Deep models look more like the real thing, as long as little is left to be filled up.
    _, micro_batches, depth = max(fitting, key=lambda size: (min(size[0], 0.95 * events), size[2]))
    return micro_batches, depth


@dataclass(frozen=True)
class _Course:
    """How a job went: who met whom when, and how long all of it took."""

    arrivals: list[dict[int, Arrival]]
    # By rank, when everybody was at each of its collectives.
    meetings: dict[int, list[int]]
    job_ns: int


def _course(plan: _Plan) -> _Course:
    """Run all ranks side by side."""
    processes = {rank: plan.process(rank) for rank in plan.present}
    runs = {rank: process.run() for rank, process in processes.items()}
    waiting = {rank: next(run) for rank, run in runs.items()}
    meetings: dict[int, list[int]] = {rank: [] for rank in plan.present}
    arrivals = []
    while waiting:
        group = next(arrival.group for arrival in waiting.values() if _all_there(arrival.group, waiting, meetings))
        together = {rank: waiting.pop(rank) for rank in group if rank in waiting}
        arrivals.append(together)
        last = max(arrival.time_ns for arrival in together.values())
        for rank in together:
            meetings[rank].append(last)
            if arrival := _advance(runs[rank], last):
                waiting[rank] = arrival
    return _Course(arrivals, meetings, max(process.now_ns for process in processes.values()))


def _all_there(group: tuple[int, ...], waiting: Mapping[int, Arrival], present: Mapping[int, object]) -> bool:
    return all(rank in waiting and waiting[rank].group == group for rank in group if rank in present)


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
        if plan.straggler not in together:
            continue
        mine = together[plan.straggler]
        others = max(arrival.time_ns for rank, arrival in together.items() if rank != plan.straggler)
        late[mine.step] += max(0, mine.time_ns - others)
    return late
