"""The threads of a host: spans with what goes on in them, and waits for its devices."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from xla_jobs.devices import Cores
from xla_jobs.faults import CPU, GPU, TORCH, Fault, Job
from xla_jobs.profiles import Stat

# A host that needs to know when one of its runs is over gives its number, and goes on when that is known.
Waiting = Generator[int, None, None]
IN_FLIGHT = 32  # executions that a device takes ahead
MAIN, FRAMEWORK, QUEUE = "python", "tf_pytorchxla/71", "tfrt-non-blocking-queue/31"
TRANSFERS = "pjrt-tpu-tasks/21"


@dataclass
class Span:
    """What a thread was in, in microseconds."""

    thread: str
    name: str
    start: float
    end: float
    stats: dict[str, Stat] = field(default_factory=dict)


class Host:
    """One host of a job."""

    def __init__(self, job: Job, number: int, faults: Sequence[Fault], cores: Cores) -> None:
        self.job = job
        self.number = number
        self.faults = faults
        self.cores = cores
        self.step = 0
        self.thread = MAIN
        self.spans: list[Span] = []
        self.launched = 0
        self.begun = 0.0  # when it is recorded from
        self.launching_until = 0.0
        self._flow = 1000 * (number + 1)
        # Of each core and run, what ties the call that hands it over to what the core does.
        self.flows: dict[tuple[int, int], int] = {}
        # Of batches to each GPU: from when to when, and what ties each to its call.
        self.copies: list[tuple[int, float, float, int]] = []
        # When each operation of a run on a GPU was launched, what ties it to its call, and what it is said to be.
        self.kernels: dict[tuple[int, int], Sequence[tuple[float, int, str]]] = {}
        self.now = 40 * job.random("begin", number).random()
        self._random = Random()
        self.begin_step(-1)

    def begin_step(self, step: int) -> None:
        self.step = step
        # The same whatever a fault adds.
        self._random = self.job.random("host", self.number, step)

    def has(self, *kinds: str) -> float:
        """The amount of the fault here and now; 0 where there is none."""
        return sum(fault.amount for fault in self.faults if fault.kind in kinds and fault.hits(self.number, self.step))

    def flow(self) -> int:
        self._flow += 1
        return self._flow

    @contextmanager
    def open(self, name: str, /, **stats: Stat) -> Iterator[Span]:
        """What the thread does is inside this."""
        span = Span(self.thread, name, self.now, self.now, stats)
        self.spans.append(span)
        self.now += 0.2
        yield span
        self.now += 0.2
        span.end = self.now

    @contextmanager
    def code(self, name: str, file: str, line: int) -> Iterator[None]:
        """Code of the program's own: a function where Python was recorded, else a range."""
        with self.open(f"${file}:{line} {name}" if self.job.python else name):
            yield

    @contextmanager
    def frame(self, name: str, file: str, line: int) -> Iterator[None]:
        """A function of a library, which only recording Python shows."""
        if not self.job.python:
            yield
            return
        with self.open(f"${file}:{line} {name}"):
            yield

    def spend(self, us: float) -> None:
        """Works for about so long, by itself."""
        slow = self.has("slow-host") or 1.0
        self.now += us * slow * max(0.3, 1 + self._random.gauss(0, 0.04))

    def stand(self, us: float) -> None:
        """Is held up for exactly so long."""
        self.now += us

    def at(self, thread: str, name: str, start: float, end: float, **stats: Stat) -> None:
        """What another thread does."""
        self.spans.append(Span(thread, name, start, end, stats))

    def wait(self, number: int) -> Generator[int, None, float]:
        """Until the run of that number is over; when that is."""
        while (end := self.cores.ended(self.number, number)) is None:
            yield number
        return end

    def transferred(self, us: float, blocks: bool) -> float:
        """Sends a batch to the devices; when it is there."""
        begun = self.now
        call = "PjRtComputationClient::TransferToDevice" if self.job.framework == TORCH else "shard_args"
        inner = "TpuClient::BufferFromHostBuffer" if self.job.framework == TORCH else "DevicePutWithSharding"
        with self.open(call), self.open(inner):
            self.spend(90)
            if blocks:
                self.stand(us)
        start = begun + 60
        over = start + 220 + us
        if self.job.accelerator == CPU:
            return self.now
        if self.job.accelerator == GPU:
            for core in range(self.job.cores):
                self.copies.append((core, max(self.now, start) + 8, max(self.now, start) + 228 + us, self.flow()))
                with self.open("cuMemcpyHtoDAsync", device_id=core, correlation_id=self._flow):
                    self.spend(5)
            return max(over for _, _, over, _ in self.copies[-self.job.cores :])
        self.at(TRANSFERS, "H2D Dispatch", start, over - 4)
        self.at(TRANSFERS, "XlaLinearize", start + 1, start + 60 + us / 2)
        self.at(TRANSFERS, "Linearize", start + 2, start + 59 + us / 2)
        self.at(TRANSFERS, "tpu::System::TransferToDevice", start + 62 + us / 2, over - 6)
        self.at(TRANSFERS, "tpu::System::TransferToDevice=>IssueEvent", start + 63 + us / 2, over - 8)
        return over

    def run_id(self, core: int, number: int) -> int:
        """Each core counts its own runs."""
        return number + 40 + 3 * core

    def read(self, number: int, us: float = 0.0) -> Waiting:
        """Reads a result of the run of that number; the copy takes so much longer than that of a number."""
        call = "PjRtComputationClient::TransferFromDevice" if self.job.framework == TORCH else "np.asarray(jax.Array)"
        with self.frame("_value", "array.py", 635), self.open(call):
            end = yield from self.wait(number)
            self.spend(20)
            copied = max(self.now, end + 45)
            over = copied + 60 + us
            if self.job.accelerator not in (GPU, CPU):
                self.at(TRANSFERS, "D2H Dispatch", copied, over)
                self.at(TRANSFERS, "tpu::System::TransferFromDevice", copied + 4, over - 4)
            self.now = over + 15
