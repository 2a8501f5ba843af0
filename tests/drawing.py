"""Jobs as drawings: one text per rank, one line per queue, one character per microsecond.

``compute |AA..B|`` is a queue with two kernels, ``A`` and ``B``; the label says their kind. ``step |1112|`` are the
host's training steps. ``host |AB...|`` says when kernels were launched: the first ``A`` there launched the first ``A``,
in a call of a microsecond. ``range |RRRSS|`` are ranges that were named ``R`` and ``S`` on the host, ``op |MMM.N|`` are
operators; all on the thread that launches. ``counted |AA.B|`` are ranges around kernels in which a counter counted 1.
Lines of XLA profiles are drawn by xla_drawing.
"""

from __future__ import annotations

import re
import textwrap
from collections import defaultdict, deque
from dataclasses import replace
from typing import Any

import polars as pl

import xla_drawing
from holotrace.core.schema import Table
from holotrace.core.tables import (
    ANNOTATIONS,
    COLLECTIVES,
    CPU_OPS,
    DEVICE_EVENTS,
    EVENTS,
    HARDWARE_COUNTERS,
    LAUNCHES,
    MODULES,
    RUNTIME_CALLS,
    STEPS,
)
from holotrace.core.trace import RankTrace
from holotrace.derive.steps import launched_in
from holotrace.job import Job

US = 1_000
_KINDS = {"comm": "communication", "copy": "memory"}
_CATEGORIES = {"memory": "gpu_memcpy", "sync": "cuda_sync"}

# Two ranks of a job: one computes for long, and the other waits for it in a collective.
EARLY = """
    step    |111.......................................|
    host    |AC........................................|
    compute |..AA......................................|
    comm    |....CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC......|
"""
LATE = """
    step    |111.......................................|
    host    |AC........................................|
    compute |..AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA........|
    comm    |..................................CC......|
"""


def draw(*ranks: str) -> Job:
    """A job of one drawing per rank, from rank 0."""
    return Job.from_ranks({rank: trace(text, rank) for rank, text in enumerate(ranks)}, title="drawn")


def trace(text: str, rank: int = 0) -> RankTrace:
    """One rank's trace."""
    lines = re.findall(r"^\s*(\w+?)\d*\s*\|(.*)\|", textwrap.dedent(text), flags=re.MULTILINE)
    steps = _steps([line for label, line in lines if label == "step"])
    spans = sorted(
        (found.start() * US, found.end() * US, stream, _KINDS.get(label, label), found[0][0])
        for stream, (label, line) in enumerate(lines)
        if label not in ("step", "host", "range", "op", "counted", *xla_drawing.LABELS)
        for found in re.finditer(r"([A-Z])\1*", line)
    )
    host = [line for label, line in lines if label == "host"]
    launches = _launches(host, first_id=len(spans))
    first_op = len(spans) + sum(letter.isalpha() for line in host for letter in line)
    events = [
        {
            "event_id": number,
            "category": _CATEGORIES.get(kind, "kernel"),
            "name": letter,
            "kind": kind,
            "device": 0,
            "stream": stream,
            "start_ns": start_ns,
            "end_ns": end_ns,
            **(launches[letter].popleft() if launches[letter] else {"launch_id": None, "launch_ns": None}),
        }
        for number, (start_ns, end_ns, stream, kind, letter) in enumerate(spans)
    ]
    drawn = device_trace(events, steps, rank)
    ops = _on_host([line for label, line in lines if label == "op"], CPU_OPS, "cpu_op", first_op)
    ranges = _on_host(
        [line for label, line in lines if label == "range"], ANNOTATIONS, "user_annotation", first_op + ops.height
    ).with_columns(on_device=False)
    counted = _on_host(
        [line for label, line in lines if label == "counted"],
        HARDWARE_COUNTERS,
        "cuda_profiler_range",
        first_op + ops.height + ranges.height,
    ).with_columns(counter=pl.lit("counter", pl.Categorical), value=1.0)
    tables = {**drawn.tables, CPU_OPS.name: ops, ANNOTATIONS.name: ranges, HARDWARE_COUNTERS.name: counted}
    all_events = (drawn[DEVICE_EVENTS].with_columns(pid=None, tid=None), ops, ranges, drawn[RUNTIME_CALLS])
    tables[EVENTS.name] = pl.concat([_as(frame, EVENTS) for frame in all_events])
    if any(label in xla_drawing.LABELS for label, _ in lines):
        of_xla = xla_drawing.tables(textwrap.dedent(text), steps)
        tables |= {**of_xla, ANNOTATIONS.name: pl.concat([ranges, of_xla[ANNOTATIONS.name]])}
    return replace(drawn, tables=tables)


