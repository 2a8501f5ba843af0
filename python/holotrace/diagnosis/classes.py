"""What kind of thing a host was doing, told by the names around it: the one place that decides it."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

INPUT, COMPILATION, CHECKPOINT, EVALUATION = "input", "compilation", "checkpoint", "evaluation"
ALLOCATOR, COLLECTION, COPY, SYNCHRONIZATION = "allocator", "garbage-collection", "copy", "synchronization"
FUNCTION, PAUSE, LAUNCH, COLLECTIVE = "python-function", "host-pause", "launch-bound", "collective-call"
PROFILER, UNRECORDED, LOGGING = "profiler", "unrecorded-host", "logging"
QUEUED = "queued"  # the work had been launched, and waited for other work
SLOW_DEVICE, MORE_WORK, UNEVEN_WORK = "slow-device", "more-work", "uneven-work"
EXPERTS, PIPELINE = "expert-imbalance", "pipeline-bubble"
SLOW_HOST, SLOW_LINK, EXPOSED = "slow-host", "slow-link", "exposed-transfer"


@dataclass(frozen=True)
class Around:
    """One event around an instant of the host: its name and its category, as the profiler wrote them."""

    name: str
    category: str
    event_id: int
    # Whether it, or a call below it, put work on a device.
    launches: bool = False


# Names that say what goes on below them, whatever else does. Tried from the outside in, in this order.
_NAMED = (
    (PROFILER, r"(?i)torch/profiler/|profiler\.py\(\d+\): (step|stop|start|_transit)"),
    (
        COMPILATION,
        r"dynamo_timed|(?i:compile_fx|compile_inner|async_compile|convert_frame|symbolic_convert|output_graph)",
    ),
    (
        COMPILATION,
        r"(?i:_compile\.py|call_user_compiler|graph_lowering|nvrtc|triton.{0,40}compil|torch_?compile|recompil)",
    ),
    (
        COMPILATION,
        r"(?i)^(compile|compiling|compilation)\b|_inductor/(codegen|graph|scheduler|lowering|autotune|codecache)",
    ),
    (COMPILATION, r"^cu(da)?(Module|Library)LoadData|^cuLink|^hipModuleLoad"),
    (INPUT, r"(?i)dataloader|data_?loader|next_?batch|get_?batch|load_?batch|fetch_?(data|batch)|data_iter|prefetcher"),
    (
        CHECKPOINT,
        r"(?i)checkpoint(?!\.py.*(checkpoint|forward))|torch/serialization|save_(model|state|pretrained)|state_dict",
    ),
    (EVALUATION, r"(?i:\): |^)(evaluate|evaluation|validate|validation|run_eval|eval_(loop|step|epoch))\w*$"),
    (
        LOGGING,
        r"(?i:\): |^)(log|print|report|write)_?\w*(metric|stat|scalar|summary|loss|progress|log)s?\w*$"
        r"|(?i:wandb|tensorboard)/",
    ),
    (COLLECTION, r"(?i)garbage|\bgc\b|(^|_)gc(_|$)|built-in (function|method) (gc\.)?collect\b"),
)
_COMPILED = tuple((cause, re.compile(pattern)) for cause, pattern in _NAMED)
# Calls of the runtime, the innermost thing that goes on.
_ALLOCATING = re.compile(
    r"^(cuda|hip)(Malloc|Free|HostAlloc|HostRegister|MemPool|ExtMalloc)|^cuMem(Alloc|Free|Create|Map|Unmap|Release)"
)
_COPYING = re.compile(r"^(cuda|hip)Memcpy|^cuMemcpy")
WAITING = re.compile(
    r"^(cuda|hip)(Stream|Device|Event)Synchronize|^(cuda|hip)Memcpy(Async|WithStream)?$|^cu(Stream|Event|Ctx)Synchronize"
)
_RECOMPUTED = re.compile(
    r"(?i)utils/checkpoint\.py|algorithms/.*checkpoint|CheckpointFunction|_checkpoint_hook|checkpoint_wrapper"
)
RUNTIME = ("cuda_runtime", "cuda_driver", "hip_runtime", "runtime", "privateuse1_runtime", "xpu_runtime")
_OF_LIBRARIES = re.compile(
    r"^<|^(torch|numpy|pandas|transformers|accelerate|lightning)/|/python\d|site-packages|dist-packages"
)
_CONTAINERS = re.compile(r"^ProfilerStep|^iteration|^step\b|^PyTorch Profiler|<module>|^train_step")


@lru_cache(maxsize=20_000)
def named(name: str) -> str | None:
    """The class that a name of an annotation, function or operator tells by itself; null if it tells none."""
    if _RECOMPUTED.search(name):
        # Activations that are computed again are no checkpoint that is saved.
        return None
    return next((cause for cause, pattern in _COMPILED if pattern.search(name)), None)


def is_runtime(category: str) -> bool:
    return category in RUNTIME


def decide(around: Sequence[Around], *, longest_ns: int, long_ns: int) -> tuple[str, Around | None]:
    """The class of what the host does, and the event that is responsible for it.

    Args:
        around: What is open at that time, from the innermost event out; empty if nothing is.
        longest_ns: How long that went on without any other call.
        long_ns: From how long on Python between two calls is more than the usual interpreting.
    """
    if not around:
        return UNRECORDED, None
    for event in reversed(around):
        if cause := named(event.name):
            return cause, event
    inner = around[0]
    operator = next((event for event in around if event.category == "cpu_op"), None)
    if is_runtime(inner.category):
        responsible = inner if _ALLOCATING.search(inner.name) else operator or inner
        return _of_runtime(inner.name, longest_ns >= long_ns), responsible
    if longest_ns < long_ns:
        return LAUNCH, operator or inner
    # What puts work on the device elsewhere, and stands still here, was stopped from without.
    if inner.launches or _CONTAINERS.search(inner.name):
        return PAUSE, inner
    return FUNCTION, next((event for event in around if _is_of_program(event)), inner)


def _of_runtime(call: str, is_long: bool) -> str:
    if _ALLOCATING.search(call):
        return ALLOCATOR
    if _COPYING.search(call) and is_long:
        return COPY
    return SYNCHRONIZATION if WAITING.search(call) else LAUNCH


def _is_of_program(event: Around) -> bool:
    """Whether it is a function of the program's own, or a range that it named."""
    if event.category != "python_function":
        return event.category == "user_annotation" and not event.launches
    first = event.name.partition("/")[0].partition(".py(")[0]
    return not event.launches and first not in sys.stdlib_module_names and not _OF_LIBRARIES.search(event.name)
