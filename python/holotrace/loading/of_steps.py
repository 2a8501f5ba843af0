"""The part of a rank that belongs to some of its steps: what its host did in them, and the work launched in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic

import polars as pl

from holotrace.core.schema import Table
from holotrace.core.tables import ALL, ANNOTATIONS, DEVICE_EVENTS, LAUNCHES, MODULES, RANK_INFO, STEPS, XLA_OPS
from holotrace.core.trace import RankTrace, T
from holotrace.derive.steps import QUEUE, is_from_before, launched_after_ns
from holotrace.loading import info
from holotrace.loading.rank import in_files, merged, narrowed

# Times and events that tell to which steps a row belongs.
_PLACED_BY = ("event_id", "device_event_id", "start_ns", "end_ns", "time_ns", "from_ns")
# Tables that are of devices only, whose rows have a step of their own.
_OF_DEVICES = (DEVICE_EVENTS.name, XLA_OPS.name, MODULES.name)
_PLACED_BY_STEP = ("step", "launch_ns")
_READS = (
    DEVICE_EVENTS.only("event_id", "step", "launch_ns", "start_ns", "end_ns", *QUEUE),
    ANNOTATIONS.only("event_id", "on_device", "start_ns"),
    STEPS.only("step", "start_ns", "end_ns"),
    MODULES.only("step", "launch_ns", "start_ns", "end_ns"),
)
_DECLARED = {table.name: table for table in ALL}
# What only work has that these steps launched.
_BY_LAUNCH = ("launch_id", "launch_ns", "step")
# Columns of RANK_INFO that say how much there is.
_HOW_MUCH = ("step_count", "first_step", "last_step", "device_event_count", "span_ns", "first_ns")


@dataclass(frozen=True)
class OfSteps(Generic[T]):
    """A task on the part of a rank that belongs to the steps from ``first`` to ``last``.

    Args:
        task: Gets a rank that looks as if only these steps had been recorded.
        wanted: What it reads.
        first: First of the steps.
        last: Last of them.
        whole: Ranks that are looked at as they are.
        begun: How many steps later than the first ranks began to record whose steps are counted from there.
    """

    task: Callable[[RankTrace], T]
    wanted: Sequence[Table]
    first: int
    last: int
    whole: frozenset[int] = frozenset()
    begun: Mapping[int, int] = field(default_factory=dict)

    @property
    def reads(self) -> tuple[Table, ...]:
        """What has to be read for it."""
        described = info.READS if RANK_INFO.name in merged(self.wanted) else ()
        asked = in_files(merged([*self.wanted, *described]))
        placed = (_DECLARED[name] for name in asked if name in _DECLARED)
        placing = (table.only(*{*_placed_by(table.name)} & {*table.column_names}) for table in placed)
        return (*asked.values(), *placing, *_READS)

    def __call__(self, rank: RankTrace) -> T:
        seen = rank if rank.rank in self.whole else self._of_steps(rank)
        return self.task(narrowed(seen, self.wanted))

    def _of_steps(self, rank: RankTrace) -> RankTrace:
        if rank.rank not in self.begun:
            return of_steps(rank, self.first, self.last)
        own: Any = rank[STEPS]["step"].min()
        later = self.begun[rank.rank] - own
        return _renumbered(of_steps(rank, self.first - later, self.last - later), later)


def of_steps(rank: RankTrace, first: int, last: int) -> RankTrace:
    """The rank as if only the steps from ``first`` to ``last`` had been recorded.

    Host events that reach beyond these steps end where the steps do. Work on devices is whole, if it was launched then;
    work without a launch was launched after what its queue ran before it, and counts by its start where none of that
    is known. What had been launched before and runs on keeps a device busy, but has no launch and no step, as in
    recordings that begin then. Where steps begin with programs, work of no step counts if it is within.
    """
    steps = rank[STEPS].filter(pl.col("step").is_between(first, last))
    begin, end = steps.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    if begin is None:
        return rank
    # Steps that begin with programs end with the work in them, whenever it was launched.
    are_of_devices = steps["start_ns"].is_in(rank[MODULES]["start_ns"].implode()).all()
    launched_ns = pl.coalesce(launched_after_ns(), "start_ns")
    by_launch = _begins(launched_ns, begin, end) & ~is_from_before()
    by_time = (pl.col("start_ns") >= begin) & (pl.col("end_ns") <= end)
    is_of_step = pl.col("step").is_between(first, last)
    every = rank[DEVICE_EVENTS]
    work = every.filter(pl.coalesce(is_of_step, by_time if are_of_devices else by_launch))
    began, over, launched = work.select(
        pl.col("start_ns").min(), pl.col("end_ns").max(), pl.col("launch_ns").min()
    ).row(0)
    was_launched = (launched_ns < begin) | is_from_before()
    # So it does in profiles of XLA as far as it began later.
    is_before = (pl.col("launch_ns") < begin) & (pl.col("start_ns") >= begin) & pl.lit(not are_of_devices)
    is_before &= ~is_of_step.fill_null(value=False)
    still_runs = pl.col("end_ns") > pl.lit(began, pl.Int64)
    runs_on = every.filter(was_launched & still_runs if rank[MODULES].is_empty() else is_before)
    by_start = _begins(pl.coalesce("launch_ns", "start_ns"), begin, end)
    # Ranges on a device have no launch.
    ranges = rank[ANNOTATIONS].filter("on_device")
    seen = ranges.filter(_begins(pl.col("start_ns"), began, over))
    window = _Window(
        # Steps that devices begin were launched before.
        begin if launched is None else min(begin, launched),
        end,
        pl.coalesce(is_of_step, by_time if are_of_devices else by_start),
        on_device=pl.concat([every["event_id"], ranges["event_id"]]).implode(),
        kept=pl.concat([work["event_id"], runs_on["event_id"], seen["event_id"]]).unique().implode(),
        runs_on=runs_on["event_id"].implode(),
        is_before=is_before.fill_null(value=False),
    )
    tables = {name: window.of(name, frame) for name, frame in rank.tables.items()} | {
        STEPS.name: rank.tables[STEPS.name].filter(pl.col("step").is_between(first, last))
    }
    return replace(rank, tables=_described(rank, tables))


def _renumbered(rank: RankTrace, later: int) -> RankTrace:
    """The rank, its steps counted from those of the rank that began to record first."""
    if not later:
        return rank
    tables = {
        name: frame.with_columns(pl.col("step") + later) if "step" in frame.columns else frame
        for name, frame in rank.tables.items()
    }
    return replace(rank, tables=tables)


@dataclass(frozen=True)
class _Window:
    """From when to when hosts are looked at, and which events on devices belong to that."""

    begin: int
    end: int
    # Which rows of tables of modules and operations do.
    belongs: pl.Expr
    on_device: pl.Series
    kept: pl.Series
    # Which of these had been launched before.
    runs_on: pl.Series
    # Which rows of tables of modules and operations are of that.
    is_before: pl.Expr

    def of(self, name: str, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows of a table that belong to it."""
        columns = set(frame.columns)
        if name == DEVICE_EVENTS.name:
            return self._work(frame)
        if name == LAUNCHES.name:
            launched = pl.col("device_event_id")
            return frame.filter(launched.is_in(self.kept) & ~launched.is_in(self.runs_on))
        if name in _OF_DEVICES:
            told = (pl.when(~self.is_before).then(each).alias(each) for each in _BY_LAUNCH if each in columns)
            return frame.filter(self.belongs.fill_null(value=False) | self.is_before).with_columns(told)
        for time in ("from_ns", "time_ns"):
            if time in columns:
                return frame.filter(_begins(pl.col(time), self.begin, self.end))
        return self._events(frame) if {"event_id", *_ENDS} <= columns else frame

    def _work(self, frame: pl.DataFrame) -> pl.DataFrame:
        was_launched = pl.when(~pl.col("event_id").is_in(self.runs_on))
        told = (was_launched.then(each).alias(each) for each in _BY_LAUNCH if each in frame.columns)
        return frame.filter(pl.col("event_id").is_in(self.kept)).with_columns(told)

    def _events(self, frame: pl.DataFrame) -> pl.DataFrame:
        on_device = pl.col("event_id").is_in(self.on_device)
        is_reached = (pl.col("start_ns") < self.end) & (
            (pl.col("end_ns") > self.begin) | (pl.col("start_ns") >= self.begin)
        )
        ends = (pl.when(on_device).then(time).otherwise(pl.col(time).clip(self.begin, self.end)) for time in _ENDS)
        is_kept = pl.when(on_device).then(pl.col("event_id").is_in(self.kept)).otherwise(is_reached)
        return frame.filter(is_kept).with_columns(ends)


_ENDS = ("start_ns", "end_ns")


def _placed_by(table: str) -> tuple[str, ...]:
    return (*_PLACED_BY, *(_PLACED_BY_STEP if table in _OF_DEVICES else ()))


def _begins(time: pl.Expr, begin: int | None, end: int | None) -> pl.Expr:
    since, until = (pl.lit(at, pl.Int64()) for at in (begin, end))
    return (time >= since) & (time < until)


def _described(rank: RankTrace, tables: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables, with how much there is of the rank in them."""
    if RANK_INFO.name not in tables:
        return dict(tables)
    seen = info.describe(rank.rank, tables, rank.metadata, settings=rank.settings)
    return {**tables, RANK_INFO.name: tables[RANK_INFO.name].with_columns(seen.select(_HOW_MUCH))}
