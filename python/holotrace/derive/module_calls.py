"""Calls of the model's modules, or of named ranges where no modules were recorded, and which is inside which."""

from __future__ import annotations

import re
from collections.abc import Callable

import polars as pl

from holotrace.core.plans import done
from holotrace.core.tables import ANNOTATIONS, CPU_OPS, PYTHON_CALLS, STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive import call_tree
from holotrace.derive.names import are_in, decided, distinct

_SPAN = ("event_id", "name", "pid", "tid", "start_ns", "end_ns")
_PYTHON = PYTHON_CALLS.only(*_SPAN)
_RANGES = ANNOTATIONS.only(*_SPAN, "on_device")
_OPS = CPU_OPS.only(*_SPAN)
_STEPS = STEPS.only("event_id", "start_ns", "end_ns", "step")
READS = (_PYTHON, _RANGES, _OPS, _STEPS)
_RECORDED = "nn.Module: "
# Modules that only run another one: what they do themselves is done for that one.
WRAPPERS = frozenset(
    (
        "DistributedDataParallel", "DataParallel", "DDP", "FullyShardedDataParallel", "FSDP", "FlatParamsWrapper",
        "OptimizedModule", "CheckpointWrapper", "OffloadWrapper", "ActivationWrapper", "DeepSpeedEngine",
        "Float16Module", "BFloat16Module",
    )
)  # fmt: skip
# FSDP puts its name before the class of a module that it shards.
_SHARDED, _NUMBER = r"^FSDP([A-Z])", r"_\d+$"
# Operators that stand for what a compiler made of a part of the program.
_COMPILED = re.compile(r"Torch-Compiled Region|## Call CompiledFxGraph|CompiledFxGraph")
_STEP = re.compile(r"ProfilerStep\b|profiler_step\b")
# Modules inside of more others than so are counted as those around them.
MOST_AROUND = 64
_NO_WORK = pl.DataFrame(schema={"launch_id": pl.UInt32(), "start_ns": pl.Int64(), "end_ns": pl.Int64()})


def calls(rank: RankTrace) -> pl.DataFrame:
    """Every call of a module: its row as ``number``, its span, ``self_ns``, ``path`` (as in ``paths``), ``is_inner``.

    A caller has a lower number. What a wrapper runs ``is_inner`` and has its path: both together are one call.
    """
    return rank.cached(_placed)[0]


def paths(rank: RankTrace) -> pl.DataFrame:
    """Every module by its place: ``path``, a number, ``around``, that of the module around it, ``label``, ``class``.

    Those around have lower numbers. Without modules in the recording these are named ranges, and ``class`` is null.
    """
    return rank.cached(_placed)[1]


def places(rank: RankTrace) -> pl.DataFrame:
    """The same as texts: ``path``, ``label``, ``class``, ``module``, ``place``, ``depth``, ``above`` and ``order``.

    In ``place`` modules of a class are numbered within the one around them. ``above`` lists the paths from the
    outermost to itself; by ``order`` each is followed by those inside it, as they were first called.
    """
    number = pl.col("label").str.extract(r"_(\d+)$").cast(pl.Int64(), strict=False)
    sibling = number.rank("ordinal").over("around", "class") - 1
    of_class = pl.when(pl.col("class").is_null()).then("label").otherwise(pl.format("{}_{}", "class", sibling))
    left = paths(rank).with_columns(shown=of_class).lazy()
    level = done(
        left.filter(pl.col("around").is_null()).with_columns(
            module="label", place="shown", depth=pl.lit(0, pl.Int64()), above=pl.concat_list("path")
        )
    )
    levels = [level]
    while not level.is_empty():
        outer = level.lazy().select("module", "place", "depth", "above", around="path")
        inner = left.join(outer, on="around", maintain_order="left").with_columns(
            module=pl.format("{}/{}", "module", "label"),
            place=pl.format("{}/{}", "place", "shown"),
            depth=pl.col("depth") + 1,
            above=pl.concat_list("above", "path"),
        )
        level = done(inner)
        levels.append(level)
    return done(pl.concat(levels).lazy().sort("above").with_row_index("order").drop("around", "shown"))


def _placed(rank: RankTrace) -> tuple[pl.DataFrame, pl.DataFrame]:
    python = rank[_PYTHON]
    modules = _renamed(python, _module)
    if not modules.is_empty():
        return _with_paths(_unwrapped(_adopted(_nested(modules))))
    ranges = rank[_RANGES].filter(
        ~pl.col("on_device"), ~pl.col("event_id").is_in(pl.lit(rank[_STEPS]["event_id"]).implode())
    )
    names = rank[_OPS.only("name")]["name"]
    compiled = rank.where(_OPS, pl.col("name").is_in(pl.lit(_chosen(names, _compiled)).implode()))
    found = pl.concat([_renamed(ranges, _range), _renamed(compiled, _compiled)])
    bare = {"label": pl.col("name"), "class": pl.lit(None, pl.String())}
    never = pl.lit(value=False)
    return _with_paths(_nested(found).with_columns(**bare, is_wrapped=never, is_inner=never))


