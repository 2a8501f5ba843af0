"""One rank of a schedule as the tables of holotrace.core.tables: its passes, and the messages that they waited for.

A schedule says when each rank did the forward and backward pass of each micro-batch and model chunk, and nothing else.
What is sent from stage to stage follows from that: the output of a pass is the input of the next stage's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from holotrace.core.problems import frame, problem, spelled
from holotrace.core.schema import Column, Table, Unit, filled
from holotrace.core.source import MAX_RANKS, RankSource
from holotrace.core.tables import COLLECTIVES, DEVICE_EVENTS, EVENTS, INSTANTS, PROBLEMS, STEPS
from holotrace.errors import TraceFormatError
from holotrace.formats.kineto import read as kineto
from holotrace.formats.megascan import messages
from holotrace.formats.parsed import Parsed
from holotrace.stores import Origin

_OF_STEPS = {"iteration": "step"}
_OF_PASSES = {"microbatch": "microbatch", "model_chunk": "chunk", "pp_rank": "stage"}


def _args(table: Table, args: Mapping[str, str]) -> Table:
    columns = (Column(name, Unit.NUMBER, "As the program numbers it", arg=arg) for arg, name in args.items())
    return replace(table, columns=(*table.columns, *columns))


_SPANS = _args(EVENTS, _OF_STEPS | _OF_PASSES)
_MOMENTS = _args(INSTANTS, _OF_STEPS)
_PROBLEMS = PROBLEMS.only("problem", "count", "first_offset", "example", "action")
TABLES = (
    EVENTS,
    INSTANTS,
    DEVICE_EVENTS.only("event_id", "category", "name", "device", "stream", "start_ns", "end_ns", "launch_ns", "step"),
    COLLECTIVES.only(
        *("event_id", "category", "name", "start_ns", "end_ns", "collective", "sequence", "group", "group_ranks"),
        *("group_size", "source_rank", "destination_rank"),
    ),
    STEPS,
    PROBLEMS,
)
# A pass is a kernel to all that asks for work of devices.
_KERNEL, _MESSAGE = "kernel", "collective_comm"
# A pass begins when its input has come, and the next when it is over; what is sent goes beside them.
_COMPUTES, _SENDS = 0, 1


@dataclass(frozen=True)
class Schedule:
    """All ranks of one file."""

    parsed: Parsed[pl.DataFrame]
    spans: pl.DataFrame
    """All events with a duration, with the rank that they are of."""
    moments: pl.DataFrame
    """Those without one."""
    passes: pl.DataFrame
    """Forward and backward passes: event_id, name, rank, step, microbatch, chunk, stage, start_ns, end_ns."""
    steps: pl.DataFrame
    """By rank and step: start_ns, end_ns."""
    sent: pl.DataFrame
    """As of ``messages.between``."""
    flushed: pl.DataFrame
    """As of ``messages.flushes``."""


def ranks_in(path: Origin) -> Mapping[int, Mapping[str, Any]]:
    """The ranks of a file, each with what the file tells of it."""
    ranks = _schedule(path).passes["rank"].unique().sort().to_list()
    return {rank: {"rank": rank, "world_size": max(ranks) + 1} for rank in ranks}


def read(source: RankSource, tables: Sequence[Table]) -> Parsed[pl.DataFrame]:
    """The wanted tables of one rank, as far as a schedule has them."""
    schedule = _schedule(source.path)
    ranks = schedule.passes["rank"].unique()
    if source.rank not in ranks:
        raise TraceFormatError(f"{source.path} holds no rank {source.rank}; it has ranks {spelled(ranks)}")
    is_own = pl.col("rank") == source.rank
    passes, steps = schedule.passes.filter(is_own), schedule.steps.filter(is_own)
    # What begins at the same time is done in the order of its numbers: a pass comes after what it received.
    inferred = messages.of_rank(schedule.sent, schedule.flushed, source.rank).with_row_index("event_id")
    inferred = inferred.with_columns(category=pl.lit(_MESSAGE))
    event_id = pl.col("event_id") + inferred.height
    computed = passes.select(event_id, "start_ns", "end_ns", "step", name="shown", category=pl.lit(_KERNEL))
    streams = inferred.select(*computed.columns, stream=pl.coalesce(pl.col("lane") + _SENDS, pl.lit(_COMPUTES)))
    work = pl.concat([computed.with_columns(stream=pl.lit(_COMPUTES)), streams], how="vertical_relaxed")
    # The program plans a step when it begins.
    began = steps.select("step", launch_ns="start_ns")
    work = work.join(began, on="step", how="left", maintain_order="left").with_columns(device=pl.lit(0))
    work = work.sort("start_ns", "event_id")
    of_first, problems = source.rank == ranks.min(), schedule.parsed.tables[PROBLEMS.name]
    made = {
        EVENTS.name: schedule.spans.filter(is_own).with_columns(event_id),
        INSTANTS.name: schedule.moments.filter(is_own).with_columns(event_id),
        DEVICE_EVENTS.name: work,
        COLLECTIVES.name: inferred,
        STEPS.name: steps,
        # They are the file's, and are told once.
        PROBLEMS.name: problems if of_first else problems.clear(),
    }
    found = {table.name: filled(made[table.name], table.columns) for table in tables}
    # A span has a begin and an end.
    counts = {"entries": 2 * made[EVENTS.name].height + made[INSTANTS.name].height, "text_bytes": 0, "file_bytes": 0}
    if of_first:
        counts |= {name: schedule.parsed.counts[name] for name in ("text_bytes", "file_bytes")}
    return Parsed(found, schedule.parsed.metadata, counts, schedule.parsed.load_ns if of_first else 0)


def _schedule(path: Origin) -> Schedule:
    """All ranks of a file, which is read once for all that follow each other."""
    if not isinstance(path, Path):
        return _read(path)
    try:
        known = path.stat()
    except OSError:
        return _read(path)  # which says why it cannot be read
    return _read_once(path, known.st_size, known.st_mtime_ns)


@lru_cache(maxsize=1)
def _read_once(path: Path, size: int, modified_ns: int) -> Schedule:
    del size, modified_ns  # what tells one state of a file from another
    return _read(path)


def _read(path: Origin) -> Schedule:
    parsed = kineto.read(path, [_SPANS, _MOMENTS, _PROBLEMS])
    rank = pl.col("pid").cast(pl.String).cast(pl.Int32, strict=False)
    spans = parsed.tables[EVENTS.name].with_columns(rank=rank)
    name = pl.col("name").cast(pl.String)
    passes = (
        spans.filter(name.is_in(messages.PASSES), pl.col("rank").is_between(0, MAX_RANKS))
        .drop_nulls([*_OF_STEPS.values(), *_OF_PASSES.values()])
        .with_columns(name)
        .unique(["rank", "step", "name", "microbatch", "chunk"], keep="first", maintain_order=True)
    )
    if passes.is_empty():
        raise TraceFormatError(
            f"{path} holds no forward and no backward pass that ended; record at least one iteration to its end"
        )
    ranks = passes["rank"].unique()
    is_of_rank = pl.col("rank").is_in(pl.lit(ranks).implode()).fill_null(value=False)
    is_pass = pl.col("event_id").is_in(pl.lit(passes["event_id"]).implode())
    lost = spans.filter(~is_of_rank | (name.is_in(messages.PASSES) & ~is_pass))
    of_chunk = pl.format("{} of chunk {}", "name", "chunk")
    passes = passes.with_columns(shown=of_chunk if passes["chunk"].n_unique() > 1 else pl.col("name"))
    moments = parsed.tables[INSTANTS.name].with_columns(rank=rank).filter(is_of_rank)
    marked = moments.drop_nulls("step").select("rank", "step", start_ns="time_ns", end_ns="time_ns")
    within = pl.concat([passes.select(marked.columns), marked])
    # Ranks of a pipeline begin a step together and end it together.
    spans_of = within.group_by("step").agg(pl.col("start_ns").min(), pl.col("end_ns").max())
    steps = within.select("rank", "step").unique().join(spans_of, on="step").sort("rank", "step")
    sent = messages.between(passes, steps)
    told = []
    if not sent.is_empty():
        how_many = f"{sent.height} messages between stages"
        told.append(problem("messages not recorded", example=how_many, action="taken from the order of passes"))
    if not lost.is_empty():
        what = "left out; it lacks its rank, iteration, micro-batch, chunk or stage, or is there twice"
        told.append(problem("pass left out", count=lost.height, example=str(lost["name"][0]), action=what))
    problems = parsed.tables[PROBLEMS.name]
    problems = pl.concat([problems, frame(told).select(problems.columns)])
    parsed = replace(parsed, tables={**parsed.tables, PROBLEMS.name: problems})
    return Schedule(parsed, spans, moments, passes, steps, sent, messages.flushes(passes))
