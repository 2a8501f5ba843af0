"""Compiled programs of XLA for tests, drawn instruction by instruction and written as protobuf (``HloProto``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.protobuf import number as varint_field
from harness.protobuf import text as bytes_field

_TYPES = {"s8": 2, "s32": 4, "f16": 10, "f32": 11, "bf16": 16, "tuple": 13}


@dataclass
class Shape:
    kind: str
    dimensions: Sequence[int] = ()
    parts: Sequence[Shape] = ()


@dataclass
class Window:
    """One dimension that a convolution's window moves along."""

    size: int
    stride: int = 1
    padding: tuple[int, int] = (0, 0)
    dilation: int = 1
    base_dilation: int = 1


@dataclass
class Instruction:
    """``operands`` and ``called`` are names of instructions and computations."""

    name: str
    opcode: str
    shape: Shape
    operands: Sequence[str] = ()
    called: Sequence[str] = ()
    parameter: int = 0
    contracted: Sequence[int] = ()
    window: Sequence[Window] = ()
    # Of an input of batch, length …, features; a kernel of length …, features, new features; and such an output.
    is_convolution: bool = False
    target: str = ""
    config: str = ""
    scope: str = ""
    # 2 where no bits of the operands may be left out.
    precision: int = 0


@dataclass
class Computation:
    name: str
    instructions: Sequence[Instruction]
    is_fusion: bool = False


@dataclass
class Buffer:
    """Memory that an instruction's result is put in: a part of an allocation."""

    instruction: str
    size: int
    offset: int = 0


@dataclass
class Allocation:
    buffers: Sequence[Buffer]
    size: int
    is_parameter: bool = False
    is_output: bool = False


@dataclass
class Program:
    """The last computation is the program's own, and the last instruction of each its result."""

    computations: Sequence[Computation]
    allocations: Sequence[Allocation] = ()
    # Buffers by the names of their instructions in the order in which they are taken, and left: ``-name``.
    heap: Sequence[str] = ()
    # The last computation's instructions in the order in which they run, if that is written.
    schedule: Sequence[str] = ()
    _ids: dict[str, int] = field(default_factory=dict, init=False)

    def written(self) -> bytes:
        """As an ``HloProto``."""
        for computation in self.computations:
            for name in (computation.name, *(each.name for each in computation.instructions)):
                self._ids.setdefault(name, len(self._ids) + 1)
        module = bytes_field(2, self.computations[-1].name.encode())
        module += b"".join(bytes_field(3, self._computation(each)) for each in self.computations)
        if self.schedule:
            ran = b"".join(varint_field(1, self._ids[each]) for each in self.schedule)
            of_entry = varint_field(1, self._ids[self.computations[-1].name]) + bytes_field(2, ran)
            module += bytes_field(7, bytes_field(1, of_entry))
        return bytes_field(1, module) + (bytes_field(3, self._assignment()) if self.allocations else b"")

    def _computation(self, it: Computation) -> bytes:
        instructions = b"".join(bytes_field(2, self._instruction(each)) for each in it.instructions)
        ids = varint_field(5, self._ids[it.name]) + varint_field(6, self._ids[it.instructions[-1].name])
        return bytes_field(1, it.name.encode()) + instructions + ids + varint_field(7, int(it.is_fusion))

    def _instruction(self, it: Instruction) -> bytes:
        text = bytes_field(1, it.name.encode()) + bytes_field(2, it.opcode.encode()) + bytes_field(3, _shape(it.shape))
        text += bytes_field(7, bytes_field(2, it.scope.encode())) + varint_field(9, it.parameter)
        if it.window:
            text += bytes_field(15, b"".join(bytes_field(1, _window(each)) for each in it.window))
        if it.is_convolution:
            text += bytes_field(16, _of_convolution(len(it.window)))
        if it.contracted:
            text += bytes_field(30, b"".join(varint_field(1, each) for each in it.contracted))
        text += bytes_field(28, it.target.encode()) + varint_field(35, self._ids[it.name])
        text += b"".join(varint_field(36, self._ids[each]) for each in it.operands)
        text += b"".join(varint_field(38, self._ids[each]) for each in it.called)
        return text + bytes_field(43, it.config.encode()) + bytes_field(51, varint_field(1, it.precision))

    def _assignment(self) -> bytes:
        buffers = [each for allocation in self.allocations for each in allocation.buffers]
        numbers = {id(each): number for number, each in enumerate(buffers, 1)}
        logical = b"".join(
            bytes_field(
                1,
                varint_field(1, number)
                + varint_field(2, each.size)
                + bytes_field(3, varint_field(4, self._ids[each.instruction])),
            )
            for number, each in enumerate(buffers, 1)
        )
        allocations = b"".join(
            bytes_field(3, _allocation(number, each, numbers)) for number, each in enumerate(self.allocations)
        )
        by_name = {each.instruction: numbers[id(each)] for each in buffers}
        events = b"".join(
            bytes_field(
                1, varint_field(1, int(name.startswith("-"))) + varint_field(2, by_name[name.removeprefix("-")])
            )
            for name in self.heap
        )
        return logical + allocations + bytes_field(4, events)


def _allocation(number: int, it: Allocation, numbers: dict[int, int]) -> bytes:
    assigned = b"".join(
        bytes_field(9, varint_field(1, numbers[id(each)]) + varint_field(2, each.offset) + varint_field(3, each.size))
        for each in it.buffers
    )
    flags = varint_field(5, int(it.is_parameter)) + varint_field(7, int(it.is_output))
    return varint_field(1, number) + varint_field(2, it.size) + flags + assigned


def _shape(it: Shape) -> bytes:
    dimensions = b"".join(varint_field(3, each) for each in it.dimensions)
    parts = b"".join(bytes_field(4, _shape(each)) for each in it.parts)
    return varint_field(2, _TYPES[it.kind]) + dimensions + parts


def _window(it: Window) -> bytes:
    low, high = it.padding
    numbers = (it.size, it.stride, low, high, it.dilation, it.base_dilation)
    return b"".join(varint_field(place, number) for place, number in enumerate(numbers, 1))


def _of_convolution(rank: int) -> bytes:
    last = rank + 1
    singles = {3: rank, 4: rank + 1, 7: 0, 8: last, 9: 0, 10: last}
    lists = {6: range(rank), 11: range(1, last), 12: range(1, last)}
    return b"".join(varint_field(number, value) for number, value in singles.items()) + b"".join(
        varint_field(number, value) for number, values in lists.items() for value in values
    )
