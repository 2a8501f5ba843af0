"""Operations as the devices executed them, before it is known what launched them."""

from __future__ import annotations

import polars as pl

from holotrace.parse.xplane.profile import WAITS, Profile

_COLUMNS = (
    *("event_id", "line", "name", "display", "start_ns", "end_ns", "duration_ps", "inner_ps"),
    *("hlo_op", "hlo_module", "program_id", "run_id", "device_ordinal", "correlation_id"),
    *("hlo_category", "tf_op", "stat:name", "source", "flops", "model_flops", "bytes_accessed"),
    *("device_duration_ps", "kernel_details", "memcpy_details", "memset_details"),
)
_HLO = ("program", "name", "opcode", "scope", "source", "shape", "groups", "channel", "result_bytes", "element_count")

# Collectives by opcode, or by the category or name that begins with one.
COLLECTIVE = (
    r"(^|[^a-z])(all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute|collective-broadcast|"
    r"async-collective|ragged-all-to-all)|^(send|recv)(-done)?(\.\d+)?$"
)
_WAIT = r"-done(\.\d+)?$|^(barrier-cores|dependency-wait|infeed|host recv)(\.\d+)?$"
_CONTAINER = r"^(while|conditional|call)(\.\d+)?$"
_NUMBER = r"(\.clone)?(\.\d+)?$"


def operations(profile: Profile) -> pl.DataFrame:
    """Every operation of every device, with its instruction's opcode, scope and source where the profile has them."""
    parts = [
        profile.events(_COLUMNS, "ops", "async", "stream"),
        profile.events(_COLUMNS, "waits").filter(pl.col("name").cast(pl.String).is_in(WAITS)),
    ]
    if not profile.has_accelerators:
        # Calls of a driver's API carry the operation they launch, and a correlation id.
        on_host = profile.events(_COLUMNS, "host", having="hlo_op")
        parts.append(on_host.filter(pl.col("correlation_id").is_null()))
    lines = profile.lines.select(
        "line", "role", "device", "device_kind", "label", plane="plane_name", stream="id"
    ).with_columns(pl.col("label", "plane").cast(pl.Categorical()))
    found = pl.concat(parts).join(lines, on="line", how="left", maintain_order="left")
    return _described(_named(found), profile)


def _named(found: pl.DataFrame) -> pl.DataFrame:
    """With the device, and the instruction's name, which each kind of device writes elsewhere."""
    shown, text = pl.col("display").cast(pl.String), pl.col("name").cast(pl.String)
    instruction = (
        pl.when(pl.col("role") == "async")
        .then(pl.coalesce(text.str.extract(r"^%([^ ]+) ="), shown))
        .when(pl.col("device_kind").is_in(("TPU", "SparseCore")))
        .then(shown)
        .otherwise(pl.col("hlo_op").cast(pl.String))
    )
    return found.with_columns(
        instruction=instruction.cast(pl.Categorical()),
        device=pl.coalesce("device", "device_ordinal"),
        device_kind=pl.col("device_kind").fill_null("CPU"),
        is_async=pl.col("role") == "async",
    )


def _described(found: pl.DataFrame, profile: Profile) -> pl.DataFrame:
    """With what the compiled program, or the event itself, says of the instruction."""
    hlo = pl.DataFrame(profile.space.hlo(list(_HLO))).unique(["program", "name"], keep="first")
    hlo = hlo.rename({"source": "hlo_source"})
    found = found.join(
        hlo, left_on=["program_id", "instruction"], right_on=["program", "name"], how="left", maintain_order="left"
    )
    base = pl.col("instruction").cast(pl.String).str.replace(_NUMBER, "")
    kind_of = pl.coalesce(pl.col("hlo_category", "opcode").cast(pl.String), base)
    is_kernel = pl.col("role") == "stream"
    either = [kind_of, base, pl.col("display").cast(pl.String)]
    # TPU writes "scope/op:type"; the type says nothing that the scope does not.
    scope = pl.coalesce(
        pl.col("tf_op").cast(pl.String).str.replace(r":[^:/]*$", "").replace({"XlaModule": None, "": None}),
        pl.col("stat:name").cast(pl.String),
        pl.col("scope").cast(pl.String),
    )
    copied = pl.col("memcpy_details").is_not_null() | pl.col("display").cast(pl.String).str.contains(r"^Memcpy")
    filled = pl.col("memset_details").is_not_null() | pl.col("display").cast(pl.String).str.contains(r"^Memset")
    ran = pl.when(copied).then(pl.lit("gpu_memcpy")).when(filled).then(pl.lit("gpu_memset")).otherwise(pl.lit("kernel"))
    is_container = kind_of.str.contains(_CONTAINER) & (pl.col("inner_ps") > 0) & ~pl.col("is_async") & ~is_kernel
    return found.with_columns(
        op_category=kind_of.cast(pl.Categorical()),
        category=pl.when(is_kernel).then(ran).otherwise(kind_of).cast(pl.Categorical()),
        scope=scope.cast(pl.Categorical()),
        source=pl.coalesce("source", "hlo_source"),
        is_wait=pl.any_horizontal(e.str.contains(_WAIT).fill_null(False) for e in either[:2]) & ~pl.col("is_async"),
        is_collective=pl.any_horizontal(
            [e.str.contains(COLLECTIVE).fill_null(False) for e in either]
            + [is_kernel & either[2].str.to_lowercase().str.contains("nccl|rccl").fill_null(False)]
        ),
        is_container=is_container.fill_null(False),
        flops=pl.coalesce("model_flops", "flops"),
        self_ns=(pl.col("duration_ps") - pl.when(is_container).then("inner_ps").otherwise(0) + 500) // 1000,
    )
