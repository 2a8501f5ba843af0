"""Products of matrices of several sizes at once, one for each group of rows."""

from __future__ import annotations

from math import prod

from holotrace.efficiency.arguments import Arguments, Tensor
from holotrace.efficiency.element_types import FOUR_BITS
from holotrace.efficiency.families.gemm import product
from holotrace.efficiency.model import Figures, joined, model, total_bytes
from holotrace.efficiency.unknown import Unknown

_FLOPS = "2·(rows of all groups)·N·K"
_MOVED = "rows, the matrices of all groups, their lengths, and the result"


def _grouped(rows: Tensor, weights: Tensor, *, turned: bool | None = None) -> tuple[int, tuple[int, ...]]:
    """Floating-point operations and dims of the result, of rows [T, K] and a matrix for each group."""
    if len(rows.dims) != 2 or len(weights.dims) != 3:
        raise Unknown("the dims are not those of rows and a matrix for each group")
    depth, (_, first, second) = rows.dims[1], weights.dims
    if turned is None:
        turned = first != depth
    inner, columns = (second, first) if turned else (first, second)
    if inner != depth:
        raise Unknown("the dims are not those of rows and a matrix for each group")
    return 2 * rows.count * columns, (rows.dims[0], columns)


@model("grouped product", "gemm", r"aten::_(scaled_)?grouped_mm(_v2)?", flops=_FLOPS, moved=_MOVED, is_matrix=True)
def grouped(a: Arguments) -> Figures:
    """Rows and a matrix for each group; or the groups are along the depth, or along the columns."""
    left, right = a.tensor(0), a.tensor(1)
    # Newer ones have lists of scales, and how they lie, before the groups.
    behind = 8 if a.name.endswith("_v2") else 4 if "scaled" in a.name else 2
    groups = a.optional(behind)
    shape = (len(left.dims), len(right.dims))
    many = left.dims[0] if shape[0] == 3 else right.dims[0]
    if shape in ((2, 3), (3, 2)) and groups is not None and groups.count != many:
        raise Unknown("there are not as many lengths as groups")
    if shape == (2, 3):
        flops, dims = _grouped(left, right, turned=False)
    elif shape == (3, 3) and (left.dims[0], left.dims[2]) == (right.dims[0], right.dims[1]):
        dims = (*left.dims[:2], right.dims[2])
        flops = 2 * prod(dims) * left.dims[2]
    elif shape == (3, 2) and left.dims[2] == right.dims[0]:
        dims = (left.dims[1], right.dims[1])
        flops = 2 * prod(dims) * left.dims[2]
    elif shape == (2, 2) and left.dims[1] == right.dims[0] and groups is not None:
        dims = (groups.count, left.dims[0], right.dims[1])
        flops = 2 * left.dims[0] * right.dims[1] * left.dims[1]
    else:
        raise Unknown("the dims are not those of grouped matrices")
    if left.type == FOUR_BITS:
        flops *= 2
    place = {2: 4, 4: 7, 8: 10}[behind]
    kind = a.type_at(place, "c10::BFloat16" if "scaled" in a.name else left.type)
    others = [t for p, t in a.all_tensors() if p > 1]
    said = joined(_filled(groups), "scales are not counted" if place == 10 else None)
    return Figures(flops, total_bytes(left, right, *others, left.like(dims, kind)), said)


@model(
    "products of two lists", "gemm", r"aten::_foreach_mm", flops="2·M·N·K of each pair", moved=_MOVED, is_matrix=True
)
def listed(a: Arguments) -> Figures:
    """Matrices, and as many others."""
    lefts, rights = a.tensors(0, "float"), a.tensors(1, "float")
    if len(lefts) != len(rights):
        raise Unknown("the lists do not fit each other")
    each = [product(left, right) for left, right in zip(lefts, rights, strict=True)]
    written = [left.like(dims) for left, (_, dims) in zip(lefts, each, strict=True)]
    moved = total_bytes(*lefts, *rights, *written)
    return Figures(sum(flops for flops, _ in each), moved, "the elements of lists are floats")


