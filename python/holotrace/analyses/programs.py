"""Which programs take the device time, and which operations in them: as a tree."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Ranking
from holotrace.core.options import check_whole
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import MODULES, XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive import device_time
from holotrace.derive.names import NUMBERED

# From the outside in; with all of them a row is what the compiler knows to be the same operation.
LEVELS = ("program", "category", "name", "operation")
DEPTH = 3
_KEYS = (("module", "program"), ("category",), ("name",), ("operation",))
# What tells operations apart, besides their program and device.
_LABELS = ("module", "category", "name", "same_as", "plane")
# Collectives that are no start nor end of one which goes on beside other work.
_ALONE = r"^(all-reduce|all-gather|reduce-scatter|all-to-all|ragged-all-to-all|collective-permute)( fusion)?$"
# Less than that is hardly worth a flag.
ALONE_RATIO = 0.05
# What only puts data in another order or place, as XLA's categories and opcodes say.
FORMATTING = ("data formatting", "copy", "transpose", "reshape", "copy fusion", "transpose fusion", "bitcast-convert")
# Some layouts have to change somewhere; a tenth of the time is worth a look.
FORMATTING_RATIO = 0.1


_OPS = XLA_OPS.only(
    *("name", "category", "module", "program", "same_as", "device", "plane", "line", "self_ns"),
    *("device_ps", "is_wait", "is_async", "is_container"),
)


@per_rank(
    columns=(
        Column("depth", Unit.NUMBER, "Level of the row: 0 program, 1 category, 2 name, 3 operation"),
        Column("module", Unit.TEXT, "Program; null for operations outside of all"),
        Column("program", Unit.UNSIGNED, "Id of that program, which distinguishes programs of one name"),
        Column(
            "category",
            Unit.TEXT,
            "Category of the operation in the profile, else its HLO opcode; null in higher levels",
        ),
        Column("name", Unit.TEXT, "Name of operations without their numbers; null in higher levels"),
        Column(
            "operation",
            Unit.TEXT,
            "Operation, together with its duplicates according to the compiler; null in higher levels",
        ),
        Column("operation_count", Unit.COUNT, "Number of different instructions in it that ran"),
        Column("op_count", Unit.COUNT, "How often they ran, on all devices"),
        Column("device_count", Unit.COUNT, "Devices they ran on"),
        Column("run_count", Unit.COUNT, "Runs of the program, on all devices; null if they were not recorded"),
        Column("self_ns", Unit.NS, "Time of its operations, without that of operations inside them"),
        Column(
            "leaf_ns",
            Unit.NS,
            "self_ns of rows that have no rows below them, which sum to the whole; null for other rows",
        ),
        Column("wait_ns", Unit.NS, "Part of self_ns in operations that only wait for something under way"),
        Column("alone_comm_ns", Unit.NS, "Part of self_ns in collectives that run while the device does nothing else"),
        Column("share_ratio", Unit.RATIO, "self_ns / self_ns of all operations; null if that is 0"),
        Column("of_parent_ratio", Unit.RATIO, "self_ns / self_ns of the row one level above; null if that is 0"),
    ),
    reads=(
        _OPS,
        MODULES.only("module", "program"),
    ),
    chart=Ranking(x="name", y=("leaf_ns",), title="Device time by name of operations", color="category"),
    needs=(XLA_OPS,),
)
def programs(rank: RankTrace, *, depth: int = DEPTH) -> pl.DataFrame:
    """Which programs take the device time, and which operations in them: program, category, name, operation.

    Rows are a tree: below a program stand its categories, below these the names, most time first. Some thousand
    operations of a model have a few dozen names, since layers are alike. Programs of one name, e.g. from before and
    after a recompilation, are apart. A loop counts with what no operation in its body takes, so that levels sum up.

    Args:
        depth: How many levels: 1 programs, 2 with categories, 3 with names, 4 with operations.
    """
    check_whole(1, depth=depth)
    # There are millions of runs, of some hundred operations.
    by = (*_LABELS, "program", "device", "is_wait")
    known = (
        rank.summed(_OPS, device_time.IS_EXECUTED, by, own_ps=device_time.own_ps().sum(), op_count=pl.len())
        .with_columns(pl.col(_LABELS).cast(pl.String))
        .with_columns(place=pl.struct("device", "plane"), operation=pl.coalesce("same_as", "name"), instruction="name")
    )
    is_alone = pl.col("category").str.contains(_ALONE) & ~pl.col("plane").str.starts_with("/host")
    known = known.with_columns(
        name=pl.col("operation").str.replace(NUMBERED, ""), is_alone=is_alone.fill_null(value=False)
    )
    levels = [_level(known, number) for number in range(min(depth, len(LEVELS)))]
    table = pl.concat(levels, how="diagonal") if levels else known
    runs = rank[MODULES].group_by(pl.col("module").cast(pl.String), "program").agg(run_count=pl.len())
    total_ps = int(known["own_ps"].sum())
    table = table.join(runs, on=["module", "program"], how="left", nulls_equal=True).with_columns(
        *(pl.lit(None, pl.String).alias(key) for key in ("category", "name", "operation") if key not in table.columns),
        share_ratio=pl.when(pl.lit(total_ps) > 0).then(pl.col("own_ps") / total_ps),
        self_ns=_rounded("own_ps"),
        leaf_ns=pl.when(pl.col("depth") == len(levels) - 1).then(_rounded("own_ps")),
        wait_ns=_rounded("wait_ps"),
        alone_comm_ns=_rounded("alone_ps"),
    )
    return _as_tree(table, len(levels))


def _level(known: pl.DataFrame, number: int) -> pl.DataFrame:
    keys = [key for level in _KEYS[: number + 1] for key in level]
    return known.group_by(keys).agg(
        pl.col("own_ps").sum(),
        depth=pl.lit(number, pl.Int64),
        operation_count=pl.col("instruction").n_unique(),
        op_count=pl.col("op_count").sum(),
        device_count=pl.col("place").n_unique(),
        wait_ps=pl.col("own_ps").filter(device_time.IS_WAIT).sum(),
        alone_ps=pl.col("own_ps").filter("is_alone").sum(),
    )


def _rounded(ps: str) -> pl.Expr:
    return (pl.col(ps) + 500) // 1000


def _as_tree(table: pl.DataFrame, levels: int) -> pl.DataFrame:
    """Rows below those that contain them, most time first; with the share of the row above."""
    order: list[str] = []
    for number in range(levels):
        keys = [key for level in _KEYS[: number + 1] for key in level]
        here = table.filter(pl.col("depth") == number).select(*keys, pl.col("own_ps").alias(f"time_{number}"))
        table = table.join(here, on=keys, how="left", nulls_equal=True)
        # A row stands above those inside it, which are null at no level that it is not.
        is_below = pl.col("depth") >= number
        table = table.with_columns(
            pl.when(is_below).then(f"time_{number}").alias(f"time_{number}"), is_below.alias(f"is_{number}")
        )
        order += [f"is_{number}", f"time_{number}", *_KEYS[number]]
    above = (
        pl.coalesce(
            pl.when(pl.col("depth") == number + 1).then(f"time_{number}") for number in range(max(levels - 1, 0))
        )
        if levels > 1
        else pl.lit(None, pl.Int64)
    )
    return (
        table.with_columns(of_parent_ratio=pl.when(above > 0).then(pl.col("own_ps") / above))
        .sort(order, descending=[name.startswith("time_") for name in order], nulls_last=True)
        .drop("own_ps", "wait_ps", "alone_ps", *(name for name in order if name.startswith(("time_", "is_"))))
    )


@programs.rule
def costly_formatting(table: pl.DataFrame) -> Iterator[Finding]:
    """More than a tenth of the device time only puts data in another order or place.

    XLA copies and transposes where one operation leaves its result in a layout that the next cannot take, and where
    memory must not be overwritten yet. The cost is the time of these operations on an average device.

    Look at hlo_ops for the largest of them, with shape, layout and line. Keep dimensions in the order that products
    take them, avoid transposes and reshapes between layers, donate inputs that a program replaces, and pad odd sizes.
    """
    moved = table.filter(pl.col("depth") == 1, pl.col("category").is_in(FORMATTING))
    taken = moved.group_by("rank").agg(
        pl.col("self_ns").sum(), cost_ns=(pl.col("self_ns") / pl.col("device_count")).sum()
    )
    whole = table.filter(pl.col("depth") == 0).group_by("rank").agg(all_ns=pl.col("self_ns").sum())
    costly = taken.join(whole, on="rank").filter(pl.col("self_ns") > FORMATTING_RATIO * pl.col("all_ns")).sort("rank")
    if costly.is_empty():
        return
    largest = moved.group_by("module").agg(pl.col("self_ns").sum()).sort("self_ns", "module", descending=[True, False])
    values = {
        "ratio": costly.select(pl.col("self_ns").sum() / pl.col("all_ns").sum()).item(),
        "module": largest["module"][0] or "a program",
    }
    message = "copies and changes of layout take {ratio:percent} of the device time, most of it in {module:name}"
    cost_ns = int(costly.select(pl.col("cost_ns").mean()).item())
    yield Finding("info", message, tuple(costly["rank"]), cost_ns, values=values)


@programs.rule
def synchronous_collectives(table: pl.DataFrame) -> Iterator[Finding]:
    """Collectives take more than a twentieth of the device time, and the device does nothing else meanwhile.

    XLA can split a collective into a start and an end, and compute between them what does not need its result. These
    were not split. The cost is their time on an average device, as far as it is no longer than that of all else, which
    could hide it.

    Let XLA do it: on a TPU `--xla_tpu_enable_latency_hiding_scheduler=true` and
    `--xla_tpu_enable_async_collective_fusion=true` (in `LIBTPU_INIT_ARGS`), on a GPU
    `--xla_gpu_enable_latency_hiding_scheduler=true` (in `XLA_FLAGS`). What needs the result at once cannot be hidden:
    reduce gradients layer by layer while the backward pass goes on, and gather weights a layer ahead.
    """
    whole = table.filter(pl.col("depth") == 0).with_columns(other_ns=pl.col("self_ns") - pl.col("alone_comm_ns"))
    hideable = pl.min_horizontal("alone_comm_ns", "other_ns") / pl.col("device_count")
    ranks = whole.group_by("rank").agg(pl.col("alone_comm_ns", "self_ns").sum(), cost_ns=hideable.sum()).sort("rank")
    costly = ranks.filter(pl.col("alone_comm_ns") > ALONE_RATIO * pl.col("self_ns"))
    if costly.is_empty():
        return
    most = whole.group_by("module").agg(pl.col("alone_comm_ns").sum())
    values = {
        "ratio": costly.select(pl.col("alone_comm_ns").sum() / pl.col("self_ns").sum()).item(),
        "module": most.sort("alone_comm_ns", "module", descending=[True, False])["module"][0] or "a program",
    }
    message = (
        "devices do nothing else during collectives for {ratio:percent} of their time, most of it in {module:name}"
    )
    yield Finding(
        "info", message, tuple(costly["rank"]), int(costly.select(pl.col("cost_ns").mean()).item()), values=values
    )
