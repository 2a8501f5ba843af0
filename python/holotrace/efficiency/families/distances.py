"""Distances between the points of two sets, or of one."""

from __future__ import annotations

from math import prod

from holotrace.efficiency.arguments import Arguments, Tensor
from holotrace.efficiency.families.gemm import broadcast
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

_FLOPS = "3 an element of each pair"


def _of_two_sets(x: Tensor, other: Tensor) -> tuple[int, Tensor]:
    """Operations, and the distances [..., P, R] of [..., P, M] and [..., R, M]."""
    if len(x.dims) < 2 or len(other.dims) < 2 or x.dims[-1] != other.dims[-1]:
        raise Unknown("the dims are not those of two sets of points")
    dims = (*broadcast(x.dims[:-2], other.dims[:-2]), x.dims[-2], other.dims[-2])
    return 3 * prod(dims) * x.dims[-1], x.like(dims)


def _of_one_set(x: Tensor) -> tuple[int, Tensor]:
    """Operations, and the distances [N·(N-1)/2] of [N, M]."""
    if len(x.dims) != 2:
        raise Unknown("the dims are not those of a set of points")
    pairs = x.dims[0] * (x.dims[0] - 1) // 2
    return 3 * pairs * x.dims[1], x.like((pairs,))


def _backward(grad: Tensor, x: Tensor, kept: Tensor, figures: tuple[int, Tensor], other: Tensor | None) -> Figures:
    flops, distances = figures
    if grad.count != distances.count or kept.count != distances.count:
        raise Unknown("the gradient has not the dims of the distances")
    return Figures(flops, total_bytes(grad, x, other, kept, x.like()))


@model(
    "distances of all pairs",
    "reduction",
    r"aten::_cdist_forward",
    flops=_FLOPS,
    moved="both inputs and a distance for each pair",
)
def of_two_sets(a: Arguments) -> Figures:
    """x, other."""
    x, other = a.tensor(0), a.tensor(1)
    flops, distances = _of_two_sets(x, other)
    return Figures(flops, total_bytes(x, other, distances))


@model(
    "distances of all pairs, backward",
    "reduction",
    r"aten::_cdist_backward",
    flops=_FLOPS,
    moved="gradient, both inputs, the distances, and the gradient of the first input",
)
def of_two_sets_backward(a: Arguments) -> Figures:
    """grad, x, other, order, distances."""
    x, other = a.tensor(1), a.tensor(2)
    return _backward(a.tensor(0), x, a.tensor(4), _of_two_sets(x, other), other)


@model(
    "distances in a set",
    "reduction",
    r"aten::_pdist_forward",
    flops=_FLOPS,
    moved="input and a distance for each pair",
)
def of_one_set(a: Arguments) -> Figures:
    flops, distances = _of_one_set(a.tensor(0))
    return Figures(flops, total_bytes(a.tensor(0), distances))


@model(
    "distances in a set, backward",
    "reduction",
    r"aten::_pdist_backward",
    flops=_FLOPS,
    moved="gradient, input, the distances, and the new gradient",
)
def of_one_set_backward(a: Arguments) -> Figures:
    """grad, x, order, distances."""
    x = a.tensor(1)
    return _backward(a.tensor(0), x, a.tensor(3), _of_one_set(x), None)
