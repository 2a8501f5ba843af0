"""What kind of thing a host was doing, told by the names around it: the one place that decides it."""

from __future__ import annotations

import re
import sys
from functools import lru_cache

from holotrace.core.patterns import compiled
from holotrace.derive.host_messages import ON_HOSTS
from holotrace.derive.vendors import ALLOCATING, BLOCKING, COPYING, LOADING_CODE

INPUT, COMPILATION, CHECKPOINT, EVALUATION = "input", "compilation", "checkpoint", "evaluation"
ALLOCATOR, COLLECTION, COPY, SYNCHRONIZATION = "allocator", "garbage-collection", "copy", "synchronization"
FUNCTION, PAUSE, LAUNCH, COLLECTIVE = "python-function", "host-pause", "launch-bound", "collective-call"
PROFILER, UNRECORDED, LOGGING = "profiler", "unrecorded-host", "logging"
UNRECORDED_RANK = "unrecorded-rank"  # a rank waits for others of which nothing was recorded
RECORDING = "recording"  # what hosts launch late because each of their calls is written down
EARLIER = "earlier-work"  # a device does what had been launched before the recording
COSTLESS = (RECORDING, EARLIER)  # what is worth knowing and costs the job nothing
FULL_QUEUE = "full-queue"  # a launch that waits until the device has done others
PYTHON = "python"  # interpreting between calls, part of what launching costs
QUEUED = "queued"  # the work had been launched, and waited for other work
SLOW_DEVICE, MORE_WORK, UNEVEN_WORK = "slow-device", "more-work", "uneven-work"
WRONG_TYPE, INEFFICIENT = "wrong-type", "inefficient-kernels"
UNFUSED_ATTENTION, UNFUSED_OPTIMIZER = "unfused-attention", "unfused-optimizer"
SLICE_GRADIENTS, CHANNELS_FIRST = "slice-gradients", "channels-first"
EXPERTS, PIPELINE = "expert-imbalance", "pipeline-bubble"
# Some ranks have more to do than others, which costs those that wait for them.
UNEQUAL = (MORE_WORK, UNEVEN_WORK, EXPERTS, PIPELINE)
UPLOAD = "upload"  # XLA: the host sends data that is needed now
SLOW_HOST, SLOW_LINK, EXPOSED = "slow-host", "slow-link", "exposed-transfer"
# Functions that hand something from one process to the others.
FROM_OTHERS = r"(?i)shm_broadcast|acquire_read|(broadcast|recv|receive)_(object|pyobj|tensor_dict|request|req)"
# PyTorch's wait for an exchange of hosts, by the names that its bindings to C++ give to the class of such a method.
OF_EXCHANGES = r"^<built-in method wait of (pybind11_|PyCapsule|torch\._C)"
# A range of a message or collective that a backend of hosts carries out, be it on the thread that asked for it.
_OF_BACKENDS = re.compile(rf"{ON_HOSTS}:")
# Of these each name is a cause of its own.
BY_NAME = (FUNCTION, COPY, SYNCHRONIZATION)
# What a host does instead of launching.
STALLING = (INPUT, FUNCTION, LOGGING, CHECKPOINT, COMPILATION, ALLOCATOR, COLLECTION)


