"""Which buffers are in memory when a program uses most memory, and which of them make up half of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from holotrace.analyses.program_memory import MAIN_MEMORY
from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Ranking
from holotrace.core.options import check_whole
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import BUFFERS, MODULES
from holotrace.core.trace import RankTrace
from holotrace.derive import program_memory as memory
from holotrace.derive.program_memory import PROGRAM

# As many as a reader looks through.
TOP = 50
# A few addresses do not keep two large buffers from being half.
HALF_RATIO = 0.499
_SCOPES = 2  # innermost ones, in a sentence
_OF_ONE = ("name", "part", "opcode", "scope", "source", "shape", "layout")


@per_rank(
    columns=(
        Column("module", Unit.TEXT, "Program, as the compiler calls it"),
        Column("program", Unit.UNSIGNED, "Id of the compiled program, which distinguishes programs of one name"),
        Column("memory", Unit.NUMBER, "Memory space as XLA numbers them: 0 is the device's main memory, 5 the host's"),
        Column("role", Unit.TEXT, "input, output, input and output (donated), constant or temporary"),
        Column(
            "name", Unit.TEXT, "Instruction whose result it holds; null in the row of all other buffers of that role"
        ),
        Column("part", Unit.TEXT, "Which part of a tuple, e.g. {0}; null for a whole result"),
        Column("opcode", Unit.TEXT, "HLO opcode of the instruction; null if name is null"),
        Column("scope", Unit.TEXT, "Name scopes and operator that it was made from; for an input, its name"),
        Column("source", Unit.TEXT, "file:line it was written at; null if unknown"),
        Column("shape", Unit.TEXT, "Type and dimensions; null if name is null"),
        Column("layout", Unit.TEXT, "Layout in memory: order of dimensions, tiles, memory space; null if name is null"),
        Column("buffer_count", Unit.COUNT, "Number of buffers in the row: 1, or all other buffers of the role"),
        Column("peak_bytes", Unit.BYTES, "Memory that it takes at the peak"),
        Column("padding_bytes", Unit.BYTES, "Part of peak_bytes that the layout adds to its elements (padding)"),
        Column("share_ratio", Unit.RATIO, "peak_bytes / peak_bytes of the program in this memory space"),
        Column(
            "cumulated_ratio",
            Unit.RATIO,
            "Share of this and all larger buffers of the program; null in the row of all other buffers",
        ),
        Column("run_count", Unit.COUNT, "How often the program ran, on all devices of the rank"),
    ),
    reads=(
        BUFFERS.only(
            *("module", "program", "memory", "peak_bytes", "data_bytes", *_OF_ONE),
            *("is_parameter", "is_output", "is_constant", "is_thread_local"),
        ),
        MODULES.only("module", "program"),
    ),
    chart=Ranking(x="name", y=("peak_bytes",), title="Buffers at the peak", color="role", within=("module", "program")),
    needs=(BUFFERS,),
)
def peak_buffers(rank: RankTrace, *, top: int = TOP) -> pl.DataFrame:
    """Which buffers are in memory when a program uses most memory, and which of them make up half of it.

    A row is a buffer that is alive when the program's memory is fullest, as the compiler assigned it before it ran;
    largest first. Below them stand all other buffers, a row per role, so that rows of a program sum up to its peak.
    What lies above a cumulated share of a half is what would have to go to halve it.

    Args:
        top: How many buffers of each program have a row of their own.
    """
    check_whole(0, top=top)
    held = memory.assigned(rank[BUFFERS]).filter(pl.col("peak_bytes") > 0)
    held = held.with_columns(padding_bytes=memory.padding_bytes(), buffer_count=pl.lit(1, pl.Int64)).sort(
        "memory", "peak_bytes", "module", "program", "name", "part", descending=[False, True, *[False] * 4]
    )
    share = pl.col("peak_bytes") / pl.col("peak_bytes").sum().over(PROGRAM)
    held = held.with_columns(
        share_ratio=share,
        cumulated_ratio=pl.col("peak_bytes").cum_sum().over(PROGRAM) / pl.col("peak_bytes").sum().over(PROGRAM),
        place=pl.int_range(pl.len()).over(PROGRAM),
        program_bytes=pl.col("peak_bytes").sum().over(PROGRAM),
    )
    others = (
        held.filter(pl.col("place") >= top)
        .group_by(*PROGRAM, "role", "program_bytes")
        .agg(pl.col("peak_bytes", "padding_bytes", "share_ratio", "buffer_count").sum())
        .with_columns(*(pl.lit(None, pl.String).alias(name) for name in _OF_ONE), place=pl.lit(top, pl.Int64))
    )
    runs = rank[MODULES].group_by(pl.col("module").cast(pl.String), "program").agg(run_count=pl.len())
    table = pl.concat([held.filter(pl.col("place") < top), others], how="diagonal")
    order = ("memory", "program_bytes", "module", "program", "place", "role")
    return (
        table.join(runs, on=["module", "program"], how="left")
        .with_columns(pl.col("run_count").fill_null(0))
        .sort(*order, descending=[name == "program_bytes" for name in order])
        .select(*(column.name for column in peak_buffers.columns if column.name != "rank"))
    )


@peak_buffers.rule
def halving_memory(table: pl.DataFrame) -> Iterator[Finding]:
    """A few buffers are half of the memory of the program that needs most of it.

    Nothing is wrong with that: the finding shows which buffers would have to be freed to halve the program's memory.
    Inputs are weights, optimizer state and the batch; temporary buffers are mostly results of the forward pass that the
    backward pass needs.

    Of inputs and outputs: shard them over more devices, keep optimizer state in a smaller type, donate what a step
    replaces. Of temporary buffers: recompute them (`jax.checkpoint`, `torch_xla.utils.checkpoint`), use a smaller
    type, shard activations, or take smaller batches.
    """
    ran = table.filter(pl.col("run_count") > 0, pl.col("memory") == MAIN_MEMORY)
    whole = ran.group_by("module", "program", "rank").agg(pl.col("peak_bytes").sum())
    largest = whole.sort("peak_bytes", "module", "program", "rank", descending=[True, False, False, False]).head(1)
    for module, program, rank, peak in largest.iter_rows():
        one = ran.filter(module=module, program=program, rank=rank).sort("cumulated_ratio", "name", nulls_last=True)
        before = pl.col("cumulated_ratio") - pl.col("share_ratio") < HALF_RATIO
        needed = one.filter(pl.col("name").is_not_null(), before)
        told = [_described(row) for row in needed.head(3).iter_rows(named=True)]
        values = {"module": module, "peak": peak, "count": needed.height, "largest": told}
        half = needed["share_ratio"].sum() >= HALF_RATIO
        message = "{module:name} holds {peak:size} at its peak"
        message += ", half of it in {count:plural buffer}" if half else ", of which the largest are"
        ranks = tuple(ran.filter(module=module)["rank"].unique().sort())
        yield Finding("info", message + ": {largest:names}", ranks, values=values)


def _described(row: dict[str, Any]) -> str:
    """What a buffer is, as short as can be: "fusion.3 (f32[8,128] of attention/dot)"."""
    of = f" of {'/'.join(row['scope'].split('/')[-_SCOPES:])}" if row["scope"] else ""
    return f"{row['name']} ({row['shape']}{of})" if row["shape"] else row["name"]
