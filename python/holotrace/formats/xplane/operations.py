"""Operations as the devices executed them, before it is known what launched them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import polars as pl

from holotrace.core.on_demand import Rows
from holotrace.core.tables.xla import PYTHON_TARGET
from holotrace.formats.xplane import command_buffers, device_groups, slices
from holotrace.formats.xplane.profile import WAITS, Profile

# Lines of devices that show operations.
_ROLES = ("ops", "async", "stream", "waits")
# What every question needs of an operation ...
_NEEDED = ("event_id", "kind", "line", "start_ns", "end_ns", "run_id", "device_ordinal", "correlation_id")
# ... and what only the columns of that name need.
DETAILS = {
    "duration_ps": ("duration_ps",),
    "self_ns": ("duration_ps", "device_duration_ps"),
    "flops": ("flops", "model_flops"),
    "accessed_bytes": ("bytes_accessed",),
    "device_ps": ("device_duration_ps",),
    **dict.fromkeys(("grid", "block", "registers", "shared_bytes", "occupancy_percent"), ("kernel_details",)),
}
_COPIES = ("memcpy_details", "memset_details")
# Columns of the program that are wanted only where they are shown.
_OF_PROGRAM = ("scope", "source", "shape", "layout", "target", "inside", "groups", "element_count")
# What the tables call them.
_CALLED = {"group_ranks": "groups", "group_size": "groups", "element_type": "shape", "out_elements": "element_count"}

# What the program tells of work by its shapes, by the column that is wanted: its columns, and what kinds have them as.
SHAPED = {
    "flops": {"flops": "shape_flops", "product_type": "product_type"},
    "product_type": {"product_type": "product_type"},
    "accessed_bytes": {"moved_bytes": "shape_bytes"},
}
# Profiles of these count for themselves.
_COUNTING = ("TPU", "SparseCore")

# Collectives by opcode, or by the category or name that begins with one.
COLLECTIVE = (
    r"(^|[^a-z])(all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute|collective-broadcast|"
    r"async-collective|ragged-all-to-all)|^(send|recv)(-done)?(\.\d+)?$"
)
# The category of what calls a function in Python.
_CALLBACK = "host callback"
_WAIT = r"-done(\.\d+)?$|^(barrier-cores|dependency-wait|infeed|host recv)(\.\d+)?$"
_CONTAINER = r"^(while|conditional|call)(\.\d+)?$"
_NUMBER = r"(\.clone)?(\.\d+)?$"
# What a send begins has no name of its own.
_EXCHANGE = pl.format("{} ({})", "exchange", "instruction").cast(pl.Categorical)
# Of the full text, as "%copy-done.2 = f32[8] copy-done((f32[8], u32[]) %copy-start.2)": whose, and what it awaits.
_TEXT = r"^%([^ ]+) ="
_AWAITED = r"-done\(.*?%([\w.-]+)"


def wanted_of(names: Iterable[str]) -> frozenset[str]:
    """What ``operations`` must have for columns of these names."""
    return frozenset(_CALLED.get(name, name) for name in names)


def operations(profile: Profile, wanted: Collection[str]) -> Rows:
    """Every operation of every device, with its instruction's opcode and those further columns that are ``wanted``."""
    details = [column for name in wanted for column in DETAILS.get(name, ())]
    copies = _COPIES if profile.has_accelerators and "bytes" in wanted else ()
    columns = tuple(dict.fromkeys((*_NEEDED, *details, *copies)))
    roles = _ROLES if profile.has_accelerators else ("host",)
    parts, examples, count = [], [], 0
    for role in roles:
        part = _of_role(profile, role, columns).with_columns(pl.col("kind") + pl.lit(count, pl.UInt32))
        example = part.select("kind", "line", "event_id").unique("kind", keep="first", maintain_order=True)
        parts.append(part)
        examples.append(example.with_columns(role=pl.lit(role, pl.Categorical())))
        count += example.height
    own = pl.concat([part for part in parts if part.height] or parts[:1])
    del part, parts
    lines = _lines(profile)
    example = pl.concat(examples)
    own, example = command_buffers.resolved(own, example, profile)
    of_line = lines.select("line", "device_kind")
    kinds = _described(example.join(of_line, on="line", how="left", maintain_order="left"), profile, wanted)
    found = _contained(Rows(own, {"kind": kinds, "line": lines}), profile, roles, wanted)
    return found if found.own["event_id"].is_sorted() else replace(found, own=found.own.sort("event_id"))


