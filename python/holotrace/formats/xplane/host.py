"""What the threads of the host did: runtime calls, Python functions, ranges that users named."""

from __future__ import annotations

import polars as pl

from holotrace.formats.xplane.profile import Profile

_SPAN = ("event_id", "line", "name", "start_ns", "end_ns")

HOST, PYTHON, ANNOTATION, OPERATION = "host_call", "python_function", "user_annotation", "xla_op"

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


def spans(profile: Profile) -> pl.DataFrame:
    """Every event of the host's threads but the operations of CPU devices, each with its category."""
    found = (
        profile.events(_SPAN, "host") if profile.has_accelerators else profile.events(_SPAN, "host", lacking="hlo_op")
    )
    return found.with_columns(_categories(profile, found))


def _categories(profile: Profile, found: pl.DataFrame) -> pl.Series:
    """category of each event."""
    # A profile has some hundred names and some million events: decide each name once.
    names = found.select("name").unique()
    text = pl.col("name").cast(pl.String)
    names = names.with_columns(
        is_python=text.str.starts_with("$").fill_null(False), is_own=text.str.contains(_OWN).fill_null(True)
    )
    roots = profile.events(["event_id", "line"], "host", having="_r")
    # Ranges are named on the thread that runs the program: the one with steps, else those of Python.
    label = pl.col("label")
    python = profile.lines.filter(pl.col("role") == "host", label.str.contains(r"^(python|main|MainThread)(/|$)"))
    threads = roots["line"].unique() if roots.height else python["line"]
    on_thread = found.filter(pl.col("line").is_in(threads.implode()), pl.col("end_ns") > pl.col("start_ns"))
    on_thread = on_thread.join(names, on="name", how="left", maintain_order="left", nulls_equal=True)
    named = on_thread.filter(
        ~pl.col("is_python"), ~pl.col("is_own") | pl.col("event_id").is_in(roots["event_id"].implode())
    )
    own = on_thread.filter(~pl.col("is_python"), pl.col("is_own"))
    annotations = named.filter(~_inside(named, own))["event_id"]
    category = pl.when("is_python").then(pl.lit(PYTHON)).otherwise(pl.lit(HOST)).cast(pl.Categorical())
    of_names = names.select("name", category=category)
    shared = found.select("name").join(of_names, on="name", how="left", maintain_order="left", nulls_equal=True)
    is_annotation = found["event_id"].is_in(annotations.implode())
    annotation = pl.lit(ANNOTATION, pl.Categorical())
    return shared.select(category=pl.when(is_annotation).then(annotation).otherwise("category")).to_series()


def _inside(named: pl.DataFrame, own: pl.DataFrame) -> pl.Series:
    """Whether each of ``named`` begins inside one of ``own`` on its thread."""
    # Where spans nest, one lies in another exactly if the furthest end of those that began before is beyond its start.
    reach = own.sort("start_ns").select("line", "start_ns", reach_ns=pl.col("end_ns").cum_max().over("line"))
    points = named.select("line", "start_ns").with_row_index("point").sort("start_ns")
    found = points.join_asof(
        reach, on="start_ns", by="line", strategy="backward", allow_exact_matches=False, check_sortedness=False
    )
    return found.sort("point").select((pl.col("reach_ns") > pl.col("start_ns")).fill_null(False))["reach_ns"]
