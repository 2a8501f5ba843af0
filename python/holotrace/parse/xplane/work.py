"""What devices did, as the tables of all analyses."""

from __future__ import annotations

import polars as pl

from holotrace.parse.xplane.profile import Profile

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


def device_events(work: pl.DataFrame) -> pl.DataFrame:
    """Operations and kernels, with what their details say of grid, block and bytes."""
    shown = work.select(
        *("event_id", "category", "device", "stream", "start_ns", "end_ns", "launch_id", "launch_ns", "step"),
        *(column for column in ("kernel_details", "memcpy_details", "memset_details") if column in work.columns),
        name=pl.when(pl.col("role") == "stream").then("display").otherwise(pl.coalesce("instruction", "display")),
        correlation="correlation_id",
    )
    if "memcpy_details" in shown.columns:
        copied = pl.coalesce("memcpy_details", "memset_details").cast(pl.String)
        shown = shown.with_columns(bytes=pl.coalesce(_number(copied, "size"), _number(copied, "num_bytes")))
    if "kernel_details" in shown.columns:
        details = pl.col("kernel_details").cast(pl.String)
        shown = shown.with_columns(
            grid=_triple(details, "grid"),
            block=_triple(details, "block"),
            registers=_number(details, "regs"),
            shared_bytes=pl.coalesce(_number(details, "shm"), _number(details, "group_mem")),
            occupancy_percent=details.str.extract(r"\bocc_pct:([\d.]+)").cast(pl.Float64, strict=False),
        )
    return shown


def _number(text: pl.Expr, key: str) -> pl.Expr:
    return text.str.extract(rf"\b{key}:(\d+)").cast(pl.Int64, strict=False)


def _triple(text: pl.Expr, key: str) -> pl.Expr:
    """``grid:4,64,1`` as ``[4, 64, 1]``."""
    found = text.str.extract(rf"\b{key}:([\d,]+)").str.replace_all(",", ", ")
    return (pl.lit("[") + found + pl.lit("]")).cast(pl.Categorical())


# Columns of operations under other names.
_RENAMED = {
    "op_category": "category",
    "label": "line",
    "hlo_module": "module",
    "program_id": "program",
    "run_id": "run",
    "device_duration_ps": "device_ps",
    "bytes_accessed": "accessed_bytes",
    "source_line": "source",
}


def xla_ops(operations: pl.DataFrame) -> pl.DataFrame:
    """Operations with all that is known of their instruction and program."""
    named = operations.with_columns(name=pl.coalesce("instruction", "display"))
    return named.drop("category", "line", "source", strict=False).rename(_RENAMED, strict=False)


def collectives(work: pl.DataFrame) -> pl.DataFrame:
    """Collectives; ``work`` has pid and tid.

    Executions of one instruction on all devices of all hosts share a run, and so are one operation.
    """
    found = work.filter(pl.col("is_collective"), ~pl.col("is_async"))
    opcode = pl.coalesce("opcode", "op_category").cast(pl.String)
    instruction = pl.concat_str(pl.col("hlo_module", "instruction").cast(pl.String), separator="/")
    shown = found.select(
        *("event_id", "category", "pid", "tid", "start_ns", "end_ns"),
        *(column for column in ("groups", "shape", "element_count") if column in found.columns),
        name=pl.coalesce("instruction", "display"),
        collective=opcode.str.extract(r"^(.*?)(?:-start|-done)?$").replace(_COLLECTIVES).cast(pl.Categorical()),
        sequence="run_id",
        group=instruction.cast(pl.Categorical()),
    ).rename({"element_count": "out_elements"}, strict=False)
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


def devices(profile: Profile, on_host: pl.DataFrame | None) -> pl.DataFrame:
    """Accelerators with what their planes declare, and the CPU devices that operations ``on_host`` ran on."""
    planes = profile.planes.filter(pl.col("device_kind").is_not_null()).sort("device", "name")
    planes = planes.unique("name", keep="first", maintain_order=True)

    def stat(key: str, value: str) -> pl.Expr:
        found = profile.stats.filter(pl.col("key") == key).unique("plane", keep="first")
        return pl.col("number").replace_strict(found["plane"], found[value], default=None)

    found = planes.rename({"plane": "number"}).select(
        "device",
        "device_kind",
        plane="name",
        vendor=stat("device_vendor", "text"),
        model=pl.coalesce(stat("device_type_string", "text"), stat("gpu_device_name", "text")),
        peak_flops=stat("peak_teraflops_per_second", "number") * 1e12,
        peak_bandwidth=pl.coalesce(
            stat("peak_hbm_bw_gigabytes_per_second", "number") * 1e9, stat("memory_bandwidth", "number")
        ),
        memory_bytes=stat("memory_size", "whole"),
        core_count=stat("core_count", "whole"),
        clock_hz=stat("clock_rate", "number") * 1e3,
    )
    if on_host is None:
        return found
    cpus = on_host.select("device", pl.col("plane").cast(pl.String)).unique().sort("device")
    return pl.concat([found, cpus.with_columns(device_kind=pl.lit("CPU"))], how="diagonal")
