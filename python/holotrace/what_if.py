"""What a step would gain if some of its work were faster, or gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import polars as pl

from holotrace.core.schema import Column, Unit, conform, empty
from holotrace.core.tables import RANK
from holotrace.core.trace import RankTrace
from holotrace.derive import critical_steps
from holotrace.errors import MissingDataError, UsageError
from holotrace.job import Job

# What can be scaled beside names: what an edge of the graph is bound by.
BOUNDS = ("host", "data_loading", "compute", "communication", "memory", "launch", "kernel_delay")

MAX_NS = 2.0**53  # of an edge, a hundred days: the sum of a graph's edges stays within 64 bits

COLUMNS = (
    RANK,
    Column("step", Unit.STEP, "Training step; null where the rank has none and is looked at as a whole"),
    Column("path_ns", Unit.NS, "Time of the critical path as it was recorded"),
    Column("new_path_ns", Unit.NS, "Time of the critical path with the changes"),
    Column("saved_ns", Unit.NS, "path_ns - new_path_ns"),
    Column("saved_ratio", Unit.RATIO, "saved_ns / path_ns; null where that is 0"),
    Column("changed_ns", Unit.NS, "Time that the changes take off the path as it was; another may be longer"),
    Column("bound_by", Unit.TEXT, "What most of the new path's time is bound by; null where it takes none"),
)
PATH_COLUMNS = (
    RANK,
    Column("step", Unit.STEP, "Training step; null where the rank has none and is looked at as a whole"),
    Column("bound_by", Unit.TEXT, "What the edge is bound by; null for one that takes no time of its own"),
    Column("kind", Unit.TEXT, "operator, dependency, launch_delay, kernel_delay or sync"),
    Column("name", Unit.TEXT, "Operator, call or kernel whose time it is; null where it is no event's"),
    Column("recorded_ns", Unit.NS, "Time of the edge as it was recorded"),
    Column("duration_ns", Unit.NS, "Time of the edge with the changes"),
    Column("event_id", Unit.EVENT, "Event whose time it is; null where it is no event's"),
)


@dataclass(frozen=True)
class _Change:
    """Edges by what bounds them or by what their event's name matches, and what their time is multiplied by."""

    of: str
    is_bound: bool
    factor: float

    def edges(self) -> pl.Expr:
        if self.is_bound:
            return pl.col("bound_by") == self.of
        return pl.col("name").str.contains(self.of)


@dataclass(frozen=True)
class _Part:
    """What one rank would gain, and the names to scale that fit any of its events."""

    rows: pl.DataFrame
    fitting: frozenset[str]


def what_if(job: Job, scale: Mapping[str, float], *, step: int | None = None, by_segment: bool = False) -> pl.DataFrame:
    """How long the critical path of a step would be if some of its time were scaled, per rank.

    The graph of what waited for what stays as it is, so this is what a change wins at first: one that lets the host run
    ahead, say, also makes queues longer. Where several changes fit, all of them count.

    ``what_if(job, {"communication": 0})`` asks what perfect overlap would win, ``{"host": 0.5}`` for a host that is
    twice as fast, ``{"^aten::conv": 0.8}`` for operators, calls and kernels whose names match, a fifth faster.

    Args:
        job: Of one or more ranks; ``job.only(0)`` looks at one.
        scale: What to multiply time by, from 0, by what it is bound by (host, data_loading, compute, communication,
            memory, launch, kernel_delay) or by a regular expression that names match.
        step: Which training step; by default the last that another one follows.
        by_segment: The new path itself, a row per edge in its order (PATH_COLUMNS), instead of a row per rank.

    Returns:
        A row per rank, or per edge of the path with ``by_segment``: the path as recorded and with the changes (ns).

    Raises:
        UsageError: a factor is negative or not a number.
        MissingDataError: the step is not there, or nothing on it has a name that ``scale`` asks for.
    """
    changes = tuple(_Change(of, of in BOUNDS, _factor(of, factor)) for of, factor in scale.items())
    for change in changes:
        _checked(change)
    parts = job.map(partial(_part, changes=changes, step=step, by_segment=by_segment), critical_steps.READS)
    found = [part for part in parts if part is not None]
    if not found and job.ranks:
        raise MissingDataError(f"no rank has step {step}; holotrace show steps says which there are")
    for change in changes if found else ():
        if not change.is_bound and not any(change.of in part.fitting for part in found):
            raise MissingDataError(f"no operator, call or kernel of the step has a name with {change.of!r}")
    return pl.concat([empty(PATH_COLUMNS if by_segment else COLUMNS), *(part.rows for part in found)])


def _factor(of: str, factor: float) -> float:
    if not 0 <= factor < float("inf"):
        raise UsageError(f"{of} is scaled by {factor}; it can be any number from 0")
    return factor


def _checked(change: _Change) -> None:
    if change.is_bound:
        return
    try:
        # Polars' own expressions, which take time in proportion to the text, also of a pattern that means harm.
        pl.select(pl.lit("").str.contains(change.of))
    except pl.exceptions.ComputeError as error:
        raise UsageError(
            f"{change.of!r} is no regular expression; it can be one, or one of {', '.join(BOUNDS)}"
        ) from error


def _part(rank: RankTrace, changes: tuple[_Change, ...], step: int | None, by_segment: bool) -> _Part | None:
    found = critical_steps.of(rank, step)
    if found is None:
        return None
    edges = _scaled(found.edges(), changes)
    fitting = frozenset(change.of for change in changes if edges.select(change.edges().any()).item())
    new_path = edges[found.graph.longest_path(edges["duration_ns"])]
    if by_segment:
        rows = new_path.with_columns(rank=pl.lit(rank.rank), step=pl.lit(found.step), recorded_ns="weight_ns")
        return _Part(conform(rows.select(column.name for column in PATH_COLUMNS), PATH_COLUMNS, "what_if"), fitting)
    path = edges[found.graph.longest_path()]
    path_ns, new_ns = int(path["weight_ns"].sum()), int(new_path["duration_ns"].sum())
    row = {
        "rank": rank.rank,
        "step": found.step,
        "path_ns": path_ns,
        "new_path_ns": new_ns,
        "saved_ns": path_ns - new_ns,
        "saved_ratio": (path_ns - new_ns) / path_ns if path_ns else None,
        "changed_ns": path_ns - int(path["duration_ns"].sum()),
        "bound_by": _most(new_path),
    }
    return _Part(pl.DataFrame([row], schema=empty(COLUMNS).schema), fitting)


def _scaled(edges: pl.DataFrame, changes: tuple[_Change, ...]) -> pl.DataFrame:
    time = pl.col("weight_ns").cast(pl.Float64)
    for change in changes:
        time = pl.when(change.edges().fill_null(False)).then(time * change.factor).otherwise(time)
    # A factor may be beyond all bounds.
    return edges.with_columns(duration_ns=time.clip(upper_bound=MAX_NS).round().cast(pl.Int64))


def _most(path: pl.DataFrame) -> str | None:
    """What most of a path's time is bound by."""
    parts = path.group_by("bound_by").agg(pl.col("duration_ns").sum()).filter(pl.col("duration_ns") > 0)
    return next(iter(parts.sort(-pl.col("duration_ns"), "bound_by")["bound_by"]), None)
