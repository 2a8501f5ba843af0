"""Attention of libraries: flash-attn, xformers, AITER; sequences of one length or several."""

from __future__ import annotations

from itertools import pairwise

from holotrace.efficiency.arguments import Arguments, Tensor
from holotrace.efficiency.families import paged_attention
from holotrace.efficiency.families.attention import (
    BACKWARD_FLOPS,
    BACKWARD_MOVED,
    FLOPS,
    IN_USE,
    MOVED,
    NO_LENGTHS,
    NO_MASK,
    PAGED,
    Mask,
    backward,
    forward,
    longest,
    numbered_mask,
    result,
    unequal,
    unequal_backward,
)
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

_WINDOW = 7  # where the window of flash-attn ends


def _window(a: Arguments, causal: int, left: int) -> Mask:
    return Mask.windowed(a.told(causal), a.integer(left, -1), a.integer(left + 1, -1))


def _of_function(a: Arguments, causal: int) -> Mask:
    """As a function of autograd has it: without dropout since flash-attn 3, so that ``causal`` is one place before."""
    before = causal - 1
    if a.text(before) in ("True", "False"):
        window = next((place for place in range(causal, len(a)) if a.text(place).startswith(("(", "["))), -1)
        causal = before
    else:
        window = causal + 1 if a.text(causal + 1).startswith(("(", "[")) else -1
    left, right = a.integers(window, [-1, -1])
    return Mask.windowed(a.told(causal), left, right)


@model(
    "flash-attn",
    "attention",
    r"flash_attn::_flash_attn_forward|FlashAttnFunc|aiter::(_flash_attn_forward|mha_fwd|(wrapper_)?fmha_v3_fwd)"
    r"|primus_turbo::attention_aiter_csrc_forward_impl",
    flops=FLOPS,
    moved=MOVED,
    is_matrix=True,
)
def dense(a: Arguments) -> Figures:
    """q, k, v [B, L, H, D], dropout, scale, causal, window; newer ones may have starts of sequences at the end."""
    if "int" in a.types[_WINDOW + 1 :]:
        raise Unknown(NO_LENGTHS)
    mask = _of_function(a, 5) if a.name == "FlashAttnFunc" else _window(a, 5, 6)
    return forward(a.tensor(0), a.tensor(1), a.tensor(2), mask, heads_first=False)


@model(
    "flash-attn, packed",
    "attention",
    r"FlashAttn(QKV|KV)PackedFunc",
    flops=FLOPS,
    moved=MOVED,
    is_matrix=True,
)
def packed(a: Arguments) -> Figures:
    """qkv [B, L, 3, H, D], or q and kv [B, L, 2, H, D]; dropout, scale, causal."""
    first = 1 if a.name == "FlashAttnKVPackedFunc" else 0
    both = a.tensor(first)
    if len(both.dims) != 5 or both.dims[2] != 3 - first:
        raise Unknown("the dims are not those of packed queries, keys and values")
    b, n, _, h, d = both.dims
    one = Tensor((b, n, h, d), both.type)
    q = a.tensor(0) if first else one
    return forward(q, one, one, _of_function(a, 3 + first), heads_first=False)


@model(
    "flash-attn, unequal lengths, as a function of autograd",
    "attention",
    r"FlashAttnVarlenFunc",
    flops=FLOPS,
    moved=MOVED,
    is_matrix=True,
)
def unequal_function(a: Arguments) -> Figures:
    """q, k, v [T, H, D], cu_seqlens_q, cu_seqlens_k, max_q, max_k, dropout, scale, causal, window.

    Since flash-attn 3 lengths in use before max_q, and no dropout.
    """
    newer = a.text(10) in ("True", "False") and a.text(9) not in ("True", "False")
    if newer and (a.is_tensor(5) or a.is_tensor(6)):
        raise Unknown(IN_USE)
    mask = _of_function(a, 11 if newer else 9)
    return unequal((a.tensor(0), a.tensor(1), a.tensor(2)), a.tensor(3), longest(a, 7 if newer else 5), mask)


@model(
    "flash-attn, backward",
    "attention",
    r"flash_attn::_flash_attn_backward|aiter::_flash_attn_backward",
    flops=BACKWARD_FLOPS,
    moved=BACKWARD_MOVED,
    is_matrix=True,
)
def dense_backward(a: Arguments) -> Figures:
    """grad, q, k, v, out, lse, dq, dk, dv, dropout, scale, causal, window."""
    return backward([a.tensor(place) for place in range(5)], _window(a, 11, 12), heads_first=False)


