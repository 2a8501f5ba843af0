"""When the host compiled programs, and which."""

from __future__ import annotations

import re

import polars as pl

from holotrace.derive import intervals
from holotrace.derive.host_activities import COMPILATION, DISPATCH, FUNCTION, PROGRAM, TRACING
from holotrace.derive.names import decided

# Compiling a program, as opposed to what goes before it (tracing, lowering) and is part of it (passes).
_WHOLE = r"(^|[^A-Za-z])([Cc]ompile|backend_compile)"
# Here JAX compiles a program, unless its cache of compiled programs holds it ...
_OR_READ = r"compile_or_get_cached$"
# ... and here it does; code that is read may have to be linked, which CPUs do with their compiler.
_MADE = r"backend_compile"
# JAX names a program after the function that is called: "jit_" and its name, as far as that is made of letters.
_FUNCTION = r"PjitFunction\((.*)\)"
_NO_NAME = r"[^\w.-]"
# What functions of JAX are called that trace others.
_TRACING = "trace_to_jaxpr"


def compilations(calls: pl.DataFrame) -> pl.DataFrame:
    """Each compilation: ``start_ns``, ``end_ns``, ``compile_ns``, the time of it that went into compiling, ``module``.

    What the host traced and lowered for a program, and compiled of it on several threads, is one compilation. The
    module is null where the profile does not name it. ``is_cached`` says that nothing was compiled after that, as a
    cache on disk held the program.

    Args:
        calls: Spans of the host that tell an activity.
    """
    # Text takes many times the memory of labels.
    compiling = calls.filter(activity=COMPILATION).select(
        "start_ns", "end_ns", pl.col("name", "arguments").cast(pl.String())
    )
    found = _grouped(compiling, _requests(calls))
    inside = pl.col("from_ns").is_between("start_ns", "end_ns", closed="left")
    named = found.join_where(_named(compiling), inside).sort("took_ns", "module", descending=[True, False])
    # A function is called before what its call compiles, and the innermost is the one compiled.
    around = (pl.col("from_ns") <= pl.col("start_ns")) & (pl.col("until_ns") >= pl.col("end_ns"))
    called = found.join_where(_called(calls), around).sort("took_ns", "module")
    modules = pl.concat([named, called], how="diagonal").group_by("start_ns", maintain_order=True).first()
    return found.join(modules.select("start_ns", "module"), on="start_ns", how="left", maintain_order="left")


def traces(calls: pl.DataFrame) -> pl.Series:
    """Which of the spans trace a function, as JAX does before it compiles one, and where it starts single operations.

    Args:
        calls: Spans of the host that tell an activity.
    """
    names = decided(calls["name"], lambda name: name if _TRACING in name else None)
    found: pl.Series = names.is_not_null() & (calls["activity"] == COMPILATION)
    return found


