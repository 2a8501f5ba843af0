"""Recurrent layers of cuDNN, MIOpen and oneDNN: a product for each weight matrix and each step of a sequence."""

from __future__ import annotations

from math import prod

from holotrace.efficiency.arguments import Arguments, Tensor
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

_SAID = "states between steps stay on chip"
_BACKWARD = "all gradients are asked for; states between steps stay on chip"


def _weights(a: Arguments, x: Tensor) -> list[Tensor]:
    """The matrices and biases, which are of the type of the input."""
    listed = a.tensors(1, x.type)
    if not any(len(weight.dims) == 2 for weight in listed):
        raise Unknown("the weights are not recorded")
    return listed


def _flops(x: Tensor, weights: list[Tensor]) -> int:
    return 2 * prod(x.dims[:-1]) * sum(weight.count for weight in weights if len(weight.dims) == 2)


@model(
    "recurrent layers",
    "gemm",
    r"aten::(_cudnn_rnn|miopen_rnn)",
    flops="2·steps·batch·weights",
    moved="input, weights, and a result as wide as the state",
    is_matrix=True,
)
def recurrent(a: Arguments) -> Figures:
    """input, list of weights, how many of each layer, (buffer of weights,) state, …"""
    x = a.tensor(0)
    weights = _weights(a, x)
    state = a.optional(4 if "cudnn" in a.name else 3)
    if state is None or len(state.dims) != 3 or len(x.dims) not in (2, 3):
        raise Unknown("the dims are not those of recurrent layers")
    # The recurrent matrix of the last layer is as wide as one direction of the result.
    both = 2 if a.text(12 if "cudnn" in a.name else 10) == "True" else 1
    out = x.like((*x.dims[:-1], state.dims[-1] * both))
    return Figures(_flops(x, weights), total_bytes(x, *weights, out), _SAID)


@model(
    "recurrent layers, backward",
    "gemm",
    r"aten::(_cudnn_rnn|miopen_rnn)_backward",
    flops="4·steps·batch·weights",
    moved="input, weights and their gradients",
    is_matrix=True,
)
def recurrent_backward(a: Arguments) -> Figures:
    x = a.tensor(0)
    weights = _weights(a, x)
    return Figures(2 * _flops(x, weights), 2 * total_bytes(x, *weights), _BACKWARD)


def _of_one_layer(a: Arguments) -> tuple[Tensor, list[Tensor]]:
    """The input of a layer, and its matrices for the input and the state, with their biases."""
    x = a.tensor(0)
    weights = [tensor for at in range(1, 5) if (tensor := a.optional(at)) is not None]
    if len(x.dims) != 3 or [len(weight.dims) for weight in weights[:2]] != [2, 2]:
        raise Unknown("the dims are not those of recurrent layers")
    return x, weights


@model(
    "recurrent layers on hosts",
    "gemm",
    r"aten::mkldnn_rnn_layer",
    flops="2·steps·batch·weights",
    moved="input, weights, and a result as wide as the state",
    is_matrix=True,
)
def recurrent_on_hosts(a: Arguments) -> Figures:
    """input, matrices for input and state, two biases, states, …"""
    x, weights = _of_one_layer(a)
    out = x.like((*x.dims[:-1], weights[1].dims[-1]))
    return Figures(_flops(x, weights), total_bytes(x, *weights, out), _SAID)


@model(
    "recurrent layers on hosts, backward",
    "gemm",
    r"aten::mkldnn_rnn_layer_backward",
    flops="4·steps·batch·weights",
    moved="input, weights and their gradients",
    is_matrix=True,
)
def recurrent_on_hosts_backward(a: Arguments) -> Figures:
    x, weights = _of_one_layer(a)
    return Figures(2 * _flops(x, weights), 2 * total_bytes(x, *weights), _BACKWARD)
