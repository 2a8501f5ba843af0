"""Attention: pairs of queries and keys that are not masked; operators of torch itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from holotrace.efficiency.arguments import Arguments, Tensor
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

FLOPS = "(pairs of query and key that are not masked) · heads · 2·(d_qk + d_v)"
BACKWARD_FLOPS = "(pairs that are not masked) · heads · 2·(3·d_qk + 2·d_v)"
MOVED = "queries, keys, values, bias and result"
BACKWARD_MOVED = "forward's tensors and the result's gradient, and gradients of queries, keys, values"
NO_LENGTHS = "the lengths of the sequences are not recorded"
IN_USE = "how many keys are in use is not recorded"
PAGED = f"keys are in pages, and {IN_USE}"
NO_MASK = "which keys are masked is not recorded"


@dataclass(frozen=True)
class Mask:
    """Which keys a query sees: ``left`` before it and ``right`` after it, None all; its place from the top left."""

    left: int | None = None
    right: int | None = None
    from_bottom: bool = False
    is_known: bool = True

    @classmethod
    def causal(cls, is_causal: bool | None, *, from_bottom: bool = False) -> Mask:
        """Of no key behind the query, or of all; None if that is not recorded."""
        return cls(None, 0 if is_causal else None, from_bottom, is_causal is not None)

    @classmethod
    def windowed(cls, is_causal: bool | None, left: int, right: int) -> Mask:
        """As flash-attn has it: a negative size is none, and the last query sees the last key."""
        if is_causal is None:
            return cls(is_known=False)
        after = 0 if is_causal else (None if right < 0 else right)
        return cls(None if left < 0 else left, after, True)

    def pairs(self, queries: int, keys: int) -> int:
        """How many pairs of query and key are not masked."""
        shift = keys - queries if self.from_bottom else 0
        upper = queries * keys if self.right is None else _below(queries, keys, shift + self.right + 1)
        lower = 0 if self.left is None else _below(queries, keys, shift - self.left)
        return max(upper - lower, 0)


def _below(queries: int, keys: int, first: int) -> int:
    """The sum of ``first + i``, but at least 0 and at most ``keys``, over all queries ``i``."""
    last = first + queries - 1
    low, high = max(first, 0), min(last, keys)
    rising = (low + high) * (high - low + 1) // 2 if high >= low else 0
    full = max(last - max(keys, first - 1), 0)
    return rising + full * keys


@dataclass(frozen=True)
class Shape:
    """Sizes of an attention: heads are those of the queries."""

    batch: int
    heads: int
    queries: int
    keys: int
    d_qk: int
    d_v: int

    def forward(self, mask: Mask) -> int | None:
        if not mask.is_known:
            return None
        return self.batch * self.heads * mask.pairs(self.queries, self.keys) * 2 * (self.d_qk + self.d_v)

    def backward(self, mask: Mask) -> int | None:
        if not mask.is_known:
            return None
        return self.batch * self.heads * mask.pairs(self.queries, self.keys) * 2 * (3 * self.d_qk + 2 * self.d_v)


def shape(q: Tensor, k: Tensor, v: Tensor, *, heads_first: bool) -> Shape:
    """The sizes of ``[B, H, L, D]``, or of ``[B, L, H, D]``."""
    if not len(q.dims) == len(k.dims) == len(v.dims) or len(q.dims) not in (3, 4):
        raise Unknown("the dims are not those of queries, keys and values")
    if len(q.dims) == 3:
        # One head, or no batch: the same work.
        (b, n, d), (bk, m, dk), (bv, mv, dv) = q.dims, k.dims, v.dims
        h = hk = hv = 1
    elif heads_first:
        (b, h, n, d), (bk, hk, m, dk), (bv, hv, mv, dv) = q.dims, k.dims, v.dims
    else:
        (b, n, h, d), (bk, m, hk, dk), (bv, mv, hv, dv) = q.dims, k.dims, v.dims
    if d != dk or m != mv or not b == bk == bv or hk != hv or h % hk:
        raise Unknown("the dims are not those of queries, keys and values")
    return Shape(b, h, n, m, d, dv)


def result(q: Tensor, v: Tensor) -> Tensor:
    """Of the queries' type, or of two bytes where those are narrower."""
    kind = "c10::BFloat16" if q.element_bytes == 1 else q.type
    return q.like((*q.dims[:-1], v.dims[-1]), kind)


def forward(q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None = None, *, heads_first: bool) -> Figures:
    flops = shape(q, k, v, heads_first=heads_first).forward(mask)
    return Figures(flops, total_bytes(q, k, v, bias, result(q, v)), _seen(bias, mask))