@model(
    "AITER's attention, backward",
    "attention",
    r"aiter::(mha_bwd|(wrapper_)?fmha_v3_bwd)|primus_turbo::attention_aiter_csrc_backward_impl",
    flops=BACKWARD_FLOPS,
    moved=BACKWARD_MOVED,
    is_matrix=True,
)
def aiter_backward(a: Arguments) -> Figures:
    """grad, q, k, v, out, lse, dropout, scale, causal, window; or with gradients before the dropout."""
    given = [a.tensor(place) for place in range(5)]
    shift = 3 if a.is_tensor(6) and a.is_tensor(7) and a.is_tensor(8) else 0
    return backward(given, _window(a, 8 + shift, 9 + shift), heads_first=False)


@model(
    "flash-attn, unequal lengths",
    "attention",
    r"flash_attn::_flash_attn_varlen_forward|aiter::_flash_attn_varlen_forward",
    flops=FLOPS,
    moved=MOVED,
    is_matrix=True,
)
def unequal_lengths(a: Arguments) -> Figures:
    """q, k, v [T, H, D], starts, max_q, max_k, dropout, scale, causal, window, …, 15 pages, padding, lengths in use."""
    q, k, v = a.tensor(0), a.tensor(1), a.tensor(2)
    if len(k.dims) == 4:
        raise Unknown(PAGED)
    if a.name.startswith("flash_attn::") and (a.is_tensor(16) or a.is_tensor(17)):
        raise Unknown(IN_USE)
    return unequal((q, k, v), a.tensor(3), longest(a, 5), _window(a, 9, 10))


@model(
    "flash-attn, unequal lengths, backward",
    "attention",
    r"flash_attn::_flash_attn_varlen_backward|aiter::_flash_attn_varlen_backward",
    flops=BACKWARD_FLOPS,
    moved=BACKWARD_MOVED,
    is_matrix=True,
)
def unequal_lengths_backward(a: Arguments) -> Figures:
    """grad, q, k, v, out, lse, dq, dk, dv, cu_seqlens_q, cu_seqlens_k, max_q, max_k, dropout, scale, causal, window."""
    given = [a.tensor(place) for place in range(5)]
    mask = _window(a, 15, 16)
    return unequal_backward(given, a.tensor(9), longest(a, 11), mask)


@model(
    "AITER's attention, unequal lengths, backward",
    "attention",
    r"aiter::(mha_varlen_bwd|fmha_v3_varlen_bwd)",
    flops=BACKWARD_FLOPS,
    moved=BACKWARD_MOVED,
    is_matrix=True,
)
def aiter_unequal_backward(a: Arguments) -> Figures:
    """grad, q, k, v, out, lse, cu_seqlens_q, cu_seqlens_k, max_q, max_k, dropout, scale, zeroed, causal, window."""
    given = [a.tensor(place) for place in range(5)]
    return unequal_backward(given, a.tensor(6), longest(a, 8), _window(a, 13, 14))


@model(
    "attention of vLLM and AITER, unequal lengths",
    "attention",
    r"_vllm_fa2_C::varlen_fwd|aiter::mha_varlen_fwd",
    flops=FLOPS,
    moved=MOVED,
    is_matrix=True,
)
def served(a: Arguments) -> Figures:
    """q, k, v, (out,) starts of both, lengths in use, pages, max_q, max_k, …, zeroed, causal, window, …, pages.

    Versions differ in what is between the lengths and the first two truth values, which are beside each other.
    """
    q, k, v = a.tensor(0), a.tensor(1), a.tensor(2)
    of_vllm = a.name.startswith("_vllm")
    starts, most = (4, 10) if of_vllm else (3, 5)
    cached = (6, 7, 8) if of_vllm else ()
    others = [other for place in range(starts, len(a)) if (other := a.optional(place)) is not None]
    pages = any(other.type == "int" and len(other.dims) > 1 for other in others)
    if len(k.dims) != len(q.dims) or pages or any(a.is_tensor(place) for place in cached):
        return paged_attention.library.work(a)
    flags = [a.text(place) in ("True", "False") for place in range(len(a))]
    zeroed = next((at for at, both in enumerate(pairwise(flags)) if all(both)), -1)
    mask = Mask(is_known=False) if zeroed < 0 else _window(a, zeroed + 1, zeroed + 2)
    return unequal((q, k, v), a.tensor(starts), longest(a, most), mask)


