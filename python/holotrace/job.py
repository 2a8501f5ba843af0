"""The façade: a job one can ask questions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from holotrace.analyses import ALL, Analyses
from holotrace.core.analysis import Analysis, Finding
from holotrace.core.schema import Table
from holotrace.core.trace import JobTrace, Question, RankTrace, T
from holotrace.discovery import RankSource, Survey, spelled
from holotrace.engine import job_tables
from holotrace.engine.map_ranks import Progress
from holotrace.engine.questions import JobResult
from holotrace.engine.session import Session
from holotrace.engine.sql import answer
from holotrace.export import copies
from holotrace.export.merge import Detail
from holotrace.export.timeline import JobTimeline, Wanted


class Job(Analyses, JobTrace):
    """A job's ranks, read when a question needs them; every analysis is a method."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.found = session.found

    @classmethod
    def from_ranks(cls, ranks: Mapping[int, RankTrace], *, title: str = "") -> Job:
        """A job whose ranks are in memory already."""
        return cls(Session(Survey(tuple(replace(ranks[rank], rank=rank) for rank in sorted(ranks)), title=title)))

    def __repr__(self) -> str:
        return f"Job({self.found.title!r}, ranks {spelled(self.ranks) or 'none'})"

    @property
    def ranks(self) -> tuple[int, ...]:
        return self._session.ranks

    @property
    def sources(self) -> tuple[RankSource, ...]:
        """The file of each rank that is in one."""
        return self._session.sources

    def only(self, *ranks: int) -> Job:
        """The same job, looking at some of its ranks."""
        return Job(self._session.only(ranks))

    def close(self) -> None:
        self._session.close()

    def map(self, task: Callable[[RankTrace], T], reads: Sequence[Table]) -> list[T]:
        return self._session.map(task, reads)

    def ask(self, question: Question, options: Mapping[str, Any]) -> pl.DataFrame:
        return self._session.ask(question, options)

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
        return self._session.run(analyses, options, progress)

    def table(
        self, table: str | Table, *, rank: int | Iterable[int] | None = None, columns: Sequence[str] | None = None
    ) -> pl.DataFrame:
        """Rows of one table of all ranks, or of some, each with its rank.

        Args:
            table: Its name, e.g. "device_events", or itself, perhaps with columns of your own (an arg of an event).
            rank: One rank or several; all by default.
            columns: Only these; columns that are not asked for are not read.
        """
        return job_tables.job_table(self, table, rank, columns)

    def query(self, sql: str) -> pl.DataFrame:
        """The answer to one SELECT over the tables, each with its ``rank``; see ``holotrace.query``."""
        return answer(sql, self, job_tables.tables_of_job(self))

    def info(self) -> pl.DataFrame:
        """What is there, a row per rank: device, software, steps, events, how fast it was read."""
        return self.run(()).info

    def problems(self) -> pl.DataFrame:
        """What could not be read as it was written or is missing, and what was done about it."""
        return self.run(()).problems

    def noticed(self) -> pl.DataFrame:
        """Those that came up in the questions so far, which is what may be missing from their answers."""
        return self._session.problems()

    def notice(self, problems: Iterable[Mapping[str, Any]]) -> None:
        """Add what another question came upon: rows of the problems table."""
        self._session.noticed.add(problems)

    def clocks(self) -> pl.DataFrame:
        """How far the clocks of ranks are apart, a row per rank, and how sure that is."""
        return job_tables.job_clocks(self)

    def findings(self) -> tuple[Finding, ...]:
        """What the rules of all analyses find."""
        return self.run().findings

    def write_overlay(
        self,
        folder: str | os.PathLike[str],
        *,
        counters: bool = False,
        critical_path: bool = False,
        of_step: int | None = None,
    ) -> tuple[Path, ...]:
        """Write copies of the traces with more in them, to look at in Perfetto.

        Returns the copies, e.g. ``rank-N-with-counters-and-critical-path`` in ``folder``, packed as the traces are;
        ranks that nothing is added to have none. All else in them is as it was recorded.

        Args:
            folder: Made if need be; none that holds the traces.
            counters: Add queue lengths and bandwidths of copies over time.
            critical_path: Mark the events on a step's critical path, with ``critical`` in their args, and add arrows
                from each to the one that waited for it.
            of_step: Critical path of which step; by default of the last that another one follows.
        """
        return copies.write_overlay(self._session, Path(folder), counters, critical_path, of_step)

    def write_timeline(
        self,
        path: str | os.PathLike[str],
        *,
        of_step: int | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
        detail: Detail = "python",
        progress: Progress | None = None,
    ) -> JobTimeline:
        """Write one trace of all ranks on one clock, to look at in Perfetto.

        Processes, threads and arrows of a rank are its own, under names that begin with the rank. All else is as it was
        recorded, but for times of ranks whose clock is apart from the others': see ``clocks``.

        Args:
            path: A file, packed as its suffix says: ``.json.gz``, ``.json.zst`` or ``.json``. Replaced if it is there.
            of_step: Only what ran while any rank was in this step or did its work on a device.
            start_ns: Only what ran from then on, counted from the first event of all ranks.
            end_ns: Only what ran before then.
            detail: "device" for what ran on devices only, "host" for all but Python functions, "python" for all.
            progress: Called with the number of ranks written and of all.
        """
        return copies.write_timeline(self._session, Path(path), Wanted(detail, start_ns, end_ns, of_step), progress)
