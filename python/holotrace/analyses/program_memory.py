"""How much memory each compiled program needs, what for, and how much of it is lost."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Stacked
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import BUFFERS, MODULES
from holotrace.core.trace import RankTrace
from holotrace.derive import program_memory as memory
from holotrace.derive.program_memory import CONSTANT, INPUT, OUTPUT, PROGRAM, REUSED, TEMPORARY

# Less than that of a program's memory is not worth a change of it, nor are a few megabytes.
LOST_RATIO = 0.1
LOST_BYTES = 16 << 20
# A program that ran once made something; one that ran again may take what it gave.
_AGAIN = 2
MAIN_MEMORY = 0


@per_rank(
    columns=(
        Column("module", Unit.TEXT, "Program, as the compiler calls it"),
        Column("program", Unit.UNSIGNED, "Id of the compiled program, which distinguishes programs of one name"),
        Column("memory", Unit.NUMBER, "Memory space as XLA numbers them: 0 is the device's main memory, 5 the host's"),
        Column("run_count", Unit.COUNT, "How often it ran, on all devices of the rank"),
        Column("allocated_bytes", Unit.BYTES, "Memory that it needs on one device: sum of the next six columns"),
        Column("input_bytes", Unit.BYTES, "Memory of inputs that are kept"),
        Column("reused_bytes", Unit.BYTES, "Memory of inputs that outputs reuse (donated)"),
        Column("output_bytes", Unit.BYTES, "Memory of outputs that reuse no input's memory"),
        Column("constant_bytes", Unit.BYTES, "Memory of constants"),
        Column("temporary_bytes", Unit.BYTES, "Memory of temporary results at their peak"),
        Column("fragmented_bytes", Unit.BYTES, "Temporary memory that is not in use even at that peak"),
        Column("peak_bytes", Unit.BYTES, "Memory in use at the peak: allocated_bytes - fragmented_bytes"),
        Column(
            "peak_at", Unit.TEXT, "Instruction whose result brings memory to its peak; null without temporary results"
        ),
        Column("padding_bytes", Unit.BYTES, "Part of peak_bytes that layouts add to the elements (padding)"),
        Column(
            "reusable_bytes",
            Unit.BYTES,
            "Part of input_bytes that outputs of the same type, shape and size could reuse",
        ),
    ),
    reads=(
        BUFFERS.only(
            *("module", "program", "memory", "name", "shape", "allocation", "allocation_bytes", "data_bytes"),
            *("peak_bytes", "first", "is_parameter", "is_output", "is_constant", "is_thread_local"),
        ),
        MODULES.only("module", "program"),
    ),
    chart=Stacked(
        x="module",
        y=("input_bytes", "reused_bytes", "output_bytes", "constant_bytes", "temporary_bytes", "fragmented_bytes"),
        title="Memory that programs need",
    ),
    needs=(BUFFERS,),
)
def program_memory(rank: RankTrace) -> pl.DataFrame:
    """How much memory each compiled program needs, what for, and how much of it is lost.

    The compiler decides before a program runs where each of its results lies, and notes it in the program. That is what
    the program needs on one device: inputs and outputs, which other programs may share, and temporary results, which it
    takes when it starts and gives back when it ends. Temporary results use the same memory one after the other; what is
    not in use even at the peak is lost to fragmentation. Layouts with tiles fill up dimensions (a TPU takes 8 times 128
    elements at once), which is padding.

    What else is in a device's memory while a program runs is told by device_memory.
    """
    buffers = memory.assigned(rank[BUFFERS])
    at_peak = buffers.filter(pl.col("peak_bytes") > 0)
    parts = {INPUT: "input", REUSED: "reused", OUTPUT: "output", CONSTANT: "constant", TEMPORARY: "temporary"}
    allocated = buffers.unique([*PROGRAM, "allocation"]).group_by(PROGRAM).agg(pl.col("allocation_bytes").sum())
    used = at_peak.group_by(PROGRAM).agg(
        *(pl.col("peak_bytes").filter(pl.col("role") == role).sum().alias(f"{it}_bytes") for role, it in parts.items()),
        pl.col("peak_bytes").sum(),
        padding_bytes=memory.padding_bytes().sum(),
        # The last that was taken is what makes it the peak.
        peak_at=pl.col("name").filter(pl.col("first") == pl.col("first").max()).first(),
    )
    runs = rank[MODULES].group_by(pl.col("module").cast(pl.String), "program").agg(run_count=pl.len())
    return (
        allocated.rename({"allocation_bytes": "allocated_bytes"})
        .join(used, on=PROGRAM, how="left")
        .join(memory.reusable(buffers).drop("input_count"), on=PROGRAM, how="left")
        .join(runs, on=["module", "program"], how="left")
        .with_columns(
            *(pl.col(f"{it}_bytes").fill_null(0) for it in (*parts.values(), "peak", "padding", "reusable")),
            pl.col("run_count").fill_null(0),
        )
        .with_columns(fragmented_bytes=pl.col("allocated_bytes") - pl.col("peak_bytes"))
        .sort("memory", "allocated_bytes", "module", "program", descending=[False, True, False, False])
    )


def _lost(table: pl.DataFrame, lost: str, message: str) -> Iterator[Finding]:
    """A finding on the programs that lose much of the device's memory, with what the worst of them loses."""
    much = table.filter(
        pl.col(lost) >= pl.max_horizontal(pl.lit(LOST_BYTES), LOST_RATIO * pl.col("allocated_bytes")),
        pl.col("memory") == MAIN_MEMORY,
        pl.col("run_count") > 0,
    ).sort(lost, "module", "program", descending=[True, False, False])
    if much.is_empty():
        return
    worst = much.row(0, named=True)
    modules = much["module"].unique(maintain_order=True).to_list()
    values = {"modules": modules, "lost": worst[lost], "ratio": worst[lost] / worst["allocated_bytes"]}
    yield Finding("info", message, tuple(much["rank"].unique().sort()), values=values)


