"""Sums, means, extremes and other values made of many elements."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from holotrace.efficiency import element_types
from holotrace.efficiency.arguments import Arguments, Tensor, alike
from holotrace.efficiency.families.gemm import broadcast
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

_FLOPS, _MOVED = "1 an element of the input", "input and result"


def _reduced(x: Tensor, over: Sequence[int]) -> tuple[int, ...]:
    """Dims of the result without those summed over; all of them are if none is named."""
    if any(not -max(len(x.dims), 1) <= dim < max(len(x.dims), 1) for dim in over):
        raise Unknown("the tensor has no such dim")
    gone = {dim % len(x.dims) for dim in over} if x.dims else set()
    return tuple(size for at, size in enumerate(x.dims) if at not in gone) if over else ()


def _figures(a: Arguments, over: Sequence[int], *kinds: str, behind: int) -> Figures:
    x = a.tensor(0)
    given = [t for p in range(behind, len(a)) if (t := a.out(p)) is not None]
    out = given or [x.like(_reduced(x, over), kind) for kind in kinds]
    return Figures(x.count, total_bytes(x, *out))


def _over(a: Arguments, place: int) -> list[int]:
    return a.integers(place, [])


@model("sum, mean, product", "reduction", r"aten::(sum|mean|prod|nansum|nanmean)", flops=_FLOPS, moved=_MOVED)
def sums(a: Arguments) -> Figures:
    """self, type; or self, dims, keepdim, type."""
    x, of_dims = a.tensor(0), len(a) > 2
    default = x.type
    if "mean" not in a.name and not element_types.is_floating(x.type):
        default = "long int"
    kind = a.type_at(3 if of_dims else 1, default)
    return _figures(a, _over(a, 1) if of_dims else [], kind, behind=2)


@model("extremes", "reduction", r"aten::(amax|amin|(special_)?logsumexp)", flops=_FLOPS, moved=_MOVED)
def extremes(a: Arguments) -> Figures:
    """self, dims, keepdim."""
    kind = a.tensor(0).type
    is_float = element_types.is_floating(kind) or not a.name.endswith("logsumexp")
    return _figures(a, _over(a, 1), kind if is_float else "float", behind=2)


@model(
    "extremes with their places",
    "reduction",
    r"aten::(max|min|median|nanmedian|mode|kthvalue|_aminmax|aminmax|cummax|cummin)",
    flops=_FLOPS,
    moved="input and result; places are of 8 bytes",
)
def with_places(a: Arguments) -> Figures:
    """self; or self, dim, keepdim; or self and another, of which the greater elements are taken."""
    x = a.tensor(0)
    base = a.name.split("::")[1]
    if base in ("max", "min") and a.is_tensor(1) and len(a) < 4:
        return _greater(a, x)
    if "cum" in base:
        if a.given(1):
            a.dim_of(x, 1)
        return Figures(x.count, total_bytes(x, x.like(), x.like(type="long int")))
    if "aminmax" in base:
        return _figures(a, _over(a, 1), x.type, x.type, behind=3)
    if len(a) == 1 or (len(a) == 2 and not a.text(1)):
        return _figures(a, [], x.type, behind=1)
    place = 2 if base == "kthvalue" else 1
    return _figures(a, [a.integer(place, -1)], x.type, "long int", behind=place + 1)


def _greater(a: Arguments, x: Tensor) -> Figures:
    other = a.tensor(1)
    # A single number to be written to is not compared with.
    if not other.dims and x.dims:
        return Figures(x.count, total_bytes(x, other))
    kind = element_types.promoted([(x.type, len(x.dims)), (other.type, len(other.dims))])
    out = a.out(2) or x.like(broadcast(x.dims, other.dims), kind)
    return Figures(out.count, total_bytes(x, other, out))


@model("places of extremes", "reduction", r"aten::(argmax|argmin)", flops=_FLOPS, moved="input and places of 8 bytes")
def places(a: Arguments) -> Figures:
    over = [] if a.text(1) in ("", "None") else [a.integer(1)]
    return _figures(a, over, "long int", behind=3)


@model("hash", "reduction", r"aten::hash_tensor", moved="input and hashes of 8 bytes")
def hashed(a: Arguments) -> Figures:
    """self, dims, keepdim, kind of hash."""
    return _figures(a, _over(a, 1), "long int", behind=4)._replace(flops=None)


@model("all, any", "reduction", r"aten::(all|any)", flops=_FLOPS, moved=_MOVED)
def all_or_any(a: Arguments) -> Figures:
    over = _over(a, 1) if len(a) > 1 and not a.is_tensor(1) else []
    return _figures(a, over, "bool", behind=1)


@model("variance", "reduction", r"aten::(var|std|var_mean|std_mean)", flops="3 an element of the input", moved=_MOVED)
def variance(a: Arguments) -> Figures:
    """self, unbiased; or self, dims, correction, keepdim."""
    x = a.tensor(0)
    kinds = [element_types.real(x.type), *([x.type] if a.name.endswith("_mean") else [])]
    figures = _figures(a, _over(a, 1) if len(a) > 2 else [], *kinds, behind=4)
    return figures._replace(flops=3 * x.count)


@model(
    "norm",
    "reduction",
    r"aten::(norm|linalg_vector_norm|linalg__powsum|frobenius_norm)",
    flops="2 an element of the input",
    moved=_MOVED,
)
def norm(a: Arguments) -> Figures:
    """self, order, dims, keepdim, type; self, order, type; or self, dims, keepdim."""
    x = a.tensor(0)
    of_all = a.name.endswith("::norm") and a.text(2).isdigit()
    kind = element_types.real(a.type_at(2 if of_all else 4, x.type))
    over = [] if of_all else _over(a, 1 if a.name.endswith("frobenius_norm") else 2)
    return _figures(a, over, kind, behind=3)._replace(flops=2 * x.count)


@model("distance", "reduction", r"aten::dist", flops="3 an element", moved="both inputs and one number")
def distance(a: Arguments) -> Figures:
    x, other = a.tensor(0), a.tensor(1)
    count = prod(broadcast(x.dims, other.dims))
    return Figures(3 * count, total_bytes(x, other, x.like((), element_types.real(x.type))))


@model(
    "sums of segments",
    "reduction",
    r"aten::segment_reduce",
    flops="1 an element of the input",
    moved="input, lengths or ends of the segments, and the result",
)
def of_segments(a: Arguments) -> Figures:
    """self, what is done, lengths, numbers, ends; the segments are those of the last dim of lengths or ends."""
    x, lengths = a.tensor(0), a.optional(2)
    bounds = lengths or a.tensor(4)
    if not bounds.dims or bounds.dims[:-1] != x.dims[: len(bounds.dims) - 1]:
        raise Unknown("the segments do not fit what is summed")
    dims = (*bounds.dims[:-1], bounds.dims[-1] - (not lengths), *x.dims[len(bounds.dims) :])
    return Figures(x.count, total_bytes(x, bounds, x.like(dims)))


@model(
    "sums of segments, backward",
    "reduction",
    r"aten::_segment_reduce_backward",
    flops="1 an element of the gradient",
    moved="gradient, result, input, lengths or ends of the segments, and the new gradient",
)
def of_segments_backward(a: Arguments) -> Figures:
    """grad, result, self, what is done, lengths, ends."""
    grad, result, x = a.tensor(0), a.tensor(1), a.tensor(2)
    alike(grad, result)
    return Figures(x.count, total_bytes(grad, result, x, a.optional(4) or a.tensor(5), x.like()))


@model("running sum", "reduction", r"aten::_?(cumsum|cumprod|logcumsumexp)_?", flops=_FLOPS, moved=_MOVED)
def running(a: Arguments) -> Figures:
    x = a.tensor(0)
    if a.given(1):
        a.dim_of(x, 1)
    default = x.type if element_types.is_floating(x.type) else "long int"
    out = x if a.name.endswith("_") else a.out(3) or x.like(type=a.type_at(2, default))
    return Figures(x.count, total_bytes(x, out))


@model(
    "running extremes into given tensors",
    "reduction",
    r"aten::_cum(max|min)_helper",
    flops=_FLOPS,
    moved="input, result and places of 8 bytes",
)
def running_extremes(a: Arguments) -> Figures:
    """self, values, places, dim."""
    x = a.tensor(0)
    return Figures(x.count, total_bytes(x, a.tensor(1), a.tensor(2)))


@model("trace", "reduction", r"aten::trace", flops="1 an element of the diagonal", moved="the diagonal and one number")
def diagonal(a: Arguments) -> Figures:
    x = a.tensor(0)
    if len(x.dims) != 2:
        raise Unknown("the dims are not those of a matrix")
    default = x.type if element_types.is_floating(x.type) else "long int"
    return Figures(min(x.dims), min(x.dims) * x.element_bytes + x.like((), default).bytes)


@model(
    "count",
    "reduction",
    r"aten::(count_nonzero|bincount|histc|_histogramdd\w*|unique\w*|_unique2?|unique_dim)",
    moved="input only",
)
def count(a: Arguments) -> Figures:
    return Figures(None, a.tensor(0).bytes, "the result is not counted")


@model(
    "elements among others", "reduction", r"aten::isin", moved="both inputs, and a bool for each element of the first"
)
def among(a: Arguments) -> Figures:
    x, other = a.tensor(0), a.tensor(1)
    return Figures(None, total_bytes(x, other, x.like(type="bool")))


@model("equality", "reduction", r"aten::(equal|allclose|is_same_size)", flops="1 an element", moved="both inputs")
def equal(a: Arguments) -> Figures:
    x, other = a.tensor(0), a.tensor(1)
    return Figures(x.count, total_bytes(x, other))
