"""What a host thread is doing, told by the names of its spans: the one place that decides it.

Names are those of PyTorch/XLA since 1.9, of JAX, and of the XLA runtimes below them. Rules are tried in order and the
first that fits decides; a span that fits none tells nothing, and what surrounds it decides.
"""

from __future__ import annotations

import re
from functools import lru_cache

import polars as pl

from holotrace.core.kinds import LOOKED_AT
from holotrace.core.patterns import compiled
from holotrace.core.schema import Table
from holotrace.core.trace import RankTrace
from holotrace.derive.names import decided, distinct
from holotrace.errors import UsageError

COMPILATION, READ_BACK, UPLOAD, INPUT = "compilation", "read_back", "upload", "input"
TRACING, BACK_PRESSURE, DISPATCH, WAIT, PROGRAM = "tracing", "back_pressure", "dispatch", "wait", "program"
# Where several go on at once the first of these is what counts: the last are what the host also does while it waits.
PRIORITY = (COMPILATION, READ_BACK, UPLOAD, INPUT, TRACING, BACK_PRESSURE, DISPATCH, WAIT, PROGRAM)
# In these the host waits for a device, or for what others do for it.
WAITING = (WAIT, READ_BACK, BACK_PRESSURE)
# Ranges that a program names so are its input pipeline.
INPUT_RANGES = r"(?i)data|batch|input|load|fetch"

# Functions in Python that a running program calls, by the operation that does and by what JAX wraps them in: the thread
# that started the program is in them, and launches nothing else.
CALLED_BACK = r"^(pure_callback|io_callback|debug_callback|debug_print)[.\d]*$|^\$\S+ _wrapped_callback$"

# The function of JAX, which PyTorch/XLA calls, too, that begins to record.
BEGINS_RECORDING = r"^\$profiler\.py:\d+ start_trace$"

_NOTHING = ""
_RULES = (
    (PROGRAM, CALLED_BACK),
    # A device takes only so many programs ahead: whoever starts one more waits until it has finished one.
    (BACK_PRESSURE, r"^Acquire semaphore|ComputeSemaphoreAcquire"),
    (
        WAIT,
        r"wait for completion|^Wait\b|block_until_ready|Rendezvous|BlockHostUntil|ReadSyncFlag|^Acquire "
        r"|^(Device|TensorCollection)Barrier",
    ),
    # The work of a CPU device, the machinery of thread pools, layouts changed on the way to or from a device, and what
    # follows when something has ended.
    (_NOTHING, r"^ThunkExecutor|^TaskDispatcher|^ThreadpoolListener|^end: |^Transpose|=>Done$"),
    # JAX on GPUs has this from what also compiles: PjRtCApiCompiler::BufferFromHostBuffer.
    (UPLOAD, r"BufferFromHost"),
    # A function that was compiled (past) only runs.
    (COMPILATION, r"[Cc]ompile(?!d)|Codegen|HLO passes|hlo passes|lower_sharding|trace_to_jaxpr"),
    (READ_BACK, r"TransferFrom|D2H|d2h|DtoH|np\.asarray|device_get|copy_to_host|ToLiteral"),
    (UPLOAD, r"TransferTo|H2D|h2d|HtoD|device_put|DevicePut|Linearize|TransferShards|^shard_args"),
    (INPUT, r"^Iterator::|IteratorGetNext|(?i:dataloader)|_ipl_stage|\bgrain\b"),
    (TRACING, r"StepMarker|Sync(Live)?TensorsGraph|CollectSyncTensors|RunPostOrder|ExtractIR"),
    (DISPATCH, r"Execute|EnqueueProgram|PjitFunction|RunExecutable|Launch|^LoadProgram"),
)
# Where the profiler recorded Python, functions are called "$train.py:29 step": what they do is told by their own names,
# and only libraries of input also by their files. What JAX compiles with is looked up there: `compile` may only return
# what was compiled before, and whatever else has such a name is no compiler of XLA.
_OF_FUNCTIONS = (
    # Beginning and ending to record is no part of the job.
    (_NOTHING, BEGINS_RECORDING),
    (_NOTHING, r"^\$profiler\.py:\d+ stop_trace$"),
    # What a thread is tells nothing: what it calls does.
    (_NOTHING, r"^\$threading\.py:\d+ (_bootstrap|_bootstrap_inner|run)$"),
    (WAIT, r" block_until_ready$"),
    (COMPILATION, r" (trace_to_jaxpr\w*|lower_sharding_computation|backend_compile\w*|compile_or_get_cached)$"),
    (READ_BACK, r" \w*device_get\w*$"),
    (UPLOAD, r" \w*(device_put|shard_args)\w*$"),
    (INPUT, r" (?i:(next|get|load|make|prepare|sample)_?batch|fetch_?(data|batch)|data_iter|prefetch)"),
    (INPUT, r" (?i:(data|batch|input|train)?_?(loader|batches|generator))$"),
    (INPUT, r"(?i:data_?loader)|\bgrain\b"),
    # The iterators of tf.data, and what Keras makes of any other input; what loops over an object takes its next batch.
    (INPUT, r"^\$(dataset_ops|iterator_ops|\w*data(set)?_adapter)\.py:| __next__$"),
    # Almost all that programs ask of JAX goes through the first of these: operations that are not compiled are traced
    # and started one by one in it. Flax and Equinox take apart and put together what they hand to compiled functions.
    (DISPATCH, r" reraise_with_filtered_traceback$|^\$(graphlib|_jit)\.py:"),
    (PROGRAM, r""),
)
# What programs of JAX call to wait for results that they do not read.
_AWAITING = re.compile(r"block_until_ready$")
# How the profiler of JAX begins the name of a function in Python.
FUNCTION = "$"
# A program's own ranges are its code, whatever words their names hold, unless they move data or wait for it.
_OF_RANGES = (READ_BACK, UPLOAD, INPUT)


