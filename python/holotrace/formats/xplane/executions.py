"""Executions of compiled programs: which operations belong to each, what launched it, and in which step."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from holotrace.core.on_demand import Rows
from holotrace.formats.xplane import launch_order, lost_calls
from holotrace.formats.xplane.profile import Profile
from holotrace.formats.xplane.steps import Steps, inferred, marked, of_device

# Host calls that execute a program on one CPU device.
_EXECUTORS = r"(PjRtCpu|TfrtCpu)\w*::ExecuteHelper$|^\[\d+\] .*LoadedExecutable::Execute"
# ... or on several.
_EXECUTIONS = r"LoadedExecutable::Execute(HelperOnSingleDevice)?( \(.*\))?$"
# How what pools of threads do for themselves is called.
_POOL = "ThreadpoolListener::"
# The host call in which all kernels of one execution of a program are launched on one GPU.
_GPU_EXECUTIONS = r":XLA GPU module$"
# The runtime keeps so many bits of a run's id in the events of the host.
_RUN_BITS = (1 << 28) - 1
_KEYS = ("run_id", "device", "mark", "program_id", "plane")


@dataclass(frozen=True)
class Executed:
    """Programs and operations with what launched them, and the steps of all."""

    modules: pl.DataFrame
    operations: Rows
    steps: Steps


def executed(profile: Profile, operations: Rows) -> Executed:
    """What the profile tells of programs, launches and steps."""
    steps = marked(profile)
    made = _on_devices if profile.has_accelerators else _on_host
    modules, operations = made(profile, operations)
    if steps.frame.is_empty():
        steps = of_device(profile, modules)
    if steps.frame.is_empty():
        steps = inferred(modules)
    modules = modules.with_columns(step=steps.of(modules))
    return Executed(modules, _launched_in(steps, operations, modules), steps)


def _launched_in(steps: Steps, operations: Rows, modules: pl.DataFrame) -> Rows:
    """With launch_id, launch_ns and step: those of the program, or of an operation that is launched alone."""
    columns = ("launch_id", "launch_ns", "step")
    of_module = modules.select("module_id", *columns)
    stretches = operations.shared["stretch"].join(of_module, on="module_id", how="left", maintain_order="left")
    if "launch_id" not in operations:
        if steps.kind == "host":
            stretches = stretches.with_columns(_step_of(steps, stretches["step"], stretches["launch_ns"]))
        return operations.with_shared(stretch=stretches)
    called = operations.own.select("launch_id", "launch_ns")
    operations = replace(operations, own=operations.own.drop(called.columns)).with_shared(stretch=stretches)
    called = called.select(pl.coalesce(pl.col(name), operations[name]) for name in called.columns)
    time_ns = called["launch_ns"] if steps.kind == "host" else _begun_alone(operations)
    return operations.with_own(*called, _step_of(steps, operations["step"], time_ns))


def _begun_alone(operations: Rows) -> pl.Series:
    """When each operation began that is of no program; null for all others."""
    known = operations.select("module_id", "start_ns")
    return known.select(pl.when(pl.col("module_id").is_null()).then("start_ns")).to_series()


def _step_of(steps: Steps, step: pl.Series, time_ns: pl.Series) -> pl.Series:
    """Work of no program in a step, e.g. copies, has that of its time: its launch, or its start in steps of devices."""
    alone = (step.is_null() & time_ns.is_not_null()).arg_true()
    return step.scatter(alone, steps.at(time_ns[alone]))


def _stretched(operations: Rows, kind: str) -> Rows:
    """With stretch: numbers of those that follow each other on one line and are of one program, run and ``kind``.

    There are far fewer of these than of operations.
    """
    alike = ("line", "run_id", "device_ordinal", "program_id", "hlo_module", kind)
    keys = operations.select(*alike)
    number = keys.select(pl.struct(pl.all()).rle_id()).to_series().set_sorted()
    firsts = (number != number.shift(1)).fill_null(value=True).arg_true()
    lines = operations.shared["line"].select("line", "plane", of_line="device")
    stretches = keys[firsts].join(lines, on="line", how="left", maintain_order="left")
    stretches = stretches.with_columns(device=pl.coalesce("of_line", "device_ordinal"))
    own = operations.own.drop("run_id", "device_ordinal", kind).with_columns(stretch=number)
    return Rows(own, {"stretch": stretches.drop("line", "of_line", "device_ordinal"), **operations.shared})


def _causes(profile: Profile, rows: pl.Series, *columns: str, marks: pl.DataFrame | None = None) -> pl.DataFrame:
    """event_id, and where the events ``rows``, each once, go back to."""
    unique = rows.alias("event_id").drop_nulls().unique().sort().to_frame()
    looked_for = unique.clear() if marks is None else marks.select("event_id")
    found = pl.DataFrame(profile.space.causes(columns, unique, profile.numbers("host"), looked_for))
    return pl.DataFrame([*unique, *found])


def _launched(profile: Profile, modules: pl.DataFrame, through: str) -> pl.DataFrame:
    """With launch_id, launch_ns and root, from the host event ``through`` each goes back to."""
    causes = _causes(profile, modules[through], "launch", "root").select(
        pl.col("event_id").alias(through), launch_id=pl.coalesce("launch", "event_id"), root="root"
    )
    found = modules.join(causes, on=through, how="left", maintain_order="left")
    launches = profile.of_rows(["event_id", "start_ns"], found.select(event_id="launch_id").drop_nulls().unique())
    times = launches.rename({"event_id": "launch_id", "start_ns": "launch_ns"})
    return found.join(times, on="launch_id", how="left", maintain_order="left")


def _runs(profile: Profile) -> pl.DataFrame:
    """Host events that name a run, but for operations."""
    columns = ("event_id", "name", "start_ns", "run_id", "device_ordinal", "queue_id", "core_type")
    return profile.events(columns, "host", having="run_id", lacking="hlo_op").sort("start_ns")


def _on_host(profile: Profile, operations: Rows) -> tuple[pl.DataFrame, Rows]:
    """Programs of CPU devices, whose operations are all there is of them."""
    operations = operations.with_own(_executors(profile, operations)).without_own("correlation_id")
    operations = _stretched(operations, "mark")
    spans = operations.own.group_by("stretch", maintain_order=True).agg(
        start_ns=pl.col("start_ns").min(),
        end_ns=pl.col("end_ns").max(),
        op_count=pl.len(),
        any_op=pl.col("event_id").get(pl.col("start_ns").arg_min()),
    )
    stretches = pl.concat([operations.shared["stretch"], spans], how="horizontal")
    stretches = stretches.join(_ordinals(profile, stretches["mark"]), on="mark", how="left", maintain_order="left")
    device = pl.coalesce("device", "ordinal")
    stretches = stretches.with_columns(device=device.fill_null(0), is_placed=device.is_not_null())
    known = stretches.filter(pl.col("run_id").is_not_null() | pl.col("mark").is_not_null())
    modules = (
        known.group_by(_KEYS)
        .agg(
            module=pl.col("hlo_module").first(),
            any_op=pl.col("any_op").get(pl.col("start_ns").arg_min()),
            start_ns=pl.col("start_ns").min(),
            end_ns=pl.col("end_ns").max(),
            op_count=pl.col("op_count").sum(),
        )
        .sort("start_ns", "device", "any_op")
        .with_row_index("module_id")
    )
    stretches = stretches.join(
        modules.select(*_KEYS, "module_id"), on=_KEYS, how="left", nulls_equal=True, maintain_order="left"
    )
    modules = _begun(profile, modules)
    # Of a program that the thread that launches it executes itself, only what follows names the run.
    modules = modules.with_columns(begun=pl.when(pl.col("begun_ns") <= pl.col("start_ns")).then("begun"))
    modules = modules.with_columns(through=pl.coalesce("begun", "mark", _around(profile, modules), "any_op"))
    modules = _unchained(profile, _launched(profile, modules, "through"))
    shown = ("plane", "device", "is_placed", "module_id", "run_id", "program_id", "hlo_module")
    return _as_modules(modules), operations.with_shared(stretch=stretches.select(shown))


def _begun(profile: Profile, modules: pl.DataFrame) -> pl.DataFrame:
    """With begun and begun_ns: the first call that names the run of each program.

    Some versions of XLA count the runs of each compiled program by itself, so that those of equal programs, compiled
    one after the other, have the same ids: then it is the last such call before the program.
    """
    named = _runs(profile)
    firsts = named.unique("run_id", keep="first", maintain_order=True)
    begun = firsts.select("run_id", begun="event_id", begun_ns="start_ns")
    found = modules.join(begun, on="run_id", how="left", maintain_order="left")
    is_shared = pl.col("program_id").n_unique().over("run_id") > 1
    shared = found.filter(is_shared & pl.col("run_id").is_not_null()).drop("begun", "begun_ns")
    if shared.is_empty():
        return found
    alike = named.join(firsts.select("run_id", "name"), on=["run_id", "name"], how="semi")
    alike = alike.select("run_id", begun="event_id", begun_ns="start_ns", at_ns="start_ns").sort("at_ns")
    told = shared.join_asof(alike, left_on="start_ns", right_on="at_ns", by="run_id", check_sortedness=False).select(
        "module_id", "begun", "begun_ns"
    )
    return found.update(told, on="module_id", how="left").sort("module_id")


def _unchained(profile: Profile, modules: pl.DataFrame) -> pl.DataFrame:
    """With the launch of each program of its own, where it seems to be that of the one before it, or is not known.

    A CPU device begins a program whose inputs another one makes when that is over, on the same thread, so that both go
    back to one launch: the next launches of a function are those of its next programs. Nothing is known where there are
    fewer launches than programs: some were not recorded, or were made in another way.
    """
    modules = _without_pools(profile, modules)
    ordered = modules.sort("start_ns", "module_id")
    order = pl.int_range(pl.len())
    is_first = (order.over("launch_id", "device") == 0) | pl.col("launch_id").is_null() | pl.col("begun").is_not_null()
    # Where nothing leads back to a call, an operation is its own.
    is_known = pl.col("launch_id").ne_missing(pl.col("any_op"))
    chained = ordered.filter(~(is_first & is_known))
    if chained.is_empty():
        return modules
    calls = _in_functions(profile)
    causes = _causes(profile, calls["event_id"], "launch", "root").join(calls, on="event_id")
    own = (
        causes.with_columns(own_id=pl.coalesce("launch", "event_id"))
        .join(modules.select(own_id="launch_id"), on="own_id", how="anti")
        .sort("start_ns", "own_id")
        .unique("own_id", keep="first", maintain_order=True)
        .select("function", "own_id", own_root="root", own_ns="start_ns", place=order.over("function"))
    )
    named = chained.with_columns(function=_function(pl.col("module"), r"^jit_(.*)$"))
    named = named.join(own.group_by("function").agg(known=pl.len()), on="function", maintain_order="left")
    whole = named.filter(pl.len().over("function") <= pl.col("known"))
    placed = whole.select("module_id", "start_ns", "function", place=order.over("function"))
    found = placed.join(own, on=["function", "place"]).filter(pl.col("own_ns") <= pl.col("start_ns"))
    return modules.join(
        found.select("module_id", "^own_.*$"), on="module_id", how="left", maintain_order="left"
    ).select(
        pl.exclude("launch_id", "launch_ns", "root", "own_id", "own_ns", "own_root"),
        launch_id=pl.coalesce("own_id", "launch_id"),
        launch_ns=pl.coalesce("own_ns", "launch_ns"),
        root=pl.when(pl.col("own_id").is_null()).then("root").otherwise("own_root"),
    )


def _without_pools(profile: Profile, modules: pl.DataFrame) -> pl.DataFrame:
    """Where it leads back to what a pool of threads does for itself, an operation is its own launch."""
    launches = profile.of_rows(["event_id", "name"], modules.select(event_id="launch_id").drop_nulls().unique())
    taken = launches.filter(pl.col("name").cast(pl.String).str.starts_with(_POOL))["event_id"]
    is_pool = pl.col("launch_id").is_in(pl.lit(taken).implode()).fill_null(value=False)
    own = {"launch_id": pl.col("any_op"), "launch_ns": pl.col("start_ns"), "root": pl.lit(None, pl.UInt32)}
    return modules.with_columns(
        pl.when(is_pool).then(instead).otherwise(pl.col(name)).alias(name) for name, instead in own.items()
    )


def _in_functions(profile: Profile) -> pl.DataFrame:
    """Calls that execute programs, each with the function that JAX called around it: event_id, start_ns, function."""
    columns = ["event_id", "line", "start_ns", "end_ns"]
    functions = profile.of_rows([*columns, "name"], profile.named(r"^PjitFunction\(")).sort("start_ns")
    called = functions.select(
        "line",
        from_ns="start_ns",
        until_ns="end_ns",
        function=_function(pl.col("name"), r"^PjitFunction\((.*)\)$"),
    )
    calls = profile.of_rows(columns, profile.named(_EXECUTIONS)).sort("start_ns")
    found = calls.join_asof(called, left_on="start_ns", right_on="from_ns", by="line", check_sortedness=False)
    return found.filter(pl.col("end_ns") <= pl.col("until_ns")).select("event_id", "start_ns", "function")


def _function(name: pl.Expr, pattern: str) -> pl.Expr:
    """The function that a program was made of, as far as programs may be called by it."""
    return name.cast(pl.String).str.extract(pattern).str.replace_all(r"\W", "_").str.strip_chars("_")


def _executors(profile: Profile, operations: Rows) -> pl.Series:
    """mark: of operations that name no run, the call that executed their program on one device."""
    is_named = operations["run_id"].is_not_null()
    nothing = pl.repeat(None, len(is_named), dtype=pl.UInt32, eager=True).alias("mark")
    if is_named.all():
        return nothing
    marks = profile.named(_EXECUTORS)
    found = profile.space.causes(["mark"], operations.select("event_id"), profile.numbers("host"), marks)
    mark = lost_calls.continued(operations, pl.DataFrame(found)["mark"])
    calls = profile.of_rows(["event_id", "start_ns"], marks)
    mark = lost_calls.in_order(operations, mark, calls)
    mark = lost_calls.begun_before(operations, mark, calls)
    mark = lost_calls.of_each_execution(operations, mark, calls)
    return nothing.zip_with(is_named, mark) if is_named.any() else mark


def _around(profile: Profile, modules: pl.DataFrame) -> pl.Series:
    """around: of programs of which nothing else tells the launch, the call that has their operations inside it."""
    asked = modules.select(asked=pl.when(pl.col("begun").is_null() & pl.col("mark").is_null()).then("any_op"))["asked"]
    if asked.null_count() == len(asked):
        return asked.alias("around")
    calls = _causes(profile, asked, "mark", marks=profile.named(_EXECUTIONS)).rename({"event_id": "asked"})
    return asked.to_frame().join(calls, on="asked", how="left", maintain_order="left")["mark"].alias("around")


def _ordinals(profile: Profile, marks: pl.Series) -> pl.DataFrame:
    """mark and ordinal, the number of its device.

    Calls that one launch makes for all its devices are in the order of the devices.
    """
    if marks.null_count() == len(marks):
        return pl.DataFrame(schema={"mark": pl.UInt32, "ordinal": pl.Int64})
    # A launch of one device is no call of its own.
    ordinal = pl.col("first").rank("ordinal").over("launch") - 1
    return _causes(profile, marks, "first", "launch").select(mark="event_id", ordinal=ordinal.cast(pl.Int64))


def _on_devices(profile: Profile, operations: Rows) -> tuple[pl.DataFrame, Rows]:
    """Programs of accelerators."""
    modules, operations = _on_tpu(profile, operations)
    known = modules.select("module_id", "module", module_run="run", module_program="program")
    gpu_modules, operations = _on_gpu(profile, operations, first=modules.height)
    operations = _stretched(operations, "module_id")
    stretches = operations.shared["stretch"].join(known, on="module_id", how="left", maintain_order="left")
    stretches = stretches.select(
        "plane",
        "device",
        "module_id",
        is_placed=True,
        run_id=pl.coalesce("run_id", "module_run"),
        program_id=pl.coalesce("program_id", "module_program"),
        hlo_module=pl.coalesce("hlo_module", "module"),
    )
    modules = pl.concat([modules, gpu_modules], how="diagonal")
    return modules, operations.with_shared(stretch=stretches)


def _on_tpu(profile: Profile, operations: Rows) -> tuple[pl.DataFrame, Rows]:
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
    points = operations.select("start_ns", "plane").with_row_index("at").sort("start_ns")
    inside = points.join_asof(
        modules.select("module_id", "plane", begin="start_ns", until="end_ns"),
        left_on="start_ns",
        right_on="begin",
        by="plane",
        check_sortedness=False,
    )
    is_in = pl.col("start_ns") < pl.max_horizontal("until", pl.col("begin") + 1)
    operations = operations.with_own(inside.sort("at").select(module_id=pl.when(is_in).then("module_id")).to_series())
    counted = operations.select("module_id", "is_async").filter(~pl.col("is_async"))
    counts = counted.group_by("module_id").agg(op_count=pl.len())
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
    modules = launch_order.launched(profile, _launched(profile, modules, "through"))
    return _as_modules(_launched_within(modules)), operations


def _launched_within(modules: pl.DataFrame) -> pl.DataFrame:
    """The programs, those without a launch that were handed over when recording began, but launched before that.

    It is not known in which step that was. A program that goes back to no call is its own launch otherwise.
    """
    is_known = pl.col("launch_id") != pl.col("through")
    first_ns = pl.col("start_ns").filter(is_known).min().over("plane")
    is_before = ((pl.col("start_ns") < first_ns) & ~is_known).fill_null(value=False)
    return modules.with_columns(
        pl.when(~is_before).then(name).name.keep() for name in ("launch_id", "launch_ns", "root")
    )


def _on_gpu(profile: Profile, operations: Rows, first: int) -> tuple[pl.DataFrame, Rows]:
    """Programs of GPUs: kernels that one call after another executes; launches by correlation id."""
    calls = profile.events(["event_id", "start_ns", "correlation_id"], "host", having="correlation_id")
    calls = calls.sort("start_ns").unique("correlation_id", keep="first", maintain_order=True)
    called = operations.select("correlation_id").join(
        calls.select("correlation_id", launch_id="event_id", launch_ns="start_ns"),
        on="correlation_id",
        how="left",
        maintain_order="left",
    )
    operations = operations.with_own(called["launch_id"], called["launch_ns"])
    of_streams = operations.filter(operations["role"] == "stream")
    of_program = of_streams.filter(of_streams["program_id"].is_not_null() | of_streams["hlo_module"].is_not_null())
    kernels = of_program.select(
        *("event_id", "plane", "device", "program_id", "run_id", "hlo_module", "instruction"),
        *("launch_id", "launch_ns", "start_ns", "end_ns"),
    )
    # Of exported profiles only the names tell programs apart.
    named = -1 - pl.col("hlo_module").to_physical().cast(pl.Int64)
    kernels = kernels.with_columns(pl.coalesce("program_id", named), own_id="program_id")
    order = ["device", "launch_ns", "start_ns", "event_id"]
    kernels = _executed_by(profile, kernels).sort(order, nulls_last=True)
    kernels = kernels.hstack([lost_calls.turns(kernels)])
    kernels = kernels.with_columns(
        gpu_module=(pl.struct("device", "program_id", "execution", "turn").rle_id() + first).cast(pl.UInt32)
    )
    # What runs before the first launch that is recorded was launched before the recording began.
    is_launched = pl.col("launch_id").get(pl.col("start_ns").arg_min()).is_not_null()
    modules = kernels.group_by(module_id="gpu_module", maintain_order=True).agg(
        pl.col("plane", "device", "run_id").first(),
        *(pl.when(is_launched).then(pl.col(name).first()).alias(name) for name in ("launch_id", "launch_ns")),
        program_id=pl.col("own_id").first(),
        module=pl.col("hlo_module").first(),
        start_ns=pl.col("start_ns").min(),
        end_ns=pl.col("end_ns").max(),
        op_count=pl.len(),
    )
    found = operations.select("event_id", "module_id").join(
        kernels.select("event_id", "gpu_module"), on="event_id", how="left", maintain_order="left"
    )
    operations = operations.with_own(found.select(module_id=pl.coalesce("module_id", "gpu_module")).to_series())
    return _as_modules(_through_threads(profile, modules)), operations


def _through_threads(profile: Profile, modules: pl.DataFrame) -> pl.DataFrame:
    """The programs, those that threads of several devices launch kernel by kernel by the call that these work for."""
    found = _launched(profile, modules.rename({"launch_id": "through", "launch_ns": "begun_ns"}), "through")
    events = pl.concat([found["through"], found["launch_id"]]).alias("event_id").drop_nulls().unique().to_frame()
    lines = profile.of_rows(["event_id", "line"], events)
    of = {
        name: found.select(event_id=name).join(lines, on="event_id", how="left", maintain_order="left")["line"]
        for name in ("through", "launch_id")
    }
    is_own = (of["through"] == of["launch_id"]).fill_null(value=True)
    return found.with_columns(
        launch_id=pl.when(is_own).then("through").otherwise("launch_id"),
        launch_ns=pl.when(is_own).then("begun_ns").otherwise("launch_ns"),
        root=pl.when(~is_own).then("root"),
    )


def _executed_by(profile: Profile, kernels: pl.DataFrame) -> pl.DataFrame:
    """With execution, the call that launched it and the others of one execution.

    It is on the thread of the launch. ROCm shows launches on threads of their own: with one device it is the call of
    that time.
    """
    calls = profile.of_rows(["event_id", "start_ns", "end_ns"], profile.named(_GPU_EXECUTIONS))
    around = _causes(profile, kernels["launch_id"], "mark", marks=calls).rename({"event_id": "launch_id"})
    kernels = kernels.join(around, on="launch_id", how="left").sort("launch_ns")
    if kernels["device"].n_unique() != 1:
        return kernels.rename({"mark": "execution"})
    at_that_time = calls.sort("start_ns").rename({"event_id": "open", "start_ns": "begin_ns", "end_ns": "over_ns"})
    is_open = pl.col("launch_ns") < pl.col("over_ns")
    found = kernels.join_asof(at_that_time, left_on="launch_ns", right_on="begin_ns")
    return found.with_columns(execution=pl.coalesce("mark", pl.when(is_open).then("open")))


def _as_modules(modules: pl.DataFrame) -> pl.DataFrame:
    # That of a device on which a line shows its programs.
    event = pl.col("event_id") if "event_id" in modules.columns else pl.lit(None, pl.UInt32).alias("event_id")
    return modules.select(
        event,
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
