"""The critical path of a job as a trace of its own: a track per rank, and arrows where the path changes ranks."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from holotrace.export.event_json import arrows, microseconds

NAME = "critical path"
_PID = 1


def trace(parts: pl.DataFrame) -> bytes:
    """A trace of the parts of paths, with the times that they have.

    Args:
        parts: As of ``graph.path.of``, by path and time.
    """
    quoted = pl.struct(x=pl.coalesce("name", "kind")).struct.json_encode().str.strip_prefix('{"x":').str.head(-1)
    slices = parts.select(
        pl.concat_str(
            pl.lit('{"ph":"X","cat":"critical_path","name":'),
            quoted,
            pl.lit(f',"pid":{_PID},"tid":'),
            "rank",
            pl.lit(',"ts":'),
            microseconds(pl.col("start_ns")),
            pl.lit(',"dur":'),
            microseconds(pl.col("end_ns") - pl.col("start_ns")),
            pl.lit(',"args":'),
            pl.struct("step", pl.col("kind").alias("bound_by")).struct.json_encode(),
            pl.lit("}"),
        )
    ).to_series()
    tracks = (_named(rank) for rank in parts["rank"].unique().sort())
    head = {"ph": "M", "name": "process_name", "pid": _PID, "tid": 0, "args": {"name": "all ranks"}}
    events = [json.dumps(head), *tracks, *slices, *arrows(_changes(parts), name="critical_path")]
    return b'{"traceEvents":[' + ",\n".join(events).encode() + b"]}"


def _named(rank: Any) -> str:
    return json.dumps({"ph": "M", "name": "thread_name", "pid": _PID, "tid": rank, "args": {"name": f"rank {rank}"}})


def _changes(parts: pl.DataFrame) -> pl.DataFrame:
    """Where the path goes on at another rank."""
    place = pl.lit(str(_PID))
    both = parts.select(
        "first_rank",
        from_pid=place,
        to_pid=place,
        from_tid=pl.col("rank").shift(1).cast(pl.String),
        to_tid=pl.col("rank").cast(pl.String),
        # At its end a viewer finds not the slice but what begins there.
        from_ns=pl.col("end_ns").shift(1) - 1,
        to_ns="start_ns",
        before="first_rank",
    ).with_columns(pl.col("before").shift(1))
    changed = (pl.col("from_tid") != pl.col("to_tid")) & (pl.col("before") == pl.col("first_rank"))
    return both.filter(changed).drop("first_rank", "before")
