"""Sequences of kernels that recur under an operator, and copies of traces that show them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import polars as pl

import holotrace
from holotrace import Edit, Job, RankTrace
from hta import frames
from hta.analyzers.device_job import asked
from hta.common.trace import Trace
from hta.common.trace_call_graph import CallGraph
from hta.common.trace_copy import TraceCopy
from hta.common.trace_symbol_table import TraceSymbolTable
from hta.utils.checker import is_valid_directory

log = logging.getLogger("hta")

_NS_PER_US = 1000
# What a call graph and a trace say of each row.
_CALL_COLUMNS = ("depth", "height", "num_kernels", "kernel_dur_sum", "ts", "dur")
# What the names of chosen calls begin with; all others are numbers.
_TOP = "top "
# How holotrace joins names, and how HTA does.
_BETWEEN, _BAR = " -> ", "|"
# The profiler's own bracket around a recording.
_RECORDING, _PROFILER = "Trace", "PyTorch Profiler"


def frequent_kernel_sequences(  # noqa: PLR0917  HTA's signature
    t: Trace,
    operator_name: str,
    output_dir: str,
    min_pattern_len: int,
    rank: int,
    top_k: int,
    compress_other_kernels: bool,
) -> pd.DataFrame:
    """The sequences, the most frequent first; none where nothing can be found or written. Writes the overlay."""
    nothing: pd.DataFrame = pd.DataFrame()
    if not operator_name:
        log.error("operator_name is empty; give the name of an operator, or a part of it")
        return nothing
    folder = is_valid_directory(output_dir, must_be_writable=True)
    if not folder.success:
        log.error("%s", folder.reason)
        return nothing
    # No rank can be told from 0, the default.
    ranks = asked(t, [rank] if rank else None)
    if not ranks:
        log.error("there is no rank to look at")
        return nothing
    (rank,) = ranks
    job = _job(t, rank, operator_name)
    found = job.kernel_sequences(operator=_TOP, min_kernels=max(min_pattern_len, 1))
    if found.is_empty():
        log.error("no %s launched %d kernels or more", operator_name, min_pattern_len)
        return nothing
    sequences = found.with_columns(pattern=_patterns(found, t.symbol_table))
    sequences = sequences.sort("count", "pattern", descending=[True, False])
    events = job.kernel_sequences(operator=_TOP, min_kernels=max(min_pattern_len, 1), each=True)
    # By number: as a key, a step's thousands of names would be copied for each of its thousands of events.
    top = sequences.head(top_k).join(events.select("sequence", "event_id"), on="sequence", suffix="_of_call")
    _overlay(t, rank, Path(output_dir), top, compress_other_kernels)
    result: pd.DataFrame = frames.to_pandas(
        sequences.select(
            "pattern",
            "count",
            frames.us("work_ns").cast(pl.Float64).alias("GPU kernel duration (us)"),
            frames.us("call_ns").cast(pl.Float64).alias("CPU op duration (us)"),
        )
    )
    return result


def _job(t: Trace, rank: int, operator_name: str) -> Job:
    """A rank's calls, named by their numbers; those that HTA looks at are the least deep ones of the name."""
    frame = t.get_trace(rank)
    CallGraph(t, [rank])
    named = t.symbol_table.mask_where(lambda symbol: operator_name in symbol)[frame["name"].to_numpy()]
    table = pl.DataFrame(
        {
            "event_id": frame["index"].to_numpy(),
            "number": frame["name"].to_numpy(),
            "is_named": named,
            "parent_id": frame["parent"].to_numpy(),
            **{name: frame[name].to_numpy() for name in _CALL_COLUMNS},
        }
    ).filter(pl.col("depth") >= 0)
    on_device = pl.col("height") == 0
    is_candidate = pl.col("is_named") & ~on_device
    is_top = is_candidate & (pl.col("depth") == pl.col("depth").filter(is_candidate).min())
    # Each name is written once, and not for each of its calls.
    count = len(t.symbol_table.sym_table)
    names = pl.Series([*map(str, range(count)), *(f"{_TOP}{number}" for number in range(count))], dtype=pl.String)
    which = table.select(pl.col("number") + pl.when(is_top).then(count).otherwise(0)).to_series()
    calls = table.select(
        "event_id",
        names.cast(pl.Categorical).gather(which).alias("name"),
        "depth",
        on_device=on_device,
        parent_id=pl.when(pl.col("depth") > 0).then("parent_id"),
        start_ns=pl.col("ts") * _NS_PER_US,
        end_ns=(pl.col("ts") + pl.col("dur")) * _NS_PER_US,
        work_count="num_kernels",
        work_ns=pl.col("kernel_dur_sum") * _NS_PER_US,
    )
    return Job.from_ranks({rank: RankTrace(rank, {"calls": calls})})


def _patterns(found: pl.DataFrame, symbols: TraceSymbolTable) -> pl.Series:
    """Operator and kernels of each sequence by name."""
    numbers = pl.concat_list(
        pl.col("operator").str.strip_prefix(_TOP).str.split(_BETWEEN), pl.col("kernels").str.split(_BETWEEN)
    )
    names = pl.Series(symbols.sym_table, dtype=pl.String)
    exploded = found.select(place=pl.int_range(pl.len()), number=numbers.cast(pl.List(pl.Int64))).explode("number")
    named = exploded.with_columns(name=names.gather(exploded["number"]))
    return named.group_by("place", maintain_order=True).agg(pl.col("name").str.join(_BAR))["name"]


def _overlay(t: Trace, rank: int, folder: Path, top: pl.DataFrame, compress: bool) -> None:
    """Write a copy of a rank's trace in which the events of these sequences say which it is."""
    source = t.trace_files[rank]
    edits = [
        Edit(events["event_id_of_call"], args={"Patterns": {events["pattern"][0]: events["count"][0]}})
        for events in top.partition_by("sequence")
    ]
    if compress:
        edits += _compressed(source, rank, top["event_id_of_call"], t.symbol_table)
    t.write_raw_trace(str(folder / f"overlaid_{Path(source).name}"), TraceCopy(source, edits=edits))


def _compressed(source: str, rank: int, kept: pl.Series, symbols: TraceSymbolTable) -> Iterator[Edit]:
    """Numbers in the place of the names of all other events, which lose their args; the profiler's gets the names."""
    events = holotrace.open({rank: source}).table("events", columns=["event_id", "category", "name"])
    others = events.filter(~pl.col("event_id").is_in(kept.implode())).cast({"category": pl.String, "name": pl.String})
    is_profiler = (pl.col("category") == _RECORDING) & pl.col("name").str.starts_with(_PROFILER)
    named = others.filter(~is_profiler.fill_null(False))
    for (name,), found in named.partition_by("name", as_dict=True).items():
        number = symbols.sym_index.get(str(name))
        fields = {} if number is None else {"name": str(number)}
        yield Edit(found["event_id"], fields={**fields, "args": {}})
    names = {str(number): name for number, name in enumerate(symbols.sym_table)}
    yield Edit(others.filter(is_profiler)["event_id"], fields={"args": names})