def device_trace(events: list[dict[str, object]], steps: pl.DataFrame | None = None, rank: int = 0) -> RankTrace:
    """A rank with these device events; columns that are left out are null."""
    steps = STEPS.empty() if steps is None else steps
    given = pl.DataFrame(events, infer_schema_length=None) if events else DEVICE_EVENTS.empty()
    frame = _as(given, DEVICE_EVENTS)
    if "step" not in given.columns:
        frame = frame.with_columns(step=launched_in(frame["launch_ns"], steps))
    launches = _calls(frame)
    calls = launches.unique("launch_id").select(
        event_id="launch_id",
        category=pl.lit("cuda_runtime"),
        name="launch_name",
        pid="pid",
        tid="tid",
        start_ns="launch_start_ns",
        end_ns="launch_end_ns",
        correlation="correlation",
    )
    tables = {DEVICE_EVENTS.name: frame, LAUNCHES.name: launches, RUNTIME_CALLS.name: _as(calls, RUNTIME_CALLS)}
    return RankTrace(rank, {**tables, MODULES.name: MODULES.empty(), STEPS.name: steps})


def moved(rank: RankTrace, by_ns: int) -> RankTrace:
    """The same rank with its clock ahead."""
    events = rank[DEVICE_EVENTS].with_columns(pl.col("start_ns", "end_ns") + by_ns)
    return replace(rank, tables={**rank.tables, DEVICE_EVENTS.name: events})


def described(rank: RankTrace, **columns: Any) -> RankTrace:
    """The same rank, whose communication kernels have these args; a list has one value for each, in their order."""
    ids = rank[DEVICE_EVENTS].filter(kind="communication").sort("start_ns")["event_id"]
    rows = pl.DataFrame({"event_id": ids, **columns})
    empty = COLLECTIVES.empty()
    table = pl.concat(
        [empty, rows.select(pl.col(name).cast(empty.schema[name]) for name in rows.columns)], how="diagonal"
    )
    return replace(rank, tables={**rank.tables, COLLECTIVES.name: table})


def spans(*pairs: tuple[int, int]) -> pl.DataFrame:
    """Spans as the functions of derive.intervals take them."""
    return pl.DataFrame(pairs, schema={"start_ns": pl.Int64(), "end_ns": pl.Int64()}, orient="row")


def _steps(lines: list[str]) -> pl.DataFrame:
    rows = [
        (int(found[0][0]), number, found.start() * US, found.end() * US)
        for number, found in enumerate(found for line in lines for found in re.finditer(r"(\d)\1*", line))
    ]
    return pl.DataFrame(rows, schema=STEPS.empty().schema, orient="row")


def _on_host(lines: list[str], table: Table, category: str, first_id: int) -> pl.DataFrame:
    rows = [
        (number, category, found[0][0], "1", "1", found.start() * US, found.end() * US)
        for number, found in enumerate((f for line in lines for f in re.finditer(r"([A-Z])\1*", line)), first_id)
    ]
    return _as(pl.DataFrame(rows, schema=EVENTS.empty().schema, orient="row"), table)


def _as(given: pl.DataFrame, table: Table) -> pl.DataFrame:
    """The frame as the table; columns that it lacks are null."""
    return given.select(
        (pl.col(column.name) if column.name in given.columns else pl.lit(None).alias(column.name)).cast(
            column.unit.dtype
        )
        for column in table.columns
    )


def _launches(lines: list[str], first_id: int) -> dict[str, deque[dict[str, int]]]:
    launches: dict[str, deque[dict[str, int]]] = defaultdict(deque)
    drawn = [(letter, position) for line in lines for position, letter in enumerate(line) if letter.isalpha()]
    for number, (letter, position) in enumerate(drawn, first_id):
        launches[letter].append({"launch_id": number, "launch_ns": position * US})
    return launches


def _calls(events: pl.DataFrame) -> pl.DataFrame:
    """The host calls that launched these device events, of a microsecond each."""
    launched = events.drop_nulls("launch_id").select(
        "launch_id",
        "correlation",
        device_event_id="event_id",
        launch_name=pl.lit("cudaLaunchKernel"),
        pid=pl.lit("1"),
        tid=pl.lit("1"),
        launch_start_ns="launch_ns",
        launch_end_ns=pl.col("launch_ns") + US,
    )
    return launched.select(pl.col(column.name).cast(column.unit.dtype) for column in LAUNCHES.columns)