def asks_for_results(activities: pl.DataFrame) -> pl.Series:
    """Whether in each of the activities the program reads results back, or waits for these as such."""
    is_waiting = decided(activities["name"], _awaits).is_not_null() & (activities["activity"] == WAIT)
    return is_waiting | (activities["activity"] == READ_BACK)


def _awaits(name: str) -> str | None:
    return name if _AWAITING.search(name, 0, LOOKED_AT) else None


def of_calls(name: pl.Series) -> pl.Series:
    """The activity of each span of a runtime; null where its name tells none."""
    return decided(name, lambda text: _activity(text) or None)


def telling(rank: RankTrace, spans: Table) -> pl.DataFrame:
    """Those of a rank's spans whose names tell an ``activity``; they are few, and all others need no second look."""
    names = distinct(rank[spans.only("name")]["name"])
    told = rank.where(spans, pl.col("name").is_in(pl.lit(names.filter(of_calls(names).is_not_null())).implode()))
    return told.with_columns(activity=of_calls(told["name"]))


def of_ranges(name: pl.Series, input_ranges: str) -> pl.Series:
    """The activity of each range that the program named; ``input_ranges`` is a pattern of its input pipeline's."""
    try:
        is_input = re.compile(input_ranges)
    except re.error as error:
        message = f"{input_ranges!r} is no pattern ({error}); give a regular expression, e.g. data|load"
        raise UsageError(message) from None

    def activity(text: str) -> str:
        told = _activity(text)
        return INPUT if is_input.search(text, 0, LOOKED_AT) else told if told in _OF_RANGES else PROGRAM

    return decided(name, activity)


@lru_cache(maxsize=1 << 14)
def _activity(name: str) -> str:
    rules = compiled(_OF_FUNCTIONS if name.startswith(FUNCTION) else _RULES)
    return next((activity for activity, pattern in rules if pattern.search(name, 0, LOOKED_AT)), _NOTHING)
