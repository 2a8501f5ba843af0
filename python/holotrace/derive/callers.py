"""Where in the program something was called: the innermost named range, and the line of the program's own code."""

from __future__ import annotations

import polars as pl

from holotrace.core.tables import HLO, HOST_CALLS
from holotrace.core.trace import RankTrace
from holotrace.derive import host_activities, host_time
from holotrace.derive.names import decided, distinct

# What the profiler writes for functions of Python: "$train.py:63 main"; sources of programs are whole paths.
_FUNCTION = r"^\$(\S+\.py):(\d+) "
_OF_LIBRARIES = r"site-packages|dist-packages|/lib/python\d|^<"
# Files of JAX and PyTorch/XLA that are between a program and the results that it reads.
_READING = (
    r"^\$(api|array|array_methods|callback|debugging|dispatch|multihost_utils|pjit|profiler|traceback_util|tree_util"
    r"|xla_model)\.py:"
)
READS = (*host_time.READS, HLO.only("source"))


def _code(rank: RankTrace) -> pl.DataFrame:
    """Ranges that the program named, and functions of files that its operations come from: ``called``, tid, times."""
    ranges = host_time.ranges(rank).select("tid", "start_ns", "end_ns", called=pl.col("name").cast(pl.String))
    sources = rank[HLO]["source"].drop_nulls().cast(pl.String).unique()
    own = sources.filter(~sources.str.contains(_OF_LIBRARIES)).str.extract(r"([^/]+\.py):\d+$").drop_nulls().unique()
    names = distinct(rank[HOST_CALLS.only("name")]["name"]).drop_nulls()
    files = names.cast(pl.String).str.extract(_FUNCTION)
    shown = names.filter(files.is_in(own.implode()).fill_null(value=False))
    functions = (
        rank.where(HOST_CALLS.only("name", "tid", "start_ns", "end_ns"), pl.col("name").is_in(pl.lit(shown).implode()))
        .select(pl.col("tid").cast(pl.String), "start_ns", "end_ns", line=pl.col("name").cast(pl.String))
        .with_columns(pl.col("line").str.strip_prefix("$"))
    )
    return pl.concat([ranges, functions], how="diagonal").with_columns(
        pl.col("line").cast(pl.String) if functions.height else pl.lit(None, pl.String).alias("line")
    )


def around(rank: RankTrace, points: pl.DataFrame) -> pl.Series:
    """Who called at each of ``points``, of ``tid`` and ``at_ns``: "log_loss, train.py:63 main"; null if unknown."""
    return _named(_innermost(points, rank.cached(_code)))


def of_reads(rank: RankTrace, reads: pl.DataFrame) -> pl.Series:
    """As ``around``, of reads of results; lines that compile nothing are told, too, where no other is known.

    Files that compile nothing are only known by their names, which some of JAX may have as well. Of these, few are
    between a program and what it reads; many are between it and what it compiles.
    """
    found = _innermost(reads, rank.cached(_code))
    if found["line"].null_count() and not (names := _of_programs(rank)).is_empty():
        others = _functions(rank, names, reads["at_ns"].sort())
        found = found.with_columns(pl.coalesce("line", _innermost(reads, others)["line"]))
    return _named(found)


def _of_programs(rank: RankTrace) -> pl.Series:
    """The names of functions that are of no library that is known by its files, and tell no other activity."""
    names = distinct(rank[HOST_CALLS.only("name")]["name"]).drop_nulls().cast(pl.String)
    functions = names.filter(names.str.starts_with(host_activities.FUNCTION) & ~names.str.contains(_READING))
    is_code = host_activities.of_calls(functions) == host_activities.PROGRAM
    of_programs: pl.Series = functions.filter(is_code & decided(functions, host_time.of_library).is_null())
    return of_programs


def _functions(rank: RankTrace, names: pl.Series, at_ns: pl.Series) -> pl.DataFrame:
    """The functions of these names that are open at one of the times, in order, on whatever thread; as ``_code``."""
    spans = rank.where(
        HOST_CALLS.only("name", "tid", "start_ns", "end_ns"),
        pl.col("name").cast(pl.String).is_in(pl.lit(names).implode()),
    )
    is_open = at_ns.search_sorted(spans["start_ns"]) < at_ns.search_sorted(spans["end_ns"])
    return spans.filter(is_open).select(
        pl.col("tid").cast(pl.String),
        "start_ns",
        "end_ns",
        called=pl.lit(None, pl.String),
        line=pl.col("name").cast(pl.String).str.strip_prefix(host_activities.FUNCTION),
    )


def _named(found: pl.DataFrame) -> pl.Series:
    named = pl.concat_str("called", "line", separator=", ", ignore_nulls=True)
    caller: pl.Series = found.select(caller=pl.when(named != "").then(named))["caller"]
    return caller


def _innermost(points: pl.DataFrame, code: pl.DataFrame) -> pl.DataFrame:
    """For each point the innermost range, ``called``, and ``line`` that are open then on its thread, in its order."""
    numbered = points.select(pl.col("tid").cast(pl.String), "at_ns").with_row_index("point")
    open_then = numbered.join_where(
        code.rename({"tid": "code_tid"}),
        pl.col("start_ns") <= pl.col("at_ns"),
        pl.col("end_ns") > pl.col("at_ns"),
    ).filter(pl.col("tid") == pl.col("code_tid"))
    innermost = (
        open_then.with_columns(length_ns=pl.col("end_ns") - pl.col("start_ns"))
        .sort("length_ns", "called", "line")
        .group_by("point", maintain_order=True)
        .agg(pl.col("called").drop_nulls().first(), pl.col("line").drop_nulls().first())
    )
    return numbered.join(innermost, on="point", how="left", maintain_order="left").select("called", "line")