def _of_role(profile: Profile, role: str, columns: Sequence[str]) -> pl.DataFrame:
    """Operations on lines of that role."""
    if role == "waits":
        return profile.events(columns, role, names=WAITS)
    if role == "host":
        # Calls of a driver's API carry the operation they launch, and a correlation id.
        return profile.events(columns, role, having="hlo_op", lacking="correlation_id")
    return profile.events(columns, role)


def _lines(profile: Profile) -> pl.DataFrame:
    """What operations on one line share."""
    label = pl.col("label").cast(pl.Categorical())
    return profile.lines.select(
        "line",
        pl.col("role").cast(pl.Categorical()),
        pl.col("device_kind").fill_null("CPU").cast(pl.Categorical()),
        "device",
        label=label,
        plane=pl.col("plane_name").cast(pl.Categorical()),
        stream="id",
        is_async=pl.col("role") == "async",
        pid="process",
        tid=label,
    )


def _contained(found: Rows, profile: Profile, roles: Iterable[str], wanted: Collection[str]) -> Rows:
    """With is_container, whether others are inside, and with the time that is none of theirs if it is wanted."""
    is_container, inner_ps = found["may_contain"], pl.repeat(0, found.own.height, dtype=pl.Int64, eager=True)
    if is_container.any():
        inner_ps = pl.concat(_of_role(profile, role, ("inner_ps",)) for role in roles)["inner_ps"]
        is_container &= inner_ps > 0
    found = found.with_own(is_container.alias("is_container"))
    if "self_ns" not in wanted:
        return found
    written, measured = pl.col("duration_ps"), pl.col("device_duration_ps")
    # The clock of the host, on which times are written, stretches a device's durations, and cuts some to nothing.
    self_ps = pl.coalesce(measured, written) - pl.when("is_container").then(inner_ps).otherwise(0)
    return replace(found, own=found.own.with_columns(self_ns=(self_ps.clip(lower_bound=0) + 500) // 1000))


def _described(examples: pl.DataFrame, profile: Profile, wanted: Collection[str]) -> pl.DataFrame:
    """What the compiled program, or the event itself, says of each kind; one operation of it is enough."""
    described = ["event_id", "name", "display", "hlo_op", "program_id", "hlo_category", "hlo_module", "tf_op"]
    described += ["stat:name", "source", "deduplicated_name", *_COPIES]
    written = profile.of_rows(described, examples.select("event_id"))
    names = examples.join(written, on="event_id", how="left", maintain_order="left")
    shown = [column for column in _OF_PROGRAM if column in wanted]
    counts = {column: name for each in wanted for column, name in SHAPED.get(each, {}).items()}
    asked = dict.fromkeys(["program", "name", "opcode", "target", *shown, *counts])
    hlo = pl.DataFrame(profile.space.hlo([*asked])).unique(["program", "name"], keep="first")
    hlo = hlo.rename({"source": "program_source", **counts}, strict=False)
    instruction = pl.coalesce("instruction", _instruction()).cast(pl.Categorical())
    awaited = pl.col("name").cast(pl.String).str.extract(_AWAITED).cast(pl.Categorical)
    names = slices.with_categories(names.with_columns(instruction=instruction, awaited=awaited)).join(
        hlo, left_on=["program_id", "instruction"], right_on=["program", "name"], how="left", maintain_order="left"
    )
    base = pl.col("instruction").cast(pl.String).str.replace(_NUMBER, "")
    display = pl.col("display").cast(pl.String)
    kind_of = pl.coalesce(pl.col("hlo_category", "opcode").cast(pl.String), base)
    is_kernel, is_async = pl.col("role") == "stream", pl.col("role") == "async"
    is_python = pl.col("target").cast(pl.String).str.contains(PYTHON_TARGET).fill_null(False)
    ran = (
        pl.when(pl.col("memcpy_details").is_not_null() | display.str.starts_with("Memcpy"))
        .then(pl.lit("gpu_memcpy"))
        .when(pl.col("memset_details").is_not_null() | display.str.starts_with("Memset"))
        .then(pl.lit("gpu_memset"))
        .otherwise(pl.lit("kernel"))
    )
    names = names.with_columns(
        op_category=kind_of.cast(pl.Categorical()),
        category=pl.when(is_kernel)
        .then(ran)
        .when(is_python)
        .then(pl.lit(_CALLBACK))
        .otherwise(kind_of)
        .cast(pl.Categorical()),
        is_wait=_any_contains([kind_of, base], _WAIT) & ~is_async,
        is_span=is_async,
        is_collective=_any_contains([kind_of, base, display], COLLECTIVE)
        | (is_kernel & _any_contains([display.str.to_lowercase()], "nccl|rccl")),
        may_contain=kind_of.str.contains(_CONTAINER).fill_null(False) & ~is_async & ~is_kernel,
    )
    names = slices.with_exchanges(names)
    if "scope" in wanted:
        # TPU writes "scope/op:type"; the type says nothing that the scope does not.
        plain = pl.col("tf_op").cast(pl.String).str.replace(r":[^:/]*$", "").replace({"XlaModule": None, "": None})
        scope = pl.coalesce(plain, pl.col("stat:name", "scope").cast(pl.String))
        names = names.with_columns(scope=scope.cast(pl.Categorical()))
    if "groups" in wanted:
        told = device_groups.of_texts(names["name"]).cast(pl.Categorical())
        names = names.with_columns(groups=pl.coalesce("groups", told))
    if "source" in wanted:
        names = names.with_columns(source_line=pl.coalesce("source", "program_source")).drop("program_source")
    shared = ("scope", "source_line", "shape", "layout", "target", "inside", "groups", "element_count")
    extra = [column for column in shared if column in names.columns]
    extra = [column for column in extra if column not in ("scope", "target") or column in wanted]
    counts_itself = pl.col("device_kind").cast(pl.String).is_in(_COUNTING).fill_null(value=False)
    by_shapes = [
        pl.when(~counts_itself & ~pl.col("is_span")).then(name).alias(name) for name in dict.fromkeys(counts.values())
    ]
    name = pl.coalesce("instruction", "display")
    return names.select(
        *("program_id", "hlo_module", "instruction", "opcode", "op_category", "category"),
        *("is_wait", "is_collective", "may_contain", "is_span", "awaited", "exchange", *extra),
        *by_shapes,
        name=name,
        same_as="deduplicated_name",
        work_name=pl.when(is_kernel).then("display").otherwise(pl.coalesce(_EXCHANGE, name)),
    )


def _instruction() -> pl.Expr:
    """The instruction's name, which each kind of device writes elsewhere."""
    shown, text = pl.col("display").cast(pl.String), pl.col("name").cast(pl.String)
    return (
        pl.when(pl.col("role") == "async")
        .then(pl.coalesce(text.str.extract(_TEXT), shown))
        .when(pl.col("device_kind").cast(pl.String).is_in(("TPU", "SparseCore")))
        # Without a name to show, the full text is all that there is.
        .then(pl.coalesce(shown.str.extract(_TEXT), shown))
        .otherwise(pl.col("hlo_op").cast(pl.String))
    )


def _any_contains(texts: list[pl.Expr], pattern: str) -> pl.Expr:
    return pl.any_horizontal(text.str.contains(pattern).fill_null(False) for text in texts)
