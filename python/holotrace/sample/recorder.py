"""What the profiler of one rank notes while the rank runs: ids, entries and Python calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holotrace.sample.model import COMMUNICATION, COMPUTE, RECORD_DONE, RECORD_EVENT, Call, Layout, Op, Row
from holotrace.sample.python_stack import PythonStack
from holotrace.sample.text import RankText, Span


@dataclass(frozen=True)
class Delay:
    """From ``point_ns`` of an operator's layout on, everything comes later: a call there blocked."""

    point_ns: int
    blocked_ns: int


@dataclass(frozen=True)
class Range:
    """A named range of the host that is still open."""

    name: str
    start_ns: int
    external: int
    index: int
    position: int


class Recorder:
    """Host entries, device entries with the calls that started them, and device annotations, as they come."""

    def __init__(self, text: RankText, *, stacks: bool) -> None:
        self.text = text
        self.host: list[str] = []
        self.on_device: list[str] = []
        self.annotations: list[str] = []
        self.correlation = 1_000  # the last id given to a call
        self.stack = PythonStack(text) if stacks else None
        self._tid = text.pid
        self._external = 0
        self._index = 0
        self._recorded = 0
        self._sequence = 10_000
        self._tape: list[int] = []
        self._allocated_bytes = 21_474_836_480

    def switch_thread(self, *, autograd: bool) -> None:
        self._tid = self.text.autograd_tid if autograd else self.text.pid

    def python_entries(self) -> list[str]:
        """The Python calls, if stacks were asked for; the profiler numbers them after everything else."""
        return self.stack.entries(self._index) if self.stack else []

    def memory(self, time_ns: int, nbytes: int) -> None:
        """Note an allocation or, where negative, a release."""
        self._allocated_bytes += nbytes
        self.host.append(self.text.memory(self._tid, time_ns, nbytes, self._allocated_bytes, self._index))
        self._index += 1

    def open(self, name: str, start_ns: int) -> Range:
        """Begin a range; it takes its place among the host entries now and gets its text from ``close``."""
        self._external += 1
        opened = Range(name, start_ns, self._external, self._index, len(self.host))
        self._index += 1
        self.host.append("")
        return opened

    def close(self, opened: Range, end_ns: int, kernels: Sequence[Span]) -> None:
        """End a range; on the device it covers the ``kernels`` launched within."""
        op = Op(opened.name, category="user_annotation")
        span = opened.start_ns, end_ns
        self.host[opened.position] = self.text.op(op, self._tid, span, opened.external, opened.index)
        if kernels:
            span = kernels[0][0], kernels[-1][1]
            self.annotations.append(self.text.device_annotation(opened.name, COMPUTE, span, opened.external))

    def op(
        self, op: Op, span: Span, *, layout: Layout, delays: Sequence[Delay], works: Sequence[Span], note: str
    ) -> None:
        """Note an operator with everything inside, laid out so; ``works`` is when what it put on the device ran."""
        sequence, sequence_args = self._taped(op)
        remaining = iter(works)
        for row in layout.rows:
            owner = self._external + 1 + row.owner
            when = _delayed(row, span[0], delays)
            if isinstance(row.node, Call):
                self._call(row.node, when, owner, next(remaining) if row.node.work else None, note)
                continue
            node = row.node
            extra = sequence_args if node.autograd else f"{note}, {_GLOBAL_RANKS}" if node.collective else ""
            self.host.append(self.text.op(node, self._tid, when, owner, self._index, extra=extra))
            self._index += 1
            if node.flow:
                phase = "s" if node.autograd == "forward" else "f"
                self.host.append(self.text.flow("fwdbwd", phase, sequence, (self.text.pid, self._tid), when[0]))
            if node.category == "user_annotation":
                self.annotations.append(self.text.device_annotation(node.name, COMMUNICATION, works[-1], owner))
        self._external += op.layout.op_count
        if self.stack and op.frames:
            self.stack.around(op.frames, span)

    def _call(self, call: Call, when: Span, owner: int, ran: Span | None, note: str) -> None:
        text = self.text
        self.correlation += 3
        correlation = self.correlation
        self.on_device.append(text.call(call, self._tid, when, owner, correlation))
        if call in (RECORD_EVENT, RECORD_DONE):
            self._recorded = correlation
        if call.work is None or ran is None:
            return
        work, extra = call.work, ""
        if work.name == "Stream Wait Event":
            extra = (
                f'"wait_on_cuda_event_record_corr_id": {self._recorded},      '
                f'"wait_on_cuda_event_id": {self._recorded % 64},      '
            )
        elif note and work.category == "kernel":
            extra = f", {note}"
        self.on_device += (
            text.flow("ac2g", "s", correlation, (text.pid, self._tid), when[0]),
            text.work(work, ran, owner, correlation, extra=extra),
            text.flow("ac2g", "f", correlation, (text.device, work.stream), ran[0]),
        )

    def _taped(self, op: Op) -> tuple[int, str]:
        """What ties a forward operator and its backward together; the autograd tape is a stack."""
        if op.autograd == "forward":
            self._sequence += 1
            self._tape.append(self._sequence)
            return self._sequence, f'"Sequence number": {self._sequence}, "Fwd thread id": 0, '
        if op.autograd == "backward":
            sequence = self._tape.pop()
            return sequence, f'"Sequence number": {sequence}, "Fwd thread id": 1, '
        return 0, ""


_GLOBAL_RANKS = '"Global rank start": 0, "Global rank stride": 1, "Is asynchronized op": 1, '


def _delayed(row: Row, begin_ns: int, delays: Sequence[Delay]) -> Span:
    start, end = begin_ns + row.offset_ns, begin_ns + row.end_ns
    for delay in delays:
        start += delay.blocked_ns if row.offset_ns >= delay.point_ns else 0
        end += delay.blocked_ns if row.end_ns >= delay.point_ns else 0
    return start, end
