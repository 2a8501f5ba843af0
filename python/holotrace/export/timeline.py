"""All ranks of a job in one trace, on one clock, to look at in Perfetto."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePath
from typing import Any, get_args

import polars as pl

from holotrace.analyses.stragglers import stragglers
from holotrace.core.problems import frame, problem, spelled
from holotrace.core.schema import Column, Unit, conform
from holotrace.core.source import RankSource
from holotrace.core.tables import CLOCKS, DEVICE_EVENTS, EVENTS, HOST_CALLS, PROBLEMS, RANK, STEPS, XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive import clocks
from holotrace.derive.epoch import base_ns
from holotrace.errors import MissingDataError, UsageError
from holotrace.export import path_trace, profile_trace, table_trace
from holotrace.export.merge import Detail, Part, Written, write
from holotrace.formats import FORMATS, heads, recognized
from holotrace.formats.kineto.ends import TIMELINE
from holotrace.loading.rank import load
from holotrace.present.format import duration
from holotrace.stores import Held, Origin

RANKS = (
    RANK,
    Column("event_count", Unit.COUNT, "Events written"),
    Column("left_out_count", Unit.COUNT, "Events that were not asked for"),
    Column("moved_ns", Unit.NS, "Taken off its times"),
    *CLOCKS.columns[1:],
)
# Called with the number of ranks that are done and of all.
Tell = Callable[[int, int], None]
# A timeline counts from a whole second, one to two before its first event, as marks may be earlier. Viewers read times
# as floats, which hold nanoseconds of some months, but not those since 1970.
_SECOND_NS = 1_000_000_000
_MOST_NS = (1 << 63) - 1
# Ranks leave a collective one after the other, within so much.
_ALIKE_NS = 5_000
# What a rank must be read with.
READS = (
    *stragglers.reads,
    EVENTS.only("start_ns", "end_ns"),
    *(table.only("step", "start_ns", "end_ns") for table in (STEPS, DEVICE_EVENTS)),
)


@dataclass(frozen=True)
class Wanted:
    """Which part of what was recorded a timeline shows."""

    detail: Detail = "python"
    # From and to when, counted from the first event of all ranks.
    start_ns: int | None = None
    end_ns: int | None = None
    of_step: int | None = None
    # The critical path through all ranks, as tracks of its own.
    critical_path: bool = False

    def __post_init__(self) -> None:
        if self.detail not in get_args(Detail):
            raise UsageError(f"detail is {self.detail!r}; it can be {', '.join(get_args(Detail))}")
        has_times = self.start_ns is not None or self.end_ns is not None
        if self.of_step is not None and has_times:
            raise UsageError("a step has its own times; leave out start and end, or the step")
        if self.start_ns is not None and self.end_ns is not None and self.start_ns >= self.end_ns:
            raise UsageError("nothing lies between these times; let the end be later than the start")


@dataclass(frozen=True)
class Seen:
    """What must be known of a rank before it is written."""

    rank: int
    # Its part of the stragglers' table.
    calls: pl.DataFrame
    # When its clock began.
    base_ns: int
    # From the first start to the last end on the clock of the file: of all events, and of the step that was asked for.
    span_ns: tuple[int, int] | None
    step_ns: tuple[int, int] | None


@dataclass(frozen=True)
class JobTimeline:
    """What was written."""

    path: Path
    """The file."""

    ranks: pl.DataFrame
    """A row per rank: RANKS."""

    problems: pl.DataFrame
    """Rows of the problems table."""

    def said(self) -> str:
        """Which ranks were moved and how well they fit now, in a sentence."""
        known = self.ranks.drop_nulls("offset_ns")
        moved = known.filter(pl.col("moved_ns") != 0)
        if known.is_empty():
            return "no rank was moved: the offset between clocks is unknown"
        median, most = known.select(pl.col("residual_ns").median(), pl.col("most_residual_ns").max()).row(0)
        fit = f"{duration(median)} apart (median), {duration(most)} at most"
        if moved.is_empty():
            return f"no rank was moved: clocks differ by no more than ends of the same collective, which are {fit}"
        by = moved.select(pl.col("moved_ns").abs().max()).item()
        return f"moved rank {spelled(moved['rank'])} by up to {duration(by)}: ends of the same collective are now {fit}"


def of_rank(rank: RankTrace, *, of_step: int | None) -> Seen:
    """What is needed of one rank."""
    of_steps = pl.concat([rank[table].select("step", "start_ns", "end_ns") for table in (STEPS, DEVICE_EVENTS)])
    step = None if of_step is None else _span(of_steps.filter(step=of_step))
    return Seen(rank.rank, stragglers.part(rank, {}), base_ns(rank.metadata), _span(rank[EVENTS]), step)


def _span(rows: pl.DataFrame) -> tuple[int, int] | None:
    first, last = rows.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    return None if first is None else (first, last)


def files(sources: Iterable[RankSource | RankTrace], target: Path) -> list[RankSource]:
    """The ranks' files, where all of them can be in a timeline that is written to ``target``."""
    found = [source for source in sources if isinstance(source, RankSource)]
    other = next((source for source in found if not _can_be_shown(source)), None)
    if other:
        raise MissingDataError(f"{other.path} {FORMATS[other.format].why_not_copied}")
    if not found:
        raise MissingDataError("ranks in memory have no trace to copy; give traces in files")
    is_read = any(isinstance(source.path, Path) and target.samefile(source.path) for source in found if target.exists())
    if is_read or _is_trace(target):
        raise UsageError(f"{target} is a trace, which a timeline does not replace; name another file")
    if not target.parent.is_dir():
        # Before every rank is read for nothing.
        raise UsageError(f"{target} cannot be written: there is no folder {target.parent}; name a place that can")
    return found


