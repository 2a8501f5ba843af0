"""Kernels written in Triton, whose arguments a trace has: bytes only."""

from __future__ import annotations

from holotrace.efficiency.arguments import Arguments
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown


@model(
    "Triton kernel",
    "triton",
    r"triton_\w+|[A-Za-z_]\w*_kernel(_\d+)?",
    moved="each of the kernel's tensors once",
)
def kernel(a: Arguments) -> Figures:
    """FLOPs are not in a kernel's arguments."""
    given = [tensor for _, tensor in a.all_tensors()]
    if not given:
        raise Unknown("the kernel's tensors are not recorded")
    return Figures(None, total_bytes(*given), "each tensor is read or written once, and whole")
