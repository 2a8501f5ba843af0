"""What was compiled while the job ran, when and why."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from holotrace.core.analysis import Finding, per_rank
from holotrace.core.charts import Ranking
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import HLO, HOST_CALLS, MODULES, STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive import callers, host_activities, host_time, programs
from holotrace.derive import compilations as found
from holotrace.derive.steps import launched_in

NEW_SHAPES, NEW_PROGRAM, FIRST_USE = "new_shapes", "new_program", "first_use"
# Two shapes may be the last batch of an epoch; three are a habit.
SHAPES = 3

# So many changes of inputs are told one by one.
_CHANGES = 2
# What a finding says of the program that was compiled.
_TOLD = ("change", "caller")
_IN_STEPS = " in {steps:numbered step}"
_IS_MADE = ~pl.col("is_cached")


_CALLS = HOST_CALLS.only("name", "tid", "arguments", "start_ns", "end_ns")


@per_rank(
    columns=(
        Column("step", Unit.STEP, "Step in which it began; null outside of all steps"),
        Column("module", Unit.TEXT, "Program, as the compiler calls it; null where the profile does not say"),
        Column("program", Unit.UNSIGNED, "Id of the compiled program; null if it did not run"),
        Column("cause", Unit.TEXT, "new_shapes, new_program or first_use; null if the program is unknown"),
        Column(
            "change", Unit.TEXT, "Inputs whose type or shape differs from those of the previous program of that name"
        ),
        Column(
            "caller", Unit.TEXT, "Range, with its line, of the program that caused the compilation; null if unknown"
        ),
        Column(
            "after_ns",
            Unit.NS,
            "Start of the compilation, counted from the first step or program; negative before it; null without one",
        ),
        Column("compile_ns", Unit.NS, "Time the host traced, lowered or compiled it, on any thread"),
        Column("is_cached", Unit.BOOL, "A cache on disk held the program: it was only traced, lowered and read"),
        Column("start_ns", Unit.NS, "When the host began to trace or lower it, on the clock of the file"),
    ),
    reads=(
        MODULES.only("module", "program", "start_ns", "launch_ns"),
        HLO.only("module", "program", "name", "opcode", "computation", "is_entry", "shape", "source"),
        *host_time.READS,
    ),
    chart=Ranking(x="module", y=("compile_ns",), title="Compile time by program"),
    needs=(HOST_CALLS,),
)
def compilations(rank: RankTrace) -> pl.DataFrame:
    """What was compiled while the job ran, when and why.

    A program is compiled when something is to run that has not been compiled for inputs of these shapes. Its cause:

    - new_shapes: a program of that name was there already, for inputs of other types or shapes.
    - new_program: one of that name was there already, for the same inputs; constants or options differ.
    - first_use: no other of that name is known, or only those that were made of other lines of code.

    The compiled program is taken to be the first one with this name that was launched afterwards. Programs that JAX
    read from its cache on disk are told where the profiler recorded Python, as only functions of JAX show it.
    """
    compiled = found.named_by_runs(found.compilations(host_activities.telling(rank, _CALLS)), rank[MODULES])
    ran = programs.by_function(programs.first_runs(rank[MODULES]), rank[HLO])
    # Functions whose names end in something else than a letter give programs names that do so or not, by version.
    stem = pl.col("module").str.strip_chars_end("_").alias("stem")
    ran = ran.select("function", "first_ns", "ran_ns", "program", stem, ran_module="module")
    pairs = (
        compiled.with_columns(stem)
        .join_asof(ran, left_on="start_ns", right_on="first_ns", by="stem", strategy="forward", check_sortedness=False)
        .join_asof(
            ran.select("stem", "function", before="program", first_ns="first_ns"),
            left_on="start_ns",
            right_on="first_ns",
            by=["stem", "function"],
            check_sortedness=False,
        )
    )
    pairs = pairs.with_columns(module=pl.coalesce("ran_module", "module"))
    # What a step that begins with its program waited for is compiled before it.
    at = pl.coalesce("ran_ns", "start_ns") if host_time.begin_with_programs(rank) else pl.col("start_ns")
    pairs = pairs.with_columns(step=launched_in(pairs.select(at).to_series(), rank[STEPS]))
    inputs = programs.inputs(rank[HLO])
    stepping = host_time.stepping_threads(rank).sort().head(1)
    places = pairs.select(at_ns="start_ns", tid=pl.lit(stepping.item() if stepping.len() else None, pl.String))
    return pairs.with_columns(change=programs.differences(pairs, inputs)).select(
        "step",
        "module",
        "program",
        "change",
        "start_ns",
        "compile_ns",
        "is_cached",
        callers.around(rank, places),
        after_ns=pl.col("start_ns") - pl.concat([rank[STEPS]["start_ns"], rank[MODULES]["start_ns"]]).min(),
        cause=pl.when(pl.col("change").is_not_null())
        .then(pl.lit(NEW_SHAPES))
        .when(pl.col("before").is_not_null())
        .then(pl.lit(NEW_PROGRAM))
        .when(pl.col("program").is_not_null())
        .then(pl.lit(FIRST_USE)),
    )


@compilations.rule
def recompilation(table: pl.DataFrame) -> Iterator[Finding]:
    """A program that had been compiled before was compiled again, for other inputs.

    XLA compiles a program for fixed types and shapes. A batch of another size, a longer sequence or another constant
    makes it a new program, and devices wait until it is compiled. The cost is the compile time of an average rank.

    Pad or bucket inputs so that few shapes occur, drop the last short batch, and keep what changes every step out of
    Python constants. Where shapes must differ, compile them before training begins, or keep what was compiled
    (`jax_compilation_cache_dir`, `xr.initialize_cache`).
    """
    again = (
        table.filter(pl.col("cause").is_in([NEW_SHAPES, NEW_PROGRAM]), _IS_MADE)
        .sort("start_ns")
        .group_by("module", "rank")
        .agg(pl.col("compile_ns").sum(), pl.col("step"), pl.col("caller").sort().first(), _changes())
        .group_by("module")
        .agg(
            pl.col("rank").sort(),
            pl.col("compile_ns").mean().cast(pl.Int64()),
            pl.col("step").explode(),
            *(pl.col(name).sort().first() for name in _TOLD),
        )
        .sort("compile_ns", "module", descending=[True, False])
    )
    for module, ranks, compile_ns, steps, change, caller in again.iter_rows():
        known = _known(pl.Series(steps))
        message = f"{{module:name}} was compiled again{_IN_STEPS if known else ''}, which took {{took:duration}}"
        message += ", called in {caller:name}" if caller else ""
        message += ", because {change:text}" if change else ""
        values = {"module": module, "steps": known, "took": compile_ns, "change": change, "caller": caller}
        yield Finding("warning", message, tuple(ranks), compile_ns, values=values)


def _changes() -> pl.Expr:
    """What changed from one program to the next, in the order of time: the first few changes."""
    changes = pl.col("change").drop_nulls().unique(maintain_order=True)
    more = pl.when(changes.len() > _CHANGES).then(pl.lit(", then others")).otherwise(pl.lit(""))
    return pl.when(changes.len() > 0).then(changes.head(_CHANGES).str.join(", then ") + more).alias("change")


@compilations.rule
def compilation_while_training(table: pl.DataFrame) -> Iterator[Finding]:
    """A program was compiled in the middle of the recording.

    It was needed for the first time, or nobody knows whether it was there before: an evaluation or logging branch, a
    result that was read early and cut the graph in two, or a recording that began before all was warm. The cost is the
    compile time of an average rank.

    Start to record after a few steps. If it happens later, run every branch once before training, and read results
    after the step instead of within it.
    """
    is_explained = pl.col("cause").is_in([NEW_SHAPES, NEW_PROGRAM]).fill_null(False)
    yield from _together(table.filter(~is_explained, _IS_MADE), "compiled")


@compilations.rule
def programs_read_from_the_cache(table: pl.DataFrame) -> Iterator[Finding]:
    """A program that the cache on disk held was traced, lowered and read in the middle of the recording.

    JAX knows which program it needs only when it has traced and lowered it, so that a cache saves the compiler's time
    and no other. The cost is the time that took of an average rank.

    Start to record after a few steps. If it happens later, run every branch once before training; what takes long to
    trace gets shorter with loops of JAX in place of those of Python (`jax.lax.scan` over layers).
    """
    yield from _together(table.filter("is_cached"), "traced, lowered and read from the compilation cache")


def _together(table: pl.DataFrame, done: str) -> Iterator[Finding]:
    """What was ``done`` with all these programs, and how long it took."""
    if table.is_empty():
        return
    modules = (
        table.group_by(pl.col("module").fill_null("a program"))
        .agg(pl.col("compile_ns").max())
        .sort("compile_ns", "module", descending=[True, False])["module"]
        .to_list()
    )
    cost_ns = int(table.group_by("rank").agg(pl.col("compile_ns").sum()).select(pl.col("compile_ns").mean()).item())
    known = _known(table["step"])
    message = "{modules:names} " + ("was" if len(modules) == 1 else "were") + f" {done}"
    message += (_IN_STEPS if known else "") + ", which took {took:duration}"
    values = {"modules": modules, "steps": known, "took": cost_ns}
    yield Finding("info", message, tuple(table["rank"].unique().sort()), cost_ns, values=values)


@compilations.rule
def dynamic_shapes(table: pl.DataFrame) -> Iterator[Finding]:
    """One program was compiled for three or more different shapes.

    So shapes change all the time, and compiling does not end when all programs are warm. The cost is in the findings
    on each program.

    Pad to a few sizes (bucketing), or make the size a bounded dynamic dimension; with PyTorch/XLA, `PT_XLA_DEBUG=1`
    names the operators that make shapes dynamic, such as `nonzero` and boolean masks.
    """
    many = (
        table.filter(cause=NEW_SHAPES)
        .group_by("module")
        .agg(pl.col("rank").unique().sort(), count=pl.col("program").n_unique())
        .filter(pl.col("count") >= SHAPES)
        .sort("module")
    )
    for module, ranks, count in many.iter_rows():
        message = "{module:name} was compiled for {count:count} other shapes"
        yield Finding("warning", message, tuple(ranks), values={"module": module, "count": count})


def _known(steps: pl.Series) -> list[int]:
    known: list[int] = steps.drop_nulls().unique().sort().to_list()
    return known
