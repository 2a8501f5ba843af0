"""How an analysis declares itself: once, next to the code that computes it."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from io import BytesIO
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeVar,
    overload,
    runtime_checkable,
)

import polars as pl

from holotrace.core.charts import Chart, Ranking, Tree
from holotrace.core.plans import constant, without
from holotrace.core.schema import Column, Table, conform, empty
from holotrace.core.tables import RANK
from holotrace.core.trace import JobTrace, RankTrace

if TYPE_CHECKING:
    # What a job's methods return; a type only, as analyses know nothing of how they are shown.
    from holotrace.present.notebook import Answer

P = ParamSpec("P")
T = TypeVar("T")
# So many are no small part of a rank.
_MANY_ROWS = 100_000
# The analysis whose findings say why; those of the others say how it looks.
CAUSES = "causes"
Severity = Literal["info", "warning", "critical"]


_SEVERITIES = ("critical", "warning", "info")


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, what it costs, and whom it concerns."""

    severity: Severity
    """"info", "warning" or "critical"."""
    message: str
    """What is wrong, in a sentence. A rule writes a template, ``{ratio:percent}`` for a value; see present.wording."""
    ranks: tuple[int, ...] = ()
    """Ranks it was seen on; empty when it concerns the whole job."""
    cost_ns: int | None = None
    """Wall time of the job over the recording that would be saved at most; null where no number can be given."""
    rule: str = ""
    """The rule that found it, in kebab case; filled in by Analysis.findings."""
    analysis: str = ""
    """The analysis whose table it read; filled in by Analysis.findings."""
    values: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """What the message says, as data: numbers, names and lists of them."""
    step_cost_ns: int | None = None
    """The same as cost_ns for one training step; null without steps. A rule gives either of them."""
    within: tuple[str, ...] = ()
    """Parts of the time breakdown that the cost can be no larger than, all together; empty where it may be any time."""
    template: str = ""
    """The message before its values were put in; filled in with them."""
    what_to_do: str = ""
    """What to change; empty where the rule's documentation says it."""
    explains: tuple[str, ...] = ()
    """Rules whose findings are how this one looks, and are left out."""