@model(
    "flash-attn 3",
    "attention",
    r"flash_attn_3::(_flash_attn_forward|fwd)|flash_attn_3::_C::fwd",
    flops=FLOPS,
    moved=MOVED,
    is_matrix=True,
)
def third(a: Arguments) -> Figures:
    """q, k, v, k_new, v_new, q_v, out, three starts, two lengths, max_q, max_k, pages, …, 23 scale, causal, window."""
    q, k, v = a.tensor(0), a.tensor(1), a.tensor(2)
    if a.is_tensor(14):
        raise Unknown(PAGED)
    # Of a cache as many keys are read as are in use, and new ones are written to it first.
    if any(a.is_tensor(place) for place in (3, 10, 11, 16)):
        raise Unknown(IN_USE)
    mask = _window(a, 24, 25) if a.text(27) in ("", "0", "None") else Mask(is_known=False)
    if a.is_tensor(7):
        return unequal((q, k, v), a.tensor(7), longest(a, 12), mask)
    return forward(q, k, v, mask, heads_first=False)


@model(
    "flash-attn 3, backward",
    "attention",
    r"flash_attn_3::(_flash_attn_backward|bwd)",
    flops=BACKWARD_FLOPS,
    moved=BACKWARD_MOVED,
    is_matrix=True,
)
def third_backward(a: Arguments) -> Figures:
    """grad, q, k, v, out, lse, starts, lengths, max_q, max_k, (gradients,) scale, causal, window; or those first."""
    given = [a.tensor(place) for place in range(5)]
    first = 9 if a.name.endswith("::bwd") else 6
    if a.is_tensor(first + 2) or a.is_tensor(first + 3):
        raise Unknown(IN_USE)
    causal = 13 if a.text(13) in ("True", "False") else 16
    mask = _window(a, causal, causal + 1)
    if a.is_tensor(first):
        return unequal_backward(given, a.tensor(first), longest(a, first + 4), mask)
    return backward(given, mask, heads_first=False)


@model(
    "xformers",
    "attention",
    r"xformers::efficient_attention_forward_(cutlass|ck)",
    flops=FLOPS,
    moved=MOVED,
    is_matrix=True,
)
def xformers(a: Arguments) -> Figures:
    """q, k, v [B, L, H, D], bias, seqstart_q, seqstart_k, max_q, dropout, compute_logsumexp, mask, …, window."""
    if a.is_tensor(4):
        raise Unknown("the lengths of the sequences are not recorded")
    return forward(a.tensor(0), a.tensor(1), a.tensor(2), numbered_mask(a, 9, 12), a.optional(3), heads_first=False)


@model(
    "xformers, backward",
    "attention",
    r"xformers::efficient_attention_backward_(cutlass|ck)",
    flops=BACKWARD_FLOPS,
    moved=BACKWARD_MOVED,
    is_matrix=True,
)
def xformers_backward(a: Arguments) -> Figures:
    """grad, q, k, v, bias, cu_seqlens_q, cu_seqlens_k, max_q, max_k, logsumexp, out, dropout, seed, offset, mask."""
    if a.is_tensor(5):
        raise Unknown("the lengths of the sequences are not recorded")
    given = [a.tensor(place) for place in (0, 1, 2, 3, 10)]
    return backward(given, numbered_mask(a, 14, 17), a.optional(4), heads_first=False)


@model("xformers' flash-attn", "attention", r"xformers_flash3?::flash_fwd", flops=FLOPS, moved=MOVED, is_matrix=True)
def xformers_flash(a: Arguments) -> Figures:
    """q, k, v, cu_seqlens_q, cu_seqlens_k, seqused_k, (leftpad,) max_q, max_k, dropout, scale, causal, window."""
    q, k, v = a.tensor(0), a.tensor(1), a.tensor(2)
    first = 7 if a.name.startswith("xformers_flash3") else 6
    if a.is_tensor(5):
        raise Unknown(IN_USE)
    mask = _window(a, first + 4, first + 5)
    if a.is_tensor(3):
        return unequal((q, k, v), a.tensor(3), longest(a, first), mask)
    return forward(q, k, v, mask, heads_first=False)


@model(
    "attention whose mask is not read",
    "attention",
    r"(sageattention|sage_attn)\w*::\w*(qk_int8|sage_attn|fwd)\w*|customflash::\w+",
    flops="unknown",
    moved=MOVED,
    is_matrix=True,
)
def unread(a: Arguments) -> Figures:
    """q, k, v and the result."""
    q, k, v = (a.tensor(place) for place in range(3))
    return Figures(None, total_bytes(q, k, v, result(q, v)), NO_MASK)
