"""What changed between two jobs: which operations or modules run more often, take longer, are new or gone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import polars as pl

from holotrace import step_changes
from holotrace.analyses.modules import modules
from holotrace.analyses.time_breakdown import time_breakdown
from holotrace.core.problems import CUT, OTHER_STEPS, problem
from holotrace.core.schema import Column, Table, Unit, conform
from holotrace.core.tables import ANNOTATIONS, DEVICE_EVENTS, EVENTS, MODULES, PROBLEMS, STEPS, XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive import hlo_totals
from holotrace.derive.steps import launched_in
from holotrace.discovery import Paths, spelled
from holotrace.engine.comparable import as_problems, of_ranks, ranks_left_out
from holotrace.errors import InputError, UsageError
from holotrace.job import Job
from holotrace.opening import open as open_job
from holotrace.present import files, writers
from holotrace.step_changes import Step, StepChange
from holotrace.stores import place

if TYPE_CHECKING:
    from holotrace.present.change_page import Comparison

COLUMNS = (
    Column("name", Unit.TEXT, "Operation or kernel, as the profiler wrote it, or path of a module; null for no name"),
    Column("category", Unit.TEXT, "Category as the profiler wrote it, e.g. kernel, cpu_op; of a module its class"),
    Column("before_count", Unit.COUNT, "How often it ran before; 0 if it did not"),
    Column("after_count", Unit.COUNT, "How often it ran after; 0 if it did not"),
    Column("difference_count", Unit.COUNT, "after_count - before_count"),
    Column("before_total_ns", Unit.NS, "Time of all its runs before"),
    Column("after_total_ns", Unit.NS, "Time of all its runs after"),
    Column("difference_ns", Unit.NS, "after_total_ns - before_total_ns"),
    Column("change", Unit.TEXT, "By how often it ran in a step: added, removed, more, fewer or same"),
    Column("before_step_ns", Unit.NS, "Time of its runs before in a step of a rank; null without steps"),
    Column("after_step_ns", Unit.NS, "Time of its runs after in a step of a rank; null without steps"),
    Column("difference_step_ns", Unit.NS, "after_step_ns - before_step_ns; null without steps in both jobs"),
)

# The profiler's own bracket around a recording.
_RECORDING = "Trace"
_KEY = ("name", "category")
# How often it ran and for how long; and in steps, where that is less.
_COUNTED = ("count", "total_ns", *hlo_totals.OWN)
# Steps of another recording have other numbers and are the same operation, on the host and on the device.
_STEP_NUMBER = r"^(ProfilerStep)#\d+$"

One = int | Iterable[int] | None
By = Literal["name", "module", "cause", "program", "operation", "scope"]
# What devices of XLA ran.
_RUNS = (XLA_OPS.only("event_id", "step"), MODULES.only("start_ns", "step"))
_OF_XLA: tuple[By, ...] = ("program", "operation", "scope")


@dataclass(frozen=True)
class _Choice:
    """Which events count: those of some steps, on the device or on the host; and by what they are told apart."""

    steps: frozenset[int] | None
    device: bool | None
    told: tuple[By, ...]

    @property
    def reads(self) -> tuple[Table, ...]:
        return (*(table for by in self.told for table in self._reads(by)), STEPS.only("step", "start_ns", "end_ns"))

    def _reads(self, by: By) -> tuple[Table, ...]:
        if by == "module":
            return modules.reads
        if by in _OF_XLA:
            return (hlo_totals.OPS,)
        reads: tuple[Table, ...] = (EVENTS.only("event_id", "name", "category", "start_ns", "end_ns"), *_RUNS)
        if self.steps is not None or self.device is not None:
            device = ("event_id", "step") if self.steps is not None else ("event_id",)
            reads += (DEVICE_EVENTS.only(*device), ANNOTATIONS.only("event_id", "on_device"))
        return reads


def compare(
    before: Job | Paths,
    after: Job | Paths,
    *,
    ranks: One = None,
    steps: One = None,
    after_ranks: One = None,
    after_steps: One = None,
    device: bool | None = None,
    by: By = "name",
) -> pl.DataFrame:
    """How often each operation and kernel ran in two jobs, for how long, and the differences.

    One row per name and category, over all chosen ranks and steps; the largest difference in time first. Operations
    contain each other, so times of rows are not to be added up. Jobs that recorded different numbers of steps, or
    ranks, are compared by a step of a rank, which the order and ``change`` go by.

    Args:
        before: The job to compare with, or where its traces are.
        after: The job that may have changed, or where its traces are.
        ranks: Ranks of both jobs that count; all by default.
        steps: Training steps of both jobs that count; by default all, and what is outside of steps. Device work
            belongs to the step that launched it.
        after_ranks: Ranks of ``after``, where they are not those of ``before``.
        after_steps: Steps of ``after``, where they are not those of ``before``.
        device: True for what ran on a device only, False for what the host did only.
        by: ``"module"`` for a row per module of the model, numbered within the one around it: how often it was called,
            and the device time of all that it launched, forward and backward; with ``device=False`` its time on the
            host. ``"cause"`` for a row per part of an average step, which add up to it, per factor that the step loses
            time to, which with computing add up to it too, and per cause of lost time with what it costs in each step,
            which may overlap: causes that came were added, those that grew are more. Of
            profiles of XLA ``"program"``, ``"operation"`` or ``"scope"``: time of devices in operations, whose
            numbers change with every compilation: those of equal scope are the same, and where no scope tells all of
            one name are compared. These times add up, and a step has those of its own runs.

    Returns:
        A row per name and category: counts and times (ns) before and after, their differences, whether it was added,
        removed or runs more often, and the times in a step of a rank.

    Raises:
        InputError: a job cannot be read, or a rank or step that was asked for is not there.
        UsageError: the host's part of programs was asked for, or causes of some steps only.
    """
    if by == "cause":
        if any(option is not None for option in (steps, after_steps, device)):
            raise UsageError("by cause compares whole steps of both jobs; leave out steps and device")
        return of_causes(step_change(before, after, ranks=ranks, after_ranks=after_ranks))
    if by in _OF_XLA and device is False:
        raise UsageError(f"by {by} compares what devices did; leave out device=False, or compare by name")
    jobs = _opened(before, ranks), _opened(after, ranks if after_ranks is None else after_ranks)
    choices = (
        _Choice(_numbers(chosen), device, (by,)) for chosen in (steps, steps if after_steps is None else after_steps)
    )
    return _compared(jobs, *choices)[by]


def _compared(jobs: tuple[Job, Job], chosen: _Choice, chosen_after: _Choice) -> dict[By, pl.DataFrame]:
    """What two jobs differ by, from reading each rank once."""
    first, second = _parts(jobs[0], chosen), _parts(jobs[1], chosen_after)
    without = {part.rank for parts in (first, second) for part in parts if part.is_cut}
    if {part.rank for part in first} != {part.rank for part in second}:
        # Ranks of different numbers are no pairs, so that each job is without its own.
        without_of = [{part.rank for part in parts if part.is_cut} for parts in (first, second)]
    else:
        without_of = [without, without]
    kept = [
        [part for part in parts if part.rank not in left]
        for parts, left in zip((first, second), without_of, strict=True)
    ]
    if chosen.steps is None and chosen_after.steps is None:
        jobs[1].notice(_of_different_numbers(*kept))
    found: dict[By, pl.DataFrame] = {}
    for by in chosen.told:
        first_totals, second_totals = (_totals([part.rows[by] for part in parts]) for parts in kept)
        if by in _OF_XLA:
            first_totals, second_totals = hlo_totals.alike(first_totals, second_totals, by)
        differences = _differences(first_totals, second_totals, *map(_step_count, kept))
        found[by] = conform(differences, COLUMNS, "compare")
    return found


def by_everything(before: Job, after: Job, *, ranks: One = None, after_ranks: One = None) -> dict[By, pl.DataFrame]:
    """What `compare` tells of two jobs by everything but causes, without what they have nothing of."""
    jobs = _opened(before, ranks), _opened(after, ranks if after_ranks is None else after_ranks)
    choice = _Choice(None, None, ("module", *_OF_XLA, "name"))
    found = _compared(jobs, choice, choice)
    return {by: rows for by, rows in found.items() if not rows["name"].drop_nulls().is_empty()}


def change_report(
    before: Job | Paths,
    after: Job | Paths,
    path: str | os.PathLike[str],
    *,
    ranks: One = None,
    after_ranks: One = None,
) -> None:
    """Write one HTML page on all that changed between two jobs, as ``holotrace compare BEFORE AFTER -o PAGE`` does.

    It shows what became of a step and why, a chart of that, and what changed by module, XLA program and operation.

    Args:
        before: The job to compare with, or where its traces are.
        after: The job that may have changed, or where its traces are.
        path: Where; replaced if it is there.
        ranks: Ranks of both jobs that count; all by default.
        after_ranks: Ranks of ``after``, where they are not those of ``before``.

    Raises:
        InputError: a job cannot be read, no rank of it is whole, or the file cannot be written.
    """
    from holotrace.present import change_page  # noqa: PLC0415  # templates, which no table needs

    first, second = (traces if isinstance(traces, Job) else open_job(traces) for traces in (before, after))
    names = first.found.origin or first.found.title, second.found.origin or second.found.title
    told, _ = everything(first, second, names, ranks=ranks, after_ranks=after_ranks)
    files.write(place(os.fspath(path)), change_page.page(told), media_type=writers.HTML.media_type)


def everything(
    before: Job,
    after: Job,
    names: tuple[str, str],
    *,
    ranks: One = None,
    after_ranks: One = None,
    must_have_steps: bool = False,
) -> tuple[Comparison, StepChange | None]:
    """All that a page tells of two jobs of these names, and what became of a step, or None if nothing tells.

    Raises:
        InputError: no rank of a job is whole, or nothing tells of steps that there must be.
    """
    from holotrace.present.change_page import Comparison  # noqa: PLC0415  # templates, which no table needs

    change: StepChange | None = None
    tables: dict[By, pl.DataFrame] = {}
    try:
        change = step_change(before, after, ranks=ranks, after_ranks=after_ranks)
        tables["cause"] = of_causes(change)
        verdict = change.verdict
    except InputError as error:
        if must_have_steps:
            raise
        verdict = (f"Steps are not compared: {error}.",)
    tables |= by_everything(before, after, ranks=ranks, after_ranks=after_ranks)
    told = Comparison(
        *names,
        verdict,
        tables,
        COLUMNS,
        pl.concat([before.noticed(), after.noticed()]),
        is_alike=change is not None and change.is_alike,
        is_of_several=change is not None and change.is_of_several,
    )
    return told, change


def step_change(before: Job | Paths, after: Job | Paths, *, ranks: One = None, after_ranks: One = None) -> StepChange:
    """How much longer a step of one job takes than one of another, and why: for people, and for tests of speed.

    Args:
        before: The job to compare with, or where its traces are.
        after: The job that may have become slower, or where its traces are.
        ranks: Ranks of both jobs that count; all by default.
        after_ranks: Ranks of ``after``, where they are not those of ``before``.

    Returns:
        The times of a step, whether it became longer than it may, and the causes that came, went or changed.

    Raises:
        InputError: a job cannot be read, no rank of it is whole or has work on a device, a rank that was asked for is
            not there, or only one of the jobs has marked steps.
    """
    jobs = _opened(before, ranks), _opened(after, ranks if after_ranks is None else after_ranks)
    change = step_changes.between(*map(_step, jobs))
    sides = [
        # Recordings of one job often lie in folders of one name.
        (f"the job {which} ({job.found.title})" if job.found.title else f"the job {which}", side)
        for which, job, side in zip(("before", "after"), jobs, (change.before, change.after), strict=True)
    ]
    for name, side in sides:
        if side.times.is_empty():
            raise InputError(
                f"{name} has no work on devices, so that nothing tells how long a step takes; record devices too, or "
                "compare by name"
            )
    marked = [name for name, side in sides if side.is_marked]
    if len(marked) == 1:
        raise InputError(
            f"only {marked[0]} has marked steps, and a step cannot be compared with a whole recording; mark the steps "
            "of both (PyTorch: profiler.step()), or compare by name"
        )
    return change


def _step(job: Job) -> Step:
    found = job.run(step_changes.ASKED, step_changes.OPTIONS)
    # A step that is cut off would look shorter.
    without = ranks_left_out(found.problems)
    if without >= set(job.ranks):
        raise InputError(
            f"no rank of {job.found.title or 'the job'} was recorded to its end, and what is missing would look like a "
            "change; record again"
        )
    tables = {name: of_ranks(table, without) for name, table in found.tables.items()}
    step = Step(tables)
    return step if step.is_marked else Step({**tables, time_breakdown.name: of_ranks(job.time_breakdown(), without)})


def of_causes(change: StepChange) -> pl.DataFrame:
    """Parts of a step and causes, before and after; the change is that of their times."""
    # Their times are those of one step as they are.
    both = _differences(*change.rows, 1, 1)
    was, became = pl.col("before_total_ns"), pl.col("after_total_ns")
    grew = pl.when(became > was).then(pl.lit("more")).when(became < was).then(pl.lit("fewer")).otherwise(pl.lit("same"))
    is_there = ~pl.col("change").is_in(["added", "removed"])
    return conform(both.with_columns(change=pl.when(is_there).then(grew).otherwise("change")), COLUMNS, "compare")


def _differences(
    first: pl.DataFrame, second: pl.DataFrame, first_steps: int | None, second_steps: int | None
) -> pl.DataFrame:
    """Both sides beside each other, each of so many steps of ranks."""
    both = _of_side(first, "before").join(
        _of_side(second, "after"), on=_KEY, how="full", coalesce=True, nulls_equal=True
    )
    was, became = pl.col("before_count"), pl.col("after_count")
    difference = became - was
    # Without steps in both jobs, runs are what there is to compare.
    if first_steps and second_steps:
        difference = pl.col("after_own_count") * first_steps - pl.col("before_own_count") * second_steps
    return (
        both.with_columns(pl.exclude(_KEY).fill_null(0))
        .with_columns(
            difference_count=became - was,
            difference_ns=pl.col("after_total_ns") - pl.col("before_total_ns"),
            change=pl.when(was == 0)
            .then(pl.lit("added"))
            .when(became == 0)
            .then(pl.lit("removed"))
            .when(difference > 0)
            .then(pl.lit("more"))
            .when(difference < 0)
            .then(pl.lit("fewer"))
            .otherwise(pl.lit("same")),
            before_step_ns=_in_a_step("before_own_ns", first_steps),
            after_step_ns=_in_a_step("after_own_ns", second_steps),
        )
        .with_columns(difference_step_ns=pl.col("after_step_ns") - pl.col("before_step_ns"))
        .drop(f"{side}_{name}" for side in ("before", "after") for name in hlo_totals.OWN)
        .sort(
            pl.col("difference_step_ns").abs(),
            pl.col("difference_ns").abs(),
            *_KEY,
            descending=[True, True, False, False],
        )
    )


def _of_side(totals: pl.DataFrame, side: str) -> pl.DataFrame:
    """The totals under names of their own; where nothing tells what of it steps launched, all of it is theirs."""
    own = totals if "own_ns" in totals.columns else totals.with_columns(own_count="count", own_ns="total_ns")
    return own.rename({name: f"{side}_{name}" for name in own.columns if name not in _KEY})


def _in_a_step(total: str, steps: int | None) -> pl.Expr:
    return (pl.col(total) / steps).round().cast(pl.Int64) if steps else pl.lit(None, pl.Int64)


@dataclass(frozen=True)
class _Part:
    """What one rank contributes."""

    rank: int
    # Steps it has.
    steps: frozenset[int]
    # How many of them count.
    step_count: int
    rows: Mapping[By, pl.DataFrame]
    # Of a file that is cut off every missing event would look like a change.
    is_cut: bool


def _totals(ranks: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """How often what is told apart ran on ranks, and for how long."""
    columns = ranks[0].columns if ranks else [*_KEY, *_COUNTED]
    schema = {name: pl.Int64() if name in _COUNTED else pl.String() for name in columns}
    rows = [rank.select(columns).cast(schema) for rank in ranks]  # type: ignore[arg-type]  # names to types
    keys, counted = ([name for name in columns if (name in _COUNTED) == is_it] for is_it in (False, True))
    return pl.concat([pl.DataFrame(schema=schema), *rows]).group_by(keys).agg(pl.col(counted).sum())


def _step_count(parts: Sequence[_Part]) -> int | None:
    """Steps of all ranks; none where a rank has none."""
    counts = [part.step_count for part in parts]
    return sum(counts) if counts and all(counts) else None


def _of_different_numbers(first: Sequence[_Part], second: Sequence[_Part]) -> list[dict[str, object]]:
    """A row of the problems table where one job recorded more steps than the other."""
    before, after = ({part.step_count for part in parts} for parts in (first, second))
    if before == after:
        return []
    return [
        problem(
            OTHER_STEPS,
            example=f"{spelled(before)} before, {spelled(after)} after",
            action="the order and change go by a step of a rank; --step and --after-step choose steps",
        )
    ]


def _parts(job: Job, choice: _Choice) -> list[_Part]:
    """What each rank of a job contributes."""
    parts = job.map(partial(_part, choice=choice), choice.reads)
    _must_be_whole(parts, job, choice)
    job.notice(as_problems({part.rank: "its file is cut off" for part in parts if part.is_cut}))
    return parts


def _opened(traces: Job | Paths, ranks: One) -> Job:
    job = traces if isinstance(traces, Job) else open_job(traces, cache_bytes=0)
    chosen = _numbers(ranks)
    return job if chosen is None else job.only(*chosen)


def _part(trace: RankTrace, choice: _Choice) -> _Part:
    rows: dict[By, pl.DataFrame] = {}
    for by in choice.told:
        if by == "module":
            rows[by] = _modules(trace, choice)
        elif by in _OF_XLA:
            rows[by] = _programs(trace, choice, by)
        else:
            rows[by] = _events(trace, choice)
    steps = frozenset(trace[STEPS]["step"])
    is_cut = bool(trace[PROBLEMS]["problem"].is_in(CUT).any())
    return _Part(trace.rank, steps, len(steps & choice.steps if choice.steps else steps), rows, is_cut)


def _events(trace: RankTrace, choice: _Choice) -> pl.DataFrame:
    """Name, category, count and time of what counts."""
    table = trace[EVENTS]
    events = table.lazy()
    if choice.steps is not None or choice.device is not None:
        on_device = pl.col("on_device").fill_null(False)
        if choice.steps is not None:
            events = events.with_columns(began_in=launched_in(table["start_ns"], trace[STEPS]))
        events = events.join(_on_device(trace, choice).lazy(), on="event_id", how="left")
        if choice.steps is not None:
            step = pl.when(on_device).then("step").otherwise("began_in")
            events = events.filter(step.is_in(sorted(choice.steps)))
        if choice.device is not None:
            events = events.filter(on_device == choice.device)
    lasted, is_own = pl.col("end_ns") - pl.col("start_ns"), ~_is_of_no_step(trace)
    totals = (
        events.filter(pl.col("category").ne_missing(_RECORDING))
        .group_by(_KEY)
        .agg(count=pl.len(), total_ns=lasted.sum(), own_count=is_own.sum(), own_ns=lasted.filter(is_own).sum())
        .with_columns(pl.col(_KEY).cast(pl.String()))
    )
    if not trace[STEPS].is_empty():
        named = totals.group_by(pl.col("name").str.replace(_STEP_NUMBER, "$1"), "category")
        totals = named.agg(pl.col(_COUNTED).sum())
    return totals.collect()


def _is_of_no_step(trace: RankTrace) -> pl.Expr:
    """Which events are of devices of XLA that had been launched before the recording: no step of it has these."""
    ops, runs = (trace[table].filter(pl.col("step").is_null()) for table in _RUNS)
    is_run = (pl.col("category").cast(pl.String) == MODULES.name) & pl.col("start_ns").is_in(runs["start_ns"].implode())
    return pl.col("event_id").is_in(ops["event_id"].implode()) | is_run.fill_null(value=False)


def _modules(trace: RankTrace, choice: _Choice) -> pl.DataFrame:
    """The same of modules; what is in none is told without a name."""
    rows = modules.part(trace, {"by_step": choice.steps is not None})
    if choice.steps is not None:
        rows = rows.filter(pl.col("step").is_in(sorted(choice.steps)))
    time = "host_ns" if choice.device is False else "total_ns"
    return rows.group_by(name="place", category="module_class").agg(
        count=pl.coalesce("call_count", "event_count").sum(), total_ns=pl.col(time).sum()
    )


def _programs(trace: RankTrace, choice: _Choice, by: By) -> pl.DataFrame:
    """The same of programs of XLA, their operations or their scopes."""
    ops = trace[hlo_totals.OPS]
    if choice.steps is not None:
        ops = ops.filter(pl.col("step").is_in(sorted(choice.steps)))
    return hlo_totals.totals(ops, by)


def _on_device(trace: RankTrace, choice: _Choice) -> pl.DataFrame:
    """Ids of what was on a device: work, which has the step of its launch, and ranges, which have none."""
    work = trace[DEVICE_EVENTS].select("event_id", *(() if choice.steps is None else ("step",)))
    ranges = trace[ANNOTATIONS].filter("on_device").select("event_id")
    return pl.concat([work, ranges], how="diagonal").with_columns(on_device=True)


def _must_be_whole(parts: Sequence[_Part], job: Job, choice: _Choice) -> None:
    """Without a rank or step that was asked for, every operation of it would look like a change."""
    name = job.found.title or "the job"
    if unread := set(job.ranks) - {part.rank for part in parts}:
        raise InputError(f"rank {spelled(unread)} of {name} cannot be read; compare the other ranks, or check its file")
    if parts and all(part.is_cut for part in parts):
        raise InputError(f"every file of {name} is cut off, and what is missing would look like a change; record again")
    there = {step for part in parts for step in part.steps}
    if absent := (choice.steps or frozenset()) - there:
        raise InputError(f"step {spelled(absent)} is not in {name}; there are steps {spelled(there) or 'none'}")


def _numbers(chosen: One) -> frozenset[int] | None:
    if chosen is None:
        return None
    return frozenset([chosen] if isinstance(chosen, int) else chosen)
