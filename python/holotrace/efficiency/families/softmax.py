"""Softmax and its logarithm, forward and backward."""

from __future__ import annotations

from holotrace.efficiency.arguments import Arguments
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

_OPERATIONS = 4  # of each element: subtract, exponentiate, sum, divide; backward: multiply, sum, subtract, multiply


@model("softmax", "reduction", r"aten::_(log_)?softmax", flops="4 an element", moved="input and result")
def forward(a: Arguments) -> Figures:
    """self, dim, half_to_float."""
    x = a.tensor(0)
    if a.given(1):
        a.dim_of(x, 1)
    out = a.out(3) or x.like(type="float" if a.flag(2, False) else x.type)
    return Figures(_OPERATIONS * x.count, total_bytes(x, out))


@model(
    "softmax, as called",
    "reduction",
    r"aten::(log_)?softmax|aten::special_(log_)?softmax",
    flops="4 an element",
    moved="input and result",
)
def called(a: Arguments) -> Figures:
    """self, dim, type."""
    x = a.tensor(0)
    return Figures(_OPERATIONS * x.count, total_bytes(x, x.like(type=a.type_at(2, x.type))))


@model("safe softmax", "reduction", r"aten::_safe_softmax", flops="4 an element", moved="input and result")
def safe(a: Arguments) -> Figures:
    x = a.tensor(0)
    return Figures(_OPERATIONS * x.count, total_bytes(x, x.like(type=a.type_at(2, x.type))))


@model("masked softmax", "reduction", r"aten::_masked_softmax", flops="4 an element", moved="input, mask and result")
def masked(a: Arguments) -> Figures:
    x = a.tensor(0)
    return Figures(_OPERATIONS * x.count, total_bytes(x, a.tensor(1), x.like()))


@model(
    "masked softmax, backward",
    "reduction",
    r"aten::_masked_softmax_backward",
    flops="4 an element",
    moved="gradient, result, mask and the new gradient",
)
def masked_backward(a: Arguments) -> Figures:
    grad, out = a.tensor(0), a.tensor(1)
    return Figures(_OPERATIONS * out.count, total_bytes(grad, out, a.tensor(2), grad.like()))


@model(
    "softmax, backward",
    "reduction",
    r"aten::_(log_)?softmax_backward_data",
    flops="4 an element",
    moved="gradient, result and the new gradient",
)
def backward(a: Arguments) -> Figures:
    """grad, output, dim, type of the input."""
    grad, out = a.tensor(0), a.tensor(1)
    if grad.dims != out.dims:
        raise Unknown("gradient and result have not the same dims")
    if a.given(2):
        a.dim_of(out, 2)
    written = a.out(4) or out.like(type=a.type_at(3, grad.type))
    return Figures(_OPERATIONS * out.count, total_bytes(grad, out, written))
