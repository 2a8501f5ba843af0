"""The façade: a job one can ask questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import polars as pl

from holotrace.analyses import ALL, Analyses
from holotrace.core.analysis import Analysis
from holotrace.core.schema import Table
from holotrace.core.tables import RANK_INFO
from holotrace.core.trace import Question, RankTrace, T
from holotrace.discovery import OnDuplicate, Paths, RankSource, Survey, spelled, survey
from holotrace.engine.answers import Answering
from holotrace.engine.map_ranks import Progress, Visit, read_ranks
from holotrace.engine.questions import JobResult, Questions
from holotrace.engine.table_cache import KeptVisit, RankCache, default_bytes
from holotrace.errors import InputError
from holotrace.export.copies import JobCopies
from holotrace.loading.own_kinds import Rules, with_kinds


def open(
    path: Paths,
    *,
    executor: Executor | None = None,
    recursive: bool = False,
    on_duplicate: OnDuplicate = "error",
    cache_bytes: int | None = None,
    kinds: Rules = (),
) -> Job:
    """A job from its traces; only their first and last bytes are read before a question is asked.

    Args:
        path: A trace file, a folder of them, a log directory of profiles, a pattern, a list of these, a dict of rank
            to file, or the bytes of a profile of XLA.
        executor: Where ranks are read, e.g. a process pool or Dask's; threads of this process by default.
        recursive: Look for traces in subfolders too.
        on_duplicate: Where two files claim one rank: "error", or take the "first" or "last" by name.
        cache_bytes: Memory for tables that the next question may need, and beyond it temporary files, until the job is
            closed; by default a quarter of the machine's. With 0, or workers in other processes, nothing is kept.
        kinds: Rules of your own for the kinds of device work, tried before the built-in ones: a TOML file, or a list of
            ``KindRule``. They also decide the kinds of a dataset anew.
    """
    limit = default_bytes() if cache_bytes is None else cache_bytes
    cache = RankCache(limit, [table for analysis in ALL for table in analysis.reads]) if limit else None
    found = with_kinds(survey(path, recursive=recursive, on_duplicate=on_duplicate), kinds)
    return Job(found, executor=executor, cache=cache)


class Job(JobCopies, Analyses):
    """A job's ranks, read when a question needs them; every analysis is a method."""

    def __init__(self, found: Survey, *, executor: Executor | None = None, cache: RankCache | None = None) -> None:
        self.found = found
        self._executor = executor
        self._cache = cache if executor is None or isinstance(executor, ThreadPoolExecutor) else None
        # Results of default options; small tables, while ranks are let go.
        self._known: dict[str, pl.DataFrame] = {}

    @classmethod
    def from_ranks(cls, ranks: Mapping[int, RankTrace], *, title: str = "") -> Job:
        """A job whose ranks are in memory already."""
        return cls(Survey(tuple(replace(ranks[rank], rank=rank) for rank in sorted(ranks)), title=title))

    def __repr__(self) -> str:
        return f"Job({self.found.title!r}, ranks {spelled(self.ranks) or 'none'})"

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(source.rank for source in self.found.sources)

    @property
    def sources(self) -> tuple[RankSource, ...]:
        """The file of each rank that is in one."""
        return tuple(source for source in self.found.sources if isinstance(source, RankSource))

    def only(self, *ranks: int) -> Job:
        """The same job, looking at some of its ranks."""
        if absent := set(ranks) - set(self.ranks):
            raise InputError(f"rank {spelled(absent)} is not there; there are ranks {spelled(self.ranks)}")
        chosen = tuple(source for source in self.found.sources if source.rank in ranks)
        return Job(replace(self.found, sources=chosen), executor=self._executor, cache=self._cache)

    def close(self) -> None:
        if self._cache is not None:
            self._cache.close()

    def map(self, task: Callable[[RankTrace], T], reads: Sequence[Table]) -> list[T]:
        visit = Visit(task, tuple(reads))
        kept = visit if self._cache is None else KeptVisit(self._cache, visit)
        return read_ranks(kept, self.found.sources, executor=self._executor)[0]

    def ask(self, question: Question, options: Mapping[str, Any]) -> pl.DataFrame:
        if options:
            return super().ask(question, options)
        if question.name not in self._known:
            self._known[question.name] = super().ask(question, {})
        return self._known[question.name]

    def run(
        self,
        analyses: Iterable[Analysis[Any]] = ALL,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        progress: Progress | None = None,
    ) -> JobResult:
        """The tables of several analyses and all about the job, from reading each rank once.

        Args:
            analyses: Which ones; all by default.
            options: Options of an analysis, by its name.
            progress: Called with the number of ranks done and of all.
        """
        asked = tuple((analysis, (options or {}).get(analysis.name, {})) for analysis in analyses)
        missing = tuple((analysis, chosen) for analysis, chosen in asked if chosen or analysis.name not in self._known)
        tables = self._known
        if missing or RANK_INFO.name not in tables:
            tables = tables | self._read(Questions(missing), progress)
        return JobResult.of(self.found, [analysis for analysis, _ in asked], tables)

    def _read(self, questions: Questions, progress: Progress | None) -> dict[str, pl.DataFrame]:
        answers, unread = read_ranks(
            Answering(questions), self.found.sources, executor=self._executor, progress=progress
        )
        tables = questions.combined(answers, [*self.found.problems, *unread])
        chosen = {analysis.name for analysis, options in questions.asked if options}
        self._known |= {name: table for name, table in tables.items() if name not in chosen}
        return tables
