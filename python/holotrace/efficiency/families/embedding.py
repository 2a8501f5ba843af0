"""Rows and elements chosen by numbers: embeddings, gather, scatter, index."""

from __future__ import annotations

from math import prod

from holotrace.efficiency.arguments import Arguments, Tensor, of_size
from holotrace.efficiency.families.gemm import broadcast
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

_DISTINCT = "every number chooses another element"
_CHOSEN = "numbers, what they choose, and the result"
_NOT_A_MASK = "numbers choose, not a mask"
_NO_NUMBERS = "numbers are not counted"


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


@model(
    "sums of embeddings, backward to the weight of each number",
    "embedding",
    r"aten::_embedding_bag_per_sample_weights_backward",
    flops="2 an element of each row",
    moved="gradient, rows of the weights, numbers, their bags, and a gradient for each number",
)
def bag_weights_backward(a: Arguments) -> Figures:
    """grad, weights, numbers, offsets, bag of each."""
    grad, weight, chosen = a.tensor(0), a.tensor(1), a.tensor(2)
    if len(grad.dims) != 2 or len(weight.dims) != 2 or grad.dims[1] != weight.dims[1]:
        raise Unknown("the dims are not those of sums of embeddings")
    read = weight.like((min(chosen.count, weight.dims[0]), weight.dims[1]))
    moved = total_bytes(grad, read, chosen, a.out(4) or a.tensor(3), grad.like((chosen.count,)))
    return Figures(2 * chosen.count * weight.dims[1], moved, _DISTINCT)


@model("elements by number", "index", r"aten::take", flops="0", moved=_CHOSEN)
def take(a: Arguments) -> Figures:
    """self and numbers."""
    x, chosen = a.tensor(0), a.tensor(1)
    read = x.element_bytes * min(chosen.count, x.distinct)
    return Figures(0, total_bytes(chosen, x.like(chosen.dims)) + read, _DISTINCT)


def _ranked(x: Tensor, chosen: Tensor) -> None:
    if max(len(x.dims), 1) != max(len(chosen.dims), 1):
        raise Unknown("the numbers have another number of dims than what they choose")


@model("gather", "index", r"aten::gather", flops="0", moved=_CHOSEN)
def gather(a: Arguments) -> Figures:
    """self, dim, numbers, sparse gradient, out."""
    x, chosen = a.tensor(0), a.tensor(2)
    _ranked(x, chosen)
    out = a.out(4) or x.like(chosen.dims)
    read = x.element_bytes * min(chosen.count, x.distinct)
    return Figures(0, total_bytes(chosen, out) + read, _DISTINCT)


@model("index_select", "index", r"aten::index_select", flops="0", moved=_CHOSEN)
def index_select(a: Arguments) -> Figures:
    """self, dim, numbers, out."""
    x, chosen = a.tensor(0), a.tensor(2)
    at = a.dim_of(x, 1)
    of_each = x.count // x.dims[at]
    read = x.element_bytes * of_each * min(chosen.count, x.dims[at])
    out = a.out(3) or x.like((*x.dims[:at], chosen.count, *x.dims[at + 1 :]))
    return Figures(0, total_bytes(chosen, out) + read, _DISTINCT)


def _numbers(a: Arguments, x: Tensor) -> tuple[int, tuple[int, ...]]:
    """Bytes of a list of numbers, a tensor for each dim of which not all is taken, and dims of what they choose.

    Older traces leave the list out. A mask of bools looks like numbers of as many dims.
    """
    chosen = {at: tensor for at, tensor in enumerate(a.tensors(1, "long int")) if tensor.dims}
    if not chosen or max(chosen) >= len(x.dims):
        raise Unknown("which dims the numbers are for is not recorded")
    if any(len(t.dims) > 1 and t.dims == x.dims[at : at + len(t.dims)] for at, t in chosen.items()):
        raise Unknown("whether numbers or a mask choose is not recorded")
    whole = [size for at, size in enumerate(x.dims) if at not in chosen]
    # They stand where the dims that they are for stood if those are beside each other, else in front.
    first = min(chosen) if max(chosen) - min(chosen) < len(chosen) else 0
    dims = broadcast(*(tensor.dims for tensor in chosen.values()))
    return total_bytes(*chosen.values()), (*whole[:first], *dims, *whole[first:])


@model("index", "index", r"aten::_?(unsafe_)?index", flops="0", moved=_CHOSEN)
def index(a: Arguments) -> Figures:
    """self and a list of numbers."""
    x = a.tensor(0)
    numbers, dims = _numbers(a, x)
    out = x.like(dims)
    read = x.element_bytes * min(out.count, x.distinct)
    return Figures(0, numbers + read + out.bytes, f"{_NOT_A_MASK}; {_DISTINCT}")


@model(
    "index_put",
    "index",
    r"aten::(_index_put_impl_|index_put_?|_unsafe_index_put)",
    moved="numbers, values, and what is written; read too if added",
)
def index_put(a: Arguments) -> Figures:
    """self, list of numbers, values, accumulate."""
    x, values = a.tensor(0), a.tensor(2)
    adds = a.text(3) in ("True", "1")
    try:
        numbers, dims = _numbers(a, x)
        count, said = prod(broadcast(dims, values.dims)), f"{_NOT_A_MASK}; {_DISTINCT}"
    except Unknown:
        # One value may be written to any number of elements.
        if values.count == 1:
            raise
        numbers, count, said = 0, values.count, "as many elements are written as there are values; " + _NO_NUMBERS
    written = x.element_bytes * min(count, x.count)
    copied = 0 if a.name.endswith("_") else x.bytes + x.like().bytes
    return Figures(count if adds else 0, numbers + values.bytes + written * (2 if adds else 1) + copied, said)


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
        at = a.dim_of(x, 1)
        if len(chosen.dims) > 1 or (source is not None and source.dims and source.dims[at] != chosen.count):
            raise Unknown("the numbers do not fit what they choose")
        count = prod(source.dims) if source is not None and source.dims else x.count // x.dims[at] * chosen.count
    else:
        _ranked(x, chosen)
        if source is not None and source.dims:
            _ranked(source, chosen)
        count = chosen.count
    adds = "add" in a.name or "reduce" in a.name
    written = x.element_bytes * min(count, x.count)
    copied = 0 if a.name.endswith("_") else x.bytes + x.like().bytes - written
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
    if a.name.endswith("_static"):
        return Figures(
            0, total_bytes(*given[:1], a.out(3) or given[0].like((a.size(1), len(given[0].dims)), "long int"))
        )
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
    of_size(1, a.tensor(0))
    return Figures(0, a.tensor(0).bytes)


@model("rows with bounds", "index", r"aten::(searchsorted|bucketize)", moved="input, bounds and result")
def bounds(a: Arguments) -> Figures:
    first, second = a.tensor(0), a.tensor(1)
    values, edges = (first, second) if a.name.endswith("bucketize") else (second, first)
    return Figures(None, total_bytes(values, edges, values.like(type="int" if a.flag(2, False) else "long int")))
