"""What kind of work a device event is: the one place that decides it, from its category and name.

Rules are tried in order and the first that fits decides; whatever fits none is compute, since names of compute kernels
are beyond counting and a device runs them for most of the time. ``other`` is only for rows of the device's timeline
that are no work at all. A name is looked at without its template arguments and parameters, which repeat names of types
and operators (``ReduceScatter`` as a functor, ``ncclDevComm*`` as a parameter) without saying what the kernel does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import polars as pl

COMPUTE, COMMUNICATION, MEMORY, SYNC, OTHER = "compute", "communication", "memory", "sync", "other"
# Kinds that keep a device busy; the others are waiting or bookkeeping.
WORK = (COMPUTE, COMMUNICATION, MEMORY)


@dataclass(frozen=True)
class KindRule:
    """Events whose category and name match are of this kind; None matches all. Matched in lower case."""

    kind: str
    category: str | None = None
    name: str | None = None


# An operation of XLA, by its category or opcode; fusions around one, too.
_HLO_COLLECTIVE = (
    r"^(async-collective|all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute|collective-broadcast|"
    r"ragged-all-to-all|send$|send-done|recv$|recv-done)"
)

RULES = (
    # HLO categories and opcodes, and the waits of a TPU. What waits for an operation under way is of its kind: the
    # device stands still for the copy or collective, which is what hiding it would save.
    KindRule(SYNC, category=r"^(barrier-cores|dependency-wait|infeed|outfeed|host (send|recv)(-done)?)$"),
    KindRule(COMMUNICATION, category=_HLO_COLLECTIVE),
    KindRule(COMMUNICATION, category=r"^async-(start|done|update)$", name=_HLO_COLLECTIVE),
    KindRule(MEMORY, category=r"^(copy|async)(-start|-done|-update)?$"),
    KindRule(COMPUTE, category=r"fusion$|^(dot|convolution|custom-call|data formatting|call|while|conditional)$"),
    # Categories that say it all: copies and fills stay memory even between devices, whoever asked for them.
    KindRule(SYNC, category=r"_sync$"),
    KindRule(MEMORY, category=r"^(gpu_)?mem(cpy|set)$"),
    KindRule(COMMUNICATION, category=r"^collective_comm$"),
    # Meta's MTIA writes the firmware's own steps beside its jobs.
    KindRule(SYNC, category=r"^mtia", name=r"^event_(wait|record)"),
    KindRule(OTHER, category=r"^mtia", name=r"^(merge|remote|packet)"),
    KindRule(COMMUNICATION, name=r"^(hccl|collective_subgraph_execution)"),
    # Runtimes that list their waits, fences and copies among kernels (ROCm, Intel Level Zero, HTA's older traces).
    KindRule(SYNC, name=r"^((stream|event|context|device) (sync|wait event)|ze.*(barrier|signalevent|waitonevents))"),
    KindRule(MEMORY, name=r"^((cu|cuda|hip)?mem(cpy|set)|__amd_rocclr_(copy|fill)|ze.*memory(copy|fill)|dma(_|$))"),
    # Inductor names a fused kernel after operators around it, also after collectives it does not run.
    KindRule(COMPUTE, name=r"^triton_(poi|red|per|tem|for|mm|helion)"),
    # PyTorch's own operators run on one device, whatever they are called.
    KindRule(COMPUTE, name=r"^at::native::"),
    # Matrix products with a collective inside keep the device computing.
    KindRule(COMPUTE, name=r"(gemm|matmul).*(all_?reduce|all_?gather|reduce_?scatter)"),
    KindRule(COMPUTE, name=r"(all_?reduce|all_?gather|reduce_?scatter).*(gemm|matmul)"),
    # Reductions within a block that borrow the collective's name.
    KindRule(COMPUTE, name=r"(warp|block|thread)_?all_?reduce"),
    # Libraries: NCCL, RCCL, MSCCL(++), oneCCL, HCCL, UCC, Gloo, Ascend's hcom; NVSHMEM and its kin.
    KindRule(COMMUNICATION, name=r"(?<![a-z])(nccl|rccl|msccl|oneccl|hccl|uccl|xccl|gloo|hcom)"),
    KindRule(COMMUNICATION, name=r"(?<![a-z])(ucc|ccl)[_:]"),
    KindRule(COMMUNICATION, name=r"nvshmem|rocshmem|ishmem"),
    # Collectives by their own names: PyTorch symmetric memory, vLLM, SGLang, FlashInfer, TensorRT-LLM, AITER, oneCCL.
    KindRule(COMMUNICATION, name=r"all_?reduce|reduce_?scatter|all_?gather|all_?to_?all|all2all|send_?recv"),
    KindRule(COMMUNICATION, name=r"cross_device_(reduce|store|load)|quick_?reduce|multimem_|userbuffers"),
    KindRule(COMMUNICATION, name=r"(?<![a-z_])(put_signal|wait_signal|barrier)_kernel"),
    # Expert parallelism: DeepEP, hybrid-EP, TensorRT-LLM and FlashInfer one-sided, MORI, Perplexity.
    KindRule(COMMUNICATION, name=r"(deep|hybrid)_?ep(::|\d)|moe_?a2a|(?<![a-z])ep(dispatch|combine)"),
    KindRule(COMMUNICATION, name=r"(?<![a-z])(pplx|mori)(::|_)"),
)

# Strips, in this order: where a function is declared, its return type, template arguments and parameters.
_QUALIFIER = re.compile(r"\(anonymous namespace\)::|<unnamed>::")
_RETURN_TYPE = re.compile(r"^(static |inline |__global__ )*(void|auto) ")
_ARGUMENTS = re.compile(r"[<(].*$", re.DOTALL)


def _compiled(pattern: str | None) -> re.Pattern[str]:
    return re.compile(pattern or "")


_COMPILED = tuple((rule.kind, _compiled(rule.category), _compiled(rule.name)) for rule in RULES)


def kinds(events: pl.DataFrame) -> pl.Series:
    """The kind of each of ``events``, which need ``category`` and ``name``."""
    keys = ["category", "name"]
    # A trace has some thousand names and some million events: decide each name once.
    names = events.select(keys).unique()
    decided = names.with_columns(kind=decide(names["category"], names["name"]).cast(pl.Categorical()))
    return events.select(keys).join(decided, on=keys, how="left", nulls_equal=True, maintain_order="left")["kind"]


def decide(category: pl.Series, name: pl.Series) -> pl.Series:
    """The kind of each pair of category and name, as text."""
    pairs = zip(category.cast(pl.String()), name.cast(pl.String()), strict=True)
    return pl.Series("kind", [kind_of(category or "", name or "") for category, name in pairs], dtype=pl.String())


# The ranks of a job run the same kernels, so nearly every name is decided once for all of them.
@lru_cache(maxsize=1 << 16)
def kind_of(category: str, name: str) -> str:
    """The kind of device events of one category and name."""
    category = category.lower()
    name = _ARGUMENTS.sub("", _RETURN_TYPE.sub("", _QUALIFIER.sub("", name))).lower()
    for kind, in_category, in_name in _COMPILED:
        if in_category.search(category) and in_name.search(name):
            return kind
    return COMPUTE
