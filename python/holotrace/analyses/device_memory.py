"""How much memory of each device was in use, and when."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Line
from holotrace.core.options import check_whole
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import HEAP, STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive.steps import launched_in

# As many as a chart has pixels for.
POINTS = 500
# Nine tenths leave room for little more than what is in use now.
FULL_RATIO = 0.9
# Free memory in pieces is a problem where little of it is left.
FRAGMENTED_RATIO, LEFT_RATIO = 0.3, 0.5


@per_rank(
    columns=(
        Column("allocator", Unit.TEXT, "Name of the allocator whose memory this is, else the device and its number"),
        Column("time_ns", Unit.NS, "Start of the row's period, on the clock of the file"),
        Column("after_ns", Unit.NS, "The same, counted from the first step or allocation; negative before it"),
        Column("step", Unit.STEP, "Step at time_ns; null outside of all steps"),
        Column("used_bytes", Unit.BYTES, "Largest amount in use in the period: heap_bytes + stack_bytes"),
        Column("heap_bytes", Unit.BYTES, "At that moment, allocated for arrays and other buffers"),
        Column("stack_bytes", Unit.BYTES, "At that moment, reserved for temporary results of running programs"),
        Column("free_bytes", Unit.BYTES, "At that moment, free"),
        Column("capacity_bytes", Unit.BYTES, "heap_bytes + stack_bytes + free_bytes"),
        Column("used_ratio", Unit.RATIO, "used_bytes / capacity_bytes; null if unknown"),
        Column(
            "fragmentation_ratio",
            Unit.RATIO,
            "At that moment, the share of free memory that is not in the largest free piece",
        ),
        Column("is_peak", Unit.BOOL, "Whether this is the first row of the allocator with the largest used_bytes"),
        Column("most_heap_bytes", Unit.BYTES, "Largest heap_bytes so far, including before the recording"),
        Column("allocation_count", Unit.COUNT, "Allocations in the row's period"),
        Column("release_count", Unit.COUNT, "Releases in the row's period"),
    ),
    reads=(
        HEAP.only(
            *("event_id", "time_ns", "allocator", "bytes", "allocated_bytes", "reserved_bytes", "free_bytes"),
            *("most_bytes", "fragmentation_ratio"),
        ),
        STEPS.only("step", "start_ns", "end_ns"),
    ),
    chart=Line(x="after_ns", y=("used_bytes",), by="allocator", title="Memory in use", holds=True),
    needs=(HEAP,),
)
def device_memory(rank: RankTrace, *, points: int = POINTS) -> pl.DataFrame:
    """How much memory of each device was in use, and when.

    The allocators of XLA's runtime record each allocation and each release, with the memory in use and free after it.
    The recording is divided into equal spans; a row is the moment of a span with the most memory in use, so that no
    peak is lost. Spans without a change have no row. The stack is the memory that programs reserve while they run; it
    is in use in addition to the heap.

    program_memory and peak_buffers show what the programs keep in this memory.

    Args:
        points: How many spans at most.
    """
    check_whole(1, points=points)
    known = rank[HEAP].filter(pl.col("allocator").is_not_null(), pl.col("allocated_bytes").is_not_null())
    changes = known.with_columns(pl.col("allocator").cast(pl.String), pl.col("reserved_bytes").fill_null(0)).sort(
        "time_ns", "event_id"
    )
    time, begun = pl.col("time_ns"), pl.col("time_ns").min()
    spans = changes.with_columns(
        # Rounded up, so that there are no more spans than asked for.
        span=(time - begun) // ((time.max() - begun) // points + 1),
        used_bytes=pl.col("allocated_bytes") + pl.col("reserved_bytes"),
    )
    table = (
        spans.group_by("allocator", "span")
        .agg(
            pl.col(
                *("time_ns", "used_bytes", "allocated_bytes", "reserved_bytes", "free_bytes", "fragmentation_ratio"),
            ).get(pl.col("used_bytes").arg_max()),
            most_heap_bytes=pl.col("most_bytes").max(),
            release_count=(pl.col("bytes") < 0).sum(),
            allocation_count=(~(pl.col("bytes") < 0).fill_null(value=False)).sum(),
        )
        .sort("allocator", "span")
        .with_columns(capacity_bytes=pl.col("used_bytes") + pl.col("free_bytes"))
    )
    most = pl.col("used_bytes") == pl.col("used_bytes").max().over("allocator")
    first_ns = pl.concat([rank[STEPS]["start_ns"], changes["time_ns"]]).min()
    return table.with_columns(
        after_ns=pl.col("time_ns") - pl.lit(first_ns, pl.Int64),
        step=launched_in(table["time_ns"], rank[STEPS]),
        used_ratio=pl.when(pl.col("capacity_bytes") > 0).then(pl.col("used_bytes") / pl.col("capacity_bytes")),
        is_peak=most & (most.cast(pl.Int64).cum_sum().over("allocator") == 1),
        most_heap_bytes=pl.col("most_heap_bytes").cum_max().over("allocator"),
    ).select(
        pl.col("allocated_bytes").alias("heap_bytes"),
        pl.col("reserved_bytes").alias("stack_bytes"),
        pl.exclude("allocated_bytes", "reserved_bytes", "span"),
    )


@device_memory.rule
def nearly_full_memory(table: pl.DataFrame) -> Iterator[Finding]:
    """More than nine tenths of a device's memory is in use at its peak.

    A longer sequence, a larger batch or a program that is compiled once more may not fit, and allocators that search
    for room, or move arrays to make some, cost time.

    The table of peak_buffers tells what is in memory when a program holds most. Recompute results instead of keeping
    them, shard more, donate what a step replaces.
    """
    full = table.filter("is_peak", pl.col("used_ratio") > FULL_RATIO).sort("used_ratio", descending=True)
    if full.is_empty():
        return
    fullest = full.row(0, named=True)
    values = {"allocator": fullest["allocator"], "ratio": fullest["used_ratio"], "used": fullest["used_bytes"]}
    message = "memory of {allocator:name} is {ratio:percent} full at its peak ({used:size})"
    yield Finding("warning", message, tuple(full["rank"].unique().sort()), values=values)


@device_memory.rule
def fragmented_memory(table: pl.DataFrame) -> Iterator[Finding]:
    """What is free of a device's memory is in pieces, and little is left.

    At the peak more than half is in use, and a third or more of what is free is not in the largest free piece. A large
    array may not fit although there is room for it.

    Allocate large arrays first and keep them, and use few sizes; let the runtime take its memory at once instead of
    growing (`XLA_PYTHON_CLIENT_PREALLOCATE=true`, the default).
    """
    pieces = table.filter(
        "is_peak", pl.col("used_ratio") > LEFT_RATIO, pl.col("fragmentation_ratio") > FRAGMENTED_RATIO
    ).sort("fragmentation_ratio", descending=True)
    if pieces.is_empty():
        return
    worst = pieces.row(0, named=True)
    values = {"allocator": worst["allocator"], "ratio": worst["fragmentation_ratio"], "free": worst["free_bytes"]}
    message = "{ratio:percent} of the free memory of {allocator:name} ({free:size}) is in small pieces at its peak"
    yield Finding("info", message, tuple(pieces["rank"].unique().sort()), values=values)
