"""One rank's way through the job: its host's clock, its device's queues, its meetings with other ranks."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

from holotrace.sample.faults import Fault, delay_ns, factor
from holotrace.sample.layers import (
    COMPILED,
    OPTIMIZER,
    READ_LOSS,
    TOKENS,
    UPLOAD,
    WAIT,
    WIDTH,
    Collective,
    Layers,
    allocation,
    collective,
    layers,
    pageable_upload,
)
from holotrace.sample.model import COMMUNICATION, COMPUTE, COPY, Call, Op, Work, stretched
from holotrace.sample.python_stack import FRAME_NS
from holotrace.sample.recorder import Delay, Recorder
from holotrace.sample.text import Span

STREAMS = (COMPUTE, COMMUNICATION, COPY)
QUEUE_SLOTS = 1022  # work a stream takes before a launch blocks; CUDA's usual depth
LAYERS_PER_BUCKET = 4  # gradients of so many layers are reduced together
OPTIMIZER_KERNELS = 8
_LATENCY_NS = 1_700  # from the end of a launch to the start of its work on an idle queue
_SWITCH_NS = 900  # between two kernels of a queue that never runs dry
_MARGIN_NS = 4 * FRAME_NS  # so that the Python calls around one operator end before anything else begins
_RANGE_NS = 1_200  # what opening or closing a named range takes
_LAYER_PARAMETERS = 12 * WIDTH * WIDTH
_ACTIVATION_BYTES = 1_610_612_736  # of a micro-batch


@dataclass(frozen=True)
class Shape:
    """How much a step does, the same on every rank."""

    steps: tuple[int, ...]
    micro_batches: int
    layers: int
    stall_step: int | None
    stall_ns: int
    tokens: int = TOKENS
    # Whether parameters are gathered layer by layer, as FSDP does.
    gathers: bool = False


@dataclass(frozen=True)
class Place:
    """Which rank of which world, and the ranks it exchanges tokens with."""

    rank: int
    world: tuple[int, ...]
    experts: tuple[int, ...]


@dataclass(frozen=True)
class Arrival:
    """A rank reached a collective: it waits there until every rank of the group has."""

    step: int
    time_ns: int
    group: tuple[int, ...]


Run = Generator[Arrival, int, None]


class Process:
    """A rank that runs, and is recorded where there is a ``recorder``; its course does not depend on that.

    ``run`` hands out each arrival at a collective and is sent the time at which the last rank has arrived.
    """

    def __init__(
        self,
        shape: Shape,
        place: Place,
        seed: str,
        *,
        slowness: float,
        recorder: Recorder | None,
        faults: tuple[Fault, ...] = (),
    ) -> None:
        self.shape = shape
        self.place = place
        self.faults = faults
        # By step: how long a collective ran while no compute kernel did.
        self.exposed_ns: dict[int, int] = {}
        self._recorder = recorder
        self._random = Random(seed).random
        self._aside = Random(f"{seed}/faults").random
        self._slowness = slowness
        self._position = 0  # of the step
        self._stretch = 1.0  # of the host's work
        self._now = int(self._random() * 40_000)
        self._free = dict.fromkeys(STREAMS, 0)
        self._kernels: list[Span] = []  # of the compute stream, this step
        self._collectives: list[Span] = []  # of this step
        self._counts: dict[tuple[int, ...], int] = {}  # collectives so far, by group

    @property
    def now_ns(self) -> int:
        return self._now

    def run(self) -> Run:
        frame = self._enter("train.py(88): <module>")
        for position, step in enumerate(self.shape.steps):
            self._position = position
            self._stretch = self._factor("slow-host") * self._factor("fast-host")
            yield from self._step(step)
        self._leave(frame)

    def _factor(self, kind: str) -> float:
        return factor(self.faults, kind, self.place.rank, self._position)

    def _delay_ns(self, kind: str) -> int:
        return delay_ns(self.faults, kind, self.place.rank, self._position)

    def _layers(self) -> Layers:
        """What this step's micro-batches run on this rank."""
        whose_turn = self.place.world[self._position % len(self.place.world)]
        longer = self._factor("uneven-work") if whose_turn == self.place.rank else 1.0
        return layers(int(self.shape.tokens * self._factor("more-work") * longer) // 8 * 8)

    def _python(self, kind: str, *frames: str) -> None:
        """A fault of that kind, in Python functions of these names."""
        if held_up := self._delay_ns(kind):
            entered = self._enter(*frames)
            self._now += held_up
            self._leave(entered)

    @contextmanager
    def _aside_of(self) -> Iterator[None]:
        """What only a fault does draws numbers of its own, so that all else is as it is without the fault."""
        self._random, self._aside = self._aside, self._random
        yield
        self._random, self._aside = self._aside, self._random

    def _step(self, step: int) -> Run:
        with self._range(f"ProfilerStep#{step}"):
            frame = self._enter("train.py(57): train_step")
            yield from self._gather_first(step)
            self._load(step)
            if compiling := self._delay_ns("compilation"):
                with self._range(COMPILED):
                    self._now += compiling
            for micro_batch in range(self.shape.micro_batches):
                last = micro_batch == self.shape.micro_batches - 1
                yield from self._forward(step)
                if not last:
                    yield from self._gather_first(step)
                yield from self._backward(step, reduce=last)
            yield from self._optimize(step)
            self._leave(frame)
            self._do(READ_LOSS)
            self._spend(_MARGIN_NS)
            self._python("python-function", "train.py(71): log_metrics")
            self._python("checkpoint", "train.py(76): save_checkpoint", "torch/serialization.py(943): save")
        self._measure(step)

    def _load(self, step: int) -> None:
        with self._range("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
            stalls = step == self.shape.stall_step
            loading = self.shape.stall_ns - 2 * _RANGE_NS if stalls else 60_000 + int(self._random() * 15_000)
            late = self._delay_ns("input") + self._delay_ns("input-of-all")
            # Loaders of several ranks are never late by the same time.
            loading += int(late * (0.97 + 0.06 * self._aside())) if late else 0
            self._now += int(loading * self._factor("loader"))
        copying = self._delay_ns("copy")
        self._do(pageable_upload(copying) if copying else UPLOAD)

    def _forward(self, step: int) -> Run:
        with self._range("DistributedDataParallel.forward"):
            frame = self._enter("nn.Module: Transformer", "model.py(131): forward")
            ops = self._layers()
            prefetch = not self._hit("exposed-transfer")
            for layer in range(self.shape.layers):
                if self.shape.gathers:
                    yield from self._gather(step, layer, prefetch=prefetch)
                if layer == self.shape.layers // 3:
                    self._now += self._delay_ns("host-pause")
                block = self._enter("nn.Module: Block", "model.py(96): forward")
                for op in ops.forward:
                    self._do(op)
                self._trouble()
                self._leave(block)
                if layer == self.shape.layers // 2:
                    slower = self._factor("slow-link")
                    exchange = collective("all_to_all", TOKENS * WIDTH, int(92_000 * slower))
                    yield from self._communicate(step, exchange, wait=True, group=self.place.experts)
            self._do(ops.loss)
            self._leave(frame)
            self._remember(_ACTIVATION_BYTES)

    def _hit(self, kind: str) -> bool:
        return any(fault.kind == kind and fault.hits(self.place.rank, self._position) for fault in self.faults)

    def _trouble(self) -> None:
        """What faults add to the forward pass of a layer."""
        with self._aside_of():
            if self._hit("synchronization"):
                for _ in range(2):
                    self._do(READ_LOSS)
            if allocating := self._delay_ns("allocator"):
                self._do(allocation(allocating))

    def _gather_first(self, step: int) -> Run:
        """Gather the parameters of the next pass' first layer while something else goes on."""
        if self.shape.gathers and not self._hit("exposed-transfer"):
            yield from self._communicate(step, collective("all_gather", _LAYER_PARAMETERS, 310_000), wait=False)

    def _gather(self, step: int, layer: int, *, prefetch: bool) -> Run:
        """Gather the parameters of a layer: while the layer before runs, or when they are needed."""
        parameters = collective("all_gather", _LAYER_PARAMETERS, 310_000)
        if not prefetch:
            yield from self._communicate(step, parameters, wait=True)
            return
        # The layer waits for its own parameters only, those of the next are on their way meanwhile.
        ready = self._free[COMMUNICATION]
        if layer + 1 < self.shape.layers:
            yield from self._communicate(step, parameters, wait=False)
        self._do(WAIT)
        self._free[COMPUTE] = max(self._free[COMPUTE], ready)

    def _backward(self, step: int, *, reduce: bool) -> Run:
        """What the autograd thread does while the main thread waits for it."""
        bucket = collective("reduce_scatter", LAYERS_PER_BUCKET * _LAYER_PARAMETERS, 1_080_000)
        frame = self._enter("torch/_tensor.py(577): backward", "<built-in method run_backward>")
        self._spend(22_000)
        self._switch_thread(autograd=True)
        ops = self._layers()
        self._do(ops.loss_backward)
        for layer in reversed(range(self.shape.layers)):
            for op in ops.backward:
                self._do(op)
            if reduce and layer % LAYERS_PER_BUCKET == 0:
                yield from self._communicate(step, bucket, wait=False)
        self._remember(-_ACTIVATION_BYTES)
        self._switch_thread(autograd=False)
        self._spend(14_000)
        self._leave(frame)

    def _optimize(self, step: int) -> Run:
        norm = collective("all_reduce", 1, 27_000)
        gather = collective("all_gather", self.shape.layers * _LAYER_PARAMETERS // 2, 140_000 * self.shape.layers)
        with self._range("Optimizer.step#AdamW.step"):
            frame = self._enter("torch/optim/optimizer.py(509): wrapper", "torch/optim/adam.py(214): step")
            yield from self._communicate(step, norm, wait=True)
            for part in range(OPTIMIZER_KERNELS):
                self._do(OPTIMIZER)
                if part == OPTIMIZER_KERNELS // 2 - 1:
                    yield from self._communicate(step, gather, wait=False)
            yield from self._communicate(step, gather, wait=True)
            self._leave(frame)

    def _communicate(self, step: int, what: Collective, *, wait: bool, group: tuple[int, ...] | None = None) -> Run:
        """Issue a collective of all ranks or a group; with ``wait`` the compute stream then waits for its result."""
        group = self.place.world if group is None else group
        launched = stretched(what.op, self._stretch).work_rows[-1]
        begin = self._now + self._pause()
        # Its input is what the compute stream has been asked for so far.
        ready = max(begin + launched.end_ns + _LATENCY_NS, self._free[COMMUNICATION] + _SWITCH_NS, self._free[COMPUTE])
        everybody_ns = yield Arrival(step, ready, group)
        end = everybody_ns + int(what.transfer_ns * self._factor("network")) + int(self._random() * 600)
        count = self._counts[group] = self._counts.get(group, 0) + 1
        self._collectives.append((ready, end))
        note = what.describe(group, self.place.rank, count, of_all=group == self.place.world) if self._recorder else ""
        self._do(what.op, begin, span=(ready, end), note=note)
        self._free[COMMUNICATION] = end
        if wait:
            self._do(WAIT)
            self._free[COMPUTE] = max(self._free[COMPUTE], end)

    def _enter(self, *names: str) -> int:
        """Go into Python functions; returns how many, for ``_leave``."""
        self._spend(_MARGIN_NS)
        if self._recorder and self._recorder.stack:
            self._recorder.stack.enter(names, self._now)
        self._spend(FRAME_NS * len(names))
        return len(names)

    def _leave(self, count: int) -> None:
        self._spend(_MARGIN_NS)
        if self._recorder and self._recorder.stack:
            self._recorder.stack.leave(count, self._now)
        self._spend(FRAME_NS * count)

    @contextmanager
    def _range(self, name: str) -> Iterator[None]:
        """A named range of the host."""
        self._spend(_MARGIN_NS)
        opened = self._recorder.open(name, self._now) if self._recorder else None
        kernel_count = len(self._kernels)
        self._spend(_RANGE_NS)
        yield
        self._spend(_RANGE_NS)
        if self._recorder and opened:
            self._recorder.close(opened, self._now, self._kernels[kernel_count:])

    def _switch_thread(self, *, autograd: bool) -> None:
        if self._recorder:
            self._recorder.switch_thread(autograd=autograd)

    def _remember(self, nbytes: int) -> None:
        if self._recorder:
            self._recorder.memory(self._now, nbytes)

    def _measure(self, step: int) -> None:
        """Note how much of the step's communication no kernel ran beside."""
        kernels = self._kernels
        exposed, first = 0, 0
        for start, end in self._collectives:
            exposed += end - start
            while first < len(kernels) and kernels[first][1] <= start:
                first += 1
            beside = first
            while beside < len(kernels) and kernels[beside][0] < end:
                exposed -= min(end, kernels[beside][1]) - max(start, kernels[beside][0])
                beside += 1
        self.exposed_ns[step] = exposed
        self._kernels, self._collectives = [], []

    def _spend(self, ns: int) -> None:
        """The host is busy for so long, if it is as fast as usual."""
        self._now += int(ns * self._stretch)

    def _pause(self) -> int:
        return int((3_000 + int(self._random() * 4_000)) * self._stretch)

    def _do(self, op: Op, begin: int | None = None, *, span: Span | None = None, note: str = "") -> None:
        """Run an operator on the current thread; ``span`` is when its collective runs and ``note`` describes it."""
        layout = stretched(op, self._stretch)
        begin = self._now + self._pause() if begin is None else begin
        delays: list[Delay] = []
        spans: list[Span] = []
        late = 0
        for row in layout.work_rows:
            launched = begin + row.end_ns + late
            assert isinstance(row.node, Call) and row.node.work
            start, end, blocked = self._enqueue(row.node.work, launched, span)
            spans.append((start, end))
            if blocked:
                late += blocked
                delays.append(Delay(row.end_ns, blocked))
        self._now = begin + layout.duration_ns + late
        if self._recorder:
            self._recorder.op(op, (begin, self._now), layout=layout, delays=delays, works=spans, note=note)

    def _enqueue(self, work: Work, launched: int, span: Span | None) -> tuple[int, int, int]:
        """When ``work`` starts and ends, and how long the call that starts it blocks."""
        if work.name == "Stream Sync":
            blocked = max(0, max(self._free.values()) + 1_500 - launched)
            return launched - 500, launched + blocked - 500, blocked
        if work.category == "cuda_sync":
            return launched + 300, launched + 300 + work.duration_ns, 0
        if work.stream == COMMUNICATION:
            assert span
            return *span, 0
        blocked = 0
        if work.stream == COMPUTE and len(self._kernels) >= QUEUE_SLOTS:
            blocked = max(0, self._kernels[-QUEUE_SLOTS][0] - launched)
        start = max(launched + blocked + _LATENCY_NS, self._free[work.stream] + _SWITCH_NS)
        jitter = 0.985 + 0.03 * self._random()
        slower = (self._slowness if work.scales else 1.0) * self._factor("slow-device")
        end = start + int(work.duration_ns * jitter * (slower if work.category == "kernel" else 1.0))
        self._free[work.stream] = end
        if work.name.startswith("Memcpy HtoD (Pageable"):
            # The host copies with its own hands.
            return start, end, blocked + max(0, end - launched)
        if work.stream == COPY:
            # The compute stream was told to wait for what is copied.
            self._free[COMPUTE] = max(self._free[COMPUTE], end)
        elif work.category == "kernel":
            self._kernels.append((start, end))
        return start, end, blocked
