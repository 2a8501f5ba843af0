"""Kernels of serving libraries on vectors: norms, activations with a gate, quantisation."""

from __future__ import annotations

from math import prod

from holotrace.efficiency.arguments import Arguments, Tensor
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

_LIBRARIES = r"(_C|sgl_kernel|flashinfer|vllm|aiter|torch_ipex|vllm_ir)::"


def rms_flops(x: Tensor) -> int:
    """Square, sum, scale and multiply each element."""
    return 4 * x.count


@model(
    "RMS norm into a given tensor",
    "norm",
    r"(_C|sgl_kernel|flashinfer)::(gemma_)?rms_?norm|aiter::rmsnorm",
    flops="4 an element",
    moved="input, weight and result",
)
def into_given(a: Arguments) -> Figures:
    """out, input, weight, eps."""
    out, x, weight = a.tensor(0), a.tensor(1), a.tensor(2)
    _same(out, x)
    return Figures(rms_flops(x), total_bytes(out, x, weight))


@model(
    "RMS norm of a library",
    "norm",
    r"(aiter|vllm)::(rocm_aiter_)?rms_?norm(2d)?(_fwd)?(_ck)?|aiter::rms_norm\w*"
    r"|sglang_profiler::rmsnorm_rmsnorm2d_fwd(?!_with)\w*|vllm_ir::rms_norm",
    flops="4 an element",
    moved="input, weight and result",
)
def returned(a: Arguments) -> Figures:
    """input, weight, eps."""
    x, weight = a.tensor(0), a.tensor(1)
    if len(weight.dims) != 1 or not x.dims or x.dims[-1] != weight.dims[0]:
        raise Unknown("the dims are not those of rows and a weight")
    return Figures(rms_flops(x), total_bytes(x, weight, x.like()))


@model(
    "sum and RMS norm in place",
    "norm",
    r"(_C|sgl_kernel|flashinfer)::(gemma_)?fused_add_rms_?norm",
    flops="5 an element",
    moved="input and residual, both read and written, and weight",
)
def sum_in_place(a: Arguments) -> Figures:
    """input, residual, weight, eps."""
    x, residual, weight = a.tensor(0), a.tensor(1), a.tensor(2)
    _same(x, residual)
    return Figures(rms_flops(x) + x.count, 2 * (x.bytes + residual.bytes) + weight.bytes)


@model(
    "sum and RMS norm",
    "norm",
    r"aiter::(add_rmsnorm|rmsnorm2d_fwd_with_add\w*)|vllm::rocm_aiter_rms_?norm2d_fwd_with_add"
    r"|sglang_profiler::rmsnorm_rmsnorm2d_fwd_with_add\w*",
    flops="5 an element",
    moved="input, residual, weight, and both results",
)
def sum_and_norm(a: Arguments) -> Figures:
    """(out,) input, residual, (sum,) weight, eps."""
    given = [tensor for _, tensor in a.all_tensors()]
    weight = next((tensor for tensor in given if len(tensor.dims) == 1), None)
    rows = [tensor for tensor in given if len(tensor.dims) > 1]
    if weight is None or len(rows) not in (2, 4):
        raise Unknown("the dims are not those of rows, residuals and a weight")
    moved = total_bytes(*rows, weight) * 1 if len(rows) == 4 else total_bytes(*rows, weight, *(t.like() for t in rows))
    return Figures(rms_flops(rows[0]) + rows[0].count, moved)


@model(
    "activation with a gate",
    "elementwise",
    _LIBRARIES
    + r"(silu_and_mul|gelu_and_mul|gelu_tanh_and_mul|mul_and_silu|fatrelu_and_mul|swigluoai_and_mul|scaled_silu_and_mul"
    r"|gelu_fast|gelu_new|gelu_quick|silu_and_mul(_per_block)?_quant)",
    flops="2 an element of the result",
    moved="input and result",
)
def gated(a: Arguments) -> Figures:
    """out, input."""
    out, x = a.tensor(0), a.tensor(1)
    if x.count not in (out.count, 2 * out.count):
        raise Unknown("the input is not twice as wide as the result")
    return Figures(2 * out.count, total_bytes(out, *(t for p, t in a.all_tensors() if p)))


@model(
    "quantisation",
    "elementwise",
    _LIBRARIES + r"(static|dynamic|per_token|per_tensor|per_block|scaled)\w*_quant\w*"
    r"|sgl_kernel::sgl_per_\w+_quant\w*|aiter::(?!\w*(gemm|mha|attn))\w*quant\w*",
    flops="1 an element",
    moved="input, result and scales",
)
def quantisation(a: Arguments) -> Figures:
    """The result, the input, and scales; or the input first."""
    given = [tensor for _, tensor in a.all_tensors()]
    if len(given) < 2:
        raise Unknown("input and result are not both recorded")
    return Figures(max(tensor.count for tensor in given), total_bytes(*given))


@model(
    "parts of attention put together",
    "attention",
    r"(_C|sgl_kernel)::(merge_attn_states|merge_state(_v2)?|concat_mla_[kq])|_C_cache_ops::concat_mla_q",
    moved="all its tensors once",
)
def parts(a: Arguments) -> Figures:
    """Parts of results with their sums of exponentials, or of keys or queries; and the whole."""
    return Figures(None, total_bytes(*(tensor for _, tensor in a.all_tensors())))


@model(
    "RMS norm with quantisation",
    "norm",
    r"_C::(fused_add_)?rms_norm_(static_fp8|dynamic_per_token|per_block)_quant",
    flops="5 an element",
    moved="all its tensors, a residual twice",
)
def norm_and_quantisation(a: Arguments) -> Figures:
    given = list(a.all_tensors())
    x = a.tensor(1)
    residual = next((t for p, t in given if p > 1 and t.dims == x.dims), None)
    return Figures(rms_flops(x) + x.count, total_bytes(*(t for _, t in given), residual))


def _same(first: Tensor, second: Tensor) -> None:
    if prod(first.dims) != prod(second.dims):
        raise Unknown("input and result have not the same size")
