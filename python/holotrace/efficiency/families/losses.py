"""Losses and their gradients."""

from __future__ import annotations

from holotrace.efficiency.arguments import Arguments, Tensor, alike, of_rank, of_size
from holotrace.efficiency.families.gemm import broadcast
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

_PAIRS = "mse_loss|l1_loss|smooth_l1_loss|huber_loss|soft_margin_loss|kl_div"


@model("loss of pairs", "loss", rf"aten::({_PAIRS})", flops="3 an element", moved="both inputs and the result")
def pairs(a: Arguments) -> Figures:
    """self, target, reduction: 0 for none."""
    x, target = a.tensor(0), a.tensor(1)
    out = next((t for p in range(2, len(a)) if (t := a.out(p)) is not None), None)
    whole = x.like(broadcast(x.dims, target.dims))
    dims = whole.dims if a.integer(2, 1) == 0 else ()
    return Figures(3 * whole.count, total_bytes(x, target, out or x.like(dims)))


@model(
    "loss of pairs, backward",
    "loss",
    rf"aten::({_PAIRS})_backward",
    flops="3 an element",
    moved="gradient, both inputs and the new gradient",
)
def pairs_backward(a: Arguments) -> Figures:
    grad, x, target = a.tensor(0), a.tensor(1), a.tensor(2)
    out = next((t for p in range(3, len(a)) if (t := a.out(p)) is not None), None)
    whole = x.like(broadcast(grad.dims, x.dims, target.dims))
    return Figures(3 * whole.count, total_bytes(grad, x, target, out or x.like()))


@model(
    "binary cross entropy",
    "loss",
    r"aten::binary_cross_entropy(_with_logits)?",
    flops="6 an element",
    moved="inputs, weights and the result",
)
def binary(a: Arguments) -> Figures:
    """self, target, weight, (pos_weight,) reduction."""
    x, target = a.tensor(0), a.tensor(1)
    alike(x, target)
    last = 4 if a.name.endswith("logits") else 3
    dims = x.dims if a.integer(last, 1) == 0 else ()
    others = [a.optional(place) for place in range(2, last)]
    alike(x, x.like(broadcast(x.dims, *(other.dims for other in others if other is not None))))
    return Figures(6 * x.count, total_bytes(x, target, *others, x.like(dims)))


@model(
    "binary cross entropy, backward",
    "loss",
    r"aten::binary_cross_entropy_backward",
    flops="4 an element",
    moved="gradient, inputs and the new gradient",
)
def binary_backward(a: Arguments) -> Figures:
    grad, x, target = a.tensor(0), a.tensor(1), a.tensor(2)
    alike(x, target, x.like(broadcast(x.dims, grad.dims)))
    return Figures(4 * x.count, total_bytes(grad, x, target, a.optional(3), x.like()))


def _chosen(x: Tensor, target: Tensor, weight: Tensor | None) -> None:
    """Raises ``Unknown`` unless there is a target for each place of the scores of all classes."""
    at = 1 if len(x.dims) > 1 else 0
    if not x.dims or (*x.dims[:at], *x.dims[at + 1 :]) != target.dims:
        raise Unknown("the dims are not those of scores and targets")
    of_size(x.dims[at], weight)


@model(
    "negative log likelihood",
    "loss",
    r"aten::nll_loss(2d)?_forward|aten::nll_loss(2d)?",
    flops="1 a target",
    moved="targets, the elements they choose, and the result",
)
def likelihood(a: Arguments) -> Figures:
    """self, target, weight, reduction, ignored."""
    x, target = a.tensor(0), a.tensor(1)
    _chosen(x, target, a.optional(2))
    out = target.count if a.integer(3, 1) == 0 else 1
    # The sum of weights is written too.
    moved = total_bytes(target, a.optional(2)) + x.element_bytes * (target.count + out + 1)
    return Figures(target.count, moved, "no target is ignored")


@model(
    "negative log likelihood, backward",
    "loss",
    r"aten::nll_loss(2d)?_backward",
    flops="1 a target",
    moved="gradient, targets, and the whole new gradient",
)
def likelihood_backward(a: Arguments) -> Figures:
    """grad, self, target, weight, reduction, ignored, total weight, out."""
    grad, x, target = a.tensor(0), a.tensor(1), a.tensor(2)
    _chosen(x, target, a.optional(3))
    of_size(1, a.optional(6))
    if grad.count != 1:
        alike(target, grad)
    return Figures(target.count, total_bytes(grad, target, a.optional(3), a.optional(6), x.like()))