def _renamed(rows: pl.DataFrame, decide: Callable[[str], str | None]) -> pl.DataFrame:
    """Those that have a name by ``decide``, with it."""
    # Few events are modules: as texts the names of all of them would take most of the time.
    names = _chosen(rows["name"], decide)
    found = rows[:, list(_SPAN)].filter(are_in(rows["name"], names)) if len(names) else rows[:, list(_SPAN)].clear()
    return found.with_columns(decided(found["name"], decide))


def _chosen(names: pl.Series, decide: Callable[[str], str | None]) -> pl.Series:
    """Of these names, once each, those that have one by ``decide``."""
    chosen = [name for name in distinct(names) if name is not None and decide(name) is not None]
    return pl.Series(chosen, dtype=names.dtype)


def _module(name: str) -> str | None:
    return name.removeprefix(_RECORDED) if name.startswith(_RECORDED) else None


def _range(name: str) -> str | None:
    return None if _STEP.match(name) else name


def _compiled(name: str) -> str | None:
    return name if _COMPILED.match(name) else None


def _nested(rows: pl.DataFrame) -> pl.DataFrame:
    """The calls, numbered in order of their start, with ``parent_id``, the number of the call around each."""
    # Of those that span the same time the first is around the others.
    ordered = rows.lazy().sort("start_ns", -pl.col("end_ns"), "event_id")
    numbered = done(ordered.drop("event_id").with_row_index("event_id"))
    nested = call_tree.nested(numbered, _NO_WORK)
    too_deep = pl.col("depth") >= MOST_AROUND
    if nested.select(too_deep.any()).item():
        return _nested(nested.filter(~too_deep).select(rows.columns))
    return nested.select(pl.col("event_id").alias("number"), *_SPAN[1:], "parent_id", "self_ns")


def _adopted(calls: pl.DataFrame) -> pl.DataFrame:
    """The same, where those with none around them are in the call in which their module was called before, if any.

    A checkpoint runs a part of the model again in the backward pass, where none is around it.
    """
    inside = calls.drop_nulls("parent_id").unique("name", keep="first", maintain_order=True)
    usual = inside.select("name", usual_id="parent_id", since_ns="start_ns")
    # Only what began before may be around: so no module comes to be around itself.
    is_adopted = pl.col("parent_id").is_null() & (pl.col("since_ns") < pl.col("start_ns"))
    return (
        calls.join(usual, on="name", how="left", maintain_order="left")
        .with_columns(is_adopted=is_adopted.fill_null(value=False))
        .with_columns(pl.when("is_adopted").then("usual_id").otherwise("parent_id").alias("parent_id"))
        .drop("usual_id", "since_ns")
    )


def _unwrapped(calls: pl.DataFrame) -> pl.DataFrame:
    """The calls with ``label`` and ``class``, wrappers with those of what they run.

    That ``is_wrapped``; and it ``is_inner`` but where it was called without the wrapper.
    """
    names = calls["name"].unique()
    labels = names.str.replace(_SHARDED, "$1")
    told = pl.DataFrame({"name": names, "label": labels, "class": labels.str.replace(_NUMBER, "")})
    known = calls.join(told, on="name", how="left", maintain_order="left")
    wrapping = known.filter(pl.col("class").is_in(WRAPPERS))["number"]
    runs = (
        known.filter(pl.col("parent_id").is_in(pl.lit(wrapping).implode()))
        .unique("parent_id", keep="first", maintain_order=True)
        .select(number="parent_id", runs="number", run="name")
    )
    known = known.join(runs, on="number", how="left", maintain_order="left")
    reached = known.select(pl.coalesce("runs", "number")).to_series()
    # A wrapper may run another: each round looks twice as far.
    while not (further := reached[reached]).equals(reached):
        reached = further
    run_by = known["run"][known["parent_id"]]
    is_wrapped = known.select((pl.col("name") == run_by).fill_null(value=False)).to_series()
    return known.with_columns(
        known.select("label", "class")[reached], is_wrapped=is_wrapped, is_inner=is_wrapped & ~known["is_adopted"]
    )


def _with_paths(calls: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The calls with their ``path``, level by level from the outermost, and all paths."""
    number = pl.UInt32()
    known = pl.DataFrame(schema={"path": number, "around": number, "label": pl.String(), "class": pl.String()})
    placed = [pl.DataFrame(schema={"number": number, "path": number})]
    level = calls.filter(pl.col("parent_id").is_null()).with_columns(around=pl.lit(None, number))
    while not level.is_empty() and len(placed) <= MOST_AROUND:
        outer, keys = level.lazy().filter(~pl.col("is_wrapped")), ["around", "label"]
        # What a wrapper runs is a level below it, and has the same around it as what else the wrapper calls.
        new = outer.join(known.lazy(), on=keys, how="anti", nulls_equal=True, maintain_order="left")
        first = new.unique(keys, keep="first", maintain_order=True).with_row_index("path", offset=known.height)
        known = pl.concat([known, done(first.select("path", *keys, "class"))])
        named = outer.join(known.lazy().drop("class"), on=keys, how="left", nulls_equal=True).select("number", "path")
        wrapped = level.lazy().filter("is_wrapped").select("number", path="around")
        placed.append(done(pl.concat([named, wrapped])))
        below = placed[-1].lazy().select(parent_id="number", around="path")
        level = done(calls.lazy().join(below, on="parent_id", maintain_order="left"))
    return calls.join(pl.concat(placed), on="number", how="left", maintain_order="left"), known
