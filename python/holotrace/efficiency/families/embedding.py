"""Rows and elements chosen by numbers: embeddings, gather, scatter, index."""

from __future__ import annotations

from math import prod

from holotrace.efficiency.arguments import Arguments, Tensor
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

_DISTINCT = "every number chooses another element"
_CHOSEN = "numbers, what they choose, and the result"


def _at(a: Arguments, x: Tensor, place: int) -> int:
    """The dim that is asked for, counted from the first."""
    dim = a.integer(place)
    if not -len(x.dims) <= dim < len(x.dims):
        raise Unknown("the tensor has no such dim")
    return dim % len(x.dims)


@model("embedding", "embedding", r"aten::embedding(_renorm_)?", flops="0", moved=_CHOSEN)
def embedding(a: Arguments) -> Figures:
    weight, chosen = a.tensor(0), a.tensor(1)
    if len(weight.dims) != 2:
        raise Unknown("the dims are not those of an embedding")
    rows = min(chosen.distinct, weight.dims[0])
    read = weight.like((rows, weight.dims[1]))
    return Figures(0, total_bytes(chosen, read, weight.like((*chosen.dims, weight.dims[1]))), _DISTINCT)


@model(
    "embedding, backward",
    "embedding",
    r"aten::embedding_dense_backward",
    flops="0",
    moved="gradient, numbers, and the whole gradient of the weights",
)
def embedding_backward(a: Arguments) -> Figures:
    """grad, numbers, rows of the weights, padding, scaled by frequency."""
    grad, chosen = a.tensor(0), a.tensor(1)
    if not grad.dims or a.integer(2) < 1:
        raise Unknown("the dims are not those of an embedding")
    return Figures(0, total_bytes(grad, chosen, grad.like((a.integer(2), grad.dims[-1]))))


@model(
    "sums of embeddings",
    "embedding",
    r"aten::_?embedding_bag(_forward_only)?",
    moved="numbers, their rows, offsets, and the sums",
)
def bag(a: Arguments) -> Figures:
    """weight, numbers, offsets."""
    weight, chosen, offsets = a.tensor(0), a.tensor(1), a.tensor(2)
    if len(weight.dims) != 2:
        raise Unknown("the dims are not those of an embedding")
    bags = chosen.dims[0] if len(chosen.dims) == 2 else offsets.count
    read = weight.like((min(chosen.count, weight.dims[0]), weight.dims[1]))
    flops = chosen.count * weight.dims[1]
    return Figures(flops, total_bytes(chosen, offsets, read, weight.like((bags, weight.dims[1]))), _DISTINCT)


@model(
    "sums of embeddings, backward",
    "embedding",
    r"aten::_embedding_bag_dense_backward",
    flops="1 an element of each row",
    moved="gradient, numbers, their bags, and the whole gradient of the weights",
)
def bag_backward(a: Arguments) -> Figures:
    """grad, numbers, bag of each, sizes of bags, maxima, rows of the weights."""
    grad, chosen = a.tensor(0), a.tensor(1)
    if len(grad.dims) != 2:
        raise Unknown("the dims are not those of sums of embeddings")
    written = grad.like((a.size(5), grad.dims[1]))
    return Figures(chosen.count * grad.dims[1], total_bytes(grad, chosen, a.optional(2), written))


@model("elements by number", "index", r"aten::take", flops="0", moved=_CHOSEN)
def take(a: Arguments) -> Figures:
    x, chosen = a.tensor(0), a.tensor(1)
    read = x.element_bytes * min(chosen.count, x.distinct)
    return Figures(0, total_bytes(chosen, x.like(chosen.dims)) + read, _DISTINCT)


@model("gather", "index", r"aten::(gather|take_along_dim)", flops="0", moved=_CHOSEN)
def gather(a: Arguments) -> Figures:
    """self, dim, numbers, sparse gradient, out."""
    x, chosen = a.tensor(0), a.tensor(2)
    out = a.out(4) or x.like(chosen.dims)
    read = x.element_bytes * min(chosen.count, x.distinct)
    return Figures(0, total_bytes(chosen, out) + read, _DISTINCT)


@model("index_select", "index", r"aten::index_select", flops="0", moved=_CHOSEN)
def index_select(a: Arguments) -> Figures:
    """self, dim, numbers, out."""
    x, chosen = a.tensor(0), a.tensor(2)
    at = _at(a, x, 1)
    of_each = x.count // x.dims[at]
    read = x.element_bytes * of_each * min(chosen.count, x.dims[at])
    out = a.out(3) or x.like((*x.dims[:at], chosen.count, *x.dims[at + 1 :]))
    return Figures(0, total_bytes(chosen, out) + read, _DISTINCT)