def backward(given: Sequence[Tensor], mask: Mask, bias: Tensor | None = None, *, heads_first: bool) -> Figures:
    """From the gradient, q, k, v and the result."""
    grad, q, k, v, out = given
    flops = shape(q, k, v, heads_first=heads_first).backward(mask)
    moved = total_bytes(grad, q, k, v, bias, out, q.like(), k.like(), v.like())
    return Figures(flops, moved, _seen(bias, mask))


def _with_gradient(found: Figures, bias: Tensor | None, asked: Sequence[object]) -> Figures:
    """With the bytes of the bias' gradient, the last of those that may be asked for."""
    if bias is None or not asked or not asked[-1]:
        return found
    return found._replace(moved_bytes=(found.moved_bytes or 0) + bias.like().bytes)


def _seen(bias: Tensor | None, mask: Mask) -> str | None:
    if not mask.is_known:
        return NO_MASK
    return "a mask of bools hides nothing" if bias is not None and bias.type == "bool" else None


_FLASH = 7  # arguments of flash attention at most, where no scales are among them
_SDPA = r"aten::_scaled_dot_product_"


@model(
    "flash attention of torch",
    "attention",
    _SDPA + r"flash_attention(_for_cpu)?",
    flops=FLOPS,
    moved=MOVED,
    is_matrix=True,
)
def flash(a: Arguments) -> Figures:
    """q, k, v, (scales of each where they are narrow,) dropout, causal; on hosts then a bias."""
    bias = a.optional(5) if a.name.endswith("_for_cpu") else None
    mask = Mask.causal(a.told(7 if len(a) > _FLASH else 4))
    return forward(a.tensor(0), a.tensor(1), a.tensor(2), mask, bias, heads_first=True)


@model(
    "efficient attention of torch",
    "attention",
    _SDPA + r"efficient_attention",
    flops=FLOPS,
    moved=MOVED,
    is_matrix=True,
)
def efficient(a: Arguments) -> Figures:
    mask = Mask.causal(a.told(6))
    return forward(a.tensor(0), a.tensor(1), a.tensor(2), mask, a.optional(3), heads_first=True)


@model("cuDNN attention of torch", "attention", _SDPA + r"cudnn_attention", flops=FLOPS, moved=MOVED, is_matrix=True)
def cudnn(a: Arguments) -> Figures:
    """q, k, v, bias, compute_log_sumexp, dropout, causal, …; the first had neither the bias nor the sum."""
    newer = len(a) > 7
    mask = Mask.causal(a.told(6 if newer else 4))
    return forward(a.tensor(0), a.tensor(1), a.tensor(2), mask, a.optional(3) if newer else None, heads_first=True)


@model(
    "attention of torch",
    "attention",
    r"aten::(scaled_dot_product_attention|_scaled_dot_product_attention_math(_for_mps)?"
    r"|_scaled_dot_product_fused_attention_overrideable)",
    flops=FLOPS,
    moved=MOVED,
    is_matrix=True,
)
def any_backend(a: Arguments) -> Figures:
    mask = Mask.causal(a.flag(5, False))
    return forward(a.tensor(0), a.tensor(1), a.tensor(2), mask, a.optional(3), heads_first=True)


@model(
    "flash attention of torch, backward",
    "attention",
    _SDPA + r"flash_attention(_for_cpu)?_backward",
    flops=BACKWARD_FLOPS,
    moved=BACKWARD_MOVED,
    is_matrix=True,
)
def flash_backward(a: Arguments) -> Figures:
    """grad, q, k, v, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout, causal, …"""
    on_cpu = a.name.endswith("_for_cpu_backward")
    given = [a.tensor(place) for place in range(5)]
    mask = Mask.causal(a.told(7 if on_cpu else 11))
    return backward(given, mask, a.optional(8) if on_cpu else None, heads_first=True)


@model(
    "efficient attention of torch, backward",
    "attention",
    _SDPA + r"efficient_attention_backward",
    flops=BACKWARD_FLOPS,
    moved=BACKWARD_MOVED,
    is_matrix=True,
)
def efficient_backward(a: Arguments) -> Figures:
    """grad, q, k, v, bias, out, logsumexp, seed, offset, dropout, gradients asked for, causal."""
    given = [a.tensor(place) for place in (0, 1, 2, 3, 5)]
    found = backward(given, Mask.causal(a.told(11)), a.optional(4), heads_first=True)
    return _with_gradient(found, a.optional(4), a.listed(10, []))


