"""Models of all families of operators: the first that fits an operator's name is asked."""

from __future__ import annotations

from functools import lru_cache

from holotrace.efficiency.families import (
    attention,
    communication,
    convolution,
    copies,
    distances,
    elementwise,
    embedding,
    factorization,
    flash_attention,
    fused_layers,
    gemm,
    grouped_gemm,
    losses,
    moe,
    normalization,
    optimizers,
    packing,
    paged_attention,
    pooling,
    quantized_gemm,
    random,
    recommender,
    recurrent,
    reduction,
    rotary,
    softmax,
    sorting,
    transform,
    triton,
    vector_kernels,
)
from holotrace.efficiency.model import OperatorModel

_MODULES = (
    gemm,
    quantized_gemm,
    grouped_gemm,
    moe,
    convolution,
    attention,
    flash_attention,
    paged_attention,
    normalization,
    softmax,
    embedding,
    recommender,
    elementwise,
    reduction,
    distances,
    copies,
    pooling,
    rotary,
    losses,
    optimizers,
    recurrent,
    fused_layers,
    packing,
    vector_kernels,
    transform,
    factorization,
    sorting,
    random,
    communication,
    triton,
)
ALL: tuple[OperatorModel, ...] = tuple(
    value for module in _MODULES for value in vars(module).values() if isinstance(value, OperatorModel)
)


@lru_cache(maxsize=1 << 14)
def of(operator: str) -> OperatorModel | None:
    """The model of an operator, by its name."""
    return next((model for model in ALL if model.fits(operator)), None)
