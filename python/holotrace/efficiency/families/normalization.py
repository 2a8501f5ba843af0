"""Norms: of layers, batches, groups, by root mean square; forward and backward."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from holotrace.efficiency import element_types
from holotrace.efficiency.arguments import Arguments, Tensor, alike, of_size
from holotrace.efficiency.families.vector_kernels import rms_flops
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

# Mean, square, sum, subtract and scale of each element.
_PER_ELEMENT = 5


def _rows(x: Tensor, normalized: Sequence[int]) -> int:
    """How many times the norm is taken: over the last dims."""
    count = len(normalized)
    if not count or list(x.dims[-count:]) != list(normalized):
        raise Unknown("the dims are not those that the norm is taken over")
    return x.count // prod(normalized)


def _normalized(a: Arguments, weight: Tensor | None) -> Sequence[int]:
    """The dims that the norm is taken over, which are those of its weight."""
    return weight.dims if weight is not None and not a.scalars else a.integers(1)


def _statistics(x: Tensor, count: int) -> Tensor:
    """Means or deviations, which are kept in the type that sums have."""
    return x.like((count,), element_types.accumulated(x.type))


@model(
    "layer norm",
    "norm",
    r"aten::(native_)?layer_norm",
    flops="5 an element",
    moved="input, weights, result; mean and deviation of each row",
)
def layer(a: Arguments) -> Figures:
    x, weight, bias = a.tensor(0), a.optional(2), a.optional(3)
    normalized = _normalized(a, weight)
    kept = _statistics(x, _rows(x, normalized))
    alike(x.like(normalized), weight, bias)
    return Figures(_PER_ELEMENT * x.count, total_bytes(x, weight, bias, x.like(), kept, kept))


@model(
    "layer norm, backward",
    "norm",
    r"aten::native_layer_norm_backward",
    moved="gradient, input, statistics, weight, and the gradients asked for",
)
def layer_backward(a: Arguments) -> Figures:
    """grad, input, normalized shape, mean, rstd, weight, bias, output mask."""
    grad, x, weight, bias = a.tensor(0), a.tensor(1), a.optional(5), a.optional(6)
    of_input, of_weight, of_bias = _mask(a, 7, 3)
    normalized = _of_gradients(a, weight)
    alike(x, grad)
    alike(x.like(normalized), weight, bias)
    of_size(_rows(x, normalized), a.optional(3), a.optional(4))
    width = prod(normalized)
    like = weight or bias or x
    moved = total_bytes(grad, x, a.optional(3), a.optional(4), weight)
    moved += of_input * x.like().bytes + (of_weight + of_bias) * like.like((width,)).bytes
    return Figures(None, moved)


@model(
    "RMS norm",
    "norm",
    r"aten::(_fused_rms_norm|rms_norm)",
    flops="4 an element",
    moved="input, weight, result; deviation of each row",
)
def root_mean_square(a: Arguments) -> Figures:
    x, weight = a.tensor(0), a.optional(2)
    normalized = _normalized(a, weight)
    kept = _statistics(x, _rows(x, normalized))
    alike(x.like(normalized), weight)
    return Figures(rms_flops(x), total_bytes(x, weight, x.like(), kept))


@model(
    "RMS norm, backward",
    "norm",
    r"aten::_fused_rms_norm_backward",
    moved="gradient, input, statistics, weight, and the gradients asked for",
)
def root_mean_square_backward(a: Arguments) -> Figures:
    """grad, input, normalized shape, rstd, weight, output mask."""
    grad, x, weight = a.tensor(0), a.tensor(1), a.optional(4)
    of_input, of_weight = _mask(a, 5, 2)
    normalized = _of_gradients(a, weight)
    alike(x, grad)
    alike(x.like(normalized), weight)
    of_size(_rows(x, normalized), a.optional(3))
    moved = total_bytes(grad, x, a.optional(3), weight) + of_input * x.like().bytes
    return Figures(None, moved + of_weight * (weight or x).like(normalized).bytes)


def _of_gradients(a: Arguments, weight: Tensor | None) -> tuple[int, ...]:
    """The dimensions that are normalized, of an operator of gradients."""
    return tuple(weight.dims if weight is not None and not a.scalars else a.integers(2))


def _mask(a: Arguments, place: int, count: int) -> list[bool]:
    mask = [bool(one) for one in a.listed(place, None if a.scalars else [True] * count)]
    if len(mask) != count:
        raise Unknown("which gradients are asked for cannot be read")
    return mask


@model(
    "batch norm",
    "norm",
    r"aten::(native_batch_norm|batch_norm|cudnn_batch_norm|miopen_batch_norm|_native_batch_norm_legit(_functional)?"
    r"|_native_batch_norm_legit_no_training|_batch_norm_with_update(_functional)?|_batch_norm_no_update|_batch_norm_impl_index)",
    flops="5 an element in training, 2 in inference",
    moved="input, weights, result; in training running statistics twice, and those of the batch",
)
def batch(a: Arguments) -> Figures:
    """x, weight, bias, (running mean and variance,) training, momentum, eps."""
    x, running = a.tensor(0), [a.optional(3), a.optional(4)]
    if len(x.dims) < 2:
        raise Unknown("the dims are not those of a batch of channels")
    of_size(x.dims[1], a.optional(1), a.optional(2), *(running if not a.text(3) else ()))
    always = "_with_update" in a.name
    never = "_no_update" in a.name or "_no_training" in a.name
    without_running = a.name.endswith("_legit") and a.text(3) in ("True", "False")
    training = always or (not never and a.flag(3 if without_running else 5, True))
    moved = total_bytes(x, a.optional(1), a.optional(2), *running, x.like())
    if not training:
        return Figures(2 * x.count, moved)
    kept = _statistics(x, x.dims[1])
    return Figures(_PER_ELEMENT * x.count, moved + total_bytes(*running, kept, kept))


@model(
    "batch norm, backward",
    "norm",
    r"aten::(native_)?batch_norm_backward",
    moved="gradient, input, statistics, weight, and the gradients asked for",
)
def batch_backward(a: Arguments) -> Figures:
    """grad, input, weight, running mean and variance, those of the batch, training, eps, output mask."""
    grad, x, weight = a.tensor(0), a.tensor(1), a.optional(2)
    statistics = [a.optional(place) for place in ((5, 6) if a.flag(7, True) else (3, 4))]
    of_input, of_weight, of_bias = _mask(a, 9, 3)
    alike(x, grad)
    of_size(x.dims[1], weight, *statistics)
    moved = total_bytes(grad, x, weight, *statistics) + of_input * x.like().bytes
    moved += (of_weight + of_bias) * (weight or _statistics(x, 1)).like((x.dims[1],)).bytes
    return Figures(None, moved)


@model(
    "batch norm of a library, backward",
    "norm",
    r"aten::(cudnn|miopen)_batch_norm_backward",
    moved="gradient, input, statistics, weight, and all gradients",
)
def library_backward(a: Arguments) -> Figures:
    """input, grad, weight, running mean and variance, those of the batch, eps, …"""
    x, grad, weight = a.tensor(0), a.tensor(1), a.tensor(2)
    alike(x, grad)
    of_size(x.dims[1], weight, a.optional(5), a.optional(6))
    moved = total_bytes(x, grad, weight, a.optional(5), a.optional(6), x.like(), weight.like(), weight.like())
    return Figures(None, moved)


@model(
    "batch norm in parts",
    "norm",
    r"aten::batch_norm_(stats|elemt|backward_reduce|backward_elemt|gather_stats(_with_counts)?|update_stats)",
    moved="all its tensors once, and the result",
)
def batch_parts(a: Arguments) -> Figures:
    given = [tensor for _, tensor in a.all_tensors()]
    written = given[0].like() if given and "elemt" in a.name else None
    return Figures(None, total_bytes(*given, written), "results of the size of channels are not counted")


@model(
    "group norm",
    "norm",
    r"aten::native_group_norm",
    flops="5 an element",
    moved="input, weights, result; mean and deviation of each group",
)
def group(a: Arguments) -> Figures:
    """x, weight, bias, N, C, HxW, groups, eps."""
    x, weight = a.tensor(0), a.optional(1)
    if not a.scalars:
        of_size(x.dims[1], weight, a.optional(2))
        moved = total_bytes(x, weight, a.optional(2), x.like())
        return Figures(_PER_ELEMENT * x.count, moved, "mean and deviation of groups are not counted")
    # Kept in the weights' type where it is another than the input's.
    kind = weight.type if weight is not None else x.type
    kept = x.like((a.size(3), a.size(6)), kind)
    _grouped(x, a.size(3), a.size(4), a.size(5))
    of_size(a.size(4), weight, a.optional(2))
    return Figures(_PER_ELEMENT * x.count, total_bytes(x, weight, a.optional(2), x.like(), kept, kept))


def _grouped(x: Tensor, *sizes: int) -> None:
    """Raises ``Unknown`` unless the input is of as many images, channels, and elements of each."""
    if (*x.dims[:2], prod(x.dims[2:])) != sizes:
        raise Unknown("the dims are not those of a batch of channels")


@model(
    "group or instance norm",
    "norm",
    r"aten::(group_norm|instance_norm)|aiter::_groupnorm_run",
    flops="5 an element",
    moved="input, weights and result",
)
def group_outside(a: Arguments) -> Figures:
    x = a.tensor(0)
    weights = [a.optional(place) for place in ((1, 2) if a.name == "aten::instance_norm" else (2, 3))]
    return Figures(_PER_ELEMENT * x.count, total_bytes(x, *weights, x.like()))


@model(
    "group norm, backward",
    "norm",
    r"aten::native_group_norm_backward",
    moved="gradient, input, statistics, weight, and the gradients asked for",
)
def group_backward(a: Arguments) -> Figures:
    """grad, input, mean, rstd, weight, N, C, HxW, groups, output mask."""
    grad, x, weight = a.tensor(0), a.tensor(1), a.optional(4)
    of_input, of_weight, of_bias = _mask(a, 9, 3)
    alike(x, grad)
    if a.given(5):
        _grouped(x, a.size(5), a.size(6), a.size(7))
    channels = x.dims[1]
    of_size(a.size(5) * a.size(8) if a.scalars else a.tensor(2).count, a.optional(2), a.optional(3))
    of_size(channels, weight)
    moved = total_bytes(grad, x, a.optional(2), a.optional(3), weight) + of_input * x.like().bytes
    moved += (of_weight + of_bias) * (weight or x).like((channels,)).bytes
    return Figures(None, moved)


@model(
    "weights by direction and length",
    "norm",
    r"aten::_weight_norm_interface(_backward)?",
    flops="3 an element",
    moved="directions, lengths and the result; backward all its tensors and both gradients",
)
def weights(a: Arguments) -> Figures:
    """v, g, dim; or grad, v, g, norms, dim."""
    if a.name.endswith("backward"):
        grad, v, g, norms = (a.tensor(place) for place in range(4))
        return Figures(3 * v.count, total_bytes(grad, v, g, norms, v.like(), g.like()))
    v, g = a.tensor(0), a.tensor(1)
    if a.given(2):
        of_size(v.dims[a.dim_of(v, 2)], g)
    return Figures(3 * v.count, total_bytes(v, g, v.like(), _statistics(g, g.count)))