@model("index", "index", r"aten::_?(unsafe_)?index", flops="0", moved=_CHOSEN)
def index(a: Arguments) -> Figures:
    """self and a list of numbers, which older traces leave out."""
    x = a.tensor(0)
    # Those of a dim of which all is taken have no dims.
    chosen = [(at, tensor) for at, tensor in enumerate(a.tensors(1, "long int")) if tensor.dims]
    if len(chosen) != 1 or len(x.dims) <= chosen[0][0]:
        raise Unknown("which dims the numbers are for is not recorded")
    ((at, numbers),) = chosen
    of_each = x.count // x.dims[at]
    read = x.element_bytes * of_each * min(numbers.count, x.dims[at])
    said = f"the numbers are for dim {at}; " + _DISTINCT
    return Figures(0, numbers.bytes + read + x.element_bytes * of_each * numbers.count, said)


@model(
    "index_put",
    "index",
    r"aten::(_index_put_impl_|index_put_?|_unsafe_index_put)",
    moved="numbers, values, and what is written",
)
def index_put(a: Arguments) -> Figures:
    """self, list of numbers, values, accumulate."""
    values = a.tensor(2)
    times = 3 if a.text(3) in ("True", "1") else 2
    return Figures(
        None, times * values.bytes, "as many elements are written as there are values; numbers are not counted"
    )


@model(
    "scatter",
    "index",
    r"aten::(scatter|scatter_add|scatter_reduce)(_|_two)?|aten::index_(add|copy|reduce)_?|aten::index_fill_?",
    moved="numbers, source, and what is written; read too if added",
)
def scatter(a: Arguments) -> Figures:
    """self, dim, numbers, source."""
    x, chosen = a.tensor(0), a.tensor(2)
    source = a.optional(3)
    if "index_" in a.name:
        at = _at(a, x, 1)
        count = prod(source.dims) if source is not None and source.dims else x.count // x.dims[at] * chosen.count
    else:
        count = chosen.count
    adds = "add" in a.name or "reduce" in a.name
    written = x.element_bytes * min(count, x.count)
    copied = 0 if a.name.endswith("_") or a.is_tensor(4) else x.bytes + x.like().bytes - written
    read = source.element_bytes * count if source is not None and source.dims else 0
    flops = count if adds else 0
    return Figures(flops, chosen.bytes + read + written * (2 if adds else 1) + copied, _DISTINCT)


@model(
    "masked choice",
    "index",
    r"aten::(masked_select|nonzero|nonzero_static|argwhere)",
    moved="what is looked through; how much is found is not recorded",
)
def found(a: Arguments) -> Figures:
    given = [tensor for _, tensor in a.all_tensors()]
    if not given:
        raise Unknown("argument 0 is no tensor")
    return Figures(0, total_bytes(*given), "what is found is not counted")


@model(
    "elements by number, written",
    "index",
    r"aten::put_",
    moved="numbers, values, and what is written; read too if added",
)
def put(a: Arguments) -> Figures:
    """self, numbers, values, accumulate."""
    x, chosen, values = a.tensor(0), a.tensor(1), a.tensor(2)
    adds = a.flag(3, False)
    written = x.element_bytes * min(chosen.count, x.count)
    return Figures(chosen.count if adds else 0, total_bytes(chosen, values) + written * (2 if adds else 1), _DISTINCT)


@model(
    "masked choice, written",
    "index",
    r"aten::masked_scatter_?",
    moved="mask only; how much is written is not recorded",
)
def masked_scatter(a: Arguments) -> Figures:
    return Figures(0, a.tensor(1).bytes, "what is read and written is not counted", is_partial=True)


@model(
    "one number", "copy", r"aten::(_local_scalar_dense|item|is_nonzero|_assert_async)", flops="0", moved="the number"
)
def one_number(a: Arguments) -> Figures:
    return Figures(0, a.tensor(0).bytes)


@model("rows with bounds", "index", r"aten::(searchsorted|bucketize)", moved="input, bounds and result")
def bounds(a: Arguments) -> Figures:
    first, second = a.tensor(0), a.tensor(1)
    values, edges = (first, second) if a.name.endswith("bucketize") else (second, first)
    return Figures(None, total_bytes(values, edges, values.like(type="int" if a.flag(2, False) else "long int")))
