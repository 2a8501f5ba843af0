"""Rotary embeddings of positions, as kernels of serving libraries."""

from __future__ import annotations

from math import prod

from holotrace.efficiency.arguments import Arguments, Tensor
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

_WHOLE = ("int", "long", "long int")


@model(
    "rotary embedding",
    "rope",
    r"(_C|sgl_kernel|vllm)::(batched_)?rotary_embedding",
    flops="3 an element",
    moved="positions, their rows of the table; queries and keys, read and written",
)
def rotary(a: Arguments) -> Figures:
    """positions, queries, keys, head size, table, …"""
    positions, queries, keys, table = a.tensor(0), a.tensor(1), a.optional(2), a.tensor(4)
    if len(table.dims) != 2:
        raise Unknown("the dims are not those of a table of positions")
    rows = min(positions.count, table.dims[0]) * table.dims[1] * table.element_bytes
    turned = queries.count + (keys.count if keys is not None else 0)
    moved = positions.bytes + rows + 2 * total_bytes(queries, keys)
    return Figures(3 * turned, moved, "every position is another, and whole heads are turned")


@model(
    "rotary embedding of a library",
    "rope",
    r"(sgl_kernel|aiter|flashinfer|vllm|apex|transformer_engine|tex)::(?!\w*_cache_mla)\w*rope\w*|FusedRoPEFunc",
    moved="all its tensors once, but of tables only the rows of positions",
)
def library(a: Arguments) -> Figures:
    given = [tensor for _, tensor in a.all_tensors()]
    if not given:
        raise Unknown("argument 0 is no tensor")
    positions = next((one for one in given if one.type in _WHOLE and len(one.dims) < 3), None)
    tokens = positions.count if positions is not None else max(prod(one.dims[:-1]) for one in given)
    return Figures(None, sum(_looked_up(one, tokens) for one in given), "each tensor is read or written once")


def _looked_up(tensor: Tensor, tokens: int) -> int:
    """Bytes of a tensor; of a table or cache with a row for each position only as many rows as there are tokens."""
    if len(tensor.dims) in (2, 3) and tensor.dims[0] > tokens:
        return tensor.like((tokens, *tensor.dims[1:])).bytes
    return tensor.bytes
