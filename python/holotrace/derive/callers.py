"""Where in the program something was called: the innermost named range, and the line of the program's own code."""

from __future__ import annotations

import polars as pl

from holotrace.core.tables import HLO, HOST_CALLS
from holotrace.core.trace import RankTrace
from holotrace.derive import host_time
from holotrace.derive.names import distinct

# What the profiler writes for functions of Python: "$train.py:63 main"; sources of programs are whole paths.
_FUNCTION = r"^\$(\S+\.py):(\d+) "
_OF_LIBRARIES = r"site-packages|dist-packages|/lib/python\d|^<"
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
    code = rank.cached(_code)
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
    named = pl.concat_str("called", "line", separator=", ", ignore_nulls=True)
    told = innermost.select("point", caller=pl.when(named != "").then(named))
    return numbered.join(told, on="point", how="left", maintain_order="left")["caller"]
