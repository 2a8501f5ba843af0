"""Jobs as drawings: one text per rank, one line per queue, one character per microsecond.

``compute |AA..B|`` is a queue with two kernels, ``A`` and ``B``; the label says their kind. ``step |1112|`` are the
host's training steps. ``host |AB...|`` says when kernels were launched: the first ``A`` there launched the first ``A``,
in a call of a microsecond. ``range |RRRSS|`` are ranges that were named ``R`` and ``S`` on the host. Lines of XLA
profiles are drawn by xla_drawing.
"""

from __future__ import annotations

import re
import textwrap
from collections import defaultdict, deque
from dataclasses import replace

import polars as pl

import xla_drawing
from holotrace.derive.steps import launched_in
from holotrace.job import Job
from holotrace.tables import ANNOTATIONS, DEVICE_EVENTS, LAUNCHES, STEPS
from holotrace.trace import RankTrace

US = 1_000
_KINDS = {"comm": "communication", "copy": "memory"}
_CATEGORIES = {"memory": "gpu_memcpy", "sync": "cuda_sync"}


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
        if label not in ("step", "host", "range", *xla_drawing.LABELS)
        for found in re.finditer(r"([A-Z])\1*", line)
    )
    launches = _launches([line for label, line in lines if label == "host"], first_id=len(spans))
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
    ranges = _ranges([line for label, line in lines if label == "range"])
    tables = {**drawn.tables, ANNOTATIONS.name: ranges}
    if any(label in xla_drawing.LABELS for label, _ in lines):
        of_xla = xla_drawing.tables(textwrap.dedent(text), steps)
        tables |= {**of_xla, ANNOTATIONS.name: pl.concat([ranges, of_xla[ANNOTATIONS.name]])}
    return replace(drawn, tables=tables)


def device_trace(events: list[dict[str, object]], steps: pl.DataFrame | None = None, rank: int = 0) -> RankTrace:
    """A rank with these device events; columns that are left out are null."""
    steps = STEPS.empty() if steps is None else steps
    given = pl.DataFrame(events, infer_schema_length=None) if events else DEVICE_EVENTS.empty()
    frame = given.select(
        (pl.col(column.name) if column.name in given.columns else pl.lit(None).alias(column.name)).cast(
            column.unit.dtype
        )
        for column in DEVICE_EVENTS.columns
    )
    if "step" not in given.columns:
        frame = frame.with_columns(step=launched_in(frame["launch_ns"], steps))
    return RankTrace(rank, {DEVICE_EVENTS.name: frame, LAUNCHES.name: _calls(frame), STEPS.name: steps})


def spans(*pairs: tuple[int, int]) -> pl.DataFrame:
    """Spans as the functions of derive.intervals take them."""
    return pl.DataFrame(pairs, schema={"start_ns": pl.Int64(), "end_ns": pl.Int64()}, orient="row")


def _steps(lines: list[str]) -> pl.DataFrame:
    rows = [
        (int(found[0][0]), number, found.start() * US, found.end() * US)
        for number, found in enumerate(found for line in lines for found in re.finditer(r"(\d)\1*", line))
    ]
    return pl.DataFrame(rows, schema=STEPS.empty().schema, orient="row")


def _ranges(lines: list[str]) -> pl.DataFrame:
    rows = [
        (number, "user_annotation", found[0][0], "1", "1", found.start() * US, found.end() * US, False, None)
        for number, found in enumerate(found for line in lines for found in re.finditer(r"([A-Z])\1*", line))
    ]
    return pl.DataFrame(rows, schema=ANNOTATIONS.empty().schema, orient="row")


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