# What ``torch.autograd.set_detect_anomaly`` notes of each operator: where it was called.
ANOMALY = r"(^|/)torch/fx/traceback\.py\(\d+\): format_stack$"
# Kernels that are run to find out which is the fastest.
_BENCHMARKING = r"\): (autotune\w*|do_bench\w*|benchmark_\w+|benchmark)$|^CachingAutotuner\.benchmark"
# Names that say what goes on below them, whatever else does. Tried from the outside in, in this order.
_NAMED = (
    (PROFILER, r"(?i)torch/profiler/|profiler\.py\(\d+\): (step|stop|start|_transit)"),
    (
        COMPILATION,
        r"dynamo_timed|(?i:compile_fx|compile_inner|async_compile|convert_frame|symbolic_convert|output_graph)",
    ),
    (
        COMPILATION,
        r"(?i:(?<!torch/)_compile\.py|call_user_compiler|graph_lowering|nvrtc|cpp_extension|load_cuda_ops|triton.{0,40}compil|torch_?compile|recompil)",
    ),
    (
        COMPILATION,
        r"(?i)^(compile|compiling|compilation)\b|_inductor/(codegen|graph|scheduler|lowering|autotune|codecache)"
        r"|^\W*(torch\.compile|(torch\._)?(dynamo|inductor)|autotun(e|ing))\W*$|jit_compile"
        r"|(\): |^)compile_(kernel|model|graph|program|module)s?$",
    ),
    (COMPILATION, _BENCHMARKING),
    (COMPILATION, rf"^({'|'.join(LOADING_CODE)})"),
    (
        INPUT,
        r"(?i)(?<!meta)data[_ ]?(load|fetch|wait|iter|pipeline)|prefetcher|collate"
        r"|(^|[^a-z_])(input[_ ]?pipeline|batch_generator)"
        r"|(?<![a-z])(make|build|create|prepare|assemble)_(the_)?(mini|micro)?_?batch(es)?$"
        r"|(?<![a-z])(next|get|load|loading|fetch|read|wait[_ ]?for)[_ ]?(the[_ ])?"
        r"((mini|micro)?_?batch(?![_ ]?(size|norm|stat|dim|shape|to_run))"
        r"|samples?(?![a-z_])|data(?!_?(parallel|ptr|type|class|frame)))"
        r"|(^|/)datasets?\.py\(\d+\): __(getitem|getitems|iter|next)__|^\W*data\W*$",
    ),
    (
        CHECKPOINT,
        r"(?i)checkpoint(?!\.py.*(checkpoint|forward))|torch/serialization|save_(model|state|pretrained)|state_dict"
        r"|PyTorchFileWriter|(save|write|dump)_?\w*ckpt|ckpt_?(save|write|dump)|safetensors/\w+\.py\(\d+\): save"
        r"|(?<![a-z])(save|write|dump|persist|export|serialize)_?(the_)?"
        r"((model|training|optimizer|all)_?)?(snapshot|weights|param(eter)?s|to_disk)(?![a-z])"
        r"|^\W*(save|saving|snapshot|ckpt|serialize|torch\.save|(dcp\.)?(async_)?save(_async)?)\W*$"
        r"|\): (save|save_async)$",
    ),
    (
        EVALUATION,
        r"(?i)(\): |^)_?((run|do|perform|call|maybe)_?)*(evaluate|evaluation|validate|validation)"
        r"(?!_?(actions?|args?|basis|config|densit(y|ies)|device|expressions?|fields?|functions?|grad(ient)?s?|inputs?"
        r"|kernels?|kwargs|logits?|log_probs?|options?|param|points?|polynomials?|rays?|request|schema|shapes?|splines?"
        r"|tensors?|types?|values?)(?![a-z]))\w*$"
        r"|(\): |^)_?((run|do|perform|call|maybe)_)+(eval|val)(_\w+)?$"
        r"|(\): |^)(eval|val)_(loop|step|epoch|one_epoch|model|pass|loss|metrics|perplexity)\w*$"
        r"|(?<![a-z])(validation|eval|val)_(loss|loop|step|epoch|phase|pass|metrics|perplexity)(?![a-z])"
        r"|^\W*(eval|val|valid)\W*$|(\): )estimate_loss$|evaluation_?loop",
    ),
    (
        LOGGING,
        r"(?i:\): |^)(log(?!_?(softmax|prob|sum))|print|report|write)_?\w*"
        r"(metric|stat|scalar|summary|loss|progress|log|step|epoch|image|gradient|memory|throughput|result)s?\w*$"
        r"|(?i:\): |^)_?(maybe_log|training_log|log_to|log_training|log_iteration|log_everything)\w*$"
        r"|(?i:\): )add_(scalar|histogram|image)s?$|(?i:wandb|tensorboard|tensorboardX|mlflow|tqdm)/"
        r"|^logging/(__init__|handlers)\.py",
    ),
    (
        LOGGING,
        r"(?i)(?<![a-z_:])_?(flush|write|dump|update|emit|push|send|upload|publish|report)_?"
        r"((train|training|step|all)_?)?(logs?|metrics?|telemetry|progress_?bar|summary|summaries|tensorboard)(?![a-z])"
        r"|^\W*(log|logs|logging|print|printing|report|reporting|metrics|telemetry|tqdm|tensorboard|wandb|progress)\W*$"
        r"|(wandb|mlflow|tensorboard)[._]\w+$|SummaryWriter|(^|/)(loguru|logger|telemetry)\w*(/\w+)*\.py\(\d+\): ",
    ),
    (COLLECTION, r"(?i)garbage|\bgc\b|(^|_|: )gc(_|$)|built-in (function|method) (gc\.)?collect\b"),
    (FUNCTION, ANOMALY),
)
_RECOMPUTED = re.compile(
    r"(?i)utils/checkpoint\.py|algorithms/.*checkpoint|CheckpointFunction|_checkpoint_hook|checkpoint_?wrapper"
    r"|(gradient|activation)s?_?checkpoint|checkpoint_?activation|tensor_parallel/random\.py|recompute"
    r"|\): \w*(forward\w*checkpoint|checkpoint\w*forward|checkpoint_handler|checkpoint_sequential)|ad_checkpoint\.py"
    # A module computes.
    r"|^nn\.Module: "
)
# It may do one or the other each time, as what it calls tells.
# What is saved by these is a picture, a sound or a table.
_OF_MEDIA = re.compile(r"(^|/)(PIL|cv2|imageio|matplotlib|moviepy|openpyxl|pandas|plotly|skimage|soundfile)(/|\.py\()")
_DOES_SEVERAL = re.compile(
    r"(?i)(?<![a-z])(log|save|evaluate|validate)(_(and|or|then))?_(?!\1)(log|save|evaluate|validate)(?![a-z])"
    r"|(?<![a-z])(log|save|eval|evaluate|validate)_(and|or|then)_(?!\5)(log|save|checkpoint|eval|evaluate|validate)(?![a-z])"
)
# Categories of calls of a device's runtime, which begin with its vendor, and of operators; older recorders say less.
RUNTIME = re.compile(r"(?i)(^|_)(runtime|driver)$")
OPERATOR = re.compile(r"^(cpu_op|Operator)$")
# What everything is built on, and packages that programs use, by what their files' paths begin with. Those of most
# frameworks are programs' own: what they call, and are called by, is theirs to change.
_FOUNDATIONS = frozenset({"torch", "torchvision", "torchaudio", "torchdata", "torchgen", "triton", "numpy", "scipy"})
# Modules of Python that no job runs, so that files of these names are programs' own.
_NEVER_RUN = frozenset({"code", "idlelib", "profile", "sched", "symtable", "test", "this", "trace", "turtle"})
_FOUNDATIONS |= sys.stdlib_module_names - _NEVER_RUN
_OF_PACKAGES = re.compile(
    r"^(PIL|absl|accelerate|aiohttp|albumentations|av|boto3|botocore|clearml|comet_ml|cv2|decord|einops"
    r"|fastai|fastcore|filelock|flash_attn|fsspec|gcsfs|google|grpc|h5py|httpcore|httpx|hydra|huggingface_hub"
    r"|ignite|imageio|joblib|keras|librosa|peft|plotly|sentence_transformers|timm|torch_geometric|trl|ultralytics"
    r"|lightning|lightning_fabric|lightning_utilities|loguru|matplotlib|mlflow|multiprocess|neptune|nltk|numba|omegaconf"
    r"|opentelemetry|pandas|petastorm|prometheus_client|psutil|pyarrow|pymongo|pynvml|pytorch_lightning|redis|requests|rich|s3fs"
    r"|safetensors|sentencepiece|sentry_sdk|skimage|sklearn|smart_open|soundfile|spacy|sqlalchemy|swanlab"
    r"|tenacity|tensorboard|tensorboardX|tiktoken|tokenizers|torchmetrics|tqdm|transformers|urllib3|visdom|wandb"
    r"|webdataset|yaml|zarr|zmq)(/|\.py\()"
)
_OF_FRAMEWORK = re.compile(r"(^|/)(functorch|torch|torchgen|triton)/|<\w+>$")
_OF_LIBRARIES = re.compile(r"^<|/python\d|site-packages|dist-packages")
# Generated, or part of the function that it is written in.
_OF_NO_FILE = re.compile(r"/torchinductor_|^<|\): <((list|set|dict)comp|genexpr)>$")
# How a Python function is named: its file, line and name.
_FILE = re.compile(r"\.pyx?\(\d+\): ")
# What the profiler calls a step, and what programs do that number their own.
STEP_RANGE = re.compile(r"^ProfilerStep(#|$)|^(?i:\W*((global|train(ing)?)[ _.-])?(step|iter(ation)?)[\W_]*\d+\W*$)")
# How the profiler of JAX names a Python function: its file, line and name, which that of PyTorch has in other places.
_OF_TIMERS = re.compile(r"^[a-z\d]+(-[a-z\d]+)+$")
_OF_JAX = re.compile(r"^\$(\S+):(\d+) (.*)$")
# In the last of these a thread waits for those of autograd.
_CONTAINERS = re.compile(
    r"^ProfilerStep|^iteration|^step\b|^PyTorch Profiler|<module>|^train_step|method run_backward\b|"
    + STEP_RANGE.pattern
)
# Ranges of what a step consists of, in which the thread that opened them may wait for that of autograd.
PHASE = r"(?i)^\W*(forward|backward|fwd|bwd|optimizer|loss|update)([ _.]?(pass|step|fn))?\W*$"
_PHASES = re.compile(PHASE)


