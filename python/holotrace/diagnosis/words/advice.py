"""What to change, for a cause and what is responsible for it."""

from __future__ import annotations

import re

from holotrace.derive.copies import TO_HOST
from holotrace.diagnosis.words import classes
from holotrace.diagnosis.words.class_texts import CLASSES, OF_XLA, Class

_OVERLAPPING = (
    (
        r"(?i)all_?to_?all|dispatch|combine|deep_?ep",
        "Overlap the exchange of one micro-batch with the computing of another (two-batch overlap), send fewer bytes "
        "(fp8 tokens), and keep experts that are used together on one node.",
    ),
    (
        r"(?i)send_?recv",
        "Start it earlier: exchange what the next batch needs while this one is computed (torchrec: "
        "TrainPipelineSparseDist), give a pipeline more micro-batches, or send fewer bytes (quantised exchanges).",
    ),
    (
        r"(?i)gather",
        "Start it earlier: prefetch the parameters of the next layer (FSDP forward_prefetch, backward_prefetch); in "
        "tensor parallelism, overlap it with the matrix product that needs it (async tensor parallelism).",
    ),
    (
        r"(?i)reduce",
        "Reduce gradients in smaller buckets while the rest is computed (DDP bucket_cap_mb, FSDP backward_prefetch), "
        "in fewer bytes, or less often (no_sync while accumulating); in tensor parallelism, use fewer ranks, or "
        "kernels that are made for small messages (custom all-reduce of vLLM and SGLang, symmetric memory).",
    ),
)


# What to do where PyTorch's own attention computes it so.
_FALLING_BACK = (
    "Find out why no fused backend takes it: torch.nn.attention.sdpa_kernel([SDPBackend.FLASH_ATTENTION, "
    "SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION]) around the call warns of types, masks, shapes and "
    "strides that these backends do not support."
)


# What serves a model one token after the other, and what to do there where each token is read.
_SERVING = r"(?i)vllm|sglang|lightllm|tensorrt_llm|execute_context|execute_model|decode"
_OF_SERVERS = {
    classes.SYNCHRONIZATION: "Let the server prepare the next step while the device computes this one (vLLM: "
    "--async-scheduling; SGLang: the overlap scheduler, which is on unless --disable-overlap-schedule), and sample on "
    "the device.",
    classes.LAUNCH: "Let the server launch whole steps as CUDA graphs, for all batch sizes that occur (vLLM: without "
    "--enforce-eager, cudagraph_capture_sizes; SGLang: without --disable-cuda-graph, --cuda-graph-max-bs), and serve "
    "larger batches.",
}


# What a compiled program copies from one buffer of a device to another, and what to do about that.
COPIED_WITHIN = r"^copy(\.[\w.]+)?$"
_OF_COPIES = (
    "Let the program write its results over its arguments: donate what it replaces (jax.jit donate_argnums; "
    "PyTorch/XLA: update parameters in place, in one graph), and keep the layouts that the operations around it use."
)
_FROM_OTHERS = (
    "Look at the process that this one waits for, such as a server's scheduler, which was not recorded with it: let it "
    "prepare the next step while the device computes this one (vLLM: --async-scheduling)."
)


# What to do about functions that their names tell more of.
_OF_FUNCTIONS = (
    (
        classes.ANOMALY,
        "This is torch.autograd.set_detect_anomaly or detect_anomaly: switch it on only to look for the operator that "
        "makes a NaN, since it notes where each operator is called and checks each gradient.",
    ),
    (
        classes.PHASE,
        "Find out what the host does there: record Python functions (with_stack=True), or mark parts of it with "
        "torch.profiler.record_function.",
    ),
    (
        r"^(aten|prims|torchvision)::",
        "Make such tensors on the device, or once before the loop, and warm up before the recorded steps: the first "
        "operators initialise the device and its libraries.",
    ),
)


_OF_CHECKPOINTS = (
    f"Of a checkpoint: {CLASSES[classes.CHECKPOINT].advice[0].lower()}{CLASSES[classes.CHECKPOINT].advice[1:]}"
)
_TO_HOST = (
    "Copy less to the host: keep results on the device and reduce them there. Copy what is needed into pinned memory "
    "with non_blocking=True, and read it a step later."
)
_OF_RESULTS = "Of results: keep them on the device, or work on them in another process while the device goes on."


def advice(
    told: Class, responsible: str | None, around: str = "", *, has_copies: bool = False, is_equal: bool = False
) -> str:
    """What to change, for what is responsible and what is around it."""
    of_servers = next((text for cause, text in _OF_SERVERS.items() if _is_as_elsewhere(told, cause)), None)
    if of_servers and re.search(_SERVING, f"{responsible} {around}"):
        return of_servers
    if _is_as_elsewhere(told, classes.FUNCTION):
        return _of_function(responsible or "", around, told.advice)
    if has_copies:
        return f"{_OF_CHECKPOINTS} {_OF_RESULTS} {told.advice}"
    general = told.if_equal if is_equal and told.if_equal else told.advice
    if (of_one := _of_one(told, responsible or "")) is not None:
        return of_one
    if not _is_as_elsewhere(told, classes.EXPOSED) or not responsible:
        return general
    return next((text for pattern, text in _OVERLAPPING if re.search(pattern, responsible)), general)


def _is_as_elsewhere(told: Class, cause: str) -> bool:
    """Whether the class is this one, and what to do against it is the same in jobs of this kind as in others."""
    return told.advice == CLASSES[cause].advice


def _of_function(name: str, around: str, otherwise: str) -> str:
    if re.search(classes.FROM_OTHERS, f"{name} {around}"):
        return _FROM_OTHERS
    return next((said for pattern, said in _OF_FUNCTIONS if re.search(pattern, name)), otherwise)


def _of_one(told: Class, responsible: str) -> str | None:
    """What to do against only some of a class, by what is responsible; null for all others."""
    if _is_as_elsewhere(told, classes.UNFUSED_ATTENTION):
        return _FALLING_BACK if "attention_math" in responsible else None
    if _is_as_elsewhere(told, classes.COPY) and re.search(TO_HOST, responsible):
        return _TO_HOST
    return _OF_COPIES if told is OF_XLA[classes.COPY] and re.search(COPIED_WITHIN, responsible) else None
