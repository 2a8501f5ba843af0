"""Executions of compiled programs: which operations belong to each, what launched it, and in which step."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from holotrace.parse.xplane.profile import Profile
from holotrace.parse.xplane.steps import Steps, inferred, marked, of_device

# Host calls that execute a program on one CPU device.
_EXECUTORS = r"(PjRtCpu|TfrtCpu)\w*::ExecuteHelper$|^\[\d+\] .*LoadedExecutable::Execute"
# The runtime keeps so many bits of a run's id in the events of the host.
_RUN_BITS = (1 << 28) - 1
_KEYS = ("run_id", "device", "mark", "program_id", "plane")


@dataclass(frozen=True)
class Executed:
    """Programs and operations with what launched them, and the steps of all."""

    modules: pl.DataFrame
    operations: pl.DataFrame
    steps: Steps


def executed(profile: Profile, operations: pl.DataFrame) -> Executed:
    """What the profile tells of programs, launches and steps."""
    steps = marked(profile)
    if not profile.has_accelerators:
        modules, operations = _on_host(profile, operations)
    else:
        modules, operations = _on_tpu(profile, operations.with_columns(is_placed=True))
        gpu_modules, operations = _on_gpu(profile, operations, first=modules.height)
        modules = pl.concat([modules, gpu_modules], how="diagonal")
    if steps.frame.is_empty():
        steps = of_device(profile)
    if steps.frame.is_empty():
        steps = inferred(modules)
    modules = modules.with_columns(step=steps.of(modules))
    operations = operations.join(
        modules.select("module_id", "step", module_launch="launch_id", module_launch_ns="launch_ns"),
        on="module_id",
        how="left",
        maintain_order="left",
    ).with_columns(
        launch_id=pl.coalesce("launch_id", "module_launch"), launch_ns=pl.coalesce("launch_ns", "module_launch_ns")
    )
    # Work of no program, e.g. copies, has the step of its own launch.
    alone = operations.select("event_id", "step", "launch_ns").filter(
        pl.col("step").is_null() & pl.col("launch_ns").is_not_null()
    )
    if not alone.is_empty():
        own = alone.select("event_id", own=steps.at(alone["launch_ns"]))
        operations = operations.join(own, on="event_id", how="left", maintain_order="left").with_columns(
            step=pl.coalesce("step", "own")
        )
    return Executed(modules, operations, steps)


def _causes(profile: Profile, rows: pl.Series, marks: pl.Series | None = None) -> pl.DataFrame:
    """event_id, mark, first, launch, root of the events ``rows``, each once."""
    unique = rows.drop_nulls().unique()
    wanted = [] if marks is None else marks.to_list()
    return pl.DataFrame(profile.space.causes(unique.to_list(), profile.numbers("host"), wanted))


def _launched(profile: Profile, modules: pl.DataFrame, through: str) -> pl.DataFrame:
    """With launch_id, launch_ns and root, from the host event ``through`` each goes back to."""
    causes = _causes(profile, modules[through]).select(
        pl.col("event_id").alias(through), launch_id=pl.coalesce("launch", "event_id"), root="root"
    )
    found = modules.join(causes, on=through, how="left", maintain_order="left")
    times = pl.DataFrame(
        profile.space.events(["event_id", "start_ns"], rows=found["launch_id"].drop_nulls().unique().to_list())
    ).rename({"event_id": "launch_id", "start_ns": "launch_ns"})
    return found.join(times, on="launch_id", how="left", maintain_order="left")


def _runs(profile: Profile) -> pl.DataFrame:
    """Host events that name a run, but for operations."""
    columns = ("event_id", "name", "start_ns", "run_id", "device_ordinal", "queue_id", "core_type", "hlo_op")
    found = profile.events(columns, "host", having="run_id").filter(pl.col("hlo_op").is_null())
    return found.drop("hlo_op").sort("start_ns")


def _on_host(profile: Profile, operations: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Programs of CPU devices, whose operations are all there is of them."""
    unnamed = operations.select("event_id", "run_id").filter(pl.col("run_id").is_null())
    if unnamed.is_empty():
        operations = operations.with_columns(mark=pl.lit(None, pl.UInt32), first=pl.lit(None, pl.UInt32))
    else:
        operations = operations.join(_executors(profile, unnamed), on="event_id", how="left", maintain_order="left")
        operations = operations.with_columns(device=pl.coalesce("device", "ordinal"))
    operations = operations.with_columns(pl.col("device").fill_null(0), is_placed=pl.col("device").is_not_null())
    described = operations.select(*_KEYS, "hlo_module", "start_ns", "end_ns", "event_id")
    known = described.filter(pl.col("run_id").is_not_null() | pl.col("mark").is_not_null())
    modules = (
        known.group_by(_KEYS)
        .agg(
            module=pl.col("hlo_module").first(),
            start_ns=pl.col("start_ns").min(),
            end_ns=pl.col("end_ns").max(),
            op_count=pl.len(),
            any_op=pl.col("event_id").sort_by("start_ns").first(),
        )
        .sort("start_ns", "device", "any_op")
        .with_row_index("module_id")
    )
    operations = operations.join(
        modules.select(*_KEYS, "module_id"), on=_KEYS, how="left", nulls_equal=True, maintain_order="left"
    )
    begun = _runs(profile).unique("run_id", keep="first", maintain_order=True)
    modules = modules.join(begun.select("run_id", begun="event_id"), on="run_id", how="left", maintain_order="left")
    modules = _launched(profile, modules.with_columns(through=pl.coalesce("begun", "mark", "any_op")), "through")
    return _as_modules(modules), operations.with_columns(
        launch_id=pl.lit(None, pl.UInt32), launch_ns=pl.lit(None, pl.Int64)
    )