@lru_cache(maxsize=20_000)
def named(name: str) -> str | None:
    """The class that a name of an annotation, function or operator tells by itself; null if it tells none."""
    name = _OF_JAX.sub(r"\1(\2): \3", name)
    # Timers of Megatron have dashes where functions have underscores.
    name = name.replace("-", "_") if _OF_TIMERS.search(name) else name
    if _RECOMPUTED.search(name) or _DOES_SEVERAL.search(name):
        # Activations that are computed again are no checkpoint that is saved.
        return None
    cause = next((cause for cause, pattern in compiled(_NAMED) if pattern.search(name)), None)
    is_of_others = (cause == CHECKPOINT and _OF_MEDIA.search(name)) or (
        # These check arguments; none of them evaluates a model.
        cause == EVALUATION and _FILE.search(name) and _is_foundation(name)
    )
    return None if is_of_others else cause


@lru_cache(maxsize=20_000)
def beside(name: str) -> str | None:
    """The class of a name within which devices compute what is no work of the step; null if it tells none."""
    cause = named(name)
    return cause if cause == EVALUATION or (cause == COMPILATION and re.search(_BENCHMARKING, name)) else None


def is_container(name: str) -> bool:
    """Whether a name is of what goes on around all of a step, or waits for threads of autograd, and says nothing."""
    return _CONTAINERS.search(name) is not None


