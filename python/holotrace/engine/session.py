"""A job that is asked several things: who reads its ranks, and what is known from earlier questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import polars as pl

from holotrace.analyses import ALL
from holotrace.core.analysis import Analysis
from holotrace.core.problems import spelled
from holotrace.core.schema import Table
from holotrace.core.tables import RANK_INFO
from holotrace.core.trace import Question, RankTrace, T
from holotrace.discovery import RankSource, Survey
from holotrace.engine.answers import QuestionTask
from holotrace.engine.map_ranks import Load, Progress, RankTask, SourceTask, read_ranks
from holotrace.engine.program import running_program
from holotrace.engine.questions import JobResult, Questions
from holotrace.engine.table_cache import CachedRankTask, TableCache
from holotrace.errors import InputError
from holotrace.formats.declaration import Program
from holotrace.loading.rank import load


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
            raise InputError(f"rank {spelled(absent)} is not there; there are ranks {spelled(self.ranks)}")
        sources = tuple(source for source in self.found.sources if source.rank in chosen)
        return replace(self, found=replace(self.found, sources=sources), known={})

    def close(self) -> None:
        if self.cache is not None:
            self.cache.close()

    def map(self, task: Callable[[RankTrace], T], reads: Sequence[Table]) -> list[T]:
        """What ``task`` returns for each rank that can be read, in their order."""
        return read_ranks(self._task(task, reads), self.found.sources, executor=self.executor)[0]

    def read(
        self, task: Callable[[RankTrace], T], reads: Sequence[Table], sources: Sequence[RankSource]
    ) -> tuple[list[T], list[dict[str, Any]]]:
        """The same for the ranks in these files, and a problem for each that cannot be read; nothing is kept."""
        return read_ranks(RankTask(task, tuple(reads), self.load), sources, executor=self.executor)

    def ask(self, question: Question, options: Mapping[str, Any]) -> pl.DataFrame:
        """The answer of all ranks to ``question``; that to default options is kept."""
        if not options and question.name in self.known:
            return self.known[question.name]
        found = question.combine(self.map(partial(question.part, options=options), question.reads), options)
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
        tables: Mapping[str, pl.DataFrame] = self.known
        if missing or RANK_INFO.name not in tables:
            tables = {**tables, **self._read(Questions(missing), progress)}
        return JobResult.of(self.found, [analysis for analysis, _ in asked], tables)

    def _task(self, task: Callable[[RankTrace], T], reads: Sequence[Table]) -> SourceTask[T]:
        of_rank = RankTask(task, tuple(reads), self.load)
        shares_memory = self.executor is None or isinstance(self.executor, ThreadPoolExecutor)
        return of_rank if self.cache is None or not shares_memory else CachedRankTask(self.cache, of_rank)

    def _read(self, questions: Questions, progress: Progress | None) -> dict[str, pl.DataFrame]:
        task = QuestionTask(questions, load=self.load, program=self.program)
        answers, unread = read_ranks(task, self.found.sources, executor=self.executor, progress=progress)
        tables = questions.combined(answers, [*self.found.problems, *unread])
        chosen = {analysis.name for analysis, options in questions.asked if options}
        self.known.update({name: table for name, table in tables.items() if name not in chosen})
        return tables
