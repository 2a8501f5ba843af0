"""Operations as the devices executed them, before it is known what launched them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import polars as pl

from holotrace.parse.xplane.profile import WAITS, Profile

# What every question needs of an operation ...
_NEEDED = ("event_id", "line", "start_ns", "end_ns", "inner_ps", "run_id", "device_ordinal", "correlation_id")
# ... by what it is told apart from others: a profile has some thousand of these and some million operations ...
_KEYS = ("metadata", "hlo_op", "program_id")
# ... and what only the columns of that name need.
DETAILS = {
    "duration_ps": ("duration_ps",),
    "self_ns": ("duration_ps",),
    "flops": ("flops", "model_flops"),
    "accessed_bytes": ("bytes_accessed",),
    "device_ps": ("device_duration_ps",),
    **dict.fromkeys(("grid", "block", "registers", "shared_bytes", "occupancy_percent"), ("kernel_details",)),
}
# Columns of the program that are wanted only where they are shown.
_OF_PROGRAM = ("scope", "source", "shape", "groups", "element_count")
# What the tables call them.
_CALLED = {"group_ranks": "groups", "group_size": "groups", "element_type": "shape", "out_elements": "element_count"}

# Collectives by opcode, or by the category or name that begins with one.
COLLECTIVE = (
    r"(^|[^a-z])(all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute|collective-broadcast|"
    r"async-collective|ragged-all-to-all)|^(send|recv)(-done)?(\.\d+)?$"
)
_WAIT = r"-done(\.\d+)?$|^(barrier-cores|dependency-wait|infeed|host recv)(\.\d+)?$"
_CONTAINER = r"^(while|conditional|call)(\.\d+)?$"
_NUMBER = r"(\.clone)?(\.\d+)?$"


def wanted_of(names: Iterable[str]) -> frozenset[str]:
    """What ``operations`` must have for columns of these names."""
    return frozenset(_CALLED.get(name, name) for name in names)


def operations(profile: Profile, wanted: Collection[str]) -> pl.DataFrame:
    """Every operation of every device, with its instruction's opcode and those further columns that are ``wanted``."""
    details = [column for name in wanted for column in DETAILS.get(name, ())]
    copies = ("memcpy_details", "memset_details") if profile.has_accelerators else ()
    columns = tuple(dict.fromkeys((*_NEEDED, *_KEYS, *details, *copies)))
    parts = [profile.events(columns, "ops", "async", "stream"), _waits(profile, columns)]
    if not profile.has_accelerators:
        # Calls of a driver's API carry the operation they launch, and a correlation id.
        parts.append(profile.events(columns, "host", having="hlo_op", lacking="correlation_id"))
    lines = profile.lines.select(
        "line",
        pl.col("role", "device_kind", "label").cast(pl.Categorical()),
        "device",
        plane=pl.col("plane_name").cast(pl.Categorical()),
        stream="id",
    )
    found = pl.concat(parts).join(lines, on="line", how="left", maintain_order="left")
    del parts
    found = found.with_columns(
        device=pl.coalesce("device", "device_ordinal"),
        device_kind=pl.col("device_kind").fill_null("CPU"),
        is_async=pl.col("role") == "async",
    ).drop("device_ordinal")
    keys = [*_KEYS, "role"]
    if copies:
        found = found.with_columns(
            is_copy=pl.col("memcpy_details").is_not_null(), is_fill=pl.col("memset_details").is_not_null()
        )
        keys += ["is_copy", "is_fill"]
    kinds = _described(found.unique(keys, keep="any"), keys, profile, wanted)
    found = found.join(kinds, on=keys, how="left", nulls_equal=True, maintain_order="left")
    found = found.drop("metadata", "hlo_op", "is_copy", "is_fill", strict=False)
    is_container = pl.col("may_contain") & (pl.col("inner_ps") > 0)
    found = found.with_columns(is_container=is_container)
    if "self_ns" in wanted:
        inside = pl.when("is_container").then("inner_ps").otherwise(0)
        found = found.with_columns(self_ns=(pl.col("duration_ps") - inside + 500) // 1000)
    if "flops" in wanted:
        found = found.with_columns(flops=pl.coalesce("model_flops", "flops")).drop("model_flops")
    return found.drop("inner_ps", "may_contain")


def _waits(profile: Profile, columns: tuple[str, ...]) -> pl.DataFrame:
    found = profile.events((*columns, "name"), "waits")
    return found.filter(pl.col("name").cast(pl.String).is_in(WAITS)).select(columns)


def _described(examples: pl.DataFrame, keys: list[str], profile: Profile, wanted: Collection[str]) -> pl.DataFrame:
    """What the compiled program, or the event itself, says of the instruction; one operation of each kind is enough."""
    described = ["event_id", "name", "display", "hlo_category", "hlo_module", "tf_op", "stat:name", "source"]
    written = pl.DataFrame(profile.space.events(described, rows=examples["event_id"].to_list()))
    names = examples.select("event_id", "device_kind", *keys).join(written, on="event_id", how="left")
    shown = [column for column in _OF_PROGRAM if column in wanted]
    hlo = pl.DataFrame(profile.space.hlo(["program", "name", "opcode", *shown])).unique(
        ["program", "name"], keep="first"
    )
    hlo = hlo.rename({"source": "program_source"}, strict=False)
    names = names.with_columns(
        pl.lit(False).alias(flag) for flag in ("is_copy", "is_fill") if flag not in names.columns
    )
    names = names.with_columns(instruction=_instruction().cast(pl.Categorical())).join(
        hlo, left_on=["program_id", "instruction"], right_on=["program", "name"], how="left"
    )
    base = pl.col("instruction").cast(pl.String).str.replace(_NUMBER, "")
    display = pl.col("display").cast(pl.String)
    kind_of = pl.coalesce(pl.col("hlo_category", "opcode").cast(pl.String), base)
    is_kernel, is_async = pl.col("role") == "stream", pl.col("role") == "async"
    ran = (
        pl.when(pl.col("is_copy") | display.str.starts_with("Memcpy"))
        .then(pl.lit("gpu_memcpy"))
        .when(pl.col("is_fill") | display.str.starts_with("Memset"))
        .then(pl.lit("gpu_memset"))
        .otherwise(pl.lit("kernel"))
    )
    names = names.with_columns(
        op_category=kind_of.cast(pl.Categorical()),
        category=pl.when(is_kernel).then(ran).otherwise(kind_of).cast(pl.Categorical()),
        is_wait=_any_contains([kind_of, base], _WAIT) & ~is_async,
        is_collective=_any_contains([kind_of, base, display], COLLECTIVE)
        | (is_kernel & _any_contains([display.str.to_lowercase()], "nccl|rccl")),
        may_contain=kind_of.str.contains(_CONTAINER).fill_null(False) & ~is_async & ~is_kernel,
    )
    if "scope" in wanted:
        # TPU writes "scope/op:type"; the type says nothing that the scope does not.
        plain = pl.col("tf_op").cast(pl.String).str.replace(r":[^:/]*$", "").replace({"XlaModule": None, "": None})
        scope = pl.coalesce(plain, pl.col("stat:name", "scope").cast(pl.String))
        names = names.with_columns(scope=scope.cast(pl.Categorical()))
    if "source" in wanted:
        names = names.with_columns(source_line=pl.coalesce("source", "program_source")).drop("program_source")
    extra = [
        column for column in ("scope", "source_line", "shape", "groups", "element_count") if column in names.columns
    ]
    extra = [column for column in extra if column != "scope" or "scope" in wanted]
    return names.select(
        *keys,
        *("display", "hlo_module", "instruction", "opcode", "op_category", "category"),
        *("is_wait", "is_collective", "may_contain", *extra),
    )


def _instruction() -> pl.Expr:
    """The instruction's name, which each kind of device writes elsewhere."""
    shown, text = pl.col("display").cast(pl.String), pl.col("name").cast(pl.String)
    return (
        pl.when(pl.col("role") == "async")
        .then(pl.coalesce(text.str.extract(r"^%([^ ]+) ="), shown))
        .when(pl.col("device_kind").cast(pl.String).is_in(("TPU", "SparseCore")))
        .then(shown)
        .otherwise(pl.col("hlo_op").cast(pl.String))
    )


def _any_contains(texts: list[pl.Expr], pattern: str) -> pl.Expr:
    return pl.any_horizontal(text.str.contains(pattern).fill_null(False) for text in texts)
