"""Attention of serving, whose keys lie in pages: lengths are in annotations, if anywhere."""

from __future__ import annotations

from holotrace.efficiency.arguments import Arguments
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

_SAID = "how many keys are in use is not recorded: the bytes are those of the new tokens"


@model(
    "paged attention",
    "attention",
    r"(vllm|sglang)::unified_(mla_)?attention(_with_output)?",
    flops="from the sums of annotations (see below), else unknown",
    moved="new tokens and result only, without annotations",
    is_matrix=True,
)
def unified(a: Arguments) -> Figures:
    """q, k, v of the new tokens, and the result."""
    q, k, v = a.tensor(0), a.tensor(1), a.tensor(2)
    out = a.out(3) or q.like()
    return Figures(None, total_bytes(q, k, v, out), _SAID, is_partial=True)


@model(
    "paged attention of a library",
    "attention",
    r"(_C|vllm|sgl_kernel|sglang|sglang_profiler|aiter|trtllm|flashinfer|_vllm_fa[23]_C|vllm_flash_attn)::"
    r"\w*(paged_attention|attention_paged|mla_decode|flash_mla|batch_prefill|batch_decode|varlen_fwd|fwd_kvcache|pa_fwd|attention_inplace)\w*"
    r"|(_vllm_fa3_C|sgl_kernel)::fwd|_flashmla_C::\w+",
    flops="from the sums of annotations (see below), else unknown",
    moved="queries and result only, without annotations",
    is_matrix=True,
)
def library(a: Arguments) -> Figures:
    queries = next((t for _, t in a.all_tensors() if len(t.dims) == 3 and t.type != "unsigned char"), None)
    if queries is None:
        raise Unknown("the queries are not recorded")
    return Figures(None, total_bytes(queries, queries.like()), _SAID, is_partial=True)


@model(
    "writing keys and values to pages",
    "copy",
    r"(_C_cache_ops|vllm|sgl_kernel|aiter)::(reshape_and_cache\w*|unified_kv_cache_update|concat_and_cache_mla)|sglang::store_cache"
    r"|sglang_profiler::\w*set_kv_buffer\w*",
    flops="0",
    moved="keys and values, once read and once written, and their places",
)
def write_cache(a: Arguments) -> Figures:
    key, value = a.tensor(0), a.tensor(1)
    # Where queries of several heads share them, both are in one cache.
    shared = a.name.endswith("_mla")
    caches = [a.optional(2), a.optional(2 if shared else 3)]
    written = sum(
        new.count * (cache.element_bytes if cache is not None and cache.dims else new.element_bytes)
        for new, cache in zip((key, value), caches, strict=True)
    )
    places = next((t for p, t in a.all_tensors() if p > 3 - shared and t.type in ("long int", "long", "int")), None)
    said = None if all(caches) else "the cache is of the type of what is written to it"
    return Figures(0, total_bytes(key, value, places) + written, said)
