"""Recurrent layers of cuDNN, MIOpen and oneDNN: a product for each weight matrix and each step of a sequence."""

from __future__ import annotations

from math import prod

from holotrace.efficiency.arguments import Arguments, Tensor
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

_SAID = "states between steps stay on chip"
_BACKWARD = "all gradients are asked for; states between steps stay on chip"
_ON_HOST = "mkldnn"  # one layer, whose matrices for the input and the state, and two biases, are arguments


def _layers(a: Arguments) -> tuple[Tensor, list[Tensor]]:
    """The input, and the matrices and biases, which are of its type."""
    x = a.tensor(0)
    if _ON_HOST in a.name:
        weights = [weight for at in range(1, 5) if (weight := a.optional(at)) is not None]
        if len(x.dims) != 3 or [len(weight.dims) for weight in weights[:2]] != [2, 2]:
            raise Unknown("the dims are not those of recurrent layers")
    else:
        weights = a.tensors(1, x.type)
        if not any(len(weight.dims) == 2 for weight in weights):
            raise Unknown("the weights are not recorded")
    return x, weights


def _flops(x: Tensor, weights: list[Tensor]) -> int:
    return 2 * prod(x.dims[:-1]) * sum(weight.count for weight in weights if len(weight.dims) == 2)


def _width(a: Arguments, x: Tensor, weights: list[Tensor]) -> int:
    """How wide the result is: as the state, of each direction."""
    if _ON_HOST in a.name:
        return weights[1].dims[-1]
    state = a.optional(4 if "cudnn" in a.name else 3)
    if state is None or len(state.dims) != 3 or len(x.dims) not in (2, 3):
        raise Unknown("the dims are not those of recurrent layers")
    return state.dims[-1] * (2 if a.text(12 if "cudnn" in a.name else 10) == "True" else 1)


@model(
    "recurrent layers",
    "gemm",
    r"aten::(_cudnn_rnn|miopen_rnn|mkldnn_rnn_layer)",
    flops="2·steps·batch·weights",
    moved="input, weights, and a result as wide as the state",
    is_matrix=True,
)
def recurrent(a: Arguments) -> Figures:
    """input, list of weights, how many of each layer, (buffer of weights,) state, …"""
    x, weights = _layers(a)
    # The recurrent matrix of the last layer is as wide as one direction of the result.
    out = x.like((*x.dims[:-1], _width(a, x, weights)))
    return Figures(_flops(x, weights), total_bytes(x, *weights, out), _SAID)


@model(
    "recurrent layers, backward",
    "gemm",
    r"aten::(_cudnn_rnn|miopen_rnn|mkldnn_rnn_layer)_backward",
    flops="4·steps·batch·weights",
    moved="input, weights and their gradients",
    is_matrix=True,
)
def recurrent_backward(a: Arguments) -> Figures:
    x, weights = _layers(a)
    return Figures(2 * _flops(x, weights), 2 * total_bytes(x, *weights), _BACKWARD)