@program_memory.rule
def donation_missed(table: pl.DataFrame) -> Iterator[Finding]:
    """Outputs of a program that runs again and again have memory of their own, beside inputs that look just like them.

    This is typical of a step whose parameters and optimizer state are not donated: old and new are in memory at once.
    Whether inputs are needed afterwards the profile does not say; only those that are not can be donated. The size in
    the message is what would be free.

    Donate what the step replaces: `jax.jit(step, donate_argnums=(0, 1))` with JAX. PyTorch/XLA donates the memory of
    tensors that are updated in place; keep the updates in place, and call `torch_xla.sync()` once per step.
    """
    again = table.filter(pl.col("run_count") >= _AGAIN)
    message = (
        "outputs have memory of their own beside {lost:size} of inputs like them ({ratio:percent}) in {modules:names}"
    )
    yield from _lost(again, "reusable_bytes", message)


@program_memory.rule
def padded_layouts(table: pl.DataFrame) -> Iterator[Finding]:
    """More than a tenth of a program's memory is padding.

    Layouts fill the innermost dimensions up to a tile, 8 times 128 elements on a TPU: an array of f32[1024,1] takes 128
    times what its elements do. Padding is moved and computed like elements.

    The table of peak_buffers tells which buffers are padded. Make the last two dimensions multiples of a tile, put the
    large dimension last, and keep batch or head dimensions of a few elements out of the last place.
    """
    yield from _lost(table, "padding_bytes", "padding takes {lost:size} of memory ({ratio:percent}) in {modules:names}")


@program_memory.rule
def fragmented_program(table: pl.DataFrame) -> Iterator[Finding]:
    """More than a tenth of a program's memory is not in use even when most of it is.

    Temporary results of different sizes leave gaps between each other that nothing fits into.

    Fewer large results that live long make it better: recompute some of them (`jax.checkpoint`,
    `torch_xla.utils.checkpoint`), or process the batch in equal pieces (`jax.lax.scan`, gradient accumulation).
    """
    message = "fragmentation takes {lost:size} of memory ({ratio:percent}) in {modules:names}"
    yield from _lost(table, "fragmented_bytes", message)
