"""Pooling and resizing of images and volumes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from holotrace.efficiency.arguments import Arguments, Tensor, alike
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown


def _pooled(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    *,
    up: bool,
) -> tuple[int, ...]:
    """Dims after pooling the last dims, as many as the kernel has."""
    spatial = len(kernel)
    if spatial < 1 or len(x.dims) not in (spatial + 1, spatial + 2) or min(kernel) < 1:
        raise Unknown("the dims are not those of an image to pool")
    sizes = []
    for at, size in enumerate(x.dims[-spatial:]):
        step, pad, gap = (_one(v, at) for v in (stride or kernel, padding, dilation))
        if step < 1 or gap < 1:
            raise Unknown("stride, padding or dilation are not those of pooling")
        span = size + 2 * pad - gap * (kernel[at] - 1) - 1
        count = (-(-span // step) if up else span // step) + 1
        # A window that begins in the padding behind is left out.
        sizes.append(count - 1 if up and (count - 1) * step >= size + pad else count)
    if min(sizes) < 1:
        raise Unknown("the result of pooling would be empty")
    return (*x.dims[:-spatial], *sizes)


def _kernel(a: Arguments) -> list[int]:
    """Sizes of the window, of which one may be said for all dims."""
    sizes, spatial = a.integers(1), _spatial(a)
    return sizes * spatial if len(sizes) == 1 else sizes


def _spatial(a: Arguments) -> int:
    """How many dims are pooled, by the name."""
    return int(re.findall(r"(\d)d", a.name)[0])


def _one(values: Sequence[int], at: int) -> int:
    return values[at] if len(values) > at else values[0]


@model(
    "maximum pooling",
    "pooling",
    r"aten::(max_pool[123]d_with_indices|max_pool[123]d)",
    moved="input, result, and places of 8 bytes",
)
def maximum(a: Arguments) -> Figures:
    """self, kernel, stride, padding, dilation, ceil_mode."""
    x, kernel = a.tensor(0), _kernel(a)
    dims = _pooled(x, kernel, a.integers(2, []), a.integers(3, [0]), a.integers(4, [1]), up=a.flag(5, False))
    places = x.like(dims, "long int") if a.name.endswith("indices") else None
    return Figures(None, total_bytes(x, x.like(dims), places))


@model(
    "mean pooling", "pooling", r"aten::avg_pool[123]d", flops="1 an element of each window", moved="input and result"
)
def mean(a: Arguments) -> Figures:
    """self, kernel, stride, padding, ceil_mode, …"""
    x, kernel = a.tensor(0), _kernel(a)
    dims = _pooled(x, kernel, a.integers(2, []), a.integers(3, [0]), [1], up=a.flag(4, False))
    return Figures(None, total_bytes(x, x.like(dims)))


@model("pooling to a size", "pooling", r"aten::_?adaptive_(avg|max)_pool[123]d", moved="input and result")
def adaptive(a: Arguments) -> Figures:
    x, sizes = a.tensor(0), a.integers(1)
    if not sizes or len(x.dims) not in (len(sizes) + 1, len(sizes) + 2) or min(sizes) < 1:
        raise Unknown("the dims are not those of an image to pool")
    dims = (*x.dims[: -len(sizes)], *sizes)
    places = x.like(dims, "long int") if "max" in a.name else None
    return Figures(None, total_bytes(x, x.like(dims), places))


@model(
    "pooling, backward",
    "pooling",
    r"aten::(max_pool[123]d_with_indices|avg_pool[123]d|_?adaptive_avg_pool[123]d|adaptive_max_pool[123]d|fractional_max_pool[23]d)_backward",
    moved="gradient, places, and the new gradient; input where it is read",
)
def backward(a: Arguments) -> Figures:
    """grad, input, …, places."""
    grad, x = a.tensor(0), a.tensor(1)
    places = next((t for p, t in a.all_tensors() if p > 1 and t.type in ("long int", "long")), None)
    alike(grad, places)
    if len(grad.dims) != len(x.dims) or grad.dims[: -_spatial(a)] != x.dims[: -_spatial(a)]:
        raise Unknown("the gradient has not the dims of what was pooled")
    if a.name.startswith(("aten::max_pool", "aten::avg_pool")) and a.given(2):
        # Means are taken over windows without gaps, and have no place for their size.
        is_mean = "avg" in a.name
        gaps = [1] if is_mean else a.integers(5, [1])
        kernel, stride, padding = a.integers(2), a.integers(3, []), a.integers(4, [0])
        kernel = kernel * _spatial(a) if len(kernel) == 1 else kernel
        alike(grad, grad.like(_pooled(x, kernel, stride, padding, gaps, up=a.flag(5 if is_mean else 6, False))))
    # The input tells the size only; its places are known.
    return Figures(None, total_bytes(grad, places, x.like()))


@model(
    "pooling of random windows",
    "pooling",
    r"aten::fractional_max_pool[23]d",
    moved="input, random numbers, result, and places of 8 bytes",
)
def fractional(a: Arguments) -> Figures:
    """self, kernel, size of the result, random numbers."""
    x, sizes = a.tensor(0), a.integers(2)
    if not sizes or len(sizes) >= len(x.dims) or min(sizes) < 1:
        raise Unknown("the dims are not those of an image to pool")
    dims = (*x.dims[: -len(sizes)], *sizes)
    return Figures(None, total_bytes(x, a.tensor(3), x.like(dims), x.like(dims, "long int")))


@model(
    "reverse of pooling",
    "pooling",
    r"aten::max_unpool[23]d",
    moved="input, places, and the result",
)
def reverse(a: Arguments) -> Figures:
    """self, places, size of the result."""
    x, sizes = a.tensor(0), a.integers(2)
    if not sizes or len(sizes) >= len(x.dims) or min(sizes) < 1:
        raise Unknown("the dims are not those of an image to pool")
    return Figures(None, total_bytes(x, a.tensor(1), x.like((*x.dims[: -len(sizes)], *sizes))))


@model(
    "resizing",
    "pooling",
    r"aten::_?upsample_(nearest(_exact)?|nearest-exact|linear|bilinear|bicubic|trilinear)[123]d(_aa)?|aten::_upsample_nearest_exact[123]d",
    moved="input and result",
)
def resize(a: Arguments) -> Figures:
    """self, output size, (align_corners,) scales; or sizes or scales only."""
    x = a.tensor(0)
    spatial = len(x.dims) - 2
    sizes = a.integers(1, [])
    if not sizes:
        scales = next((a.listed(p) for p in range(2, len(a)) if a.text(p).startswith("[")), [])
        if len(scales) != spatial or not all(0 < scale < 1e6 for scale in scales):
            raise Unknown("the size of the result is not recorded")
        sizes = [int(size * scale) for size, scale in zip(x.dims[2:], scales, strict=True)]
    if len(sizes) != spatial or min(sizes, default=0) < 1:
        raise Unknown("the size of the result is not recorded")
    return Figures(None, total_bytes(x, x.like((*x.dims[:2], *sizes))))


@model("resizing, backward", "pooling", r"aten::_?upsample_\w+_backward", moved="gradient and the new gradient")
def resize_backward(a: Arguments) -> Figures:
    """grad, output size, input size."""
    grad, sizes = a.tensor(0), a.integers(2)
    if len(sizes) != len(grad.dims) or min(sizes) < 1 or grad.dims != (*sizes[:2], *a.integers(1, grad.dims[2:])):
        raise Unknown("the size of the input is not recorded")
    return Figures(None, total_bytes(grad, grad.like(sizes)))


@model(
    "samples of an image", "pooling", r"aten::(grid_sampler_[23]d|cudnn_grid_sampler)", moved="input, grid and result"
)
def grid(a: Arguments) -> Figures:
    x, places = a.tensor(0), a.tensor(1)
    if len(x.dims) < 4 or len(places.dims) != len(x.dims):
        raise Unknown("the dims are not those of an image and a grid")
    if x.dims[0] != places.dims[0] or places.dims[-1] != len(x.dims) - 2:
        raise Unknown("the dims are not those of an image and a grid")
    return Figures(None, total_bytes(x, places, x.like((*x.dims[:2], *places.dims[1:-1]))), "all of the input is read")


@model(
    "samples of an image, backward",
    "pooling",
    r"aten::(grid_sampler_[23]d|cudnn_grid_sampler)_backward",
    moved="gradient, input, grid, and the gradients asked for",
)
def grid_backward(a: Arguments) -> Figures:
    """grad, input, grid, …, output mask."""
    grad, x, places = a.tensor(0), a.tensor(1), a.tensor(2)
    if a.name.startswith("aten::cudnn"):
        x, places, grad = grad, x, places
    mask = a.listed(len(a) - 1) if a.name.endswith("d_backward") else [True]
    of_input = x.like().bytes * bool(mask[0])
    return Figures(None, total_bytes(grad, x, places, places.like()) + of_input, "all of the input is read")
