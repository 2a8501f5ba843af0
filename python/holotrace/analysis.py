"""How an analysis declares itself: once, next to the code that computes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Concatenate, Generic, Literal, ParamSpec, overload

import polars as pl

from holotrace.charts import Chart
from holotrace.schema import Column, Table, conform, empty
from holotrace.tables import RANK
from holotrace.trace import JobTrace, RankTrace

P = ParamSpec("P")
Severity = Literal["info", "warning", "critical"]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, what it costs, and whom it concerns."""

    severity: Severity
    message: str
    # Ranks it was seen on; empty when it concerns the whole job.
    ranks: tuple[int, ...] = ()
    # Wall time that would be saved at most; null where no number can be given.
    cost_ns: int | None = None
    # The rule that found it, in kebab case; filled in by Analysis.findings.
    rule: str = ""
    analysis: str = ""


Rule = Callable[[pl.DataFrame], Iterable[Finding]]


@dataclass(frozen=True)
class Analysis(Generic[P]):
    """A question to a job: a function from one rank's tables to rows, and all a reader needs to know about them."""

    source: Callable[Concatenate[RankTrace, P], pl.DataFrame]
    columns: tuple[Column, ...]
    reads: tuple[Table, ...]
    chart: Chart | None
    rules: list[Rule] = field(default_factory=list)

    def __post_init__(self) -> None:
        undeclared = (self.chart.columns if self.chart else frozenset()) - {c.name for c in self.columns}
        if undeclared:
            raise ValueError(f"{self.name}: the chart draws undeclared columns {sorted(undeclared)}")

    @property
    def name(self) -> str:
        return self.source.__name__

    @property
    def summary(self) -> str:
        """First line of the docstring: what one gets."""
        return (inspect.getdoc(self.source) or "").split("\n", 1)[0]

    @property
    def parameters(self) -> tuple[inspect.Parameter, ...]:
        """Keyword options, in order."""
        return tuple(inspect.signature(self.source, eval_str=True).parameters.values())[1:]

    def part(self, rank: RankTrace, options: Mapping[str, Any]) -> pl.DataFrame:
        """This analysis of one rank: the declared columns."""
        rows = self.source(rank, **options)  # type: ignore[call-arg]  # options were checked by their signature
        return conform(rows.with_columns(rank=pl.lit(rank.rank)), self.columns, self.name)

    def combine(self, parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
        """Rows of all ranks as one table."""
        return pl.concat([empty(self.columns), *parts])

    def __call__(self, job: JobTrace, /, *args: P.args, **kwargs: P.kwargs) -> pl.DataFrame:
        return job.ask(self, kwargs)

    @overload
    def __get__(self, job: None, owner: type) -> Analysis[P]: ...
    @overload
    def __get__(self, job: JobTrace, owner: type) -> Callable[P, pl.DataFrame]: ...
    def __get__(self, job: JobTrace | None, owner: type) -> Any:
        if job is None:
            return self

        def bound(*args: P.args, **kwargs: P.kwargs) -> pl.DataFrame:
            return self(job, *args, **kwargs)

        bound.__name__ = self.name
        bound.__doc__ = self.source.__doc__
        bound.__signature__ = inspect.Signature(list(self.parameters))  # type: ignore[attr-defined]
        return bound

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        # Its function's name now means this object, so a worker process must look it up by name.
        return _load, (self.source.__module__, self.name)

    def rule(self, rule: Rule) -> Rule:
        """Attach a rule that reads this analysis' table and names what is wrong."""
        self.rules.append(rule)
        return rule

    def findings(self, table: pl.DataFrame) -> list[Finding]:
        """What the rules find in this analysis' table."""
        return [
            replace(finding, rule=rule.__name__.replace("_", "-"), analysis=self.name)
            for rule in self.rules
            for finding in rule(table)
        ]


def _load(module: str, name: str) -> Analysis[Any]:
    analysis: Analysis[Any] = getattr(import_module(module), name)
    return analysis


def per_rank(
    *, columns: tuple[Column, ...], reads: tuple[Table, ...], chart: Chart | None = None
) -> Callable[[Callable[Concatenate[RankTrace, P], pl.DataFrame]], Analysis[P]]:
    """Declare an analysis that looks at one rank at a time; rows of all ranks are stacked."""

    def declare(source: Callable[Concatenate[RankTrace, P], pl.DataFrame]) -> Analysis[P]:
        return Analysis(source, (RANK, *columns), reads, chart)

    return declare
