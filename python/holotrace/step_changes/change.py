"""How much longer a step of one job takes than one of another, and why, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import polars as pl

from holotrace.analyses.factors import COMPUTING
from holotrace.diagnosis.job.floors import FLOOR_RATIO
from holotrace.errors import InputError
from holotrace.present import format as fmt
from holotrace.present import notebook
from holotrace.step_changes import kernels, same_causes
from holotrace.step_changes.step import FACTOR, Step

# Beside parts and factors, which add up: causes, which overlap.
CAUSE = "cause"
_LOST_TO = {"communication": "communication", "host": "hosts", "copies": "copies", "balance": "unequal ranks"}
# Devices of several ranks that have nothing to do may also wait for what others compute.
_OF_SEVERAL = {**_LOST_TO, "host": "waiting for hosts or each other"}
# What causes are told by: without it some are not found, or are called otherwise.
_TOLD_BY = {"stack_count": "Python functions", "shape_count": "shapes"}
# Two standard errors, where that of normal values is 1.4826 median deviations.
_ERRORS, _DEVIATION = 2.0, 1.4826
# Few values are closer to their own median or mean, and by chance to each other: as if there were fewer by so many.
_OF_BOTH, _OF_ONE = 3, 2
_LEAST_STEPS = 3  # that tell by how much steps differ
_MOST_CAUSES, _MOST_KERNELS = 5, 3
_LONGEST_NAME = 120
_LEAST_SHARED = 0.1  # of computing, in kernels of both: a change of some kernels leaves more
_LEAST_CHANGE_RATIO = 0.001  # what no reader would call a change


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

    def _repr_html_(self) -> str:
        return notebook.change_html(self.verdict[0], self.verdict[1:])

    @property
    def rows(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Parts of a step, which add up to it, and causes, whose worth overlaps: before and after.

        What keeps devices from computing is compared if it is known of both.
        """
        rows = [self.before.rows, self.after.rows]
        if not (self.before.factors_ns and self.after.factors_ns):
            rows = [of_job.filter(pl.col("category") != FACTOR) for of_job in rows]
        found = [of_job.with_columns(category=pl.lit(CAUSE)).select(rows[0].columns) for of_job in self._both_causes]
        return pl.concat([rows[0], found[0]]), pl.concat([rows[1], found[1]])

    @cached_property
    def _both_causes(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The causes of both jobs that are told of one of them, under the same names."""
        before, after = ((side.causes, side.small_causes) for side in (self.before, self.after))
        return same_causes.joined(before, after, other_stacks=self._is_of_one_only("stack_count"))

    def _is_of_one_only(self, column: str) -> bool:
        """Whether something was recorded of one of the jobs only."""
        return self.before.tells(column) != self.after.tells(column)

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

    @cached_property
    def noise_ns(self) -> float | None:
        """By how much the times may differ by chance: twice the standard error that the spread of steps leaves.

        The spread is that of equal jobs: the median deviation of the steps of both from the median of their own job,
        which single slow steps do not change. If some steps became slow and others did not, that is no chance: it is
        no more than the spread of the faster job. Few steps tell less of it. None where one of the jobs has fewer than
        three steps.
        """
        lengths = self.before.lengths, self.after.lengths
        counts = [of_job.len() for of_job in lengths]
        if not self._is_marked or min(counts) < _LEAST_STEPS:
            return None
        apart = pl.concat([(of_job - of_job.median()).abs() for of_job in lengths]).median()
        of_most = _DEVIATION * _float(apart) * sum(counts) / (sum(counts) - _OF_BOTH)
        faster = lengths[self.after_ns < self.before_ns]
        of_faster = _float(faster.std()) * faster.len() / (faster.len() - _OF_ONE)
        return _ERRORS * min(of_most, of_faster) * math.sqrt(sum(1 / count for count in counts))

    @property
    def others_ns(self) -> tuple[float, float] | None:
        """How long a step took before and takes after without the longest of each job; None where that is the only."""
        sides = self.before, self.after
        return (sides[0].others_ns, sides[1].others_ns) if min(side.count for side in sides) > 1 else None

    def exceeds(self, percent: float) -> bool:
        """Whether the step became longer by more than so many percent, and by more than it may by chance.

        So it has to be without the longest step of each job, since what happened once may be chance.

        Raises:
            InputError: the jobs have no marked steps, and their recordings hold different work.
        """
        if self._other_work:
            raise InputError(self._other_work)
        least = max(percent / 100 * self.before_ns, self._chance_ns)
        was, now = self.others_ns or (self.before_ns, self.after_ns)
        return min(self.after_ns - self.before_ns, now - was) > least

    @property
    def told(self) -> str:
        """How long a step takes, and how much longer or shorter than before, as a sentence."""
        if self._other_work:
            return self._other_work
        what = "A step takes" if self._is_marked else "The recording takes"
        now, was = fmt.duration(self.after_ns), fmt.duration(self.before_ns)
        change, noise = self.after_ns - self.before_ns, self.noise_ns
        if abs(change) <= min(self._floor_ns, self._chance_ns):
            return f"{what} {now} on average, as long as before ({was})."
        how = "longer" if change > 0 else "shorter"
        said = (
            f"{what} {now} on average, {fmt.duration(abs(change))} ({fmt.percent(abs(self.ratio))}) {how} than before"
        )
        if abs(change) <= self._chance_ns:
            return f"{said}, which may be chance: steps differ from each other by as much."
        if of_one := self._of_one(change):
            other_was, other_now = map(fmt.duration, self.others_ns or ())
            return f"{said}, {of_one}: the others take {other_now} (before: {other_was})."
        known = f"; by chance it may differ by {fmt.duration(noise)}" if noise else ""
        return f"{said}{known}."

    @property
    def is_alike(self) -> bool:
        """Whether both hold the same work, or steps of it, so that the longer one is slower."""
        return not self._other_work

    @property
    def is_of_several(self) -> bool:
        """Whether one of the jobs has several ranks, whose devices may wait for each other."""
        return max(side.rank_count for side in (self.before, self.after)) > 1

    @cached_property
    def _other_work(self) -> str:
        """That recordings without steps hold different work; empty where they hold as much, or steps are marked."""
        if self._is_marked:
            return ""
        often = kernels.times_as_often(self.before.kernels, self.after.kernels)
        if often is not None and abs(often - 1) <= FLOOR_RATIO:
            return ""
        said = "no kernel ran in both" if often is None else f"the same kernels ran {often:.3g} times as often"
        was, now = fmt.duration(self.before_ns), fmt.duration(self.after_ns)
        return (
            f"The recording takes {now} and the one before took {was}, but {said}, so that this does not tell which "
            "job is faster; mark the steps of both (PyTorch: profiler.step())."
        )

    def _of_one(self, change_ns: float) -> str:
        """That a single step made the mean longer, or shorter; empty where others did."""
        was, now = self.others_ns or (self.before_ns, self.after_ns)
        of_others_ns = now - was if change_ns > 0 else was - now
        if of_others_ns <= self._chance_ns:
            return "which may be chance, as it is one step"
        return "most of that in one step" if of_others_ns < abs(change_ns) / 2 else ""

    @cached_property
    def verdict(self) -> tuple[str, ...]:
        """How long a step takes, which parts and kernels of it changed, and which causes of lost time came or went."""
        return tuple(fmt.printable(line) for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield self.told
        if not self._other_work:
            yield from self._jobs()
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

    def _jobs(self) -> Iterator[str]:
        """In what the jobs differ, and which steps are compared."""
        shared = kernels.shared_ratio(self.before.kernels, self.after.kernels)
        if shared < _LEAST_SHARED:
            of = f"No more than {fmt.percent(shared)} of computing is" if shared else "No computing is"
            yield f"{of} in kernels that both jobs ran: they are of another model, type or device."
        was, now = self.before.rank_count, self.after.rank_count
        if was != now:
            yield f"Steps are the mean of {fmt.plural(was, 'rank')} before, and of {now} after."
        if self.before.is_first_another or self.after.is_first_another:
            yield (
                "The first step of each job is left out: it takes another time than the others, and the jobs have "
                "different numbers of steps."
            )

    def _parts(self) -> Iterator[str]:
        """Which parts of a step changed, the largest change first."""
        told = self._changed(self.before.parts_ns, self.after.parts_ns)
        if told:
            said = fmt.listed([f"{_how(ns)} {name}" for ns, name in told])
            yield f"{'On average a step' if self._is_marked else 'The recording'} has {said}."

    def _factors(self) -> Iterator[str]:
        """What keeps devices from computing more, or less, than before."""
        if not self.before.factors_ns or not self.after.factors_ns:
            return
        # How long devices compute is told as a part.
        lost = self._changed(self.before.factors_ns[:-1], self.after.factors_ns[:-1])
        if lost:
            words = _OF_SEVERAL if self.is_of_several else _LOST_TO
            said = fmt.listed([f"{_how(ns)} to {words[name]}" for ns, name in lost])
            yield f"{'On average a step' if self._is_marked else 'The recording'} loses {said}."

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
        before, after = self.before.kernels, self.after.kernels
        of_ranks = self.before.computed_by_rank, self.after.computed_by_rank
        if (times := kernels.times_as_long(before, after, of_ranks)) is not None:
            why = "slower devices or with more to do" if times > 1 else "faster devices or with less to do"
            yield f"All kernels take {times:.3g} times as long as before and run as often, as on {why} in each."
            return
        changed = kernels.beside(before, after)
        came, went = after.join(before, on="name", how="anti"), before.join(after, on="name", how="anti")
        if min(of["total_ns"].sum() for of in (came, went)) > self._floor_ns:
            # Nothing tells which takes the place of which, but together they are what changed.
            changed = changed.filter((pl.col("was") > 0) & (pl.col("became") > 0))
            yield self._replaced(came, went)
        changed = kernels.told_apart(changed, (self.before.operations, self.after.operations), self._floor_ns)
        for row in changed.head(_MOST_KERNELS).iter_rows(named=True):
            often = _often(row["run_count"], row["run_count_after"])
            kernel = _kernel(row["name"], of_hosts=row["of_hosts"])
            yield f"{self._turned(row['was'], row['became'])}: {kernel}{often}."
        if (more := changed.height - _MOST_KERNELS) > 0:
            yield f"And {fmt.plural(more, 'more kernel')} changed."

    def _replaced(self, came: pl.DataFrame, went: pl.DataFrame) -> str:
        """How long kernels take that only one of the jobs has."""
        each = " a step" if self._is_marked else ""
        now, was = (fmt.duration(float(of["total_ns"].sum())) for of in (came, went))
        longest = (of.sort("total_ns", "name").row(-1, named=True) for of in (came, went))
        new, old = (_kernel(row["name"], of_hosts=row["of_hosts"]) for row in longest)
        return (
            f"New kernels take {now}{each}, the longest {new}, where some that are gone took {was}, the longest {old}."
        )

    def _causes(self) -> Iterator[str]:
        """Which causes came, went or changed, the largest change first."""
        ordered = self._joined(*self._both_causes)
        for row in ordered.head(_MOST_CAUSES).iter_rows(named=True):
            message = row["message_after"] or row["message"]
            yield f"{self._turned(row['was'], row['became'])}: {message[:1].upper()}{message[1:].rstrip('.')}."
        if (more := ordered.height - _MOST_CAUSES) > 0:
            yield f"And {fmt.plural(more, 'more cause')} changed."
        lacking = [what for column, what in _TOLD_BY.items() if self._is_of_one_only(column)]
        if lacking and not ordered.is_empty():
            yield (
                f"Only one of the jobs was recorded with {fmt.listed(lacking)}: causes that these tell may be in the "
                "other, too, or have other names there."
            )

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


def _kernel(name: str | None, *, of_hosts: bool) -> str:
    return f"{'operator' if of_hosts else 'kernel'} {fmt.middle(name or '', _LONGEST_NAME)}"


def _float(value: Any) -> float:
    return float(value or 0)


def _how(ns: float) -> str:
    return f"{fmt.duration(abs(ns))} {'more' if ns > 0 else 'less'}"


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
