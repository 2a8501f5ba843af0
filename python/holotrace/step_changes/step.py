"""A step of one job: how long it takes, of which parts it consists, what runs in it, and what it loses time to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from holotrace.analyses.causes import causes
from holotrace.analyses.factors import COMPUTING, factors, time_ratios
from holotrace.analyses.time_breakdown import PARTS, time_breakdown
from holotrace.diagnosis.job.floors import FLOOR_RATIO
from holotrace.step_changes import same_causes
from holotrace.step_changes.asked import computed, outer_idle, recorded, small_causes

# Of parts of a step, and of what keeps devices from computing, which add up to it.
STEP, FACTOR = "step", "factor"
_NAMES = {
    "compute_ns": COMPUTING,
    "exposed_comm_ns": "exposed communication",
    "exposed_memory_ns": "exposed copies",
    "idle_ns": "idle time",
}
_SCHEMA = {"name": pl.String, "category": pl.String, "count": pl.Int64, "total_ns": pl.Int64}


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
        times = self._all_times
        return times if self.has_first else times.filter(pl.col("step") > pl.col("step").min())

    @cached_property
    def _all_times(self) -> pl.DataFrame:
        """The same with the first step."""
        spent = self.tables[time_breakdown.name]
        # Work that no step launched belongs to none, but where no steps were marked.
        marked = spent.drop_nulls("step")
        counted = spent if marked.is_empty() else self._between_marks(marked)
        return counted.group_by("step", maintain_order=True).agg(pl.col(PARTS).mean())

    def _between_marks(self, steps: pl.DataFrame) -> pl.DataFrame:
        """The steps, the first of each rank from its mark on, and the last to the end of its own.

        Until its own first work, and after its own last, its device has nothing to do. What a host does at the end of
        a step makes the next one longer: where the first does not count, neither does the end of the last.
        """
        outer = self.tables[outer_idle.name].group_by("rank", "step").agg(pl.col("before_ns", "after_ns").sum())
        known = steps.join(outer, on=["rank", "step"], how="left", maintain_order="left")
        beside = pl.col("before_ns") + (pl.col("after_ns") if self.has_first else 0)
        return known.with_columns(pl.col("idle_ns") + beside.fill_null(0))

    @property
    def rows(self) -> pl.DataFrame:
        """``name``, ``category``, ``count`` of steps and ``total_ns`` in one step, of each part and each factor."""
        parts = [(name, STEP, self.count, round(mean)) for name, mean in self.parts_ns]
        parts += [(name, FACTOR, self.count, round(lost)) for name, lost in self.factors_ns]
        return pl.DataFrame(parts, schema=_SCHEMA, orient="row")

    @property
    def parts_ns(self) -> list[tuple[str, float]]:
        """The name of each part, and how long it is in the mean step."""
        means = self.times.select(pl.col(PARTS).mean().fill_null(0)).row(0, named=True)
        return [(name, float(means[part])) for part, name in _NAMES.items()]

    @property
    def factors_ns(self) -> list[tuple[str, float]]:
        """How much of the mean step keeps devices from computing, and the rest, in which they do; empty if unknown."""
        # They are of all steps.
        is_known = abs(self._mean_of_all_ns - self.mean_ns) <= FLOOR_RATIO * self.mean_ns
        ratios = time_ratios(self.tables[factors.name]) if is_known else {}
        return [(name, ratio * self.mean_ns) for name, ratio in ratios.items()]

    @property
    def count(self) -> int:
        """How many steps there are; a recording without marked steps is one."""
        return max(1, self.times["step"].drop_nulls().len())

    @property
    def is_marked(self) -> bool:
        return self.times["step"].drop_nulls().len() > 0

    @property
    def is_first_another(self) -> bool:
        """Whether the first step, which is left out, would make the mean step longer or shorter than most are."""
        if self.has_first:
            return False
        first = self._all_times.sort("step").select(pl.sum_horizontal(PARTS)).to_series()[0]
        usual = float(self.lengths.median() or 0)  # type: ignore[arg-type]  # a column of numbers
        return bool(abs(first - usual) > FLOOR_RATIO * usual * (self.count + 1))

    @property
    def _mean_of_all_ns(self) -> float:
        """How long the mean step is with the first."""
        return float(self._all_times.select(pl.sum_horizontal(PARTS).mean()).item() or 0)

    @property
    def lengths(self) -> pl.Series:
        return self.times.select(pl.sum_horizontal(PARTS)).to_series()

    @property
    def mean_ns(self) -> float:
        return sum(mean for _, mean in self.parts_ns)

    @property
    def others_ns(self) -> float:
        """How long the mean step is without the longest."""
        return float(self.lengths.sort().head(-1).mean())

    @cached_property
    def kernels(self) -> pl.DataFrame:
        """``name`` of each kernel that computes, how long it runs on the mean device in a step, and how often.

        Columns ``total_ns`` and ``run_count``, and ``of_hosts``: hosts compute, so that it is an operator.
        """
        return self._in_a_step("name")

    @cached_property
    def operations(self) -> pl.DataFrame:
        """The same of each operation of XLA: its ``name`` with its number, ``scope`` and ``module``."""
        found = self._in_a_step("operation", "scope", "module")
        return found.drop_nulls("operation").rename({"operation": "name"})

    def _in_a_step(self, *keys: str) -> pl.DataFrame:
        found = self._computed
        steps = found["rank"].n_unique() * self.count
        sums = found.group_by(keys).agg(pl.col("total_ns", "run_count").sum(), pl.col("of_hosts").any())
        return sums.with_columns(pl.col("total_ns", "run_count") / max(1, steps))

    @property
    def _computed(self) -> pl.DataFrame:
        """What each rank computed in the steps that count, by kernel."""
        later = pl.col("total_ns") - pl.col("first_ns"), pl.col("run_count") - pl.col("first_count")
        return self.tables[computed.name].with_columns(*(() if self.has_first else later))

    @property
    def computed_by_rank(self) -> pl.Series:
        """How long each rank that computes does so in a step, in the order of ranks."""
        sums = self._computed.group_by("rank").agg(pl.col("total_ns").sum() / self.count)
        return sums.filter(pl.col("total_ns") > 0).sort("rank")["total_ns"]

    @cached_property
    def causes(self) -> pl.DataFrame:
        """The causes of lost time that are told: see ``same_causes.named``."""
        return self._named(causes.name)

    @cached_property
    def small_causes(self) -> pl.DataFrame:
        """The same and those that cost too little to be told."""
        return self._named(small_causes.name)

    def _named(self, table: str) -> pl.DataFrame:
        # What came before the steps made none of them longer.
        found = self.tables[table].drop_nulls("cost_per_step_ns")
        if not self.has_first:
            # What is in later steps only is as much in fewer of them.
            first = pl.lit(self._all_times["step"].min(), pl.Int64)
            is_later = (pl.col("steps").list.len() > 0) & ~pl.col("steps").list.contains(first)
            of_later = pl.col("cost_per_step_ns") * (self.count + 1) // self.count
            found = found.filter((pl.col("steps").list.len() != 1) | is_later)
            found = found.with_columns(cost_per_step_ns=pl.when(is_later).then(of_later).otherwise("cost_per_step_ns"))
        if self.rank_count == 1:
            # Another job's only rank may have another number.
            found = found.with_columns(ranks=pl.lit([], pl.List(pl.Int64)))
        return same_causes.named(found)

    def tells(self, column: str) -> bool:
        """Whether a ``recorded`` count of it is not 0."""
        return bool(self.tables[recorded.name][column].sum())

    @property
    def rank_count(self) -> int:
        """How many ranks count."""
        return self.tables[time_breakdown.name]["rank"].n_unique()
