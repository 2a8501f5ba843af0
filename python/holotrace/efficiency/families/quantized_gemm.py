"""Products of matrices whose elements are of 8 or 4 bits, with scales."""

from __future__ import annotations

import re
from math import prod

from holotrace.efficiency.arguments import Arguments, Tensor, of_size
from holotrace.efficiency.element_types import FOUR_BITS
from holotrace.efficiency.families.gemm import by_rows, product
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

_FLOPS, _MOVED = "2·M·N·K", "both matrices at their packed size, scales, bias, and the result at its own type"
_BLOCK = 128  # rows that share a scale where each block has one
_ROOM = 5  # where a batched product of FlashInfer has a buffer to work in, which need not move
_TWO_BYTES = "the result is of two bytes an element"


def _unpacked(tensor: Tensor) -> tuple[int, ...]:
    """Dims with the last one counted in elements, where two are packed into a byte."""
    if tensor.type == FOUR_BITS:
        return (*tensor.dims[:-1], tensor.dims[-1] * 2)
    return tensor.dims


def _scales(a: Arguments, *used: int) -> int:
    """Bytes of all tensors but those at the places that are used otherwise."""
    return sum(tensor.bytes for place, tensor in a.all_tensors() if place not in used)


@model("scaled product", "gemm", r"aten::_scaled_mm(_v2)?", flops=_FLOPS, moved=_MOVED, is_matrix=True)
def scaled(a: Arguments) -> Figures:
    """self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum; older: bias, out_dtype, scale_a …"""
    left, right = a.tensor(0), a.tensor(1)
    flops, dims = product(left, right)
    if left.type == FOUR_BITS:
        flops *= 2
    # Both scales are tensors: where the second of them would be, older ones have the type of the result.
    older = not a.is_tensor(3)
    if a.name.endswith("_v2"):
        # Scales are lists, and other arguments follow them.
        said = "scales are not counted"
        return Figures(flops, total_bytes(left, right, left.like(dims, a.type_at(9, left.type))), said)
    kind = a.type_at(3 if older else 6, left.type)
    given = next((place for place in range(7, len(a)) if a.is_tensor(place)), -1)
    first = 4 if older else 2
    _of_rows(a.tensor(first).dims, dims[0])
    _of_rows(a.tensor(first + 1).dims[::-1], dims[1])
    moved = _scales(a, 0, 1, given) + total_bytes(left, right, a.out(given) or left.like(dims, kind))
    return Figures(flops, moved)