@model(
    "loss of margins between classes",
    "loss",
    r"aten::multi_margin_loss",
    flops="3 an element",
    moved="scores, targets, weights and the result",
)
def margins(a: Arguments) -> Figures:
    """self, target, power, margin, weight, reduction."""
    x, target = a.tensor(0), a.tensor(1)
    _of_each_row(x, target, a.optional(4))
    dims = target.dims if a.integer(5, 1) == 0 else ()
    return Figures(3 * x.count, total_bytes(x, target, a.optional(4), a.out(6) or x.like(dims)))


@model(
    "loss of margins between classes, backward",
    "loss",
    r"aten::multi_margin_loss_backward",
    flops="3 an element",
    moved="gradient, scores, targets, weights and the new gradient",
)
def margins_backward(a: Arguments) -> Figures:
    """grad, self, target, power, margin, weight, reduction."""
    grad, x, target = a.tensor(0), a.tensor(1), a.tensor(2)
    _of_each_row(x, target, a.optional(5))
    return Figures(3 * x.count, total_bytes(grad, x, target, a.optional(5), x.like()))


def _of_each_row(x: Tensor, target: Tensor, weight: Tensor | None) -> None:
    """Raises ``Unknown`` unless there is a target for each row of the scores of all classes."""
    of_rank(x, 0, 1, 2)
    classes = x.dims[-1] if x.dims else 1
    of_size(x.count // classes, target)
    of_size(classes, weight)


@model(
    "loss of margins between labels",
    "loss",
    r"aten::multilabel_margin_loss_forward",
    flops="3 an element",
    moved="scores, targets, the result, and which classes are targets",
)
def labels(a: Arguments) -> Figures:
    """self, target, reduction."""
    x, target = a.tensor(0), a.tensor(1)
    of_rank(x, 0, 1, 2)
    alike(x, target)
    dims = x.dims[:-1] if a.integer(2, 1) == 0 else ()
    return Figures(3 * x.count, total_bytes(x, target, x.like(dims), x.like()))


@model(
    "loss of margins between labels, backward",
    "loss",
    r"aten::multilabel_margin_loss_backward",
    flops="3 an element",
    moved="gradient, scores, targets, which classes are targets, and the new gradient",
)
def labels_backward(a: Arguments) -> Figures:
    """grad, self, target, reduction, which classes are targets."""
    x = a.tensor(1)
    alike(x, a.tensor(2), a.tensor(4))
    return Figures(3 * x.count, total_bytes(a.tensor(0), x, a.tensor(2), a.tensor(4), x.like()))


@model(
    "cross entropy",
    "loss",
    r"aten::cross_entropy_loss|liger\w*::\w*cross_entropy\w*|CrossEntropyFunction|LigerCrossEntropyFunction",
    flops="5 an element",
    moved="input, targets and the result",
)
def cross_entropy(a: Arguments) -> Figures:
    x, target = a.tensor(0), a.tensor(1)
    if not x.dims:
        raise Unknown("the dims are not those of scores and targets")
    return Figures(5 * x.count, total_bytes(x, target, x.like(())), "the result is one number")


@model(
    "connectionist temporal classification",
    "loss",
    r"aten::(_cudnn_|miopen_|_)ctc_loss",
    moved="scores, targets, a loss of each sequence, and what is kept for the backward pass: two for each label of the "
    "longest target and one more, at each time; of cuDNN and MIOpen the gradient",
)
def temporal(a: Arguments) -> Figures:
    """scores [T, (B,) C], targets, lengths of both."""
    scores, targets = a.tensor(0), a.tensor(1)
    if len(scores.dims) not in (2, 3):
        raise Unknown("the dims are not those of scores of sequences")
    kept = scores.like()
    if a.name.endswith("::_ctc_loss"):
        if not a.text(3).startswith("["):
            return Figures(None, total_bytes(scores, targets), "what is kept is not counted")
        kept = scores.like((*scores.dims[:-1], 2 * max(a.integers(3)) + 1))
    return Figures(None, total_bytes(scores, targets, scores.like(scores.dims[1:-1]), kept))


@model(
    "connectionist temporal classification, backward",
    "loss",
    r"aten::_ctc_loss_backward",
    moved="gradient, scores, targets, what forward kept, and the new gradient",
)
def temporal_backward(a: Arguments) -> Figures:
    """grad, scores, targets, lengths of both, loss, what forward kept."""
    scores = a.tensor(1)
    kept = (a.tensor(0), scores, a.tensor(2), a.optional(3), a.optional(4), a.tensor(5), a.tensor(6))
    return Figures(None, total_bytes(*kept, scores.like()))
