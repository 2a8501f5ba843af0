"""Which operations of compiled programs take the device time, and how close they come to what the device could do."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Ranking
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import XLA_OPS
from holotrace.core.tables.xla import PYTHON_TARGET
from holotrace.core.trace import RankTrace
from holotrace.derive import device_time, xla_peaks
from holotrace.derive.device_time import DEVICE

WAITING = "waits for something under way; its bytes were moved meanwhile"
STARTING = "starts something that goes on beside it; its bytes are moved meanwhile"
COLLECTIVE = "moves data between devices; its bytes are what it reads and writes, not what a link carries"
UNCOUNTED = "the compiler cannot count what is inside; numbers are its author's, if any"
BEYOND_PEAK = "beyond the peak, so the count or the time is wrong"
# Calls whose operations their shapes tell; those of others are what an author declared.
_LIBRARY = r"^__(cublas|cudnn|onednn)"
# What moves beside an operation has another time than the operation.
_BESIDE = (WAITING, STARTING)
# What names one operation, besides its category.
_OF_ONE = ("name", "module", "program")
# What the program tells of an operation, and the tables of operations too.
_TOLD = {
    "shape": "Type and dimensions of its result; null where the program is not in the profile",
    "layout": "Layout of the result in memory: order of dimensions, tiles, memory space; null if shape is null",
    "scope": "Name scopes and operator that it was made from; null if it has none",
    "source": "file:line it was written at; null if unknown",
    "target": "What a custom call calls; null for other operations",
}
_OPS = XLA_OPS.only(
    *("name", "category", "module", "program", "kind", "device", "plane", "line", "self_ns"),
    *_TOLD,
    *("device_ps", "flops", "accessed_bytes", "is_wait", "is_collective", "is_async", "is_container"),
    "product_type",
)
# A collective of an even job that overlaps well takes a few percent; a fifth is what the job waits for.
COLLECTIVE_RATIO = 0.2
# Half of the peak is what dense work reaches; less than that in a tenth of the time is worth a look.
BELOW_RATIO, SHARE_RATIO = 0.5, 0.1


@per_rank(
    columns=(
        Column("category", Unit.TEXT, "Category of the operation in the profile, else its HLO opcode"),
        Column("name", Unit.TEXT, "Operation, as the compiler calls it; null where categories are looked at"),
        Column("module", Unit.TEXT, "Program it is in; null where categories are looked at"),
        Column(
            "program",
            Unit.UNSIGNED,
            "Id of that program, which distinguishes programs of one name; null if module is null",
        ),
        Column("op_count", Unit.COUNT, "How often it ran, on all devices"),
        Column("device_count", Unit.COUNT, "Devices it ran on"),
        Column(
            "self_ns", Unit.NS, "Time of its runs by the device's own clock, without that of operations inside them"
        ),
        Column("share_ratio", Unit.RATIO, "self_ns / self_ns of all operations; null if that is 0"),
        Column(
            "flops_ratio",
            Unit.RATIO,
            "Achieved rate / peak in the profile or the table of devices; null if unknown, or as caveat says",
        ),
        Column(
            "bandwidth_ratio",
            Unit.RATIO,
            "Achieved bandwidth / peak bandwidth of main memory; null under the same conditions as flops_ratio",
        ),
        Column("intensity", Unit.FLOAT, "Floating-point operations for each byte; null where either is not counted"),
        Column(
            "bound_by", Unit.TEXT, "Which limit is reached first: compute or memory; null if roofline_ratio is null"
        ),
        Column(
            "roofline_ratio",
            Unit.RATIO,
            "Shortest time that the limit in bound_by allows / self_ns; null if caveat gives a reason",
        ),
        Column("caveat", Unit.TEXT, "Why the values of the row are less reliable than they seem"),
        Column(
            "below_peak_ns", Unit.NS, "self_ns x (1 - the larger of flops_ratio and bandwidth_ratio); null without them"
        ),
        Column(
            "flops",
            Unit.FLOAT,
            "Floating-point operations of all runs as the profile counts them, else of matrix products by shape",
        ),
        Column(
            "tflops",
            Unit.FLOAT,
            "10^12 floating-point operations per second of device time; null where bytes move beside it",
        ),
        Column(
            "accessed_bytes",
            Unit.BYTES,
            "Bytes that all runs read and wrote as the profile counts them, else by the shapes in the program",
        ),
        Column(
            "bandwidth_gbps",
            Unit.FLOAT,
            "10^9 bytes per second of device time; null under the same conditions as tflops",
        ),
        Column("kind", Unit.TEXT, "compute, communication, memory, sync or other"),
        *(Column(name, Unit.TEXT, meaning) for name, meaning in _TOLD.items()),
    ),
    reads=(
        _OPS,
        xla_peaks.KNOWN,
    ),
    chart=Ranking(
        x="name", y=("self_ns",), title="Operations by device time", color="kind", within=("module", "program")
    ),
    named_by=("name", "category", "kind"),
    needs=(XLA_OPS,),
)
def hlo_ops(rank: RankTrace, *, by_category: bool = False) -> pl.DataFrame:
    """Which operations of compiled programs take the device time, and how close they come to what the device could do.

    Only time is measured. Operations and bytes are estimates of the compiler (TPU), or computed from the shapes in the
    program (GPU, CPU) for matrix products, convolutions, and calls of cuBLAS, hipBLASLt and cuDNN.

    Bytes are those that an operation reads and writes. Caches serve some of them, so the main memory moves fewer, and
    the links carry other amounts than a collective reads and writes. Padding of shapes counts as work. A kernel written
    by hand (custom-call: Pallas, Mosaic) has the operations and bytes that its author declared, or none. If an
    instruction runs as several kernels, the longest kernel has the operations and bytes of all.

    Times are those of the device's own clock, if the profile has it. An operation that only starts other work, or only
    waits for it, has no rate, and a rate beyond the peak has no ratio. Different programs with the same name, e.g.
    before and after a recompilation, have separate rows.

    Args:
        by_category: One row per category instead of one per operation.
    """
    keys = ["category"] if by_category else ["category", *_OF_ONE]
    # There are millions of runs, of some thousand operations.
    runs = rank.summed(
        _OPS,
        device_time.IS_EXECUTED,
        ("category", *_OF_ONE, "kind", *DEVICE, *_TOLD, "is_wait", "is_collective", "product_type"),
        own_ps=device_time.own_ps().sum(),
        op_count=pl.len(),
        **{name: _sum(pl.col(name).cast(pl.Float64)) for name in ("flops", "accessed_bytes")},
    )
    rated = xla_peaks.of(rank, runs).with_columns(
        # What the device could have done meanwhile.
        possible_flops=pl.col("peak_flops") * pl.col("own_ps") / 1e12,
        possible_bytes=pl.col("peak_bandwidth") * pl.col("own_ps") / 1e12,
    )
    summed = ("flops", "accessed_bytes", "possible_flops", "possible_bytes")
    total_ps = int(rated["own_ps"].sum())
    places = runs.select(*keys, *DEVICE).unique()
    table = (
        rated.group_by(keys, maintain_order=True)
        .agg(
            pl.col("kind").unique().cast(pl.String).min(),
            pl.col("own_ps", "op_count").sum(),
            pl.col("is_wait", "is_collective").fill_null(False).all(),
            *(_sum(pl.col(name)).alias(name) for name in summed),
            *(pl.col(name).first().cast(pl.String()) for name in _TOLD),
        )
        .join(places.group_by(keys).agg(device_count=pl.len()), on=keys, nulls_equal=True)
        .with_columns(
            pl.col(key for key in keys if key != "program").cast(pl.String),
            self_ns=(pl.col("own_ps") + 500) // 1000,
            seconds=pl.col("own_ps") / 1e12,
            share_ratio=pl.when(pl.lit(total_ps) > 0).then(pl.col("own_ps") / total_ps),
        )
        .with_columns(
            tflops=_rate("flops", "seconds") / 1e12,
            bandwidth_gbps=_rate("accessed_bytes", "seconds") / 1e9,
            flops_ratio=_rate("flops", "possible_flops"),
            bandwidth_ratio=_rate("accessed_bytes", "possible_bytes"),
        )
    )
    is_of_library = pl.col("target").str.contains(_LIBRARY).fill_null(value=False) & pl.col("flops").is_not_null()
    best, is_plain = pl.max_horizontal("flops_ratio", "bandwidth_ratio"), pl.col("caveat").is_null()
    return (
        table.with_columns(
            *(pl.lit(None).alias(name) for name in (*_OF_ONE, *_TOLD) if by_category),
            # Damaged counts may be of any size.
            accessed_bytes=pl.col("accessed_bytes").round().cast(pl.Int64(), strict=False),
            caveat=pl.when("is_wait")
            .then(pl.lit(WAITING))
            .when(pl.col("category").str.ends_with("-start").fill_null(False))
            .then(pl.lit(STARTING))
            .when("is_collective")
            .then(pl.lit(COLLECTIVE))
            .when(pl.col("category").str.contains("custom-call").fill_null(False) & ~is_of_library)
            .then(pl.lit(UNCOUNTED))
            .when(best > 1)
            .then(pl.lit(BEYOND_PEAK)),
        )
        .with_columns(
            pl.when(~pl.col("caveat").is_in(_BESIDE).fill_null(False)).then(pl.col("tflops", "bandwidth_gbps")),
            pl.when(~pl.col("caveat").is_in((*_BESIDE, BEYOND_PEAK)).fill_null(False)).then(
                pl.col("flops_ratio", "bandwidth_ratio")
            ),
            intensity=_rate("flops", "accessed_bytes"),
            bound_by=pl.when(
                is_plain & (pl.col("flops_ratio").fill_null(0.0) > pl.col("bandwidth_ratio").fill_null(0.0))
            )
            .then(pl.lit("compute"))
            .when(is_plain & (best > 0))
            .then(pl.lit("memory")),
            roofline_ratio=pl.when(is_plain & (best > 0)).then(best),
            below_peak_ns=pl.when(is_plain).then((pl.col("self_ns") * (1 - best)).round()),
        )
        .drop("own_ps", "seconds", "possible_flops", "possible_bytes", "is_wait", "is_collective")
        .sort("self_ns", *keys, descending=[True, *[False] * len(keys)], nulls_last=True)
    )


def _sum(counts: pl.Expr) -> pl.Expr:
    """Null where none is known."""
    return pl.when(counts.count() > 0).then(counts.sum())


def _rate(done: str, over: str) -> pl.Expr:
    return pl.when(pl.col(over) > 0).then(pl.col(done) / pl.col(over))


_START = r"-start(\.\d+)?$"


@hlo_ops.rule
def costly_collective(table: pl.DataFrame) -> Iterator[Finding]:
    """Operations between devices take more than a fifth of the device time.

    A collective lasts until the last device has come to it and the data has been moved. In a program it shows as time
    of its own unless it was started early (all-reduce-start and -done): starts do not count, which last as long as the
    transfer on GPUs, beside computation. The cost is what collectives take on an average device.

    Look at the largest one: who comes late to it, and whether less data would do. Shard so that gradients are reduced
    where they are used (reduce-scatter), reduce in a smaller type, and let XLA overlap it with computation
    (`--xla_tpu_enable_latency_hiding_scheduler`, `--xla_gpu_enable_latency_hiding_scheduler`).
    """
    is_start = pl.coalesce("name", "category").cast(pl.String).str.contains(_START).fill_null(value=False)
    collectives = table.filter(~is_start, kind="communication")
    taken = collectives.group_by("rank").agg(
        comm_ns=pl.col("self_ns").sum(), cost_ns=(pl.col("self_ns") / pl.col("device_count")).sum()
    )
    shares = table.group_by("rank").agg(all_ns=pl.col("self_ns").sum()).join(taken, on="rank")
    costly = shares.filter(pl.col("comm_ns") > COLLECTIVE_RATIO * pl.col("all_ns")).sort("rank")
    if costly.is_empty():
        return
    named = collectives.group_by(name=pl.coalesce("name", "category")).agg(pl.col("self_ns").sum())
    largest = named.sort("self_ns", "name", descending=[True, False]).select("name").item(0, 0)
    ratio = costly.select(pl.col("comm_ns").sum() / pl.col("all_ns").sum()).item()
    message = "collectives take {ratio:percent} of the device time, {name:name} most of all"
    cost_ns = int(costly.select(pl.col("cost_ns").mean()).item())
    yield Finding("warning", message, tuple(costly["rank"]), cost_ns, values={"ratio": ratio, "name": largest})


@hlo_ops.rule
def python_in_programs(table: pl.DataFrame) -> Iterator[Finding]:
    """Python functions that programs call take more than a tenth of the device time.

    The device does nothing until the function on the host has returned and its result is there
    (`jax.pure_callback`, `jax.experimental.io_callback`). The cost is the time of these calls on an average device.

    Write the function with operations of XLA, call it for several steps at once, or return from the program what it
    needs and call it outside.
    """
    calls = table.filter(pl.col("target").str.contains(PYTHON_TARGET).fill_null(value=False))
    taken = calls.group_by("rank").agg(
        python_ns=pl.col("self_ns").sum(), cost_ns=(pl.col("self_ns") / pl.col("device_count")).sum()
    )
    shares = table.group_by("rank").agg(all_ns=pl.col("self_ns").sum()).join(taken, on="rank")
    costly = shares.filter(pl.col("python_ns") > SHARE_RATIO * pl.col("all_ns")).sort("rank")
    if costly.is_empty():
        return
    named = calls.group_by("name", "source").agg(pl.col("self_ns").sum())
    name, source = named.sort("self_ns", "name", "source", descending=[True, False, False]).row(0)[:2]
    values = {
        "ratio": costly.select(pl.col("python_ns").sum() / pl.col("all_ns").sum()).item(),
        "name": f"{name} ({source})" if source else name,
    }
    message = "Python functions that programs call take {ratio:percent} of the device time, {name:name} most of all"
    cost_ns = int(costly.select(pl.col("cost_ns").mean()).item())
    yield Finding("warning", message, tuple(costly["rank"]), cost_ns, values=values)


@hlo_ops.rule
def far_below_peak(table: pl.DataFrame) -> Iterator[Finding]:
    """An operation that takes a tenth of the device time uses less than half of the device's declared peak.

    It reaches neither the peak of arithmetic nor that of the memory, by what the compiler counted. It is too small, its
    shapes do not fill the units (multiples of 8 and 128 on a TPU), or its data is laid out so that it has to be moved
    first. The cost is its time beyond what the closer of the two peaks would take, on an average device.

    Look at its shapes and at the copies and transposes around it. Pad dimensions to what the units take, use bfloat16,
    and fuse small operations into larger ones.
    """
    far = table.filter(
        pl.col("share_ratio") > SHARE_RATIO,
        pl.col("below_peak_ns") > (1 - BELOW_RATIO) * pl.col("self_ns"),
        pl.col("name").is_not_null(),
    )
    named = (
        far.group_by(_OF_ONE)
        .agg(
            pl.col("rank").sort(),
            (pl.col("below_peak_ns") / pl.col("device_count")).mean().cast(pl.Int64()).alias("cost_ns"),
            reached=1 - pl.col("below_peak_ns").sum() / pl.col("self_ns").sum(),
        )
        .sort("cost_ns", "name", descending=[True, False])
    )
    for name, module, _, ranks, cost_ns, reached in named.iter_rows():
        message = "{name:name} of {module:name} reaches {ratio:percent} of what the device could do"
        values = {"name": name, "module": module or "a program", "ratio": reached}
        yield Finding("info", message, tuple(ranks), cost_ns, values=values)