@model(
    "cuDNN attention of torch, backward",
    "attention",
    _SDPA + r"cudnn_attention_backward|aten::_cudnn_attention_backward",
    flops=BACKWARD_FLOPS,
    moved=BACKWARD_MOVED,
    is_matrix=True,
)
def cudnn_backward(a: Arguments) -> Figures:
    """grad, q, k, v, out, logsumexp, seed, offset, bias, cum_seq_q, cum_seq_k, max_q, max_k, dropout, causal."""
    given = [a.tensor(place) for place in range(5)]
    return backward(given, Mask.causal(a.told(14)), a.optional(8), heads_first=True)


@model(
    "overridden attention of torch, backward",
    "attention",
    _SDPA + r"fused_attention_overrideable_backward",
    flops=BACKWARD_FLOPS,
    moved=BACKWARD_MOVED,
    is_matrix=True,
)
def overridden_backward(a: Arguments) -> Figures:
    """grad, q, k, v, bias, gradients asked for, out, logsumexp, …, max_q, max_k, dropout, causal."""
    given = [a.tensor(place) for place in (0, 1, 2, 3, 6)]
    found = backward(given, Mask.causal(a.told(13)), a.optional(4), heads_first=True)
    return _with_gradient(found, a.optional(4), a.listed(5, []))


@model(
    "kernel of flash attention",
    "attention",
    r"aten::_flash_attention_forward(_no_dropout_inplace)?",
    flops=FLOPS,
    moved=MOVED,
    is_matrix=True,
)
def flash_kernel(a: Arguments) -> Figures:
    """(out,) q, k, v [B, L, H, D], cum_seq_q, cum_seq_k, max_q, max_k, dropout, causal, debug mask, scale, window …

    Behind the window the lengths that are in use, slopes of a bias, and a table of pages; before the scale three of
    narrow types.
    """
    first = 1 if a.name.endswith("_inplace") else 0
    q, k, v = (a.tensor(first + place) for place in range(3))
    window = first + (14 if any(a.is_tensor(first + place) for place in (10, 11, 12)) else 11)
    mask = _torch_window(a, first + 8, window)
    in_use, pages = window + 2, window + 4
    if len(k.dims) != len(q.dims) or a.is_tensor(pages):
        raise Unknown(PAGED)
    if a.is_tensor(in_use):
        return Figures(None, total_bytes(q, k, v, result(q, v)), NO_LENGTHS)
    lengths = a.optional(first + 3)
    if lengths is not None:
        return unequal((q, k, v), lengths, longest(a, first + 5), mask)
    return forward(q, k, v, mask, heads_first=False)


def _torch_window(a: Arguments, causal: int, left: int) -> Mask:
    """Torch masks from the top left."""
    before, after = a.integer(left, -1), a.integer(left + 1, -1)
    is_causal = a.told(causal)
    if is_causal is None:
        return Mask(is_known=False)
    return Mask(before if before >= 0 else None, 0 if is_causal else (after if after >= 0 else None))


@model(
    "kernel of flash attention, backward",
    "attention",
    r"aten::_flash_attention_backward",
    flops=BACKWARD_FLOPS,
    moved=BACKWARD_MOVED,
    is_matrix=True,
)
def flash_kernel_backward(a: Arguments) -> Figures:
    """grad, q, k, v, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout, causal, …, window."""
    given = [a.tensor(place) for place in range(5)]
    lengths = a.optional(6)
    # Without lengths an empty tensor may be there.
    if lengths is not None and lengths.count:
        mask = _torch_window(a, 11, 15)
        return unequal_backward(given, lengths, longest(a, 8), mask)
    return backward(given, _torch_window(a, 11, 15), heads_first=False)


_MASKS = {0: Mask(), 1: Mask.causal(True), 2: Mask.causal(True, from_bottom=True)}


