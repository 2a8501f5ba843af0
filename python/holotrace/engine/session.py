"""A job that is asked several things: who reads its ranks, and what is known from earlier questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic

import polars as pl

from holotrace.analyses import ALL
from holotrace.core.analysis import Analysis, PerJob
from holotrace.core.problems import MISSING, spelled
from holotrace.core.schema import Table
from holotrace.core.spread import cpu_count
from holotrace.core.tables import PROBLEMS, RANK_INFO
from holotrace.core.trace import Question, RankTrace, T
from holotrace.discovery import RankSource, Survey
from holotrace.engine.answers import QuestionTask
from holotrace.engine.comparable import Comparison, Recorded, comparison
from holotrace.engine.map_ranks import Load, Progress, RankTask, read_ranks
from holotrace.engine.noticed import Noticed
from holotrace.engine.program import running_program
from holotrace.engine.questions import COMPARED_INFO, Answers, JobResult, Questions
from holotrace.engine.table_cache import CachedRankTask, TableCache
from holotrace.errors import InputError
from holotrace.formats.declaration import Program
from holotrace.loading.of_steps import OfSteps
from holotrace.loading.rank import load

# What is told of a job besides the answers of analyses.
_ABOUT = {RANK_INFO.name, COMPARED_INFO, PROBLEMS.name}


@dataclass(frozen=True)
class Session:
    """What a job asks its ranks through.

    Args:
        found: The ranks.
        executor: Where ranks are read; threads of this process by default.
        cache: Tables kept for the next question; only for workers that share this process's memory.
        load: Reads a rank.
        program: Tells this program from another, for answers that a dataset keeps.
    """

    found: Survey
    executor: Executor | None = None
    cache: TableCache | None = None
    load: Load = load
    program: Program = running_program
    # Results of default options; small tables, while ranks are let go.
    known: dict[str, pl.DataFrame] = field(default_factory=dict)
    # Shared with the same job of fewer ranks, so that nobody is told twice.
    noticed: Noticed = field(default_factory=Noticed)

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(source.rank for source in self.found.sources)

    @property
    def sources(self) -> tuple[RankSource, ...]:
        return tuple(source for source in self.found.sources if isinstance(source, RankSource))

    def only(self, ranks: Iterable[int]) -> Session:
        """The same for some of its ranks, of which nothing is known yet."""
        chosen = set(ranks)
        if absent := chosen - set(self.ranks):
            raise InputError(f"rank {spelled(absent)} does not exist; the job has ranks {spelled(self.ranks)}")
        sources = tuple(source for source in self.found.sources if source.rank in chosen)
        problems = tuple(row for row in self.found.problems if row["rank"] is None or row["rank"] in chosen)
        return replace(self, found=replace(self.found, sources=sources, problems=problems), known={})

    def close(self) -> None:
        if self.cache is not None:
            self.cache.close()

    def problems(self) -> pl.DataFrame:
        """What could not be read as it was written or is missing, as far as questions came upon it."""
        ranks = {*self.ranks, *(row["rank"] for row in self.found.problems)}
        return self.noticed.problems.filter(pl.col("rank").is_null() | pl.col("rank").is_in(ranks))

    def map(self, task: Callable[[RankTrace], T], reads: Sequence[Table]) -> list[T]:
        """What ``task`` returns for each rank that can be read, in their order."""
        return [each.result for each in self._seen(task, reads)]

    def read(self, task: Callable[[RankTrace], T], reads: Sequence[Table], sources: Sequence[RankSource]) -> list[T]:
        """The same for the ranks in these files, of which nothing is kept."""
        of_rank = RankTask(_Noticing(task), (*reads, PROBLEMS), self.load)
        return [each.result for each in self._noticed(*read_ranks(of_rank, sources, executor=self.executor))]

    def compared(self, task: Callable[[RankTrace], T], reads: Sequence[Table]) -> list[T]:
        """The same for ranks that can be compared, each looked at in the steps that all of them have."""
        results, ranks = self._compared(task, reads)
        self._notice(ranks.problems)
        return [result for rank, result in results.items() if rank not in ranks.left_out]

    def ask(self, question: Question, options: Mapping[str, Any], progress: Progress | None = None) -> pl.DataFrame:
        """The answer of all ranks to ``question``; that to default options is kept."""
        if not options and question.name in self.known:
            return self.known[question.name]
        task = partial(question.part, options=options)
        parts, ranks = self._compared(task, question.reads, progress)
        compares = isinstance(question, PerJob)
        self._notice(ranks.problems if compares else ranks.of_steps)
        of = (part for rank, part in parts.items() if rank not in ranks.left_out or not compares)
        found = question.combine(of, options)
        if not options:
            self.known[question.name] = found
        return found

    def run(
        self,
        analyses: Iterable[Analysis[Any]] = ALL,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        progress: Progress | None = None,
    ) -> JobResult:
        """The tables of several analyses and all about the job, from reading each rank once."""
        asked = tuple((analysis, (options or {}).get(analysis.name, {})) for analysis in analyses)
        missing = tuple((analysis, chosen) for analysis, chosen in asked if chosen or analysis.name not in self.known)
        # Who asks for everything, or only for what is there, is told all problems.
        every = not missing or {analysis.name for analysis in ALL} <= {analysis.name for analysis, _ in asked}
        tables: Mapping[str, pl.DataFrame] = self.known
        if missing or not tables.keys() >= _ABOUT:
            complete = {name: self.known[name] for name in _ABOUT if name in self.known}
            tables = {**tables, **self._answered(Questions(missing, every), progress), **complete}
        self._notice(tables[PROBLEMS.name].iter_rows(named=True), is_told=not asked)
        return JobResult.of(self.found, [analysis for analysis, _ in asked], tables)

    def _compared(
        self, task: Callable[[RankTrace], T], reads: Sequence[Table], progress: Progress | None = None
    ) -> tuple[dict[int, T], Comparison]:
        """What ``task`` returns for each rank in the steps that are compared, and how they are."""
        seen = self._seen(_Measured(task), (*reads, RANK_INFO), progress)
        found = comparison([each.result[0] for each in seen])
        if found.steps is None:
            return {each.rank: each.result[1] for each in seen}, found
        of_steps = OfSteps(task, reads, *found.steps, frozenset(found.left_out), found.begun)
        return {each.rank: each.result for each in self._seen(of_steps, of_steps.reads)}, found

    def _seen(
        self, task: Callable[[RankTrace], T], reads: Sequence[Table], progress: Progress | None = None
    ) -> list[_Seen[T]]:
        of_rank = RankTask(_Noticing(task), (*reads, PROBLEMS), self.load)
        shares_memory = self.executor is None or isinstance(self.executor, ThreadPoolExecutor)
        cached = CachedRankTask(self.cache, of_rank) if self.cache is not None and shares_memory else None
        found = read_ranks(cached or of_rank, self.found.sources, executor=self.executor, progress=progress)
        return self._noticed(*found)

    def _answered(self, questions: Questions, progress: Progress | None) -> dict[str, pl.DataFrame]:
        # Where there are fewer ranks than CPUs, each rank gets several.
        workers = 1 if self.executor else max(1, cpu_count() // max(1, len(self.found.sources)))
        task = QuestionTask(replace(questions, workers=workers), load=self.load, program=self.program)
        answers, unread = read_ranks(task, self.found.sources, executor=self.executor, progress=progress)
        found = comparison([answer.recorded for answer in answers])
        of_steps, unread_again = self._of_steps(questions, found)
        doubts = [*self.found.problems, *unread, *unread_again]
        tables = questions.combined(answers, doubts, found, of_steps)
        # What was asked with options is another answer, and what is told of a part of the file is not all.
        passing = {analysis.name for analysis, options in questions.asked if options}
        if not questions.every_problem:
            passing |= _ABOUT
        self.known.update({name: table for name, table in tables.items() if name not in passing})
        return tables

    def _of_steps(self, questions: Questions, found: Comparison) -> tuple[list[Answers], list[dict[str, Any]]]:
        """Answers on the steps that are compared, and ranks lost meanwhile; none where they are all there are."""
        if found.steps is None:
            return [], []
        task = OfSteps(questions, questions.reads, *found.steps, frozenset(found.left_out), found.begun)
        return read_ranks(RankTask(task, task.reads, self.load), self.found.sources, executor=self.executor)

    def _noticed(self, seen: list[_Seen[T]], unread: list[dict[str, Any]]) -> list[_Seen[T]]:
        rows = (row for each in seen for row in each.problems.iter_rows(named=True))
        self._notice([*self.found.problems, *unread, *rows])
        return seen

    def _notice(self, problems: Iterable[Mapping[str, Any]], *, is_told: bool = False) -> None:
        # Who asks for one rank knows that others are not among the answers.
        is_lone = len(self.found.sources) == 1
        self.noticed.add((row for row in problems if not is_lone or row["problem"] != MISSING), is_told=is_told)


@dataclass(frozen=True)
class _Seen(Generic[T]):
    """What a task returned for a rank, and what was noticed in reading for it."""

    rank: int
    result: T
    problems: pl.DataFrame


@dataclass(frozen=True)
class _Noticing(Generic[T]):
    """Runs a task on a rank, and says what was noticed."""

    task: Callable[[RankTrace], T]

    def __call__(self, rank: RankTrace) -> _Seen[T]:
        return _Seen(rank.rank, self.task(rank), rank[PROBLEMS])


@dataclass(frozen=True)
class _Measured(Generic[T]):
    """Runs a task on a rank, and says how much of the rank there is."""

    task: Callable[[RankTrace], T]

    def __call__(self, rank: RankTrace) -> tuple[Recorded, T]:
        return Recorded.of(rank[RANK_INFO], rank[PROBLEMS]), self.task(rank)