# What a call is by its name and category, as bits; native code knows them by these numbers.
_OPERATOR, _RUNTIME, _ALLOCATES, _COPIES, _WAITS, _OWN, _CONTAINER, _MODULE, _FUNCTION, _RANGE, _IDLE, _TASK = (
    1 << bit for bit in range(12)
)
# What went on, in the order in which native code numbers it: first what follows from what is innermost, then names.
KINDS = (
    *(UNRECORDED, LAUNCH, FULL_QUEUE, PYTHON, SYNCHRONIZATION, ALLOCATOR, COPY, PAUSE, FUNCTION),
    *dict.fromkeys(cause for cause, _ in _NAMED if cause != FUNCTION),
)
_IDLING = re.compile(
    r"(?i)^(<built-in method (acquire|poll|select|wait|recv)|(threading|queue|selectors|socket|connection)\.py"
    r"|multiprocessing/(connection|queues)\.py)"
)


@lru_cache(maxsize=20_000)
def told(name: str) -> int:
    """The place in ``KINDS`` of what a name tells by itself; 0 if it tells nothing."""
    cause = named(name)
    return KINDS.index(cause) if cause else 0


@lru_cache(maxsize=20_000)
def traits(name: str, category: str) -> int:
    """What a call of that name and category is, as bits that native code reads."""
    found = _RANGE if category == "user_annotation" and not _OF_BACKENDS.match(name) else 0
    if OPERATOR.search(category):
        found |= _OPERATOR
    if RUNTIME.search(category):
        found |= _RUNTIME
        found |= _ALLOCATES if name.startswith(ALLOCATING) else 0
        found |= _COPIES if name.startswith(COPYING) else 0
        found |= _WAITS if name in BLOCKING else 0
    if category == "python_function":
        found |= _MODULE if is_module(name) else _FUNCTION
    is_phase = category == "user_annotation" and _PHASES.search(name) is not None
    if is_of_program(name, category) and not is_phase:
        found |= _OWN | (_TASK if category == "user_annotation" else 0)
    if category == "python_function" and _FILE.search(name) and not _OF_FRAMEWORK.search(name):
        found |= _TASK
    if is_phase or _CONTAINERS.search(name):
        found |= _CONTAINER
    return found | (_IDLE if _IDLING.search(name) else 0)


@lru_cache(maxsize=20_000)
def is_of_program(name: str, category: str) -> bool:
    """Whether it is a function of the program's own, or a range that it named."""
    if category != "python_function":
        return category == "user_annotation" and not _OF_BACKENDS.match(name)
    is_of_others = _OF_PACKAGES.search(name) or _OF_LIBRARIES.search(name) or _is_foundation(name)
    return not is_of_others


@lru_cache(maxsize=20_000)
def is_of_package(name: str, category: str) -> bool:
    """Whether it is a function of a package that programs use, other than what everything is built on."""
    is_other = category == "python_function" and not is_of_program(name, category)
    return is_other and _FILE.search(name) is not None and not _is_foundation(name)


def is_file_of_program(name: str) -> bool:
    """Whether it is a function of the program's own that says in which file it is."""
    return _FILE.search(name) is not None and is_of_program(name, "python_function")


def is_module(name: str) -> bool:
    """Whether a function's name is of a module's instance, which tells no file."""
    return name.startswith("nn.Module: ")


def _is_foundation(name: str) -> bool:
    """Whether a name begins with a package of Python itself, or of what everything is built on, or is no function that
    anybody named in a file.
    """
    if _OF_NO_FILE.search(name):
        return True
    within = re.split(r"(?:site|dist)-packages/|/lib/python\d[.\d]*/", name)[-1]
    return within.partition("/")[0].partition(".py(")[0] in _FOUNDATIONS
