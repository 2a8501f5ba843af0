"""What the threads of the host did: runtime calls, Python functions, ranges that users named."""

from __future__ import annotations

import polars as pl

from holotrace.core.on_demand import Rows
from holotrace.formats.xplane.profile import Profile

_SPAN = ("event_id", "line", "name", "start_ns", "end_ns")

# What is asked of the events of the host's threads, steps among them.
STATS = ("_r", "step_num", "iter_num", "hlo_op", "run_id", "device_ordinal")

HOST, PYTHON, ANNOTATION = CATEGORIES = ("host_call", "python_function", "user_annotation")

# Names that runtimes and frameworks give their own spans on the threads of user code: PyTorch/XLA, JAX, PjRt, TPU.
# A range that a user named has another name, and lies in none of these.
_OWN = (
    r"::|^(PjitFunction|lower_sharding_computation|backend_compile|trace_to_jaxpr|ParseArguments|TransferTo|TransferFrom)"
    r"|^(Step[mM]arker|Sync(Live)?Tensors(Graph|GraphInternal)|ScheduleSyncTensorsGraph|CollectSyncTensors|RunPostOrder)$"
    r"|^(ExtractIRAndPrepareXlaData_|SetTensorData|Compile|Execute(Computation|Chained|Replicated|Parallel)?)$"
    r"|^(DeviceBarrier|TensorCollectionBarrier|InputHandler|OutputHandler|ReleaseHandles|RunComputations)"
    r"|^(ExecuteComputationWithBarrier|update_placeholder|_get_xla_sharding_specs|GetDataShard)"
    r"|^(Wait(:| for)|Rendezvous|InvokeRendezvous|D2H|H2D|DevicePut|BatchedDevicePut|batched_device_put|shard_args)"
    r"|^(np\.asarray|MemoryAllocation|MemoryDeallocation|MutexLock|PJRT_|PjRt|Tfrt|Linearize|XlaLinearize|Transpose)"
    r"|^(ArrayImpl|Common|IFRT|ifrt|CUDA|cu[A-Z]|cuda[A-Z]|hip[A-Z]|Thunks|Build buffer|Make[A-Z]|Record[A-Z])"
    r"|^(jit_.*XLA GPU module|XLA GPU module|ExecuteReplicated\.__call__|ComputeSemaphoreAcquire|Resolve constant)"
)
# What only the code of the program calls.
_CALLING = r"^(PjitFunction\(|StepMarker$)"


def spans(profile: Profile, *columns: str, lasts: bool) -> pl.DataFrame:
    """These columns of every event of the host's threads but the operations of CPU devices; only of those that last."""
    lacking = None if profile.has_accelerators else "hlo_op"
    return profile.events(columns, "host", lacking=lacking, lasts=lasts)


def categorized(profile: Profile, *, lasts: bool) -> Rows:
    """The spans, each with its name, times, thread and category."""
    found = spans(profile, *_SPAN, lasts=lasts)
    categories = pl.Series(CATEGORIES, dtype=pl.Categorical()).alias("category").to_frame()
    threads = profile.lines.select(pl.col("role", "label").cast(pl.Categorical()), pid="process")
    shared = {"line": threads.rename({"label": "tid"}), "number": categories}
    return Rows(found.with_columns(_categories(profile, found)), shared)


def _categories(profile: Profile, found: pl.DataFrame) -> pl.Series:
    """The number of the category of each event."""
    # A profile has some hundred names and some million events: decide each name once.
    names = found.select("name").unique()
    text = pl.col("name").cast(pl.String)
    names = names.with_columns(
        is_python=text.str.starts_with("$").fill_null(False), is_own=text.str.contains(_OWN).fill_null(True)
    )
    roots = profile.events(["event_id", "line"], "host", having="_r")
    # Ranges are named on the thread that runs the program: the one with steps, else those of Python. Some are called
    # by the script or by the version of Python, and are known by the functions of JAX that they call.
    label = pl.col("label")
    python = profile.lines.filter(pl.col("role") == "host", label.str.contains(r"^(python|main|MainThread)(/|$)"))
    calling = found.filter(pl.col("name").is_in(pl.lit(names.filter(text.str.contains(_CALLING))["name"]).implode()))
    threads = roots["line"].unique() if roots.height else pl.concat([python["line"], calling["line"]]).unique()
    on_thread = found.filter(pl.col("line").is_in(pl.lit(threads).implode()), pl.col("end_ns") > pl.col("start_ns"))
    on_thread = on_thread.join(names, on="name", how="left", maintain_order="left", nulls_equal=True)
    named = on_thread.filter(
        ~pl.col("is_python"), ~pl.col("is_own") | pl.col("event_id").is_in(pl.lit(roots["event_id"]).implode())
    )
    own = on_thread.filter(~pl.col("is_python"), pl.col("is_own"))
    annotations = named.filter(~_inside(named, own))["event_id"]
    of_python = names.filter("is_python")["name"].to_physical()
    codes = found["name"].to_physical()
    last = int(codes.max() or 0)  # type: ignore[arg-type]  # of a column of numbers
    of_code = pl.repeat(CATEGORIES.index(HOST), last + 1, dtype=pl.UInt8(), eager=True)
    of_code = of_code.scatter(of_python, CATEGORIES.index(PYTHON))
    number = of_code[codes].fill_null(CATEGORIES.index(HOST))
    places: pl.Series = found["event_id"].search_sorted(annotations)
    return number.scatter(places, CATEGORIES.index(ANNOTATION)).alias("number")


def _inside(named: pl.DataFrame, own: pl.DataFrame) -> pl.Series:
    """Whether each of ``named`` begins inside one of ``own`` on its thread."""
    # Where spans nest, one lies in another exactly if the furthest end of those that began before is beyond its start.
    reach = own.sort("start_ns").select("line", "start_ns", reach_ns=pl.col("end_ns").cum_max().over("line"))
    points = named.select("line", "start_ns").with_row_index("point").sort("start_ns")
    found = points.join_asof(
        reach, on="start_ns", by="line", strategy="backward", allow_exact_matches=False, check_sortedness=False
    )
    return found.sort("point").select((pl.col("reach_ns") > pl.col("start_ns")).fill_null(False))["reach_ns"]
