"""Sorting and the largest elements."""

from __future__ import annotations

from holotrace.efficiency.arguments import Arguments
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown


@model("sort", "sort", r"aten::(sort|argsort|msort)", moved="input and result once; places of 8 bytes")
def sort(a: Arguments) -> Figures:
    x = a.tensor(0)
    places = x.like(type="long int")
    values = None if a.name.endswith("argsort") else x.like()
    return Figures(None, total_bytes(x, values, None if a.name.endswith("msort") else places))


@model("largest elements", "sort", r"aten::topk", moved="input, the largest, and their places of 8 bytes")
def largest(a: Arguments) -> Figures:
    """self, k, dim, …"""
    x, count, dim = a.tensor(0), a.integer(1), a.integer(2, -1)
    if not x.dims or not -len(x.dims) <= dim < len(x.dims) or not 0 < count <= x.dims[dim]:
        raise Unknown("the tensor has not as many elements")
    dims = list(x.dims)
    dims[dim] = count
    return Figures(None, total_bytes(x, x.like(dims), x.like(dims, "long int")))


@model("boxes without overlap", "sort", r"torchvision::nms", moved="boxes and scores")
def boxes(a: Arguments) -> Figures:
    return Figures(None, total_bytes(a.tensor(0), a.tensor(1)), "the result is not counted")
