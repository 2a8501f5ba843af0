"""How a model of a family of operators is declared: once, beside the code that computes it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from holotrace.efficiency.arguments import Arguments, Tensor


class Figures(NamedTuple):
    """What one call does: floating-point operations, and bytes to and from the device's memory at least.

    A figure that the arguments do not tell is None. ``assumed`` says what was taken for granted; with it, figures are
    estimates. ``is_partial`` says that they leave out what may be most of the work, so that no rate follows from them.
    ``type`` is that of the operands that are multiplied, if it is not the first tensor's.
    """

    flops: int | None
    moved_bytes: int | None
    assumed: str | None = None
    is_partial: bool = False
    type: str | None = None


@dataclass(frozen=True)
class OperatorModel:
    """The work of all operators whose names fit a pattern.

    Args:
        name: What the family is called.
        category: Which kind of work it is, e.g. gemm, attention, elementwise.
        pattern: A regular expression that fits the whole name of each operator of the family.
        work: From the arguments of a call to its figures; raises ``Unknown`` where they do not tell.
        flops: How its floating-point operations are counted, for readers.
        moved: How its bytes are counted, for readers.
        is_matrix: Whether it runs on matrix units, where a device has some.
    """

    name: str
    category: str
    pattern: str
    work: Callable[[Arguments], Figures]
    flops: str = ""
    moved: str = ""
    is_matrix: bool = False

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern)

    def fits(self, operator: str) -> bool:
        return self._compiled.fullmatch(operator) is not None


Declare = Callable[[Callable[[Arguments], Figures]], OperatorModel]


def model(
    name: str, category: str, pattern: str, *, flops: str = "", moved: str = "", is_matrix: bool = False
) -> Declare:
    """Declare the function below it as the model of a family."""
    return lambda work: OperatorModel(name, category, pattern, work, flops, moved, is_matrix)


def total_bytes(*tensors: Tensor | None) -> int:
    """Bytes of all of these that are there."""
    return sum(tensor.bytes for tensor in tensors if tensor is not None)


def joined(*texts: str | None) -> str | None:
    """What was assumed, as one text; None without any."""
    return "; ".join(text for text in texts if text) or None
