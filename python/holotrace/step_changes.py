"""Why a step of one job takes longer than one of another: its parts, and causes of lost time that came or went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import polars as pl

from holotrace.analyses.causes import causes
from holotrace.analyses.factors import COMPUTING, factors, time_ratios
from holotrace.analyses.time_breakdown import PARTS, time_breakdown
from holotrace.core.analysis import Analysis, per_rank
from holotrace.core.charts import Ranking
from holotrace.core.problems import spelled
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import DEVICE_EVENTS, STEPS
from holotrace.core.trace import RankTrace
from holotrace.derive.kernel_kinds import COMPUTE
from holotrace.diagnosis.job.floors import FLOOR_RATIO
from holotrace.present import format as fmt

# Of parts of a step, and of what keeps devices from computing, which add up to it; and of causes, which overlap.
STEP, FACTOR, CAUSE = "step", "factor", "cause"
_NAMES = {
    "compute_ns": COMPUTING,
    "exposed_comm_ns": "exposed communication",
    "exposed_memory_ns": "exposed copies",
    "idle_ns": "idle time",
}
_LOST_TO = {"communication": "communication", "host": "hosts", "copies": "copies", "balance": "unequal ranks"}
_SCHEMA = {"name": pl.String, "category": pl.String, "count": pl.Int64, "total_ns": pl.Int64}
# Two standard errors, which of normal values are 1.4826 median deviations by the root of their number.
_ERRORS, _DEVIATION = 2.0, 1.4826
_LEAST_STEPS = 3  # that tell by how much steps differ
_MOST_CAUSES, _MOST_KERNELS = 5, 3
_LONGEST_NAME = 120
# What XLA numbers anew with every compilation.
_NUMBER = r"\.\d+$"
_WORK = DEVICE_EVENTS.only("name", "kind", "device", "start_ns", "end_ns")
_LAUNCHED = DEVICE_EVENTS.only("start_ns", "end_ns", "step")
_LEAST_CHANGE_RATIO = 0.001  # what no reader would call a change


@per_rank(
    columns=(
        Column("name", Unit.TEXT, "Kernel, or operator of a host that computes, without the number that XLA gives it"),
        Column("total_ns", Unit.NS, "Time of its runs on the mean device of the rank"),
        Column("run_count", Unit.FLOAT, "Number of its runs on the mean device of the rank"),
        Column("of_hosts", Unit.BOOL, "Whether hosts compute"),
    ),
    reads=(_WORK,),
    chart=Ranking(x="name", y=("total_ns",), title="Computing by name"),
)
def computed(rank: RankTrace) -> pl.DataFrame:
    """How long each kernel that computes ran."""
    work = rank[_WORK].filter(pl.col("kind") == COMPUTE)
    devices = max(1, work["device"].n_unique())
    # A name has many runs; that of XLA has one for each number.
    named = work.group_by("name").agg(total_ns=(pl.col("end_ns") - pl.col("start_ns")).sum(), run_count=pl.len())
    name = pl.col("name").cast(pl.String).str.replace(_NUMBER, "")
    return named.group_by(name).agg(
        (pl.col("total_ns").sum() / devices).round().cast(pl.Int64),
        pl.col("run_count").sum() / devices,
        of_hosts=pl.lit(rank.computes_on_host),
    )


@per_rank(
    columns=(
        Column("step", Unit.STEP, "The first step that is marked and has work on a device"),
        Column("first_idle_ns", Unit.NS, "How long the device has nothing to do from its mark to its first work"),
    ),
    reads=(STEPS, _LAUNCHED),
    chart=Ranking(x="rank", y=("first_idle_ns",), title="Idle before the first step's work"),
)
def first_idle(rank: RankTrace) -> pl.DataFrame:
    """How long devices wait for the first work of the first step."""
    work = rank[_LAUNCHED]
    own = work.drop_nulls("step").group_by("step").agg(own_ns=pl.col("start_ns").min())
    first = rank[STEPS].select("step", "start_ns").join(own, on="step").sort("start_ns").head(1)
    # Work that was launched before the mark may still run.
    earlier = work.filter(pl.col("start_ns") < pl.lit(first["own_ns"].min(), pl.Int64))["end_ns"].max()
    idle = pl.col("own_ns") - pl.max_horizontal("start_ns", pl.lit(earlier, pl.Int64))
    return first.select("step", first_idle_ns=idle.clip(lower_bound=0))


# What is asked of each job, in one reading.
ASKED: tuple[Analysis[Any], ...] = (time_breakdown, first_idle, factors, causes, computed)
OPTIONS = {time_breakdown.name: {"by_step": True}}


@dataclass(frozen=True)
class Step:
    """A step of one job, from the answers to what is ``ASKED`` of it.

    Attributes:
        tables: The answers; of a job without marked steps `time_breakdown` of its whole recording.
        has_first: Whether the first step counts.
    """

    tables: Mapping[str, pl.DataFrame]
    has_first: bool = True

    @cached_property
    def times(self) -> pl.DataFrame:
        """The parts of each step, as the mean rank spent it; of the whole recording where no step is marked."""
        spent = self.tables[time_breakdown.name]
        # Work that no step launched belongs to none, but where no steps were marked.
        marked = spent.drop_nulls("step")
        counted = spent if marked.is_empty() else self._from_its_mark(marked)
        if not self.has_first:
            counted = counted.filter(pl.col("step") > pl.col("step").min())
        return counted.group_by("step", maintain_order=True).agg(pl.col(PARTS).mean())

    def _from_its_mark(self, steps: pl.DataFrame) -> pl.DataFrame:
        """The steps, the first of each rank from its mark on: until its own first work its device has nothing to do."""
        known = steps.join(self.tables[first_idle.name], on=["rank", "step"], how="left", maintain_order="left")
        return known.with_columns(pl.col("idle_ns") + pl.col("first_idle_ns").fill_null(0))

    @property
    def rows(self) -> pl.DataFrame:
        """``name``, ``category``, ``count`` of steps and ``total_ns`` in one step, of each part and of each cause."""
        parts = [(name, STEP, self.count, round(mean)) for name, mean in self.parts_ns]
        parts += [(name, FACTOR, self.count, round(lost)) for name, lost in self.factors_ns]
        found = self.causes.select("name", pl.lit(CAUSE).alias("category"), "count", "total_ns")
        return pl.concat([pl.DataFrame(parts, schema=_SCHEMA, orient="row"), found])

    @property
    def parts_ns(self) -> list[tuple[str, float]]:
        """The name of each part, and how long it is in the mean step."""
        means = self.times.select(pl.col(PARTS).mean().fill_null(0)).row(0, named=True)
        return [(name, float(means[part])) for part, name in _NAMES.items()]

    @property
    def factors_ns(self) -> list[tuple[str, float]]:
        """How much of the mean step keeps devices from computing, and the rest, in which they do; empty if unknown."""
        ratios = time_ratios(self.tables[factors.name])
        return [(name, ratio * self.mean_ns) for name, ratio in ratios.items()]

    @property
    def count(self) -> int:
        """How many steps there are; a recording without marked steps is one."""
        return max(1, self.times["step"].drop_nulls().len())

    @property
    def is_marked(self) -> bool:
        return self.times["step"].drop_nulls().len() > 0

    @property
    def lengths(self) -> pl.Series:
        return self.times.select(pl.sum_horizontal(PARTS)).to_series()

    @property
    def mean_ns(self) -> float:
        return sum(mean for _, mean in self.parts_ns)

    @property
    def variance(self) -> float | None:
        """That of the mean of steps; it is of most steps, so that a stall of one is a change and no noise."""
        lengths = self.lengths
        if not self.is_marked or lengths.len() < _LEAST_STEPS:
            return None
        deviation = _DEVIATION * float((lengths - lengths.median()).abs().median() or 0)
        return deviation**2 / lengths.len()

    @cached_property
    def kernels(self) -> pl.DataFrame:
        """``name`` of each kernel that computes, how long it runs on the mean device in a step, and how often.

        Columns ``total_ns`` and ``run_count``, and ``of_hosts``: hosts compute, so that it is an operator.
        """
        found = self.tables[computed.name]
        steps = found["rank"].n_unique() * self.count
        sums = found.group_by("name").agg(pl.col("total_ns", "run_count").sum(), pl.col("of_hosts").any())
        return sums.with_columns(pl.col("total_ns", "run_count") / max(1, steps))

    @cached_property
    def causes(self) -> pl.DataFrame:
        """``name``, the same in both jobs, ``count`` of steps it is in, ``total_ns`` in one of all, ``message``."""
        rows = [
            (_called(cause, responsible, tuple(ranks)), max(1, len(steps)), cost, message)
            for cause, responsible, ranks, steps, cost, message in self.tables[causes.name]
            .select("cause", "responsible", "ranks", "steps", "cost_per_step_ns", "message")
            # What came before the steps made none of them longer.
            .drop_nulls("cost_per_step_ns")
            .iter_rows()
        ]
        schema = {"name": pl.String, "count": pl.Int64, "total_ns": pl.Int64, "message": pl.String}
        found = pl.DataFrame(rows, schema=schema, orient="row").group_by("name", maintain_order=True)
        return found.agg(pl.col("count").max(), pl.col("total_ns").sum(), pl.col("message").first())


@dataclass(frozen=True)
class StepChange:
    """How much longer a step of one job takes than one of another, and why.

    The time of a step is the mean over ranks and steps, from where the device work of the step before ends, or from the
    mark of the first step, to where its own does; of jobs without marked steps, that of the whole recording.

    Attributes:
        before: A step of the job to compare with.
        after: A step of the job that may have become slower.
    """

    before: Step
    after: Step

    def __repr__(self) -> str:
        return f"StepChange({self.told!r})"

    def __str__(self) -> str:
        """The verdict, one sentence a line."""
        return "\n".join(self.verdict)

    @property
    def rows(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Parts of a step, which add up to it, and causes, whose worth overlaps: before and after.

        What keeps devices from computing is compared if it is known of both.
        """
        rows = self.before.rows, self.after.rows
        if self.before.factors_ns and self.after.factors_ns:
            return rows
        before, after = (of_job.filter(pl.col("category") != FACTOR) for of_job in rows)
        return before, after

    @property
    def before_ns(self) -> float:
        """How long a step took before."""
        return self.before.mean_ns

    @property
    def after_ns(self) -> float:
        """How long a step takes after."""
        return self.after.mean_ns

    @property
    def ratio(self) -> float:
        """By what part of it the step became longer; negative if it became shorter."""
        return self.after_ns / self.before_ns - 1

    @property
    def noise_ns(self) -> float | None:
        """By how much the times may differ by chance: twice the standard error that the spread of steps leaves.

        The spread is the median deviation from the median, which single slow steps do not change. None where one of the
        jobs has fewer than three steps.
        """
        both = self.before.variance, self.after.variance
        return _ERRORS * (both[0] + both[1]) ** 0.5 if both[0] is not None and both[1] is not None else None

    def exceeds(self, percent: float) -> bool:
        """Whether the step became longer by more than so many percent, and by more than it may by chance."""
        return self.after_ns - self.before_ns > max(percent / 100 * self.before_ns, self._chance_ns)

    @property
    def told(self) -> str:
        """How long a step takes, and how much longer or shorter than before, as a sentence."""
        what = "A step takes" if self._is_marked else "The recording takes"
        now, was = fmt.duration(self.after_ns), fmt.duration(self.before_ns)
        change, noise = self.after_ns - self.before_ns, self.noise_ns
        if abs(change) <= min(self._floor_ns, self._chance_ns):
            return f"{what} {now} on average, as long as before ({was})."
        how = "longer" if change > 0 else "shorter"
        said = f"{fmt.duration(abs(change))} ({fmt.percent(abs(self.ratio))}) {how} than before"
        if abs(change) <= self._chance_ns:
            return f"{what} {now} on average, {said}, which may be chance: steps differ from each other by as much."
        known = f"; by chance it may differ by {fmt.duration(noise)}" if noise else ""
        return f"{what} {now} on average, {said}{known}."

    @cached_property
    def verdict(self) -> tuple[str, ...]:
        """How long a step takes, which parts and kernels of it changed, and which causes of lost time came or went."""
        return tuple(fmt.printable(line) for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield self.told
        yield from self._parts()
        yield from self._factors()
        yield from self._kernels()
        yield from self._causes()

    @property
    def _is_marked(self) -> bool:
        return self.before.is_marked and self.after.is_marked

    @property
    def _floor_ns(self) -> float:
        """Parts and causes that change by less are not told: equal jobs differ by as much."""
        return FLOOR_RATIO * self.before_ns

    @property
    def _chance_ns(self) -> float:
        """A change up to this is none."""
        noise = self.noise_ns
        return self._floor_ns if noise is None else max(noise, _LEAST_CHANGE_RATIO * self.before_ns)

    def _parts(self) -> Iterator[str]:
        """Which parts of a step changed, the largest change first."""
        told = self._changed(self.before.parts_ns, self.after.parts_ns)
        if told:
            said = fmt.listed([f"{_how(ns)} {name}" for ns, name in told])
            yield f"{'Each step' if self._is_marked else 'The recording'} has {said}."

    def _factors(self) -> Iterator[str]:
        """What keeps devices from computing more, or less, than before."""
        if not self.before.factors_ns or not self.after.factors_ns:
            return
        # How long devices compute is told as a part.
        lost = self._changed(self.before.factors_ns[:-1], self.after.factors_ns[:-1])
        if lost:
            said = fmt.listed([f"{_how(ns)} to {_LOST_TO[name]}" for ns, name in lost])
            yield f"{'Each step' if self._is_marked else 'The recording'} loses {said}."

    def _changed(
        self, before: Sequence[tuple[str, float]], after: Sequence[tuple[str, float]]
    ) -> list[tuple[float, str]]:
        """By how much each changed that changed by more than equal jobs do, the largest change first."""
        changes = [(now - was, name) for (name, was), (_, now) in zip(before, after, strict=True)]
        return sorted((one for one in changes if abs(one[0]) > self._floor_ns), key=lambda one: -abs(one[0]))

    def _kernels(self) -> Iterator[str]:
        """The kernels that changed most, if computing did."""
        if all(name != COMPUTING for _, name in self._changed(self.before.parts_ns, self.after.parts_ns)):
            return
        changed = self._joined(self.before.kernels, self.after.kernels).head(_MOST_KERNELS)
        for row in changed.iter_rows(named=True):
            name = fmt.middle(row["name"] or "", _LONGEST_NAME)
            kind = "operator" if row["of_hosts"] or row["of_hosts_after"] else "kernel"
            often = _often(row["run_count"], row["run_count_after"])
            yield f"{self._turned(row['was'], row['became'])}: {kind} {name}{often}."

    def _causes(self) -> Iterator[str]:
        """Which causes came, went or changed, the largest change first."""
        ordered = self._joined(self.before.causes, self.after.causes)
        for row in ordered.head(_MOST_CAUSES).iter_rows(named=True):
            message = row["message_after"] or row["message"]
            yield f"{self._turned(row['was'], row['became'])}: {message[:1].upper()}{message[1:].rstrip('.')}."
        if (more := ordered.height - _MOST_CAUSES) > 0:
            yield f"And {fmt.plural(more, 'more cause')} changed."

    def _turned(self, was: float, became: float) -> str:
        each = " a step" if self._is_marked else ""
        if not was:
            return f"New, {fmt.duration(became)}{each}"
        if not became:
            return f"Gone, {fmt.duration(was)}{each}"
        return f"{'Grew' if became > was else 'Shrank'} from {fmt.duration(was)} to {fmt.duration(became)}{each}"

    def _joined(self, before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
        """Rows of equal name beside each other, those that changed by more than equal jobs do, by how much."""
        both = before.join(after, on="name", how="full", coalesce=True, suffix="_after")
        was, became = pl.col("total_ns").fill_null(0), pl.col("total_ns_after").fill_null(0)
        changed = both.with_columns(was=was, became=became).filter((became - was).abs() > self._floor_ns)
        return changed.sort((became - was).abs(), "name", descending=[True, False])


def _often(before: float | None, after: float | None) -> str:
    """Whether a kernel takes another time since it runs more or less often."""
    if not before or not after:
        return ""
    same = abs(after / before - 1) <= FLOOR_RATIO
    return ", as often as before" if same else f", {after:.3g} times in place of {before:.3g}"


def _how(ns: float) -> str:
    return f"{fmt.duration(abs(ns))} {'more' if ns > 0 else 'less'}"


def _called(cause: str, responsible: str | None, ranks: tuple[int, ...]) -> str:
    where = f", rank {spelled(ranks)}" if ranks else ""
    return f"{cause}{f' in {responsible}' if responsible else ''}{where}"


def between(before: Step, after: Step) -> StepChange:
    """The change from a step of one job to one of another.

    What a host does at the end of a step keeps its device waiting in the next one. So the first step of a recording may
    be shorter, or longer as long as all is new; it counts for more where fewer steps were recorded. It is left out of
    jobs that recorded different numbers of steps.
    """
    counts = before.count, after.count
    if counts[0] == counts[1] or min(counts) < _LEAST_STEPS:
        return StepChange(before, after)
    return StepChange(replace(before, has_first=False), replace(after, has_first=False))
