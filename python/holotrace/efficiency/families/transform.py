"""Fourier transforms."""

from __future__ import annotations

from math import log2, prod

from holotrace.efficiency.arguments import Arguments
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

_COMPLEX = {"c10::Half": "c10::complex<c10::Half>", "float": "c10::complex<float>", "double": "c10::complex<double>"}
_REAL = {complex_type: real for real, complex_type in _COMPLEX.items()}


@model(
    "Fourier transform",
    "fft",
    r"aten::_fft_(c2c|r2c|c2r)",
    flops="5·N·log2 of the transformed sizes; half as much if one side is real",
    moved="input and result",
)
def fourier(a: Arguments) -> Figures:
    """self, dims, normalization, forward or one-sided or last size."""
    x, dims = a.tensor(0), a.integers(1)
    if not dims or any(not -len(x.dims) <= dim < len(x.dims) for dim in dims):
        raise Unknown("the tensor has no such dim")
    sizes, last = list(x.dims), dims[-1]
    kind = x.type
    if a.name.endswith("r2c"):
        kind = _of(_COMPLEX, x.type)
        if a.flag(3, True):
            sizes[last] = sizes[last] // 2 + 1
    elif a.name.endswith("c2r"):
        kind, sizes[last] = _of(_REAL, x.type), a.size(3)
    count = max(x.count, prod(sizes))
    size = prod(max(x.dims[dim], sizes[dim]) for dim in dims)
    flops = round(5 * count * log2(size)) if size > 0 else 0
    half = 1 if a.name.endswith("c2c") else 2
    return Figures(flops // half, total_bytes(x, x.like(sizes, kind)), "a transform takes 5·N·log2(N) operations")


def _of(types: dict[str, str], kind: str) -> str:
    if kind not in types:
        raise Unknown(f"type {kind!r} has no transform")
    return types[kind]
