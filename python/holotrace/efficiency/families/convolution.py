"""Convolutions of one to three dims: forward, transposed and backward, with groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from holotrace.efficiency.arguments import Arguments, Tensor, of_size
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

_FLOPS = "2·weights·batch·output positions; of input positions if transposed"
_MOVED = "input, weights, bias and result"
_UNARY = 10  # arguments of a convolution of oneDNN that takes no other tensor


@dataclass(frozen=True)
class _How:
    """Stride, padding and so on, one number for each spatial dim."""

    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    groups: int
    transposed: bool = False
    output_padding: Sequence[int] = (0,)


def _each(values: Sequence[int], dims: int) -> list[int]:
    if len(values) == dims:
        return list(values)
    if len(values) == 1:
        return list(values) * dims
    raise Unknown("stride, padding or dilation do not fit the dims")


def _output(x: Tensor, weight: Tensor, how: _How) -> tuple[int, ...]:
    """Dims of the result."""
    spatial = len(x.dims) - 2
    if spatial not in (1, 2, 3) or len(weight.dims) != len(x.dims) or how.groups < 1:
        raise Unknown("the dims are not those of a convolution")
    stride, dilation = _each(how.stride, spatial), _each(how.dilation, spatial)
    padding, extra = _each(how.padding, spatial), _each(how.output_padding, spatial)
    if min(stride) < 1 or min(dilation) < 1 or min(padding) < 0:
        raise Unknown("stride, padding or dilation are not those of a convolution")
    sizes = []
    for at, (size, kernel) in enumerate(zip(x.dims[2:], weight.dims[2:], strict=True)):
        reach = dilation[at] * (kernel - 1)
        if how.transposed:
            sizes.append((size - 1) * stride[at] - 2 * padding[at] + reach + 1 + extra[at])
        else:
            sizes.append((size + 2 * padding[at] - reach - 1) // stride[at] + 1)
    if min(sizes) < 1:
        raise Unknown("the result of the convolution would be empty")
    channels = weight.dims[1] * how.groups if how.transposed else weight.dims[0]
    inner = weight.dims[0] if how.transposed else weight.dims[1] * how.groups
    if inner != x.dims[1]:
        raise Unknown("the channels of input and weights do not fit")
    return (x.dims[0], channels, *sizes)


def _flops(x: Tensor, weight: Tensor, out: Sequence[int], transposed: bool) -> int:
    positions = prod(x.dims[2:]) if transposed else prod(out[2:])
    return 2 * weight.count * x.dims[0] * positions


def _forward(x: Tensor, weight: Tensor, how: _How, *others: Tensor | None, may_be_alone: bool = False) -> Figures:
    alone = may_be_alone and len(x.dims) == len(weight.dims) - 1
    # Without a batch there is one.
    batch = Tensor((1, *x.dims), x.type, None if x.strides is None else (x.count, *x.strides)) if alone else x
    out = _output(batch, weight, how)
    of_size(out[1], *(other for other in others if other is not None and len(other.dims) == 1))
    return Figures(_flops(batch, weight, out, how.transposed), total_bytes(batch, weight, *others, batch.like(out)))


@model(
    "convolution",
    "convolution",
    r"aten::(_?convolution|convolution_overrideable)",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def convolution(a: Arguments) -> Figures:
    how = _How(a.integers(3), a.integers(4), a.integers(5), a.integer(8), a.flag(6), a.integers(7))
    return _forward(a.tensor(0), a.tensor(1), how, _bias(a))


def _bias(a: Arguments) -> Tensor | None:
    bias = a.optional(2)
    if bias is not None and len(bias.dims) != 1:
        raise Unknown("the dims are not those of a bias")
    return bias


@model("convolution by dims", "convolution", r"aten::conv[123]d", flops=_FLOPS, moved=_MOVED, is_matrix=True)
def by_dims(a: Arguments) -> Figures:
    x, weight = a.tensor(0), a.tensor(1)
    stride, dilation = a.integers(3, [1]), a.integers(5, [1])
    padding = _named_padding(a, weight, dilation)
    how = _How(stride, padding, dilation, a.integer(6, 1))
    return _forward(x, weight, how, _bias(a), may_be_alone=True)


def _named_padding(a: Arguments, weight: Tensor, dilation: Sequence[int]) -> list[int]:
    name = a.text(4)
    if name == "valid":
        return [0]
    if name == "same":
        reach = [d * (k - 1) for d, k in zip(_each(dilation, len(weight.dims) - 2), weight.dims[2:], strict=True)]
        if any(one % 2 for one in reach):
            raise Unknown("the padding differs between both ends")
        return [one // 2 for one in reach]
    return a.integers(4, [0])


@model(
    "transposed convolution by dims",
    "convolution",
    r"aten::conv_transpose[123]d",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def transposed_by_dims(a: Arguments) -> Figures:
    how = _How(a.integers(3, [1]), a.integers(4, [0]), a.integers(7, [1]), a.integer(6, 1), True, a.integers(5, [0]))
    return _forward(a.tensor(0), a.tensor(1), how, _bias(a), may_be_alone=True)


@model("convolution of cuDNN", "convolution", r"aten::cudnn_convolution", flops=_FLOPS, moved=_MOVED, is_matrix=True)
def cudnn(a: Arguments) -> Figures:
    """self, weight, padding, stride, dilation, groups; older ones have a bias before."""
    first = 2 if a.text(2).startswith(("[", "(")) else 3
    how = _How(a.integers(first + 1), a.integers(first), a.integers(first + 2), a.integer(first + 3))
    return _forward(a.tensor(0), a.tensor(1), how, a.optional(2))


@model(
    "transposed convolution of cuDNN",
    "convolution",
    r"aten::cudnn_convolution_transpose",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def cudnn_transposed(a: Arguments) -> Figures:
    """self, weight, padding, output_padding, stride, dilation, groups."""
    how = _How(a.integers(4), a.integers(2), a.integers(5), a.integer(6), True, a.integers(3))
    return _forward(a.tensor(0), a.tensor(1), how)


@model(
    "convolution of MIOpen or oneDNN",
    "convolution",
    r"aten::(miopen_convolution|miopen_depthwise_convolution|mkldnn_convolution)",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def miopen(a: Arguments) -> Figures:
    """self, weight, bias, padding, stride, dilation, groups."""
    how = _How(a.integers(4), a.integers(3), a.integers(5), a.integer(6))
    return _forward(a.tensor(0), a.tensor(1), how, a.optional(2))


@model(
    "transposed convolution of MIOpen",
    "convolution",
    r"aten::miopen_convolution_transpose",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def miopen_transposed(a: Arguments) -> Figures:
    """self, weight, bias, padding, output_padding, stride, dilation, groups."""
    how = _How(a.integers(5), a.integers(3), a.integers(6), a.integer(7), True, a.integers(4))
    return _forward(a.tensor(0), a.tensor(1), how, a.optional(2))


@model(
    "convolution with ReLU",
    "convolution",
    r"aten::(cudnn|miopen)_convolution_relu",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def with_relu(a: Arguments) -> Figures:
    """self, weight, bias, stride, padding, dilation, groups."""
    how = _How(a.integers(3), a.integers(4), a.integers(5), a.integer(6))
    return _forward(a.tensor(0), a.tensor(1), how, a.optional(2))


@model(
    "convolution with sum and ReLU",
    "convolution",
    r"aten::(cudnn|miopen)_convolution_add_relu",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def with_sum(a: Arguments) -> Figures:
    """self, weight, z, alpha, bias, stride, padding, dilation, groups."""
    how = _How(a.integers(5), a.integers(6), a.integers(7), a.integer(8))
    return _forward(a.tensor(0), a.tensor(1), how, a.optional(2), a.optional(4))


@model(
    "convolution by columns, or of each channel",
    "convolution",
    r"aten::(_slow_conv2d_forward|slow_conv3d(_forward)?|thnn_conv2d|_conv_depthwise2d|conv_depthwise3d|slow_conv_dilated[23]d)",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def by_columns(a: Arguments) -> Figures:
    """self, weight, kernel_size, bias, stride, padding, dilation."""
    x, weight = a.tensor(0), a.tensor(1)
    dilated = "depthwise" in a.name or "dilated" in a.name
    groups = x.dims[1] if "depthwise" in a.name and len(x.dims) > 1 else 1
    how = _How(a.integers(4), a.integers(5), a.integers(6) if dilated else [1], groups)
    return _forward(x, weight, how, a.optional(3))


@model(
    "transposed convolution by columns",
    "convolution",
    r"aten::slow_conv_transpose[23]d",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def transposed_by_columns(a: Arguments) -> Figures:
    """self, weight, kernel_size, bias, stride, padding, output_padding, dilation."""
    how = _How(a.integers(4), a.integers(5), a.integers(7), 1, True, a.integers(6))
    return _forward(a.tensor(0), a.tensor(1), how, a.optional(3))


@model(
    "convolution of oneDNN with an activation",
    "convolution",
    r"(mkldnn|onednn)::_convolution_pointwise_?",
    flops=_FLOPS,
    moved="input, weights, bias, a tensor that is added, and result",
    is_matrix=True,
)
def pointwise(a: Arguments) -> Figures:
    """X, W, bias, padding, stride, dilation, groups, …; or with another tensor behind X, or in place of it before X."""
    in_place = a.name.endswith("_")
    with_other = len(a) > _UNARY
    x, other = a.tensor(1 if in_place else 0), a.tensor(0 if in_place else 1) if with_other else None
    first = 2 if with_other else 1
    how = _How(a.integers(first + 3), a.integers(first + 2), a.integers(first + 4), a.integer(first + 5))
    return _forward(x, a.tensor(first), how, a.optional(first + 1), other)


@model(
    "transposed convolution of oneDNN with an activation",
    "convolution",
    r"(mkldnn|onednn)::_convolution_transpose_pointwise",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def transposed_pointwise(a: Arguments) -> Figures:
    """X, W, bias, padding, output_padding, stride, dilation, groups, …"""
    how = _How(a.integers(5), a.integers(3), a.integers(6), a.integer(7), True, a.integers(4))
    return _forward(a.tensor(0), a.tensor(1), how, a.optional(2))


@model(
    "convolution by columns, backward",
    "convolution",
    r"aten::_slow_conv2d_backward",
    flops="as much as forward for each gradient that is asked for",
    moved="gradient of the result, what the asked gradients need, and the gradients",
    is_matrix=True,
)
def by_columns_backward(a: Arguments) -> Figures:
    """grad, input, weight, kernel_size, stride, padding, which gradients; or the gradients to be written."""
    grad, x, weight = a.tensor(0), a.tensor(1), a.tensor(2)
    how = _How(a.integers(4), a.integers(5), [1], 1)
    if _output(x, weight, how) != grad.dims:
        raise Unknown("the gradient has not the dims of the convolution's result")
    into = a.is_tensor(6) or a.is_tensor(7) or a.is_tensor(8)
    asked = [a.is_tensor(place) for place in (6, 7, 8)] if into else [bool(one) for one in a.listed(6)]
    if len(asked) != 3:  # of input, weights and bias
        raise Unknown("which gradients are asked for is not recorded")
    return _backward(grad, x, weight, asked, False)


@model(
    "convolution backward",
    "convolution",
    r"aten::(convolution_backward|convolution_backward_overrideable)",
    flops="as much as forward for each gradient that is asked for",
    moved="gradient of the result, what the asked gradients need, and the gradients",
    is_matrix=True,
)
def backward(a: Arguments) -> Figures:
    """grad, input, weight, bias sizes, stride, padding, dilation, transposed, output padding, groups, output mask."""
    grad, x, weight = a.tensor(0), a.tensor(1), a.tensor(2)
    overrideable = a.name.endswith("overrideable")
    first = 3 if overrideable else 4
    transposed = a.flag(first + 3)
    mask = a.listed(first + 6)
    if len(mask) not in (2, 3) or len(grad.dims) != len(x.dims) or len(weight.dims) != len(x.dims):
        raise Unknown("the dims are not those of a convolution")
    how = _How(
        a.integers(first), a.integers(first + 1), a.integers(first + 2), a.integer(first + 5), transposed,
        a.integers(first + 4),
    )  # fmt: skip
    if _output(x, weight, how) != grad.dims:
        raise Unknown("the gradient has not the dims of the convolution's result")
    return _backward(grad, x, weight, [bool(one) for one in (*mask, False)[:3]], transposed)


def _backward(grad: Tensor, x: Tensor, weight: Tensor, asked: Sequence[bool], transposed: bool) -> Figures:
    """The gradient of the input needs the weights, that of the weights the input, that of the bias neither."""
    of_input, of_weight, of_bias = asked
    one = _flops(x, weight, grad.dims, transposed)
    moved = grad.bytes
    if of_input:
        moved += weight.bytes + x.like().bytes
    if of_weight:
        moved += x.bytes + weight.like().bytes
    if of_bias:
        moved += weight.like((grad.dims[1],)).bytes
    return Figures(one * (of_input + of_weight), moved)


@model(
    "convolution backward of a library",
    "convolution",
    r"aten::(cudnn|miopen|mkldnn)_convolution(_transpose)?_backward(_(input|weight))?",
    flops="as much as forward for each gradient",
    is_matrix=True,
)
def library_backward(a: Arguments) -> Figures:
    """self or its sizes, grad, weight or its sizes, …"""
    tensors = [tensor for _, tensor in a.all_tensors() if len(tensor.dims) > 2]
    if a.name.endswith("_backward") and len(tensors) >= 3:
        x, grad, weight = tensors[:3]
        mask = a.listed(len(a) - 1, [True, True, False])
        asked = [bool(one) for one in (*mask, False, False)[:3]]
        return _backward(grad, x, weight, asked, "transpose" in a.name)
    raise Unknown("the input or the weights are not recorded")
