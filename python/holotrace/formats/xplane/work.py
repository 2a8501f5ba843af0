"""What devices did, as the tables of all analyses."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import polars as pl

from holotrace.core.on_demand import Held, OnDemand, Rows
from holotrace.formats.xplane.profile import Profile

# What PyTorch's own collectives are called, so that one name stands for one operation.
_COLLECTIVES = {
    "all-reduce": "allreduce",
    "all-gather": "allgather",
    "all-to-all": "all_to_all",
    "reduce-scatter": "reduce_scatter",
    "collective-permute": "permute",
    "collective-broadcast": "broadcast",
    "ragged-all-to-all": "all_to_allv",
}
# XLA has some in a computation that is called beside others. Its call is named after them, or their kernel is.
_CALL, _NAMED = r"^async-(start|done)$", r"^((?:all|reduce|collective|ragged)-[a-z-]+?)(?:-start|-done)?(?:\.\d+)?$"
_KERNEL = r"ccl\w*?_(AllReduce|AllGather|ReduceScatter|Broadcast)"
_KERNELS = {
    "AllReduce": "all-reduce",
    "AllGather": "all-gather",
    "ReduceScatter": "reduce-scatter",
    "Broadcast": "collective-broadcast",
}


# Columns of device events that operations have, and those that their details are read from.
_SHOWN = ("event_id", "category", "device", "stream", "start_ns", "end_ns", "launch_id", "launch_ns", "step")
_DETAILS = ("kernel_details", "memcpy_details", "memset_details")


def is_counted(operations: Rows) -> pl.Series:
    """Which are the work of devices: leaves, and of what goes on beside others either its pieces or the whole span.

    A collective is there from its start to its end, which other work may hide. Of a copy the device executes its start
    and waits for its end; what goes on between costs it nothing.
    """
    kinds = operations.shared["kind"]
    spans = kinds.filter(pl.col("is_span") & pl.col("is_collective")).select("program_id", start="instruction").unique()
    start = pl.coalesce("awaited", "instruction")
    pieces = kinds.select("program_id", "is_span", start=start).join(
        spans.with_columns(has_span=True),
        on=["program_id", "start"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    is_piece = kinds["is_collective"] & ~pieces["is_span"] & pieces["has_span"].fill_null(value=False)
    is_counted = ~is_piece & ~(kinds["is_span"] & ~kinds["is_collective"])
    return ~operations["is_container"] & is_counted[operations.own["kind"]]


def device_events(operations: Rows, is_counted: pl.Series, wanted: Collection[str]) -> Held:
    """Operations and kernels, with what their details say of grid, block and bytes."""
    sources = {name: name for name in _SHOWN}
    sources |= {"name": "work_name", "correlation": "correlation_id", "device_ps": "device_duration_ps"}
    sources = {name: source for name, source in sources.items() if name in wanted}
    # Only GPUs write details: to look for something in a million nulls takes as long as in texts.
    written = {name for name in _DETAILS if name in operations and operations[name].count()}
    if not written:
        return OnDemand.of(operations, is_counted, **sources)
    work = operations.filter(is_counted)
    sources |= {name: name for name in written}
    shown = work.select(**{name: source for name, source in sources.items() if source in work})
    if written & {"memcpy_details", "memset_details"}:
        copied = pl.coalesce(written & {"memcpy_details", "memset_details"}).cast(pl.String)
        shown = shown.with_columns(bytes=pl.coalesce(_number(copied, "size"), _number(copied, "num_bytes")))
    if "kernel_details" in written:
        details = pl.col("kernel_details").cast(pl.String)
        shown = shown.with_columns(
            grid=_triple(details, "grid"),
            block=_triple(details, "block"),
            registers=_number(details, "regs"),
            shared_bytes=pl.coalesce(_number(details, "shm"), _number(details, "group_mem")),
            occupancy_percent=details.str.extract(r"\bocc_pct:([\d.]+)").cast(pl.Float64, strict=False),
        )
    return shown


def program_runs(modules: pl.DataFrame, operations: Rows) -> pl.DataFrame:
    """Device events of devices whose operations were not recorded: the runs of their programs."""
    executed = operations.shared["line"].join(operations.own.select("line").unique(), on="line", how="semi")
    shown = modules.filter(pl.col("event_id").is_not_null(), pl.col("end_ns") > pl.col("start_ns"))
    return shown.join(executed, on="plane", how="anti").select(
        *("event_id", "device", "start_ns", "end_ns", "launch_id", "launch_ns", "step"),
        name="module",
        category=pl.lit("xla_module", pl.Categorical()),
    )


def _number(text: pl.Expr, key: str) -> pl.Expr:
    return text.str.extract(rf"\b{key}:(\d+)").cast(pl.Int64, strict=False)


def _triple(text: pl.Expr, key: str) -> pl.Expr:
    """``grid:4,64,1`` as ``[4, 64, 1]``."""
    found = text.str.extract(rf"\b{key}:([\d,]+)").str.replace_all(",", ", ")
    return (pl.lit("[") + found + pl.lit("]")).cast(pl.Categorical())


# What columns are called among operations, where it is something else.
_SOURCES = {
    "category": "op_category",
    "line": "label",
    "module": "hlo_module",
    "program": "program_id",
    "run": "run_id",
    "device_ps": "device_duration_ps",
    "accessed_bytes": "bytes_accessed",
    "source": "source_line",
}
_OF_COLLECTIVES = (
    *("event_id", "category", "pid", "tid", "start_ns", "end_ns", "name", "exchange", "opcode", "op_category"),
    *("hlo_module", "instruction", "work_name", "run_id", "device_kind"),
)


def xla_ops(operations: Rows, wanted: Iterable[str]) -> OnDemand:
    """Operations with all that is known of their instruction and program."""
    return OnDemand.of(operations, None, **{name: _SOURCES.get(name, name) for name in wanted})


def launches(operations: Rows, is_counted: pl.Series, calls: pl.DataFrame) -> OnDemand:
    """Pairs of work and the host call that launched it, one of ``calls`` (launch_id, pid, tid, launch_name, times)."""
    own = "launch_id" in operations.own.columns
    launched = operations.own if own else operations.shared["stretch"]
    # Work is far more than calls: what is told of these is not repeated.
    number = launched.select("launch_id").join(
        calls.select("launch_id", call=pl.int_range(pl.len(), dtype=pl.UInt32)),
        on="launch_id",
        how="left",
        maintain_order="left",
    )["call"]
    calls = calls.rename({"launch_id": "call_id", "pid": "call_pid", "tid": "call_tid"})
    if own:
        found = operations.with_own(number).with_shared(call=calls)
        is_launched = number.is_not_null()
    else:
        of_stretch = launched.hstack(calls[number])
        found = operations.with_shared(stretch=of_stretch)
        is_launched = number.is_not_null()[operations.own["stretch"]]
    sources = {"device_event_id": "event_id", "correlation": "correlation_id"}
    sources |= {"launch_id": "call_id", "pid": "call_pid", "tid": "call_tid"}
    sources |= {name: name for name in ("launch_name", "launch_start_ns", "launch_end_ns")}
    return OnDemand.of(found, is_counted & is_launched, **sources)


def collectives(operations: Rows, is_counted: pl.Series) -> pl.DataFrame:
    """Collectives.

    Executions of one instruction on all devices of all hosts share a run, and so are one operation. TPUs number the
    runs of each core by themselves, so there only the order tells.
    """
    arrived = _arrived(operations, is_counted)
    work = operations.filter(is_counted & operations["is_collective"])
    told = pl.coalesce("exchange", "opcode", "op_category").cast(pl.String)
    called = pl.coalesce(
        pl.col("instruction").cast(pl.String).str.extract(_NAMED),
        pl.col("work_name").cast(pl.String).str.extract(_KERNEL).replace(_KERNELS),
        told,
    )
    opcode = pl.when(told.str.contains(_CALL)).then(called).otherwise(told)
    instruction = pl.concat_str(pl.col("hlo_module", "instruction").cast(pl.String), separator="/")
    optional = (column for column in ("groups", "shape", "element_count") if column in work)
    found = work.select(*_OF_COLLECTIVES, *optional)
    shown = found.select(
        pl.exclude(
            *("exchange", "opcode", "op_category", "hlo_module", "instruction", "work_name", "run_id", "device_kind")
        ),
        collective=opcode.str.extract(r"^(.*?)(?:-start|-done)?$").replace(_COLLECTIVES).cast(pl.Categorical()),
        sequence=pl.when(pl.col("device_kind").cast(pl.String) == "CPU").then("run_id"),
        group=instruction.cast(pl.Categorical()),
    ).rename({"element_count": "out_elements"}, strict=False)
    shown = shown.join(arrived, on="event_id", how="left", maintain_order="left")
    if "shape" in shown.columns:
        element = pl.col("shape").cast(pl.String).str.extract(r"([a-z]+\d*)\[")
        shown = shown.with_columns(element_type=element.cast(pl.Categorical()))
    if "groups" in shown.columns:
        groups = pl.col("groups").cast(pl.String)
        shown = shown.with_columns(
            group_ranks=groups.str.replace_all(" ", "").cast(pl.Categorical()),
            group_size=(groups.str.extract(r"^\[\[([^\]]*)\]").str.count_matches(",") + 1).cast(pl.Int64),
        )
    return shown


def _arrived(operations: Rows, is_counted: pl.Series) -> pl.DataFrame:
    """When cores came to the barrier that they leave for a collective: ``event_id`` of that, ``arrived_ns``."""
    if "waits" not in operations.shared["line"]["role"]:
        return pl.DataFrame(schema={"event_id": pl.UInt32, "arrived_ns": pl.Int64})
    work = operations.filter(is_counted)
    found = work.select("event_id", "plane", "role", "name", "is_collective", "start_ns", "end_ns").sort("start_ns")
    found = found.with_columns(pl.col("role", "name").cast(pl.String))
    barriers = found.filter(role="waits", name="barrier-cores").select(
        "plane", start_ns="start_ns", arrived_ns="start_ns", left_ns="end_ns"
    )
    ran = found.filter(pl.col("role") == "ops").with_columns(
        before_ns=pl.col("end_ns").cum_max().shift(1).over("plane").fill_null(-(2**63))
    )
    met = ran.filter("is_collective").join_asof(barriers, on="start_ns", by="plane", check_sortedness=False)
    # Between the barrier and the collective the core did nothing else.
    is_met = (pl.col("before_ns") <= pl.col("arrived_ns")) & (pl.col("left_ns") <= pl.col("start_ns"))
    return met.filter(is_met).select("event_id", "arrived_ns")


# Generations of AMD whose memory, HBM3, moves twice as much as XLA declares: it counts two transfers a clock, not four.
_OF_HBM3 = ("9.4", "9.5")


def devices(profile: Profile, on_host: pl.DataFrame | None) -> pl.DataFrame:
    """Accelerators with what their planes declare, and the CPU devices that operations ``on_host`` ran on."""
    planes = profile.planes.filter(pl.col("device_kind").is_not_null()).sort("device", "name")
    planes = planes.unique("name", keep="first", maintain_order=True)

    def stat(key: str, value: str) -> pl.Expr:
        found = profile.stats.filter(pl.col("key") == key).unique("plane", keep="first")
        return pl.col("number").replace_strict(found["plane"], found[value], default=None)

    capability = pl.concat_str(
        stat("compute_cap_major", "whole"), stat("compute_cap_minor", "whole"), separator=".", ignore_nulls=False
    )
    moves_more = (stat("device_vendor", "text") == "AMD") & capability.is_in(_OF_HBM3)
    found = planes.rename({"plane": "number"}).select(
        "device",
        "device_kind",
        plane="name",
        vendor=stat("device_vendor", "text"),
        model=pl.coalesce(stat("device_type_string", "text"), stat("gpu_device_name", "text")),
        peak_flops=stat("peak_teraflops_per_second", "number") * 1e12,
        peak_bandwidth=pl.coalesce(
            stat("peak_hbm_bw_gigabytes_per_second", "number") * 1e9,
            stat("memory_bandwidth", "number") * pl.when(moves_more).then(2).otherwise(1),
        ),
        memory_bytes=stat("memory_size", "whole"),
        core_count=stat("core_count", "whole"),
        clock_hz=stat("clock_rate", "number") * 1e3,
        capability=capability,
    )
    if on_host is None:
        return found
    cpus = on_host.select("device", pl.col("plane").cast(pl.String)).unique().sort("device")
    return pl.concat([found, cpus.with_columns(device_kind=pl.lit("CPU"))], how="diagonal")
