"""Quantisation of weights and back, whose result has another type or size than what is recorded."""

from __future__ import annotations

from math import prod

from holotrace.efficiency import element_types
from holotrace.efficiency.arguments import Arguments
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

_HALF, _SCALE = 2, 4  # elements of a byte; bytes of a scale


@model(
    "quantisation of bitsandbytes",
    "elementwise",
    r"bitsandbytes::quantize_(4bit|blockwise)",
    flops="1 an element",
    moved="input, packed result, and a scale for each block",
)
def quantised(a: Arguments) -> Figures:
    """4 bits: input, size of blocks, type. 8 bits: input, code, size of blocks."""
    x = a.tensor(0)
    is_half = a.name.endswith("4bit")
    block = a.size(1 if is_half else 2)
    packed = -(-x.count // _HALF) if is_half else x.count
    return Figures(x.count, total_bytes(x, None if is_half else a.tensor(1)) + packed + _SCALE * -(-x.count // block))


@model(
    "values of packed weights of bitsandbytes",
    "elementwise",
    r"bitsandbytes::dequantize_(4bit|blockwise)",
    flops="1 an element",
    moved="packed weights, scales, and the result",
)
def unpacked(a: Arguments) -> Figures:
    """4 bits: packed, scales, size of blocks, kind, shape, type. 8 bits: values, scales, code, size of blocks, type."""
    packed, scales = a.tensor(0), a.tensor(1)
    if a.name.endswith("4bit"):
        count, code = prod(a.integers(4)), a.integer(5)
        if -(-count // _HALF) != packed.bytes:
            raise Unknown("the packed weights have another size than the result")
        return Figures(count, total_bytes(packed, scales) + count * element_types.size(element_types.by_code(code)))
    kind = element_types.by_code(a.integer(4))
    return Figures(packed.count, total_bytes(packed, scales, a.tensor(2), packed.like(type=kind)))


@model(
    "scaling of a product of integers",
    "elementwise",
    r"bitsandbytes::int8_mm_dequant",
    flops="2 an element",
    moved="the product, its scales, and the result",
)
def scaled_back(a: Arguments) -> Figures:
    """Product, scales of rows and of columns, type, bias."""
    x = a.tensor(0)
    written = x.like(type=a.type_at(3, "c10::Half"))
    return Figures(2 * x.count, total_bytes(x, a.tensor(1), a.tensor(2), a.optional(4), written))


@model(
    "quantisation of rows",
    "elementwise",
    r"bitsandbytes::int8_vectorwise_quant|fbgemm::quantize_fp8_per_row|vllm::triton_per_token_group_quant_fp8",
    flops="2 an element",
    moved="input, a byte for each element, and a scale for each row or group",
)
def rows(a: Arguments) -> Figures:
    x = a.tensor(0)
    groups = x.count // x.dims[-1] if x.dims else 1
    if "group" in a.name:
        size = a.size(1)
        if not x.dims or x.dims[-1] % size:
            raise Unknown("the groups do not fit the input")
        groups = x.count // size
    return Figures(2 * x.count, x.bytes + x.count + _SCALE * groups)


@model(
    "quantisation of torch",
    "elementwise",
    r"aten::quantize_per_(tensor|tensor_dynamic|channel)",
    flops="2 an element",
    moved="input, scales, and the result",
)
def of_torch(a: Arguments) -> Figures:
    """self, scale, zero point, type; or scales, zero points, dim, type of each channel; dynamic: type alone."""
    x = a.tensor(0)
    place = {"tensor": 3, "dynamic": 1, "channel": 4}[a.name.rpartition("_")[2]]
    kind = element_types.by_code(a.integer(place))
    return Figures(2 * x.count, total_bytes(*(t for _, t in a.all_tensors()), x.like(type=kind)))


@model(
    "values of quantised elements of torch",
    "elementwise",
    r"aten::dequantize|aten::int_repr",
    flops="2 an element",
    moved="input and floats, or the whole numbers as they are",
)
def values_of_torch(a: Arguments) -> Figures:
    x = a.tensor(0)
    if not x.type.startswith("c10::q"):
        raise Unknown("the input is not quantised")
    kinds = {"c10::qint8": "signed char", "c10::quint8": "unsigned char", "c10::qint32": "int"}
    whole = a.name.endswith("int_repr")
    written = x.like(type=kinds.get(x.type, x.type) if whole else "float")
    return Figures(0 if whole else 2 * x.count, total_bytes(x, written))


@model(
    "rounding as quantisation does",
    "elementwise",
    r"aten::fake_quantize_per_(tensor|channel)_affine_cachemask|aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
    flops="4 an element",
    moved="input, scales, result and its mask",
)
def rounded(a: Arguments) -> Figures:
    x = a.tensor(0)
    return Figures(4 * x.count, total_bytes(*(t for _, t in a.all_tensors()), x.like(), x.like(type="bool")))
