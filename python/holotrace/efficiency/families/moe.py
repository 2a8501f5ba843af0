"""Layers of experts: their products, and the choice of experts."""

from __future__ import annotations

from holotrace.efficiency.arguments import Arguments
from holotrace.efficiency.model import Figures, joined, model, total_bytes
from holotrace.efficiency.unknown import Unknown


@model(
    "fused experts",
    "moe",
    r"(vllm|sglang|sgl_kernel|aiter)::((inplace_|outplace_)?fused_experts(_impl)?|fused_moe_?|ck_moe|asm_moe"
    r"|rocm_aiter_(fused_moe|asm_moe_tkw1|ck_moe))",
    flops="2·(tokens · experts of each)·(weights of an expert)",
    moved="tokens, weights of the experts in use, choice of experts, and the result",
    is_matrix=True,
)
def fused_experts(a: Arguments) -> Figures:
    """Tokens [T, K], weights [E, 2·N, K] and [E, K, N], weights and numbers of the chosen experts [T, C].

    Two elements of weights may be in a byte.
    """
    tokens, first, second, weights, chosen = (a.tensor(place) for place in range(5))
    packed = 2 if len(first.dims) == 3 and 2 * first.dims[2] == tokens.dims[-1] and first.type == "unsigned char" else 1
    if (
        len(tokens.dims) != 2
        or len(first.dims) != 3
        or len(second.dims) != 3
        or len(chosen.dims) != 2
        or first.dims[0] != second.dims[0]
        or packed * first.dims[2] != tokens.dims[1]
        or second.dims[1] != tokens.dims[1]
        or chosen.dims[0] != tokens.dims[0]
    ):
        raise Unknown("the dims are not those of tokens, experts and their choice")
    pairs, experts = chosen.count, first.dims[0]
    flops = 2 * packed * pairs * (first.count + second.count) // experts
    used = min(pairs, experts)
    moved = total_bytes(tokens, weights, chosen, tokens.like()) + (first.bytes + second.bytes) * used // experts
    few = "each token has experts of its own" if pairs < experts else None
    kept = "what is between the two layers stays on chip" if pairs else None
    spread = "all experts are in use" if pairs >= experts else None
    # Weights of 8 bits are multiplied with tokens that are rounded to as many on the way.
    kind = first.type if "Float8" in first.type else None if packed == 1 else tokens.type
    return Figures(flops, moved, joined(few, spread, kept), type=kind)


@model(
    "experts whose weights are not recorded",
    "moe",
    r"(vllm|sglang)::(moe_forward(_shared)?|flashinfer_\w*moe\w*|\w*fused_moe_\w+|invoke_fused_moe\w*)|_FusedMoE\w*",
    moved="tokens and result only",
    is_matrix=True,
)
def hidden_experts(a: Arguments) -> Figures:
    tokens = [tensor for _, tensor in a.all_tensors()]
    if not tokens:
        raise Unknown("the tokens are not recorded")
    said = "the weights of the experts are not recorded: the bytes are those of the tokens"
    return Figures(None, total_bytes(*tokens, tokens[0].like()), said, is_partial=True)


@model(
    "choice of experts",
    "moe",
    r"(_moe_C|_C|sgl_kernel|aiter|vllm)::(rocm_aiter_)?(topk_softmax\w*|grouped_topk\w*|biased_grouped_topk\w*|moe_fused_gate"
    r"|moe_align_block_size\w*|moe_sum\w*|moe_sorting\w*|moe_permute\w*|moe_unpermute\w*|topk_sigmoid\w*)",
    moved="all its tensors once",
)
def choice(a: Arguments) -> Figures:
    return Figures(None, total_bytes(*(tensor for _, tensor in a.all_tensors())), "each tensor is read or written once")
