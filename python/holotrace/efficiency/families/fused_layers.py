"""Layers that libraries compute in one kernel, as functions of autograd: Liger, Apex."""

from __future__ import annotations

from holotrace.efficiency.arguments import Arguments
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

_NORMED = "what the backward pass keeps is not counted"


@model(
    "norm of Liger or Apex",
    "norm",
    r"Liger(RMSNorm|LayerNorm)Function|(Fused|FastLayerNorm|FusedRMS|FusedLayer)\w*Norm\w*Function(?!Backward)|LigerFusedAddRMSNormFunction"
    r"|aiter::layernorm2d_fwd",
    flops="5 an element",
    moved="input, weights and result",
)
def norm(a: Arguments) -> Figures:
    """The input first, and weights of one dim."""
    x = a.tensor(0)
    weights = [t for p, t in a.all_tensors() if p and len(t.dims) == 1 and t.dims[0] == x.dims[-1]]
    residuals = [t for p, t in a.all_tensors() if p and t.dims == x.dims]
    if not x.dims or not weights:
        raise Unknown("the dims are not those of an input and its weights")
    # A residual is read, and its sum with the input is written.
    return Figures(5 * x.count, total_bytes(x, *weights, *residuals, x.like(), *residuals), _NORMED)


@model(
    "gated activation of Liger",
    "elementwise",
    r"Liger(SiLU|GELU)MulFunction",
    flops="3 an element",
    moved="both inputs and the result",
)
def gated(a: Arguments) -> Figures:
    gate, values = a.tensor(0), a.tensor(1)
    if gate.dims != values.dims:
        raise Unknown("both inputs have not the same dims")
    return Figures(3 * gate.count, total_bytes(gate, values, values.like()))


@model(
    "convolution of each channel with its past",
    "convolution",
    r"(DaoAILab|causal_conv1d|_C|sgl_kernel)::_?causal_conv1d_fwd\w*",
    flops="2·weights of a channel·elements",
    moved="input, weights, bias and result",
)
def causal(a: Arguments) -> Figures:
    """The input with its channels next to last or first, weights [channels, width]."""
    x, weight = a.tensor(0), a.tensor(1)
    if len(weight.dims) != 2 or weight.dims[0] not in x.dims:
        raise Unknown("the dims are not those of an input and the weights of its channels")
    bias = a.optional(2)
    given = bias if bias is not None and bias.dims == (weight.dims[0],) else None
    return Figures(2 * x.count * weight.dims[1], total_bytes(x, weight, given, x.like()), "states are not counted")