def named_by_runs(compiled: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """The compilations, those without a ``module`` by what was launched next, if that program had not run before.

    Compilers of TPUs do not say what they compile, and PyTorch/XLA calls graphs by no function. Before anything has
    been launched every program is new.

    Args:
        compiled: As of ``compilations``.
        runs: Runs of programs: ``module``, ``program``, ``launch_ns``.
    """
    launched = runs.drop_nulls("launch_ns").sort("launch_ns")
    is_first = pl.struct("module", "program").is_first_distinct()
    ran = launched.select("launch_ns", next_module=pl.when(is_first).then(pl.col("module").cast(pl.String)))
    # Of the devices of a program the first tells.
    ran = ran.unique("launch_ns", keep="first", maintain_order=True)
    ordered = compiled.sort("end_ns")
    known = ordered.join_asof(ran, left_on="end_ns", right_on="launch_ns", strategy="forward", check_sortedness=False)
    first_ns = pl.lit(launched["launch_ns"].min(), pl.Int64)
    is_later = pl.col("start_ns") > first_ns
    named = known.with_columns(module=pl.coalesce("module", pl.when(is_later).then("next_module")))
    return named.select(compiled.columns).sort("start_ns")


def _requests(calls: pl.DataFrame) -> pl.DataFrame:
    """The time in which threads that compile wanted to have something run."""
    threads = calls.filter(activity=COMPILATION)["tid"].unique()
    is_on_those = pl.col("tid").is_in(pl.lit(threads).implode())
    wanted = calls.filter(pl.col("activity").is_in([DISPATCH, TRACING]), is_on_those)
    # Functions of JAX that start programs may start any number of them.
    is_function = decided(wanted["name"], lambda name: name if name.startswith(FUNCTION) else None).is_not_null()
    return intervals.union(wanted.filter(~is_function)).rename({"start_ns": "from_ns", "end_ns": "until_ns"})


def _grouped(compiling: pl.DataFrame, requests: pl.DataFrame) -> pl.DataFrame:
    """Compilations, each of one or more pieces of time: what leads up to one within a request is part of it."""
    whole = compiling.filter(pl.col("name").str.contains(_WHOLE))
    pieces = intervals.union(compiling).with_columns(piece=pl.int_range(pl.len()))
    asked, made = (whole.filter(pl.col("name").str.contains(pattern)) for pattern in (_OR_READ, _MADE))
    return (
        pieces.with_columns(
            is_whole=_are_in(whole, pieces), is_asked=_are_in(asked, pieces), is_made=_are_in(made, pieces)
        )
        .join_asof(requests, left_on="start_ns", right_on="from_ns")
        .with_columns(request=pl.when(pl.col("end_ns") <= pl.col("until_ns")).then("from_ns"))
        .with_columns(
            number=pl.when(pl.col("request").is_null())
            .then("piece")
            .otherwise(pl.col("is_whole").cum_sum() - pl.col("is_whole"))
        )
        .group_by("request", "number")
        .agg(
            pl.col("start_ns").min(),
            pl.col("end_ns").max(),
            compile_ns=(pl.col("end_ns") - pl.col("start_ns")).sum(),
            is_whole=pl.col("is_whole").any(),
            is_cached=pl.col("is_asked").any() & ~pl.col("is_made").any(),
        )
        .filter("is_whole")
        .select("start_ns", "end_ns", "compile_ns", "is_cached")
        .sort("start_ns")
    )


def _are_in(spans: pl.DataFrame, pieces: pl.DataFrame) -> pl.Series:
    """Whether some time of any of ``spans`` is in each of ``pieces``."""
    covering = intervals.union(spans)
    begun, ended = (intervals.covered_before_ns(covering, pieces[name]) for name in ("start_ns", "end_ns"))
    return ended > begun


def _named(compiling: pl.DataFrame) -> pl.DataFrame:
    """Spans of compiling that name a module; those that took longest are about a program, others about parts of it."""
    keys = [pl.col("arguments").str.json_path_match(f"$.{key}") for key in ("module", "name")]
    return (
        compiling.drop_nulls("arguments")
        .select(module=pl.coalesce(keys), from_ns="start_ns", took_ns=pl.col("end_ns") - pl.col("start_ns"))
        .drop_nulls("module")
    )


def _called(calls: pl.DataFrame) -> pl.DataFrame:
    """Calls of functions that may have to be compiled first."""
    modules = decided(calls["name"], _module).alias("module")
    # Code of the program, which is most of the calls, tells nothing.
    is_told = modules.is_not_null() & (calls["activity"] != PROGRAM)
    return (
        calls.filter(is_told)
        .select(from_ns="start_ns", until_ns="end_ns", took_ns=pl.col("end_ns") - pl.col("start_ns"))
        .hstack([modules.filter(is_told)])
    )


def _module(name: str) -> str | None:
    """What JAX calls the program of a function that is called, by the name of the call."""
    called = re.fullmatch(_FUNCTION, name)
    return called and "jit_" + re.sub(_NO_NAME, "_", called[1]).rstrip("_")
