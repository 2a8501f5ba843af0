"""Arguments of an operator's call as traces record them: read, checked, and asked for by position."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from holotrace.efficiency import element_types
from holotrace.efficiency.unknown import Unknown

# Counts beyond are not those of any tensor; columns hold no more.
MOST = 2**63 - 1
_NOT_TENSORS = frozenset({"", "Scalar", "ScalarList", "TensorList", "GenericList", "None", "Int", "Double", "Bool"})


@dataclass(frozen=True)
class Tensor:
    """Dims, type and strides of a tensor."""

    dims: tuple[int, ...]
    type: str
    strides: tuple[int, ...] | None = None

    @property
    def count(self) -> int:
        """Elements that one sees."""
        return prod(self.dims)

    @property
    def distinct(self) -> int:
        """Elements that there are: those of a dim with stride 0 are one, and windows may overlap."""
        if self.strides is None or not self.count:
            return self.count
        pairs = list(zip(self.dims, self.strides, strict=True))
        seen = prod(size for size, stride in pairs if stride)
        return min(seen, 1 + sum((size - 1) * stride for size, stride in pairs))

    @property
    def bytes(self) -> int:
        return self.distinct * self.element_bytes

    @property
    def element_bytes(self) -> int:
        return element_types.size(self.type)

    def like(self, dims: Sequence[int] | None = None, type: str | None = None) -> Tensor:  # its name
        """A new tensor, of the same dims and type where none are given."""
        return Tensor(self.dims if dims is None else tuple(dims), self.type if type is None else type)


@dataclass(frozen=True)
class Arguments:
    """What a call of an operator was given, by position as in its schema.

    Each method raises ``Unknown`` with a reason if the argument is not what it asks for.
    """

    name: str
    """The operator, without its overload."""

    dims: Sequence[Any]
    """Dims of each argument; empty for one that is no tensor."""

    types: Sequence[str]
    """Type of each argument, as the trace writes it."""

    strides: Sequence[Any] | None
    """Strides of each argument; None where the trace has none."""

    scalars: Sequence[Any]
    """Arguments that are no tensors, as text; empty where the trace has none."""

    supposed: set[int] = field(default_factory=set, compare=False)
    """Places of arguments that were taken for what is usual, as the trace has none of those that are no tensors."""

    def __len__(self) -> int:
        return len(self.types)

    def is_tensor(self, place: int) -> bool:
        """Whether there is a tensor at that place."""
        return 0 <= place < len(self.types) and self.types[place] not in _NOT_TENSORS

    def tensor(self, place: int) -> Tensor:
        """The tensor at that place; one without elements is not looked at."""
        found = self.optional(place)
        if found is None:
            raise Unknown(f"argument {place} is no tensor")
        if not found.count:
            raise Unknown(f"argument {place} has a size of zero")
        return found

    def optional(self, place: int) -> Tensor | None:
        """The tensor at that place; None where nothing was given."""
        if not self.is_tensor(place):
            return None
        strides = None if self.strides is None else self.strides[place]
        return _tensor(self.dims[place], self.types[place], strides, place)

    def out(self, place: int) -> Tensor | None:
        """A tensor given to be written to; None where none was given, or one whose size is yet to be set."""
        found = self.optional(place)
        return found if found is not None and found.count else None

    def all_tensors(self) -> Iterator[tuple[int, Tensor]]:
        """Every tensor that was given, with its place."""
        for place in range(len(self.types)):
            if self.is_tensor(place):
                yield place, self.tensor(place)

    def tensors(self, place: int, of_type: str) -> list[Tensor]:
        """The list of tensors at that ``place``; ``of_type``, as a trace has their dims only."""
        if place >= len(self.types) or self.types[place] != "TensorList":
            raise Unknown(f"argument {place} is no list of tensors")
        listed: Any = self.dims[place]
        if not isinstance(listed, list) or not listed or not all(isinstance(dims, list) for dims in listed):
            raise Unknown("the tensors of a list are not recorded")
        strides: Any = None if self.strides is None else self.strides[place]
        if not isinstance(strides, list) or len(strides) != len(listed):
            strides = [None] * len(listed)
        return [_tensor(dims, of_type, of_it, place) for dims, of_it in zip(listed, strides, strict=True)]

    def given(self, place: int) -> bool:
        """Whether there is anything at that place."""
        return self.is_tensor(place) or self.text(place) not in ("", "None")

    def text(self, place: int) -> str:
        """The argument at that place as the trace writes it; empty where it has none."""
        if self.scalars and len(self.scalars) != len(self.types):
            raise Unknown("dims and scalars do not fit")
        value = self.scalars[place] if 0 <= place < len(self.scalars) else ""
        return value.strip() if isinstance(value, str) else str(value)

    def told(self, place: int) -> bool | None:
        """The truth value at that place; None where the trace does not have it."""
        return None if self.text(place) in ("", "None") else self.flag(place)

    def flag(self, place: int, default: bool | None = None) -> bool:
        """The truth value at that ``place``; ``default`` where nothing was given."""
        text = self.text(place)
        if text in ("True", "1"):
            return True
        if text in ("False", "0"):
            return False
        if not self._is_empty(place, default is not None) or default is None:
            raise Unknown(f"argument {place} is not recorded as true or false")
        return default

    def integer(self, place: int, default: int | None = None) -> int:
        """The whole number at that ``place``; ``default`` where nothing was given."""
        text = self.text(place)
        if self._is_empty(place, default is not None) and default is not None:
            return default
        try:
            value = int(text)
        except ValueError:
            raise Unknown(f"argument {place} is not recorded as a whole number") from None
        if abs(value) > MOST:
            raise Unknown(f"argument {place} is beyond what a whole number may be")
        return value

    def size(self, place: int) -> int:
        """A whole number above zero."""
        value = self.integer(place)
        if value < 1:
            raise Unknown(f"argument {place} is no size")
        return value

    def number(self, place: int, default: float | None = None) -> float:
        """The number at that ``place``; ``default`` where nothing was given."""
        text = self.text(place)
        try:
            return float(text)
        except ValueError:
            if not self._is_empty(place, default is not None) or default is None:
                raise Unknown(f"argument {place} is not recorded as a number") from None
            return default

    def listed(self, place: int, default: Sequence[Any] | None = None) -> list[Any]:
        """The list of numbers or truth values at that ``place``; ``default`` where nothing was given."""
        text = self.text(place)
        if self._is_empty(place, default is not None):
            if default is None:
                raise Unknown(f"argument {place} is not recorded")
            return list(default)
        try:
            values = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            raise Unknown(f"argument {place} cannot be read as a list") from None
        if isinstance(values, int | float):
            values = [values]
        if not isinstance(values, list | tuple) or not all(isinstance(value, int | float) for value in values):
            raise Unknown(f"argument {place} cannot be read as a list")
        return list(values)

    def integers(self, place: int, default: Sequence[int] | None = None) -> list[int]:
        """The list of whole numbers at that ``place``; ``default`` where nothing was given."""
        values = self.listed(place, default)
        if not all(type(value) is int and abs(value) <= MOST for value in values):
            raise Unknown(f"argument {place} cannot be read as whole numbers")
        return values

    def _is_empty(self, place: int, has_default: bool) -> bool:
        """Whether nothing was given at that place, so that the default counts."""
        nothing = self.text(place) in ("", "None")
        # A number that is given has a text in recordings that have texts.
        is_lost = place < len(self.types) and (not self.scalars or self.types[place] in ("Scalar", "ScalarList"))
        if nothing and has_default and is_lost:
            self.supposed.add(place)
        return nothing

    def dim_of(self, tensor: Tensor, place: int) -> int:
        """The dim of a tensor that is asked for at that ``place``, counted from the first."""
        count = max(len(tensor.dims), 1)
        if count == 1 and not self.text(place):
            return 0  # there is no other
        dim = self.integer(place)
        if not -count <= dim < count:
            raise Unknown("the tensor has no such dim")
        return dim % count

    def type_at(self, place: int, default: str) -> str:
        """The type that is asked for at that ``place`` by its number; ``default`` where none is."""
        code = self.integer(place, -1)
        return default if code < 0 else element_types.by_code(code)


def alike(first: Tensor, *others: Tensor | None) -> None:
    """Raises ``Unknown`` unless all that are there have the same dims."""
    if any(other is not None and other.dims != first.dims for other in others):
        raise Unknown("the dims of tensors that belong to each other differ")


def of_rank(tensor: Tensor, *ranks: int) -> None:
    """Raises ``Unknown`` unless the tensor has one of these numbers of dims."""
    if len(tensor.dims) not in ranks:
        raise Unknown("the tensor has another number of dims than the operator takes")


def of_size(count: int, *tensors: Tensor | None) -> None:
    """Raises ``Unknown`` unless all that are there have so many elements; one without elements is not there."""
    if any(tensor is not None and tensor.count not in (0, count) for tensor in tensors):
        raise Unknown("what belongs to each channel, row or group is not as many")


def _tensor(dims: Any, kind: str, strides: Any, place: int) -> Tensor:
    if not _are_whole(dims):
        raise Unknown(f"the dims of argument {place} cannot be read")
    if any(size < 0 for size in dims):
        raise Unknown(f"argument {place} has a negative size")
    if prod(dims) > MOST:
        raise Unknown(f"argument {place} has too many elements")
    # Those of torch are never negative.
    if strides is not None and (not _are_whole(strides) or len(strides) != len(dims) or min(strides, default=0) < 0):
        raise Unknown(f"the strides of argument {place} do not fit its dims")
    return Tensor(tuple(dims), kind, None if strides is None else tuple(strides))


def _are_whole(values: Any) -> bool:
    return isinstance(values, list | tuple) and all(type(value) is int for value in values)


def read(name: str, dims: Any, types: Any, strides: Any = None, scalars: Any = None) -> Arguments:
    """The arguments of a call, from lists or from JSON text; raises ``Unknown`` where they cannot be read."""
    dims, types = _list(dims, "dims"), _list(types, "types")
    if dims is None:
        raise Unknown("shapes are not recorded")
    if types is None:
        raise Unknown("types are not recorded")
    strides, scalars = _list(strides, "strides"), _list(scalars, "scalars")
    if len(dims) != len(types) or not all(isinstance(kind, str) for kind in types):
        raise Unknown("dims and types do not fit")
    if strides is not None and len(strides) != len(dims):
        raise Unknown("dims and strides do not fit")
    return Arguments(name, dims, types, strides, scalars or [])


def listed(text: str | None) -> list[Any]:
    """The list that a text holds as JSON; an empty one where it holds none."""
    try:
        return _list(text, "arguments") or []
    except Unknown:
        return []


def _list(value: Any, what: str) -> list[Any] | None:
    if value is None or value == "":
        return None
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise Unknown(f"{what} cannot be read") from None
    if not isinstance(value, list | tuple):
        raise Unknown(f"{what} cannot be read")
    return list(value)
