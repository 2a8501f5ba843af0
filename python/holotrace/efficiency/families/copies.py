"""What only moves or writes elements: copies, casts, fills, joins; no arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from holotrace.efficiency.arguments import Arguments, Tensor, alike, of_rank
from holotrace.efficiency.families.gemm import broadcast
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

# Of lists a trace has no type; half-precision is what models are joined in most.
_LIST_TYPE = "c10::BFloat16"
_LIST_SAID = "the elements of the list are of two bytes"
_AS_RESULT = "the elements of the list are of the result's type"
_BOTH = "what is read, and what is written, each at its own type"


@model("copy", "copy", r"aten::copy_", flops="0", moved=_BOTH)
def copy(a: Arguments) -> Figures:
    written, read = a.tensor(0), a.tensor(1)
    if broadcast(written.dims, read.dims) != written.dims:
        raise Unknown("the dims do not fit each other")
    return Figures(0, total_bytes(written, read))


@model(
    "new copy",
    "copy",
    r"aten::(clone|contiguous|_reshape_copy|_to_copy|to|type_as|lift_fresh_copy|flip|roll|tril|triu|_pin_memory|_copy_from|rot90|fliplr|flipud|channel_shuffle|native_channel_shuffle|pixel_shuffle|pixel_unshuffle)_?",
    flops="0",
    moved=_BOTH,
)
def new_copy(a: Arguments) -> Figures:
    x = a.tensor(0)
    base = a.name.split("::")[1]
    _fits(a, x, base)
    if base == "type_as" or (base == "to" and a.is_tensor(1)):
        return Figures(0, total_bytes(x, x.like(type=a.tensor(1).type)))
    return Figures(0, total_bytes(x, x.like(type=a.type_at(1, x.type) if base in ("_to_copy", "to") else x.type)))


def _fits(a: Arguments, x: Tensor, base: str) -> None:
    """Raises ``Unknown`` unless what is shuffled falls into as many parts, and a triangle is that of a matrix."""
    is_triangle = base.startswith("tri")
    if is_triangle or base.startswith("pixel"):
        of_rank(x, *range(2 if is_triangle else 3, len(x.dims) + 1))
    if "shuffle" not in base or not a.given(1):
        return
    parts = a.size(1)
    sizes = {"pixel_shuffle": x.dims[-3:-2], "pixel_unshuffle": x.dims[-2:]}.get(base, x.dims[1:2])
    if any(size % (parts**2 if base == "pixel_shuffle" else parts) for size in sizes):
        raise Unknown("the dims do not fall into as many parts")


@model(
    "fill",
    "copy",
    r"aten::(fill_?|zero_|eye|full|zeros|ones|masked_fill_scalar)",
    flops="0",
    moved="what is written",
)
def fill(a: Arguments) -> Figures:
    return Figures(0, a.tensor(0).bytes)


@model("range of numbers", "copy", r"aten::(arange|range|linspace|logspace)", flops="0", moved="what is written")
def numbers(a: Arguments) -> Figures:
    given = [a.optional(place) for place in range(len(a)) if a.is_tensor(place)]
    # The ends may be tensors of a single number, which are not what is written.
    if given and given[-1] is not None and given[-1].count and given[-1].dims:
        return Figures(0, given[-1].bytes)
    bounds = [a.number(place) for place in range(len(a)) if _is_number(a, place)]
    if not a.name.endswith("arange") or not given or given[-1] is None or not bounds:
        raise Unknown("how many numbers are written is not recorded")
    start, end, step = (0.0, bounds[0], 1.0) if len(bounds) == 1 else (*bounds[:2], bounds[2] if len(bounds) > 2 else 1)
    if not step or not all(abs(one) < 1e15 for one in (start, end, step)) or (end - start) / step < 0:
        raise Unknown("how many numbers are written is not recorded")
    count = -int(-(end - start) // step)
    return Figures(0, count * given[-1].element_bytes)


@model("places of a triangle", "copy", r"aten::tri[lu]_indices", flops="0", moved="what is written")
def triangle(a: Arguments) -> Figures:
    """rows, columns, diagonal, type."""
    rows, columns, diagonal = a.size(0), a.size(1), a.integer(2, 0)
    if "tril" in a.name:
        # Below a diagonal is what is above it in the transposed matrix.
        rows, columns, diagonal = columns, rows, -diagonal
    # Columns of the first row that are left out; each row leaves out one more, none less than 0 or more than all.
    none, some = min(max(-diagonal, 0), rows), min(max(columns - diagonal, 0), rows)
    left_out = (some * (some - 1) - none * (none - 1)) // 2 + (some - none) * diagonal + (rows - some) * columns
    out = a.out(3) or Tensor((2, rows * columns - left_out), a.type_at(3, "long int"))
    return Figures(0, out.bytes)


def _is_number(a: Arguments, place: int) -> bool:
    text = a.text(place).lstrip("-")
    return bool(text) and text.replace(".", "", 1).replace("e", "", 1).replace("-", "", 1).replace("+", "", 1).isdigit()


@model(
    "join",
    "copy",
    r"aten::(cat|concat|concatenate|stack|hstack|vstack|_cat|_stack)",
    flops="0",
    moved="each element read and written",
)
def join(a: Arguments) -> Figures:
    given = next((t for p in range(1, len(a)) if (t := a.out(p)) is not None), None)
    parts = a.tensors(0, given.type if given else _LIST_TYPE)
    written = given or Tensor((sum(part.count for part in parts),), _LIST_TYPE)
    # A result may be of another type, e.g. the one that gradients are summed in.
    return Figures(0, total_bytes(*parts, written), _AS_RESULT if given else _LIST_SAID)


@model("padding", "copy", r"aten::(constant_pad_nd|pad)", flops="0", moved=_BOTH)
def padding(a: Arguments) -> Figures:
    x = a.tensor(0)
    return Figures(0, total_bytes(x, x.like(_padded(x, a.integers(1)))))


def _padded(x: Tensor, widths: list[int]) -> tuple[int, ...]:
    """Dims with what is padded before and behind each of the last ones, beginning with the last."""
    if len(widths) % 2 or len(widths) > 2 * len(x.dims):
        raise Unknown("the padding does not fit the dims")
    dims = list(x.dims)
    for at, (before, after) in enumerate(zip(widths[::2], widths[1::2], strict=True)):
        dims[-1 - at] += before + after
    if min(dims, default=0) < 0:
        raise Unknown("the padding does not fit the dims")
    return tuple(dims)


def _bordered(a: Arguments, x: Tensor, widths: list[int]) -> tuple[int, ...]:
    """The same of borders that repeat what is within, of an image with or without a batch."""
    spatial = int(a.name.split("_pad")[1][0])
    of_rank(x, spatial + 1, spatial + 2)
    is_wide = any(width >= x.dims[-1 - at // 2] for at, width in enumerate(widths[: 2 * spatial]))
    if len(widths) != 2 * spatial or (is_wide and "reflection" in a.name):
        raise Unknown("the padding does not fit the dims")
    return _padded(x, widths)


@model("padding of borders", "copy", r"aten::(reflection|replication)_pad[123]d", flops="0", moved=_BOTH)
def borders(a: Arguments) -> Figures:
    x = a.tensor(0)
    return Figures(0, total_bytes(x, x.like(_bordered(a, x, a.integers(1)))))


@model(
    "padding of borders, backward",
    "copy",
    r"aten::(reflection|replication)_pad[123]d_backward",
    flops="1 an element of the gradient",
    moved="gradient and the new gradient",
)
def borders_backward(a: Arguments) -> Figures:
    """grad, self, widths."""
    grad, x = a.tensor(0), a.tensor(1)
    alike(grad, x.like(_bordered(a, x, a.integers(2))))
    return Figures(grad.count, total_bytes(grad, x.like()))


@model("repetition", "copy", r"aten::(repeat|tile)", flops="0", moved=_BOTH)
def repetition(a: Arguments) -> Figures:
    x, times = a.tensor(0), a.integers(1)
    if len(times) < len(x.dims) or min(times, default=1) < 1:
        raise Unknown("the repetitions do not fit the dims")
    return Figures(0, x.bytes + x.element_bytes * x.count * prod(times))


@model(
    "gradient of a part",
    "copy",
    r"aten::(slice|select)_backward",
    flops="0",
    moved="gradient, and the whole that is written",
)
def part_backward(a: Arguments) -> Figures:
    grad, sizes = a.tensor(0), a.integers(1)
    if min(sizes, default=0) < 1:
        raise Unknown("the sizes of the whole cannot be read")
    return Figures(0, total_bytes(grad, grad.like(sizes)))


@model(
    "copies of lists",
    "copy",
    r"aten::(_foreach_copy_|_chunk_cat|split_with_sizes_copy|_foreach_zero_)|fsdp::chunk_cat_mixed_dtype",
    flops="0",
    moved="each element read and written",
)
def of_lists(a: Arguments) -> Figures:
    if a.name.endswith("_foreach_zero_"):
        return Figures(0, total_bytes(*a.tensors(0, "float")), "the elements of the list are floats")
    if a.name.endswith("_foreach_copy_"):
        said = "the elements of lists are floats"
        return Figures(0, total_bytes(*a.tensors(0, "float"), *a.tensors(1, "float")), said)
    if a.is_tensor(0):
        x = a.tensor(0)
        if a.given(1) and sum(a.integers(1)) != x.dims[a.dim_of(x, 2) if a.given(2) else 0]:
            raise Unknown("the parts do not make up the whole")
        return Figures(0, 2 * x.bytes)
    return join.work(a)


@model(
    "windows of an image",
    "copy",
    r"aten::im2col",
    flops="0",
    moved="input, and an element of the result for each of a window",
)
def windows(a: Arguments) -> Figures:
    """self [(B,) C, H, W], kernel, dilation, padding, stride."""
    x = a.tensor(0)
    of_rank(x, 3, 4)
    kernel, counts = _windows(a, x.dims[-2:], 1)
    return Figures(0, total_bytes(x, x.like((*x.dims[:-2], *kernel, *counts))))


def _windows(a: Arguments, image: Sequence[int], first: int) -> tuple[list[int], list[int]]:
    """Sizes of a window of an image, and how many there are, from kernel, dilation, padding and stride."""
    kernel, dilation, padding, stride = (_pair(a.integers(place)) for place in range(first, first + 4))
    if min(*kernel, *dilation, *stride) < 1:
        raise Unknown("the dims are not those of an image and its windows")
    reach = [gap * (size - 1) + 1 for gap, size in zip(dilation, kernel, strict=True)]
    counts = [
        (size + 2 * pad - whole) // step + 1
        for size, pad, whole, step in zip(image, padding, reach, stride, strict=True)
    ]
    if min(counts) < 1:
        raise Unknown("the windows do not fit the image")
    return kernel, counts


@model(
    "image of windows",
    "copy",
    r"aten::col2im",
    flops="1 an element of the windows",
    moved="windows and the image",
)
def image(a: Arguments) -> Figures:
    """self [(B,) C·kh·kw, L], size, kernel, dilation, padding, stride."""
    x, size = a.tensor(0), _pair(a.integers(1))
    kernel, counts = _windows(a, size, 2)
    of_rank(x, 2, 3)
    if x.dims[-1] != prod(counts) or x.dims[-2] % prod(kernel):
        raise Unknown("the dims are not those of windows of an image")
    return Figures(x.count, total_bytes(x, x.like((*x.dims[:-2], x.dims[-2] // prod(kernel), *size))))


def _pair(values: list[int]) -> list[int]:
    if len(values) not in (1, 2):
        raise Unknown("kernel, stride, padding or dilation do not fit an image")
    return values * 2 if len(values) == 1 else values


@model("windows of a dim", "copy", r"aten::unfold_copy", flops="0", moved="input only")
def windows_of_dim(a: Arguments) -> Figures:
    return Figures(0, a.tensor(0).bytes, "the result is not counted")


@model(
    "windows of a dim, backward",
    "copy",
    r"aten::unfold_backward",
    flops="1 an element of the gradient",
    moved="gradient, and the whole that is written",
)
def windows_backward(a: Arguments) -> Figures:
    """grad, sizes of the whole, dim, size, step."""
    grad, sizes = a.tensor(0), a.integers(1)
    if min(sizes, default=0) < 1 or len(grad.dims) != len(sizes) + 1:
        raise Unknown("the sizes of the whole cannot be read")
    return Figures(grad.count, total_bytes(grad, grad.like(sizes)))


@model(
    "buckets of gradients",
    "copy",
    r"torch\.distributed\.ddp\.reducer::copy_bucket_to_grad|torch::distributed::reducer::(mul_out|copy)",
    moved="read and written",
)
def buckets(a: Arguments) -> Figures:
    x = a.tensor(0)
    return Figures(0 if "copy" in a.name else x.count, 2 * x.bytes, "the bucket is of the gradient's type")


@model(
    "repetition by numbers",
    "copy",
    r"aten::repeat_interleave",
    flops="0",
    moved="input; how much is written is not recorded",
)
def interleave(a: Arguments) -> Figures:
    """Repeats, size of the result; or self, repeats, dim, size of the result."""
    x = a.tensor(0)
    if len(a) < 3:
        if (size := a.integer(1, 0)) < 1:
            return Figures(0, x.bytes, "the result is not counted")
        return Figures(0, total_bytes(x, x.like((size,))))
    times = a.integer(1, 0) if not a.is_tensor(1) else 0
    if times < 1:
        return Figures(0, x.bytes, "the result is not counted")
    return Figures(0, x.bytes + x.count * times * x.element_bytes)
