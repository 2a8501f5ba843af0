"""A rank as it runs: its host, its streams, and the collectives that it comes to."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from other_jobs.faults import Fault, Other

COMPUTE, COMM, COPIES = 7, 20, 24
MAIN, AUTOGRAD = 0, 41  # added to the process id
_LIMITED_BY_CLOCKS = ("aten::mm", "aten::_flash_attention_forward")


@dataclass
class Event:
    category: str
    name: str
    thread: int
    start: float
    end: float
    args: dict[str, Any]


@dataclass
class Meeting:
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

    def __init__(self, job: Other, rank: int, fault: Fault | None, meetings: dict[Any, Meeting]) -> None:
        self.job, self.rank, self.fault, self.meetings = job, rank, fault, meetings
        # Kernels are short in a launch-bound job; without its fault their host is fast.
        self.is_fast = fault is None and job.fault == "launch-bound"
        self.shortness = 0.05 if job.fault == "launch-bound" else 1.0
        self.noise = job.random(f"noise of {rank}")
        self.now = 1_000.0 + self.noise.random() * 60
        self.streams: dict[int, float] = {}
        self.events: list[Event] = []
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

    def leaf(self, category: str, name: str, us: float, **args: Any) -> Event:
        start = self.now
        self.spend(us)
        event = Event(category, name, self.thread, start, self.now, args)
        self.events.append(event)
        return event

    @contextmanager
    def open(self, category: str, name: str, **args: Any) -> Iterator[None]:
        """A range around what is done within."""
        if category == "python_function" and not self.job.stacks:
            yield
            return
        event = Event(category, name, self.thread, self.now, 0.0, args)
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
        self.events.append(Event(category, name, -stream, start, end, args))
        return end

    def kernel(self, name: str, us: float, grid: int, *, after: float = 0.0) -> float:
        factor = (self.has("slow-device", "throttled") or 1.0) * (0.99 + 0.02 * self.noise.random())
        self.call("cudaLaunchKernel", 4.2)
        return self.enqueue("kernel", name, us * factor, COMPUTE, after, grid=[grid, 1, 1], block=[256, 1, 1])

    def operator(self, name: str, kernel: str, us: float, dims: list[list[int]], *, after: float = 0.0) -> float:
        """An operator that launches one kernel."""
        is_wide = self.has("wide") is not None and dims[-1] == [2048, 6144]
        if is_wide:
            kernel, us = "cutlass_80_simt_sgemm_256x128_8x4_nn_align1", us * (self.has("wide") or 1.0)
        if name in _LIMITED_BY_CLOCKS:
            us *= self.has("clocks") or 1.0
        types = ["float" if is_wide else "c10::BFloat16"] * len(dims)
        args = {"Input Dims": dims, "Input type": types} if self.job.shapes else {}
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
        self.events.append(Event("cuda_runtime", self.runtime(call), self.thread, start, self.now, args))

    def copy(self, name: str, us: float, stream: int, nbytes: int) -> float:
        self.call("cudaMemcpyAsync", 6)
        return self.enqueue("gpu_memcpy", name, us, stream, bytes=nbytes)

    def meet(self, what: Collective, after: float, *, stream: int = COMM) -> Generator[tuple[Any, ...], None, float]:
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
            meeting = self.meetings.setdefault(key, Meeting(what.members, 0.0))
            meeting.transfer = max(meeting.transfer, what.transfer * self.shortness)
            meeting.come[self.rank] = ready
            yield key
            end = max(meeting.come.values()) + meeting.transfer + self.noise.random() * 2
            self.streams[stream] = ready
            kernel = what.kernel(self.job)
            self.streams[stream] = end
            args = {"device": self.rank % 8, "stream": stream, "correlation": self.correlation, **what.args(self.rank)}
            args |= {"grid": [16, 1, 1], "block": [512, 1, 1], "External id": self.external}
            self.events.append(Event("kernel", kernel, -stream, ready, end, args))
        return end


@dataclass(frozen=True)
class Collective:
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
