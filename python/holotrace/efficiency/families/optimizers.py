"""Optimizers: fused ones, and operations on all of a list of tensors."""

from __future__ import annotations

from holotrace.efficiency.arguments import Arguments, Tensor
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

# Lists have no type in a trace; parameters and states are floats most often.
_TYPE = "float"
_SAID = "the elements of lists are floats"
_READ_AND_WRITTEN = "each list at four bytes an element, twice if read and written"


def _lists(a: Arguments, *places: int) -> list[list[Tensor]]:
    lists = [a.tensors(place, _TYPE) for place in places]
    if len({tuple(tensor.dims for tensor in one) for one in lists}) > 1:
        raise Unknown("the lists do not fit each other")
    return lists


@model("fused Adam", "optimizer", r"aten::_fused_adamw?_?", flops="12 an element", moved=_READ_AND_WRITTEN)
def adam(a: Arguments) -> Figures:
    """Parameters, gradients, first and second moments, largest second moments, steps; all but gradients are written."""
    params, grads, first, second = _lists(a, 0, 1, 2, 3)
    largest = a.dims[4] if len(a) > 4 and a.types[4] == "TensorList" else []
    more = 2 * total_bytes(*a.tensors(4, _TYPE)) if largest else 0
    count = sum(tensor.count for tensor in params)
    return Figures(12 * count, 2 * total_bytes(*params, *first, *second) + total_bytes(*grads) + more, _SAID)


@model(
    "fused SGD or Adagrad", "optimizer", r"aten::_fused_(sgd|adagrad)_?", flops="4 an element", moved=_READ_AND_WRITTEN
)
def sgd(a: Arguments) -> Figures:
    """Parameters, gradients, momenta or sums."""
    params, grads = _lists(a, 0, 1)
    momenta = a.tensors(2, _TYPE) if len(a) > 2 and a.types[2] == "TensorList" and a.dims[2] else []
    count = sum(tensor.count for tensor in params)
    return Figures(4 * count, 2 * total_bytes(*params, *momenta) + total_bytes(*grads), _SAID)


@model(
    "norms of a list", "optimizer", r"aten::_foreach_(norm|max|powsum)", flops="2 an element", moved="each element read"
)
def norms(a: Arguments) -> Figures:
    tensors = a.tensors(0, _TYPE)
    return Figures(2 * sum(t.count for t in tensors), total_bytes(*tensors) + 4 * len(tensors), _SAID)


@model(
    "operation on lists",
    "optimizer",
    r"aten::_foreach_(?!copy|zero|norm|powsum|max$)\w+",
    flops="1 an element; 2 with a product",
    moved="each list that is read, and the one that is written",
)
def foreach(a: Arguments) -> Figures:
    places = [place for place, kind in enumerate(a.types) if kind == "TensorList"]
    places = [place for place in places if place in (0, 1, 2)]
    # A number may come first, of which powers are taken.
    if not places or places[0] > (1 if "pow" in a.name else 0):
        raise Unknown("the tensors of a list are not recorded")
    lists = _lists(a, *places)
    count = sum(tensor.count for tensor in lists[0])
    flops = 0 if "clone" in a.name else count * (2 if "addc" in a.name or "lerp" in a.name else 1)
    return Figures(flops, total_bytes(*(t for one in (*lists, lists[0]) for t in one)), _SAID)


@model(
    "accumulation of a gradient",
    "optimizer",
    r"torch::autograd::AccumulateGrad",
    moved="gradient, read twice and written",
)
def accumulate(a: Arguments) -> Figures:
    grad = a.tensor(0)
    return Figures(grad.count, 3 * grad.bytes, "there was a gradient before")


@model(
    "fused optimizer of a library",
    "optimizer",
    r"(apex|amp_C|transformer_engine|tex|bitsandbytes|fbgemm)::\w*(adam|sgd|lamb|adagrad|multi_tensor|optimizer)\w*",
    moved="all its tensors once",
)
def library(a: Arguments) -> Figures:
    given = [tensor for _, tensor in a.all_tensors()]
    if not given:
        raise Unknown("the tensors of a list are not recorded")
    return Figures(None, total_bytes(*given), "each tensor is read or written once")