def _can_be_shown(source: RankSource) -> bool:
    return FORMATS[source.format].can_be_copied or FORMATS[source.format].has_lines


def _is_trace(path: Path) -> bool:
    """Whether there is a trace of a rank, perhaps of one that was not asked for."""
    try:
        head = heads.head(path)
    except OSError:
        return False
    declared = recognized(head, named=False)
    return declared is not None and not declared.refuse(head)


def write_ranks(
    seen: Sequence[Seen],
    sources: Iterable[RankSource],
    target: Path,
    wanted: Wanted,
    tell: Tell | None,
    *,
    path: pl.DataFrame | None = None,
) -> JobTimeline:
    """Write the ranks that were ``seen``, one after the other, and the critical ``path`` of the job as ``graph.path``
    has it; ``sources`` has the file of each.
    """
    by_rank = {source.rank: source for source in sources}
    paths = {rank: source.path for rank, source in by_rank.items()}
    known = clocks.of_ranks([rank.rank for rank in seen], [rank.calls for rank in seen])
    moved = dict(known.select("rank", _moved_ns()).iter_rows())
    # What makes the times of each file those of one clock, since 1970 where files say so.
    shifts = {rank.rank: rank.base_ns - moved[rank.rank] for rank in seen}
    first = min((rank.span_ns[0] + shifts[rank.rank] for rank in seen if rank.span_ns), default=0)
    zero_ns = max(first // _SECOND_NS - 1, 0) * _SECOND_NS
    window = _window(seen, shifts, wanted)
    head = _head(zero_ns, {rank: (_file_name(by_rank[rank]), moved_ns) for rank, moved_ns in moved.items()})
    parts = (
        Part(
            *_shown(by_rank[rank], wanted.detail),
            name=f"rank {rank}",
            shift_ns=_in_64_bits(shift - zero_ns),
            window_ns=window and (_in_64_bits(window[0] - shift), _in_64_bits(window[1] - shift)),
        )
        for rank, shift in shifts.items()
    )
    more = [] if path is None or path.is_empty() else [_path(path, known, zero_ns, window)]
    written = write(chain(_told(parts, len(shifts), tell), more), target, head=head)[: len(shifts)]
    counts = pl.DataFrame(
        [(rank.rank, done.event_count, done.left_out_count) for rank, done in zip(seen, written, strict=True)],
        schema={column.name: column.unit.dtype for column in RANKS[:3]},
        orient="row",
    )
    ranks = known.with_columns(_moved_ns()).join(counts, on="rank")
    return JobTimeline(target, conform(ranks, RANKS, "timeline"), _problems(known, paths, written))


def _path(path: pl.DataFrame, known: pl.DataFrame, zero_ns: int, window: tuple[int, int] | None) -> Part:
    """The critical path; what is not taken off a rank's times is not taken off those of its parts of the path."""
    kept = known.select("rank", kept_ns=pl.col("offset_ns").fill_null(0) - _moved_ns())
    shown = path.join(kept, on="rank", how="left", maintain_order="left").with_columns(
        pl.col("start_ns", "end_ns") + pl.col("kept_ns").fill_null(0)
    )
    since_zero = window and (_in_64_bits(window[0]), _in_64_bits(window[1]))
    held = Held(path_trace.NAME, path_trace.trace(shown))
    return Part(held, "python", path_trace.NAME, _in_64_bits(-zero_ns), since_zero)


def _told(parts: Iterable[Part], count: int, tell: Tell | None) -> Iterator[Part]:
    """The parts, which are taken when those before are done."""
    for done, part in enumerate(parts):
        if tell:
            tell(done, count)
        yield part


def _file_name(source: RankSource) -> str:
    """What the file was called that the rank was recorded in."""
    recorded = FORMATS[source.format].origin
    return PurePath(str((recorded(source) if recorded else {}).get("file") or source.path)).name


def _is_of_xla(source: RankSource) -> bool:
    """Whether a rank of a dataset was recorded in a profile of XLA."""
    tables = [table.only("event_id") for table in (XLA_OPS, HOST_CALLS)]
    known = load(source, tables)
    return any(not known[table].is_empty() for table in tables)


def _shown(source: RankSource, detail: Detail) -> tuple[Origin, Detail]:
    """A rank's trace, and what of it is to be written; of a profile and a dataset it is made, when it is its turn."""
    declared = FORMATS[source.format]
    if declared.can_be_copied:
        return source.path, detail
    if not declared.has_made_columns or _is_of_xla(source):
        return profile_trace.held(source, detail), "python"
    return table_trace.held(source), detail


def _moved_ns() -> pl.Expr:
    """What to take off: nothing where ends would be as far apart with the very same clock, as on one machine."""
    is_apart = pl.col("offset_ns").abs() > pl.col("residual_ns") + _ALIKE_NS
    return pl.when(is_apart).then("offset_ns").otherwise(0).fill_null(0).alias("moved_ns")


def _in_64_bits(ns: int) -> int:
    """The time; of a damaged file it may be beyond, and the nearest one is as good."""
    return max(min(ns, _MOST_NS), -_MOST_NS)


def _window(seen: Sequence[Seen], shifts: Mapping[int, int], wanted: Wanted) -> tuple[int, int] | None:
    """From and to when, on the clock of all ranks; null where all is wanted."""
    is_step = wanted.of_step is not None
    spans = [(rank.step_ns if is_step else rank.span_ns, shifts[rank.rank]) for rank in seen]
    moved = [(span[0] + shift, span[1] + shift) for span, shift in spans if span]
    first, last = min((start for start, _ in moved), default=0), max((end for _, end in moved), default=0)
    if is_step:
        if not moved:
            raise MissingDataError(f"no rank recorded step {wanted.of_step}; holotrace show steps PATH shows which")
        return first, last
    if wanted.start_ns is None and wanted.end_ns is None:
        return None
    # What ends last is in a window without an end.
    end = last - first + 1 if wanted.end_ns is None else wanted.end_ns
    return first + (wanted.start_ns or 0), first + end


def _head(zero_ns: int, moved: Mapping[int, tuple[str, int]]) -> dict[str, Any]:
    base = {"baseTimeNanoseconds": zero_ns} if zero_ns else {}
    ranks = [{"rank": rank, "file": name, "moved_ns": moved_ns} for rank, (name, moved_ns) in moved.items()]
    return {"schemaVersion": 1, TIMELINE: ranks, "displayTimeUnit": "ms", **base}


def _problems(known: pl.DataFrame, paths: Mapping[int, Any], written: Sequence[Written]) -> pl.DataFrame:
    read = (
        done.problems.with_columns(rank=pl.lit(rank, pl.Int32()), file=pl.lit(str(paths[rank])))
        for rank, done in zip(known["rank"], written, strict=True)
    )
    rows = [rows.select(pl.col(column.name).cast(column.unit.dtype) for column in PROBLEMS.columns) for rows in read]
    return pl.concat([frame(_doubts(known)), *rows])


def _doubts(known: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Rows of the problems table on ranks that may not be on the clock of the others."""
    if known.height < 2:
        return
    untold = known.filter(pl.col("offset_ns").is_null())
    if not untold.is_empty():
        few = untold["collective_count"].max() == 0
        yield problem(
            "clocks not compared",
            count=untold.height,
            example=f"rank {spelled(untold['rank'])}: "
            + ("no collective that other ranks recorded" if few else "collectives do not end together"),
            action="written as their own clocks say",
        )
    sets = known.drop_nulls("first_rank").group_by("first_rank", maintain_order=True).agg("rank")["rank"]
    if len(sets) > 1:
        yield problem(
            "clocks compared in groups only",
            count=len(sets),
            example="; ".join(f"ranks {spelled(ranks)}" for ranks in sets),
            action="each group is on the clock of its median rank",
        )
