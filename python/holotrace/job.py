"""The façade: a job one can ask questions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from holotrace._answers import JobResult, Questions, rows
from holotrace._execute import Progress, Visit, read_ranks
from holotrace._query import answer
from holotrace.analyses import ALL, Analyses
from holotrace.analysis import Analysis, Finding
from holotrace.errors import InputError
from holotrace.present import overlay
from holotrace.schema import Table
from holotrace.sources import OnDuplicate, Paths, RankSource, Survey, spelled, survey
from holotrace.tables import PROBLEMS, RANK, RANK_INFO, named
from holotrace.trace import JobTrace, Question, RankTrace, T


def open(
    path: Paths, *, executor: Executor | None = None, recursive: bool = False, on_duplicate: OnDuplicate = "error"
) -> Job:
    """A job from its traces; only their first and last bytes are read before a question is asked.

    Args:
        path: A trace file, a folder of them, a log directory of profiles, a pattern, a list of these, a dict of rank
            to file, or the bytes of a profile of XLA.
        executor: Where ranks are read, e.g. a process pool or Dask's; threads of this process by default.
        recursive: Look for traces in subfolders too.
        on_duplicate: Where two files claim one rank: "error", or take the "first" or "last" by name.
    """
    return Job(survey(path, recursive=recursive, on_duplicate=on_duplicate), executor=executor)


class Job(JobTrace, Analyses):
    """A job's ranks, read when a question needs them; every analysis is a method."""

    def __init__(self, found: Survey, *, executor: Executor | None = None) -> None:
        self.found = found
        self._executor = executor
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
        return Job(replace(self.found, sources=chosen), executor=self._executor)

    def map(self, task: Callable[[RankTrace], T], reads: Sequence[Table]) -> list[T]:
        return read_ranks(Visit(task, tuple(reads)), self.found.sources, executor=self._executor)[0]

    def ask(self, question: Question, options: Mapping[str, Any]) -> pl.DataFrame:
        if options:
            return super().ask(question, options)
        if question.name not in self._known:
            self._known[question.name] = super().ask(question, {})
        return self._known[question.name]

    def table(
        self, table: str | Table, *, rank: int | Iterable[int] | None = None, columns: Sequence[str] | None = None
    ) -> pl.DataFrame:
        """Rows of one table of all ranks, or of some, each with its rank.

        Args:
            table: Its name, e.g. "device_events", or itself, perhaps with columns of your own (an arg of an event).
            rank: One rank or several; all by default.
            columns: Only these; columns that are not asked for are not read.
        """
        wanted = named(table) if isinstance(table, str) else table
        if columns is not None:
            wanted = wanted.only(*(name for name in columns if name != "rank"))
        job = self if rank is None else self.only(*([rank] if isinstance(rank, int) else rank))
        if told := job._told.get(wanted.name):
            return told().select("rank", pl.col(wanted.column_names).exclude("rank"))
        empty = replace(wanted, columns=(RANK, *wanted.columns)).empty()
        return pl.concat([empty, *job.map(partial(rows, table=wanted), [wanted])])

    def query(self, sql: str) -> pl.DataFrame:
        """The answer to one SELECT over the tables, each with its ``rank``; see ``holotrace.query``."""
        return answer(sql, self, self._told)

    @property
    def _told(self) -> dict[str, Callable[[], pl.DataFrame]]:
        return {PROBLEMS.name: self.problems, RANK_INFO.name: self.info}

    def info(self) -> pl.DataFrame:
        """What is there, a row per rank: device, software, steps, events, how fast it was read."""
        return self.run(()).info

    def problems(self) -> pl.DataFrame:
        """What could not be read as it was written or is missing, and what was done about it."""
        return self.run(()).problems

    def findings(self) -> tuple[Finding, ...]:
        """What the rules of all analyses find."""
        return self.run().findings

    def write_counters(self, folder: str | os.PathLike[str]) -> tuple[Path, ...]:
        """Write copies of the traces with queue lengths and bandwidths as counters, to look at in Perfetto.

        Returns the copies, ``rank-N-with-counters`` in ``folder``, packed as the traces are; ranks that launched and
        copied nothing have none. All else in them is as it was recorded.
        """
        tables = self.run(overlay.ANALYSES, overlay.OPTIONS).tables
        return overlay.write_counters(tables, self.sources, Path(folder).expanduser())

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
        return JobResult(
            self.found.title,
            self.found.origin,
            {analysis.name: tables[analysis.name] for analysis, _ in asked},
            tables[RANK_INFO.name],
            tables[PROBLEMS.name],
            tuple(finding for analysis, _ in asked for finding in analysis.findings(tables[analysis.name])),
        )

    def _read(self, questions: Questions, progress: Progress | None) -> dict[str, pl.DataFrame]:
        answers, unread = read_ranks(
            Visit(questions, questions.reads), self.found.sources, executor=self._executor, progress=progress
        )
        tables = questions.combined(answers, [*self.found.problems, *unread])
        chosen = {analysis.name for analysis, options in questions.asked if options}
        self._known |= {name: table for name, table in tables.items() if name not in chosen}
        return tables