def numbered_mask(a: Arguments, place: int, window: int = -1) -> Mask:
    """No mask, one from the top left, or one from the bottom right, by its number."""
    if not a.given(place):
        return Mask(is_known=False)
    number = a.integer(place)
    if number not in _MASKS:
        raise Unknown(f"mask number {number} is not known")
    if window >= 0 and (size := a.integer(window, -1)) > 0:
        return Mask(size - 1, _MASKS[number].right, True) if number else Mask(size // 2, size // 2)
    return _MASKS[number]


@model(
    "kernel of efficient attention",
    "attention",
    r"aten::_efficient_attention_forward",
    flops=FLOPS,
    moved=MOVED,
    is_matrix=True,
)
def efficient_kernel(a: Arguments) -> Figures:
    """q, k, v, bias, cu_seqlens_q, cu_seqlens_k, max_q, max_k, dropout, mask, …, scale, seqlen_k, window.

    Until PyTorch 2.3 without max_k.
    """
    q, k, v = a.tensor(0), a.tensor(1), a.tensor(2)
    older = a.text(9) in ("True", "False")
    mask = numbered_mask(a, 8) if older else numbered_mask(a, 9, 13)
    if a.is_tensor(4):
        most = (a.integer(6, -1), -1) if older else longest(a, 6)
        return unequal((q, k, v), a.tensor(4), most, mask)
    return forward(q, k, v, mask, a.optional(3), heads_first=False)


@model(
    "kernel of efficient attention, backward",
    "attention",
    r"aten::_efficient_attention_backward",
    flops=BACKWARD_FLOPS,
    moved=BACKWARD_MOVED,
    is_matrix=True,
)
def efficient_kernel_backward(a: Arguments) -> Figures:
    """grad, q, k, v, bias, out, cu_seqlens_q, cu_seqlens_k, max_q, max_k, logsumexp, dropout, seed, offset, mask."""
    given = [a.tensor(place) for place in (0, 1, 2, 3, 5)]
    if a.is_tensor(6):
        return unequal_backward(given, a.tensor(6), longest(a, 8), numbered_mask(a, 14, 18))
    found = backward(given, numbered_mask(a, 14, 18), a.optional(4), heads_first=False)
    return _with_gradient(found, a.optional(4), [a.flag(15, False)])


@model(
    "kernel of cuDNN attention",
    "attention",
    r"aten::_cudnn_attention_forward",
    flops=FLOPS,
    moved=MOVED,
    is_matrix=True,
)
def cudnn_kernel(a: Arguments) -> Figures:
    """q, k, v, bias, cum_seq_q, cum_seq_k, max_q, max_k, compute_log_sumexp, dropout, causal, …, in use, pages."""
    q, k, v = a.tensor(0), a.tensor(1), a.tensor(2)
    if a.is_tensor(14):
        raise Unknown(PAGED)
    if a.is_tensor(13):
        return Figures(None, total_bytes(q, k, v, result(q, v)), NO_LENGTHS)
    if a.is_tensor(4):
        return unequal((q, k, v), a.tensor(4), longest(a, 6), Mask.causal(a.told(10)))
    return forward(q, k, v, Mask.causal(a.told(10)), a.optional(3), heads_first=True)


def unequal(given: Sequence[Tensor], starts: Tensor, longest: tuple[int, int], mask: Mask) -> Figures:
    """Sequences of unequal lengths after each other, ``[T, H, D]``: the lengths are told if all are as long.

    Args:
        given: q, k and v.
        starts: Where each sequence begins, and the last ends.
        longest: The greatest number of queries and of keys.
        mask: Which keys a query sees.
    """
    q, k, v = given
    moved = total_bytes(q, k, v, result(q, v))
    sizes = _equal(given, starts, longest)
    return Figures(None, moved, NO_LENGTHS) if sizes is None else Figures(sizes.forward(mask), moved, _seen(None, mask))


def unequal_backward(given: Sequence[Tensor], starts: Tensor, longest: tuple[int, int], mask: Mask) -> Figures:
    """The same from the gradient, q, k, v and the result."""
    grad, q, k, v, out = given
    moved = total_bytes(grad, q, k, v, out, q.like(), k.like(), v.like())
    sizes = _equal((q, k, v), starts, longest)
    if sizes is None:
        return Figures(None, moved, NO_LENGTHS)
    return Figures(sizes.backward(mask), moved, _seen(None, mask))


def longest(a: Arguments, place: int) -> tuple[int, int]:
    """The greatest number of queries and of keys of a sequence; -1 if it is not recorded."""
    return a.integer(place, -1), a.integer(place + 1, -1)


def _equal(given: Sequence[Tensor], starts: Tensor, most: tuple[int, int]) -> Shape | None:
    """The sizes, if all sequences are as long as the longest: then these are all there is."""
    if any(len(tensor.dims) < 3 or prod(tensor.dims[:-3]) != 1 for tensor in given):
        raise Unknown("the dims are not those of sequences after each other")
    (n, h, d), (m, hk, dk), (mv, _, dv) = (tensor.dims[-3:] for tensor in given)
    if d != dk or m != mv or h % hk:
        raise Unknown("the dims are not those of queries, keys and values")
    count = starts.count - 1
    if count < 1 or most[0] * count != n or most[1] * count != m:
        return None
    return Shape(count, h, *most, d, dv)