def _of_rows(dims: tuple[int, ...], rows: int) -> None:
    """Raises ``Unknown`` for scales that are one for each row, or each block of rows, of another number of rows."""
    if len(dims) > 2 or (len(dims) == 2 and dims[1] == 1 and dims[0] not in (1, rows, -(-rows // _BLOCK))):
        raise Unknown("the scales do not fit the matrices")


@model(
    "layer with whole numbers as weights",
    "gemm",
    r"aten::_mixed_dtypes_linear",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def mixed(a: Arguments) -> Figures:
    """input [..., K], weights of 8 bits [K, N] or of 4 bits [K, N/2], scales of N, bias."""
    rows, weight, scale = a.tensor(0), a.tensor(1), a.tensor(2)
    if not rows.dims or len(weight.dims) != 2 or weight.dims[0] != rows.dims[-1]:
        raise Unknown("the dims are not those of a layer and its input")
    of_size(scale.count, weight.like((1, weight.dims[1] if weight.type == "signed char" else 2 * weight.dims[1])))
    out = rows.like((*rows.dims[:-1], scale.count))
    return Figures(2 * out.count * rows.dims[-1], total_bytes(rows, weight, scale, a.optional(3), out))


@model("scaled product and sum", "gemm", r"aten::_scaled_addmm_?", flops=_FLOPS, moved=_MOVED, is_matrix=True)
def scaled_sum(a: Arguments) -> Figures:
    """What is added, both matrices, lists of scales."""
    added, left, right = a.tensor(0), a.tensor(1), a.tensor(2)
    flops, dims = product(left, right)
    double = 2 if left.type == FOUR_BITS else 1
    moved = total_bytes(added, left, right, added.like(dims))
    return Figures(flops * double, moved, "scales are not counted", type=left.type)


@model(
    "product of integers",
    "gemm",
    r"aten::_int_mm|bitsandbytes::int8_linear_matmul",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def integers(a: Arguments) -> Figures:
    left, right = a.tensor(0), a.tensor(1)
    flops, dims = product(left, right) if a.name.startswith("aten::") else by_rows(left, right)
    return Figures(flops, total_bytes(left, right, a.out(2) or left.like(dims, "int")))


@model(
    "product with weights of 4 bits",
    "gemm",
    r"aten::_weight_int4pack_mm(_for_cpu|_with_scales_and_zeros)?",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def packed_weights(a: Arguments) -> Figures:
    """self [M, K], packed weight, group size, scales and zeros [K/group, N, 2]."""
    rows, weight = a.tensor(0), a.tensor(1)
    scales = a.tensor(3) if a.is_tensor(3) else a.tensor(2)
    zeros = a.optional(4) if a.is_tensor(3) else None
    if len(rows.dims) != 2 or len(scales.dims) < 2:
        raise Unknown("the dims are not those of rows and packed weights")
    columns = scales.dims[1]
    if weight.bytes * 2 != columns * rows.dims[1]:
        raise Unknown("the packed weight has another size than its scales")
    dims = (rows.dims[0], columns)
    return Figures(
        2 * prod(dims) * rows.dims[1], total_bytes(rows, weight, scales, zeros, rows.like(dims)), type=rows.type
    )


@model(
    "product with weights of 8 bits", "gemm", r"aten::_weight_int8pack_mm", flops=_FLOPS, moved=_MOVED, is_matrix=True
)
def byte_weights(a: Arguments) -> Figures:
    rows, weight, scales = a.tensor(0), a.tensor(1), a.tensor(2)
    flops, dims = by_rows(rows, weight)
    if len(dims) != 2:
        raise Unknown("the dims are not those of rows and a weight")
    of_size(dims[-1], scales)
    return Figures(flops, total_bytes(rows, weight, scales, rows.like(dims)))


@model(
    "product into a given matrix, with scales",
    "gemm",
    r"_C::(cutlass_scaled_mm(_azp)?|cutlass_scaled_fp4_mm|cutlass_scaled_sparse_mm|rocm_\w+_mm)",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def into_given(a: Arguments) -> Figures:
    out, left, right = a.tensor(0), a.tensor(1), a.tensor(2)
    # Four-bit elements come as bytes of two each, and the right matrix turned.
    double = 2 if "fp4" in a.name else 1
    if len(left.dims) != 2 or len(out.dims) != 2 or left.dims[1] not in right.dims:
        raise Unknown("the dims are not those of matrices to multiply")
    return Figures(
        2 * out.count * left.dims[1] * double,
        _scales(a, 0) + out.bytes,
        type=_multiplied(double, left, right),
    )


@model(
    "product of rows, with scales",
    "gemm",
    r"(sgl_kernel|sglang|vllm|aiter|deep_gemm|_C|trtllm|bitsandbytes|fbgemm|flashinfer)::(?!\w*(group|swiglu))\w*"
    r"(f8f8bf16|i8i8bf16|nvfp4_gemm|fp4_gemm|scaled_fp4_mm|mm_fp4|fp8_block_scaling_gemm|scaled_mm|a8w8|a4w4|w8a8|fp8_gemm|gemm_fp8|int8_scaled|fp8_linear|int8_mixed_scaled_mm|blockscale|bmm_fp8)\w*",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def scaled_rows(a: Arguments) -> Figures:
    """Rows, the weight, scales and perhaps a bias, in the libraries' own orders."""
    found = [(place, tensor) for place, tensor in a.all_tensors() if len(tensor.dims) >= 2 and _is_narrow(tensor)]
    if len(found) < 2:
        # The rows may be scaled inside of the operator.
        found = [(place, tensor) for place, tensor in a.all_tensors() if len(tensor.dims) >= 2]
    if len(found) < 2:
        raise Unknown("the matrices are not recorded")
    (at, left), (beside, right) = found[0], found[1]
    rows, weight = _unpacked(left), _unpacked(right)
    double = 2 if re.search("a4w4|fp4", a.name) and left.type != FOUR_BITS else 1
    batch = rows[0] if len(rows) == len(weight) == 3 and rows[0] == weight[0] else 1
    if len(weight) > 3 or (len(weight) == 3 and batch == 1 and weight[0] != 1) or rows[-1] not in weight[-2:]:
        raise Unknown("the dims are not those of rows and a weight")
    columns = prod(weight) // batch // rows[-1]
    dims = (*rows[:-1], columns)
    out = next((t for p, t in a.all_tensors() if p not in (at, beside) and t.dims == dims), None)
    written = out or left.like(dims, "c10::BFloat16")
    used = [place for place, tensor in a.all_tensors() if tensor is out or tensor == out]
    if a.name.endswith("::bmm_fp8"):
        used.append(_ROOM)
    flops = 2 * prod(dims) * rows[-1] * double
    return Figures(
        flops, _scales(a, *used) + written.bytes, None if out else _TWO_BYTES, type=_multiplied(double, left, right)
    )


def _is_narrow(tensor: Tensor) -> bool:
    return tensor.element_bytes == 1


def _multiplied(double: int, left: Tensor, right: Tensor) -> str:
    """The type that is multiplied: wider rows are rounded to that of the weight on the way."""
    return FOUR_BITS if double == 2 else next((one.type for one in (left, right) if _is_narrow(one)), left.type)


@model(
    "product with a matrix of which half is zeros",
    "gemm",
    r"aten::_sparse_semi_structured_(mm|addmm|linear)|aten::_cslt_sparse_mm",
    flops="2·M·N·K, of which K counts the elements that are kept",
    moved="kept elements, which ones they are, the other matrix, what is added, and the result",
    is_matrix=True,
)
def half_zeros(a: Arguments) -> Figures:
    """mm: kept [M, K/2], which, other [K, N]; addmm: added before; linear: rows [..., K], kept [N, K/2], which."""
    if a.name.endswith("_cslt_sparse_mm"):
        raise Unknown("the compressed matrix does not show its dims")
    is_layer = a.name.endswith("linear")
    kept, other = (a.tensor(1), a.tensor(0)) if is_layer else (a.tensor(0), a.tensor(2))
    if a.name.endswith("addmm"):
        kept, other = a.tensor(1), a.tensor(3)
    depth = other.dims[-1] if is_layer else other.dims[0]
    if len(kept.dims) != 2 or 2 * kept.dims[1] != depth:
        raise Unknown("the dims are not those of a matrix of which half is kept")
    dims = (*other.dims[:-1], kept.dims[0]) if is_layer else (kept.dims[0], other.dims[1])
    code = {"mm": 3, "addmm": 6, "linear": 5}[a.name.rpartition("_")[2]]
    written = other.like(dims, a.type_at(code, "int" if other.type == "signed char" else other.type))
    return Figures(2 * prod(dims) * kept.dims[1], _scales(a) + written.bytes)


@model(
    "product with weights of 4 bits of FBGEMM",
    "gemm",
    r"fbgemm::(f8i4bf16_rowwise|bf16i4bf16_rowwise)",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def packed_rows(a: Arguments) -> Figures:
    """Rows [M, K], and a weight of two elements a byte [N, K/2]."""
    rows, weight = a.tensor(0), a.tensor(1)
    if len(weight.dims) != 2 or 2 * weight.dims[1] != rows.dims[-1]:
        raise Unknown("the packed weight does not fit the input")
    dims = (*rows.dims[:-1], weight.dims[0])
    moved = _scales(a) + rows.like(dims, "c10::BFloat16").bytes
    return Figures(2 * prod(dims) * rows.dims[-1], moved, type=rows.type)


@model(
    "product with quantized weights",
    "gemm",
    r"(_C|vllm|sgl_kernel)::(gptq_marlin_gemm|marlin_gemm|awq_marlin_gemm|gptq_marlin_24_gemm|marlin_qqq_gemm)",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def marlin(a: Arguments) -> Figures:
    """Rows [M, K], and the sizes M, N and K among the scalars, in this order."""
    rows = a.tensor(0)
    depth = rows.dims[-1]
    numbers = [(place, a.integer(place, -1)) for place in range(len(a)) if a.text(place).lstrip("-").isdigit()]
    sizes = [value for _, value in numbers]
    tokens = prod(rows.dims[:-1])
    match = next((at for at in range(len(sizes) - 2) if sizes[at] == tokens and sizes[at + 2] == depth), None)
    if match is None:
        raise Unknown("the sizes are not recorded")
    columns = sizes[match + 1]
    weight = next(
        (t for p, t in a.all_tensors() if p > 0 and t.type in ("int", "unsigned char") and len(t.dims) == 2), None
    )
    if weight is None:
        raise Unknown("the packed weight is not recorded")
    written = rows.like((tokens, columns))
    return Figures(
        2 * tokens * columns * depth,
        total_bytes(rows, weight, written),
        "scales and zeros are not counted",
        type=rows.type,
    )


@model(
    "product with weights of 4 bits",
    "gemm",
    r"(_C|sgl_kernel)::(awq_gemm|gptq_gemm)|vllm::awq_gemm|bitsandbytes::gemv_4bit",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def unpacked_on_the_fly(a: Arguments) -> Figures:
    """awq: rows [M, K], weight [K, N/8]; gptq: weight [K/8, N], and last how many bits an element has."""
    rows, weight = a.tensor(0), a.tensor(1)
    depth, tokens = rows.dims[-1], prod(rows.dims[:-1])
    if "bitsandbytes" in a.name:
        shape = a.integers(2)
        if len(shape) != 2 or shape[1] != depth:
            raise Unknown("the shape of the packed weight does not fit the input")
        columns = shape[0]
    else:
        bits = a.integer(len(a) - 1, 4) if "gptq" in a.name else 4
        if bits not in (2, 3, 4, 8) or weight.count * weight.element_bytes * 8 % (bits * depth):
            raise Unknown("the packed weight does not fit the input")
        columns = weight.count * weight.element_bytes * 8 // (bits * depth)
    moved = _scales(a) + rows.like((tokens, columns)).bytes
    return Figures(2 * tokens * columns * depth, moved, type=rows.type)


@model(
    "product with packed weights that are laid out anew",
    "gemm",
    r"_C::(machete_mm|allspark_w8a16_gemm)",
    flops=_FLOPS,
    moved=_MOVED,
    is_matrix=True,
)
def laid_out_anew(a: Arguments) -> Figures:
    """Rows [M, K], and a weight of N columns: of words of several elements, or a byte each."""
    rows, weight = a.tensor(0), a.tensor(1)
    if len(rows.dims) != 2 or len(weight.dims) != 2:
        raise Unknown("the dims are not those of rows and packed weights")
    depth, columns = rows.dims[1], weight.dims[1]
    if 8 * weight.bytes not in (bits * depth * columns for bits in (4, 8)):
        raise Unknown("the packed weight does not fit the input")
    dims = (rows.dims[0], columns)
    # The type of the result is that of the rows unless another is asked for.
    kind = a.type_at(3, rows.type) if a.name.endswith("machete_mm") else rows.type
    return Figures(2 * prod(dims) * depth, _scales(a) + rows.like(dims, kind).bytes, type=rows.type)