def _filled(groups: Tensor | None) -> str | None:
    return None if groups is None else "each row belongs to a group"


@model(
    "grouped product of a library",
    "gemm",
    r"(primus_turbo(_cpp_extension)?|torchao|grouped_gemm|gg|megablocks|nv_grouped_gemm)::\w*(grouped_gemm|gmm)(?!_variable_k)\w*"
    r"|Grouped(Gemm|GEMM)\w*(?<!Backward)|_GroupedLinear",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def library(a: Arguments) -> Figures:
    found = [(place, tensor) for place, tensor in a.all_tensors()]
    if len(found) < 2:
        raise Unknown("the matrices are not recorded")
    (_, rows), (_, weights) = found[:2]
    if len(rows.dims) == 3 and len(weights.dims) == 2:
        rows, weights = weights, rows
    turned = None
    if a.name.startswith("primus_turbo") and a.text(5) in ("True", "False"):
        turned = a.flag(5)
    flops, dims = _grouped(rows, weights, turned=turned)
    others = [tensor for _, tensor in found[2:] if len(tensor.dims) == 1]
    ambiguous = turned is None and weights.dims[1] == weights.dims[2]
    return Figures(flops, total_bytes(rows, weights, *others, rows.like(dims)), joined("" if not ambiguous else None))


@model(
    "grouped product of FBGEMM",
    "gemm",
    r"(fbgemm|mslk)::(f8f8bf16_rowwise|bf16bf16bf16)_grouped_stacked",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def stacked(a: Arguments) -> Figures:
    """Rows [T, K], a matrix [N, K] for each group, (scales of both,) rows of each group."""
    rows, weights = a.tensor(0), a.tensor(1)
    flops, dims = _grouped(rows, weights, turned=True)
    # A result that is given is the one that is written.
    others = [tensor for place, tensor in a.all_tensors() if place > 1 and tensor.dims != dims]
    written = rows.like(dims, "c10::BFloat16")
    return Figures(flops, total_bytes(rows, weights, *others, written), "each row belongs to a group")


@model(
    "grouped product along the depth",
    "gemm",
    r"primus_turbo(_cpp_extension)?::\w*grouped_gemm_variable_k\w*",
    flops="2·(depth of all groups)·M·N",
    moved=_MOVED,
    is_matrix=True,
)
def along_depth(a: Arguments) -> Figures:
    left, right, groups = a.tensor(0), a.tensor(1), a.tensor(2)
    if len(left.dims) != 2 or len(right.dims) != 2 or left.dims[0] != right.dims[0]:
        raise Unknown("the dims are not those of two matrices of as many rows")
    dims = (groups.count, left.dims[1], right.dims[1])
    return Figures(2 * left.count * right.dims[1], total_bytes(left, right, groups, left.like(dims)))


@model(
    "grouped product of DeepGEMM",
    "gemm",
    r"(deep_gemm|sglang|vllm|sgl_kernel)::\w*m_?grouped\w*contig\w*",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def contiguous_groups(a: Arguments) -> Figures:
    narrow = [(p, t) for p, t in a.all_tensors() if t.element_bytes == 1]
    if len(narrow) < 2:
        raise Unknown("the matrices are not recorded")
    (_, rows), (_, weights) = narrow[:2]
    flops, dims = _grouped(rows, weights, turned=True)
    out = next((t for _, t in a.all_tensors() if t.dims == dims and t.element_bytes > 1), None)
    scales = [t for p, t in a.all_tensors() if p not in (narrow[0][0], narrow[1][0]) and t is not out and t != out]
    written = out or rows.like(dims, "c10::BFloat16")
    return Figures(flops, total_bytes(rows, weights, *scales, written), "each row belongs to a group", type=rows.type)