def by_cost(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Causes, then other findings: most expensive first, those without a number after them, most severe first."""
    return tuple(
        sorted(
            findings,
            key=lambda f: (f.analysis != CAUSES, -(f.cost_ns or 0), _SEVERITIES.index(f.severity), f.rule, f.ranks),
        )
    )


Rule = Callable[[pl.DataFrame], Iterable[Finding]]


@dataclass(frozen=True)
class Analysis(ABC, Generic[P]):
    """A question to a job: what each rank contributes to the answer, and all a reader needs to know about it."""

    source: Callable[Concatenate[Any, P], pl.DataFrame]
    """The declared function gives the analysis its name, docstring and options. Any: what it takes depends on the
    kind."""

    columns: tuple[Column, ...]
    """Columns of the answer, in order."""

    reads: tuple[Table, ...]
    """Tables, and their columns, that it needs of each rank."""

    chart: Chart | None
    """How the report draws the answer."""

    needs: tuple[Table, ...] = ()
    """Of a rank in which all of these are empty, or whose format has none of them, there is nothing to say."""

    named_by: tuple[str, ...] = ()
    """Columns that tell what a row is of, besides its rank, where the chart's names do not; see ``names``."""

    when_empty: str = ""
    """What it means that the answer has no rows; empty where that is not known."""

    rules: list[Rule] = field(default_factory=list)
    """What looks for problems in the answer; ``rule`` adds one."""

    def __post_init__(self) -> None:
        undeclared = (self.chart.columns if self.chart else frozenset()) - {c.name for c in self.columns}
        if undeclared:
            raise ValueError(f"{self.name}: the chart draws undeclared columns {sorted(undeclared)}")
        if unnamed := set(self.named_by) - {c.name for c in self.columns}:
            raise ValueError(f"{self.name}: rows are named by undeclared columns {sorted(unnamed)}")

    @property
    def nothing(self) -> pl.DataFrame:
        """The answer where there is nothing to say; a frame of its own for each thread that asks."""
        return self._nothing.clone()

    @cached_property
    def _nothing(self) -> pl.DataFrame:
        return empty(self.columns)

    @property
    def name(self) -> str:
        """The name of its function: of the method, the command and the section of the report."""
        return self.source.__name__

    @property
    def summary(self) -> str:
        """First line of the docstring: what one gets."""
        return (inspect.getdoc(self.source) or "").split("\n", 1)[0]

    @property
    def names(self) -> tuple[str, ...]:
        """Columns that tell what a row is of, besides its rank: the same ones on another rank are the same thing."""
        if self.named_by or not isinstance(self.chart, (Ranking, Tree)):
            return self.named_by
        if isinstance(self.chart, Tree):
            return (self.chart.x,)
        return (self.chart.x, *((self.chart.color,) if self.chart.color else ()))

    @property
    def documentation(self) -> str:
        """The docstring, and what each column of the answer is: what ``help`` shows of the method."""
        columns = (f"    {column.name} ({column.unit.name.lower()}): {column.meaning}." for column in self.columns)
        return "\n".join([inspect.getdoc(self.source) or "", "", "Returns:", *columns])

    @property
    def parameters(self) -> tuple[inspect.Parameter, ...]:
        """Keyword options, in order."""
        return tuple(inspect.signature(self.source, eval_str=True).parameters.values())[1:]

    @property
    @abstractmethod
    def part_columns(self) -> tuple[Column, ...]:
        """Columns of what one rank contributes."""

    @property
    def part_name(self) -> str:
        """What a rank contributes is called; analyses with the same name share it."""
        return self.name

    @property
    def shares(self) -> Hashable:
        """Analyses that are equal in this share what is gathered."""
        return self.name

    def part(self, rank: RankTrace, options: Mapping[str, Any]) -> pl.DataFrame:
        """What one ``rank`` contributes with these ``options``; made where the rank is read, and small."""
        return _apart(self.of_rank(rank, options))

    @abstractmethod
    def of_rank(self, rank: RankTrace, options: Mapping[str, Any]) -> pl.DataFrame:
        """The same with these ``options``, for who lets go of it before the ``rank``: it may hold all texts of that."""

    def forget(self, rank: RankTrace) -> None:
        """Let go of what the ``rank`` keeps of its part."""

    @abstractmethod
    def gathered(self, parts: Iterable[pl.DataFrame], asked: Sequence[Analysis[Any]] = ()) -> Any:
        """What the ``parts`` of all ranks are made into, once for all analyses that share them: those ``asked``."""

    @abstractmethod
    def answer(self, gathered: Any, options: Mapping[str, Any]) -> pl.DataFrame:
        """The answer with these ``options``, from what was ``gathered``: the declared columns."""

    def combine(self, parts: Iterable[pl.DataFrame], options: Mapping[str, Any]) -> pl.DataFrame:
        """The answer with these ``options``, from the ``parts`` of all ranks: the declared columns."""
        return self.answer(self.gathered(parts), options)

    def __call__(self, job: JobTrace, /, *args: P.args, **kwargs: P.kwargs) -> pl.DataFrame:
        # Before ranks are read for it.
        try:
            options = inspect.Signature(self.parameters).bind(*args, **kwargs).arguments
        except TypeError as error:
            names = ", ".join(parameter.name for parameter in self.parameters) or "none"
            raise TypeError(f"{self.name}() {error}; its options: {names}") from None
        return job.ask(self, options)

    @overload
    def __get__(self, job: None, owner: type) -> Analysis[P]: ...
    @overload
    def __get__(self, job: JobTrace, owner: type) -> Callable[P, Answer]: ...
    def __get__(self, job: JobTrace | None, owner: type) -> Any:
        if job is None:
            return self

        def bound(*args: P.args, **kwargs: P.kwargs) -> pl.DataFrame:
            return self(job, *args, **kwargs)

        bound.__name__ = self.name
        bound.__doc__ = self.documentation
        signature = inspect.Signature(list(self.parameters), return_annotation=pl.DataFrame)
        bound.__signature__ = signature  # type: ignore[attr-defined]
        return bound

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        # Its function's name now means this object, so a worker process must look it up by name.
        return _load, (self.source.__module__, self.name)

    def rule(self, rule: Rule) -> Rule:
        """Attach a rule that reads this analysis' table and names what is wrong."""
        self.rules.append(rule)
        return rule

    def findings(self, table: pl.DataFrame) -> list[Finding]:
        """What the rules find in this analysis' table; nothing where it is empty."""
        if table.is_empty():
            return []
        return [
            replace(finding, rule=finding.rule or rule.__name__.replace("_", "-"), analysis=self.name)
            for rule in self.rules
            for finding in rule(table)
        ]


@dataclass(frozen=True, kw_only=True)
class PerRank(Analysis[P]):
    """Looks at one rank at a time: a function from its tables to rows, which are stacked."""

    pooled: Callable[[pl.DataFrame], pl.DataFrame] | None = None
    """What makes one row of those of all ranks, where the option ``over_ranks`` asks for it."""

    @property
    def part_columns(self) -> tuple[Column, ...]:
        return self.columns

    def of_rank(self, rank: RankTrace, options: Mapping[str, Any]) -> pl.DataFrame:
        if self.needs and all(rank.held[table.name].is_empty() for table in self.needs):
            return self.nothing
        rows = self.source(rank, **options)  # type: ignore[call-arg]  # options were checked by their signature
        return _rows_of(rank, rows, self.columns, self.name)

    def gathered(self, parts: Iterable[pl.DataFrame], asked: Sequence[Analysis[Any]] = ()) -> Any:
        return pl.concat([self.nothing, *parts])

    def answer(self, gathered: Any, options: Mapping[str, Any]) -> pl.DataFrame:
        rows: pl.DataFrame = gathered
        if self.pooled is None or not options.get("over_ranks"):
            return rows
        return conform(self.pooled(rows), self.columns, self.name)

    def findings(self, table: pl.DataFrame) -> list[Finding]:
        # Rules compare ranks, and rows of all ranks together have none.
        return [] if self.pooled and table["rank"].null_count() else super().findings(table)


def _as_they_are(rows: pl.DataFrame) -> pl.DataFrame:
    return rows


@dataclass(frozen=True)
class Contribution:
    """Rows that one rank contributes, the same for all analyses that compare ranks by them."""

    make: Callable[[RankTrace], pl.DataFrame]
    columns: tuple[Column, ...]
    # Any: whatever those analyses are functions of.
    joined: Callable[[pl.DataFrame], Any] = _as_they_are

    def __call__(self, rank: RankTrace) -> pl.DataFrame:
        return _rows_of(rank, rank.cached(self.make), self.columns, self.make.__name__)

    @property
    def name(self) -> str | None:
        """The full name of the function that makes it; null where others may have the same."""
        name = f"{getattr(self.make, '__module__', '<')}.{getattr(self.make, '__qualname__', '<')}"
        return None if "<" in name else name


@runtime_checkable
class InPieces(Protocol):
    """What is joined of all ranks and looked at piece by piece, as all of it would not fit into memory."""

    def expect(self, wanted: Sequence[Callable[[Any], Any]]) -> None:
        """Whenever the pieces are gone through first, all that is ``wanted`` of each is made."""


@dataclass(frozen=True, kw_only=True)
class PerJob(Analysis[P]):
    """Compares ranks: a function from what all ranks contribute to a table."""

    contribution: Contribution

    each: Callable[[Any], Any] | None = None
    """What it makes of each piece of what was joined, where that is looked at in pieces."""

    @property
    def part_columns(self) -> tuple[Column, ...]:
        return self.contribution.columns

    @property
    def part_name(self) -> str:
        return self.contribution.name or self.name

    @property
    def shares(self) -> Hashable:
        return self.contribution

    def of_rank(self, rank: RankTrace, options: Mapping[str, Any]) -> pl.DataFrame:
        return rank.cached(self.contribution)

    def forget(self, rank: RankTrace) -> None:
        rank.forget(self.contribution)
        rank.forget(self.contribution.make)

    def gathered(self, parts: Iterable[pl.DataFrame], asked: Sequence[Analysis[Any]] = ()) -> Any:
        joined = self.contribution.joined(pl.concat([empty(self.contribution.columns), *parts]))
        if isinstance(joined, InPieces):
            joined.expect([analysis.each for analysis in asked if isinstance(analysis, PerJob) and analysis.each])
        return joined

    def answer(self, gathered: Any, options: Mapping[str, Any]) -> pl.DataFrame:
        table = self.source(gathered, **options)  # type: ignore[call-arg]  # options were checked by their signature
        return conform(table, self.columns, self.name)


def _rows_of(rank: RankTrace, rows: pl.DataFrame, columns: tuple[Column, ...], owner: str) -> pl.DataFrame:
    of_rank = constant(RANK.name, rank.rank, rows.height, RANK.unit.dtype)
    others = without(rows, RANK.name)
    return conform(others.hstack([of_rank]), columns, owner)


def _apart(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows without anything else that they keep alive: few texts may hold all texts of the rank they are from."""
    if rows.height > _MANY_ROWS or pl.String not in rows.schema.values():
        return rows
    return pl.DataFrame.deserialize(BytesIO(rows.serialize()))


def _load(module: str, name: str) -> Analysis[Any]:
    analysis: Analysis[Any] = getattr(import_module(module), name)
    return analysis


def per_rank(
    *,
    columns: tuple[Column, ...],
    reads: tuple[Table, ...],
    chart: Chart | None = None,
    needs: tuple[Table, ...] = (),
    named_by: tuple[str, ...] = (),
    pooled: Callable[[pl.DataFrame], pl.DataFrame] | None = None,
) -> Callable[[Callable[Concatenate[RankTrace, P], pl.DataFrame]], Analysis[P]]:
    """Declare an analysis that looks at one rank at a time; rows of all ranks are stacked.

    Args:
        columns: Columns of the answer; the rank is put in front.
        reads: Tables and columns that it needs.
        chart: What to draw of the answer.
        needs: Tables it is about; it is not asked about a rank in which all of them are empty.
        named_by: Columns that tell what a row is of, where the chart's names do not.
        pooled: Makes one row of those of all ranks; the function then has the option ``over_ranks``.
    """

    def declare(source: Callable[Concatenate[RankTrace, P], pl.DataFrame]) -> Analysis[P]:
        return PerRank(source, (RANK, *columns), reads, chart, needs, named_by, pooled=pooled)

    return declare


def per_job(
    *,
    part: Callable[[RankTrace], pl.DataFrame],
    part_columns: tuple[Column, ...],
    columns: tuple[Column, ...],
    reads: tuple[Table, ...],
    chart: Chart | None = None,
    joined: Callable[[pl.DataFrame], T] = _as_they_are,  # type: ignore[assignment]  # T is a frame then
    each: Callable[[Any], Any] | None = None,
    named_by: tuple[str, ...] = (),
    when_empty: str = "",
) -> Callable[[Callable[Concatenate[T, P], pl.DataFrame]], Analysis[P]]:
    """Declare an analysis that compares ranks: it gets the rows of ``part`` of all ranks and answers for the job.

    Args:
        part: What one rank contributes, from the tables it ``reads``; a small table.
        part_columns: Columns of that table; the rank is put in front.
        columns: Columns of the answer; the rank its rows speak of is put in front.
        reads: Tables and columns that ``part`` needs.
        chart: What to draw of the answer.
        joined: What the rows are made into, once for all analyses with this ``part``; the rows themselves by default.
        each: What the function makes of each piece of that, where it is ``InPieces``: made at once for all analyses.
        named_by: Columns that tell what a row is of, where the chart's names do not.
        when_empty: What it means that there are no rows.
    """
    contribution = Contribution(part, (RANK, *part_columns), joined)

    def declare(source: Callable[Concatenate[T, P], pl.DataFrame]) -> Analysis[P]:
        about = (reads, chart, (), named_by, when_empty)
        return PerJob(source, (RANK, *columns), *about, contribution=contribution, each=each)

    return declare