def _executors(profile: Profile, operations: pl.DataFrame) -> pl.DataFrame:
    """event_id, mark and ordinal: the call that executed the program on one device, and the device's number.

    Calls that one launch makes for all its devices are in the order of the devices.
    """
    causes = _causes(profile, operations["event_id"], profile.named(_EXECUTORS))
    executors = _causes(profile, causes["mark"]).with_columns(
        ordinal=(pl.col("first").rank("ordinal").over("launch") - 1).cast(pl.Int64)
    )
    # A launch of one device is no call of its own.
    return causes.select("event_id", "mark").join(
        executors.select("ordinal", mark="event_id"), on="mark", how="left", maintain_order="left"
    )


def _on_tpu(profile: Profile, operations: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Programs that a device's line XLA Modules shows."""
    columns = ("event_id", "line", "name", "start_ns", "end_ns", "run_id", "queue_id", "core_type")
    lines = profile.lines.select("line", "device", plane=pl.col("plane_name").cast(pl.Categorical()))
    text = pl.col("name").cast(pl.String)
    program = text.str.extract(r"\((-?\d+)\)$")
    modules = (
        profile.events(columns, "modules")
        .join(lines, on="line", how="left")
        .with_columns(
            module=text.str.replace(r"\(-?\d+\)$", "").cast(pl.Categorical()),
            # An id above 2**63 wraps around, as everywhere.
            program_id=pl.coalesce(
                program.cast(pl.UInt64, strict=False).reinterpret(signed=True), program.cast(pl.Int64, strict=False)
            ),
            run_key=pl.col("run_id") & _RUN_BITS,
        )
        .sort("start_ns", "device", "event_id")
        .with_row_index("module_id")
    )
    inside = operations.sort("start_ns").join_asof(
        modules.select(
            "module_id",
            "plane",
            "module",
            begin="start_ns",
            until="end_ns",
            module_run="run_id",
            module_program="program_id",
        ),
        left_on="start_ns",
        right_on="begin",
        by="plane",
        check_sortedness=False,
    )
    is_in = pl.col("start_ns") < pl.max_horizontal("until", pl.col("begin") + 1)
    operations = (
        inside.with_columns(
            module_id=pl.when(is_in).then("module_id"),
            hlo_module=pl.coalesce("hlo_module", pl.when(is_in).then("module")),
            run_id=pl.coalesce("run_id", pl.when(is_in).then("module_run")),
            program_id=pl.coalesce("program_id", pl.when(is_in).then("module_program")),
        )
        .drop("begin", "until", "module", "module_run", "module_program")
        .sort("event_id")
    )
    counts = operations.filter(~pl.col("is_async")).group_by("module_id").agg(op_count=pl.len())
    modules = modules.join(counts, on="module_id", how="left", maintain_order="left")
    runs = _runs(profile).filter(pl.col("name").cast(pl.String).str.contains("Enqueue"))
    enqueued = runs.select(
        "queue_id", "start_ns", through="event_id", device="device_ordinal", run_key=pl.col("run_id") & _RUN_BITS
    )
    modules = modules.join_asof(
        enqueued.sort("start_ns"),
        on="start_ns",
        by=["device", "run_key", "queue_id"],
        strategy="nearest",
        check_sortedness=False,
    )
    return _as_modules(_launched(profile, modules, "through")), operations


def _on_gpu(profile: Profile, operations: pl.DataFrame, first: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Programs of GPUs: kernels of one program after another; launches by correlation id."""
    calls = profile.events(["event_id", "start_ns", "correlation_id"], "host", having="correlation_id")
    calls = calls.sort("start_ns").unique("correlation_id", keep="first", maintain_order=True)
    operations = operations.join(
        calls.select("correlation_id", launch_id="event_id", launch_ns="start_ns"),
        on="correlation_id",
        how="left",
        maintain_order="left",
    )
    kernels = operations.filter((pl.col("role") == "stream") & pl.col("program_id").is_not_null())
    order = ["device", "launch_ns", "start_ns", "event_id"]
    kernels = kernels.sort(order, nulls_last=True).with_columns(
        gpu_module=(pl.struct("device", "program_id").rle_id() + first).cast(pl.UInt32)
    )
    modules = kernels.group_by(module_id="gpu_module", maintain_order=True).agg(
        pl.col("plane", "device", "program_id", "run_id", "launch_id", "launch_ns").first(),
        module=pl.col("hlo_module").first(),
        start_ns=pl.col("start_ns").min(),
        end_ns=pl.col("end_ns").max(),
        op_count=pl.len(),
    )
    operations = operations.join(
        kernels.select("event_id", "gpu_module"), on="event_id", how="left", maintain_order="left"
    ).with_columns(module_id=pl.coalesce("module_id", "gpu_module"))
    return _as_modules(modules.with_columns(root=pl.lit(None, pl.UInt32))), operations


def _as_modules(modules: pl.DataFrame) -> pl.DataFrame:
    return modules.select(
        pl.col("module_id").cast(pl.UInt32),
        pl.col("module", "plane").cast(pl.Categorical()),
        pl.col("op_count").cast(pl.Int64),
        program="program_id",
        run="run_id",
        device="device",
        start_ns="start_ns",
        end_ns="end_ns",
        launch_id="launch_id",
        launch_ns="launch_ns",
        root="root",
    )
