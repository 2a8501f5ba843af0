"""The façade: a job one can ask questions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from holotrace.analyses import ALL, Analyses, named
from holotrace.core.analysis import Analysis, Finding
from holotrace.core.schema import Table
from holotrace.core.trace import JobTrace, Question, RankTrace, T
from holotrace.discovery import RankSource, Survey, spelled
from holotrace.engine import job_tables
from holotrace.engine.map_ranks import Progress
from holotrace.engine.questions import JobResult
from holotrace.engine.session import Session
from holotrace.engine.sql import answer
from holotrace.engine.sql_tables import told_of
from holotrace.export import copies
from holotrace.export.merge import Detail
from holotrace.export.timeline import JobTimeline, Wanted
from holotrace.gains import what_if
from holotrace.present import notebook, writers
from holotrace.present.figures import figure
from holotrace.present.notebook import Answer
from holotrace.serve.view import IDLE_S, View
from holotrace.stores import place


class Job(Analyses, JobTrace):
    """A job's ranks, read when a question needs them; every analysis is a method."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.found = session.found

    @classmethod
    def from_ranks(cls, ranks: Mapping[int, RankTrace], *, title: str = "") -> Job:
        """A job of these ``ranks``, which are in memory already, by number; ``title`` is its name in a report.

        Returns:
            A job that reads no file.
        """
        return cls(Session(Survey(tuple(replace(ranks[rank], rank=rank) for rank in sorted(ranks)), title=title)))

    def __repr__(self) -> str:
        return f"Job({self.found.title!r}, ranks {spelled(self.ranks) or 'none'})"

    def _repr_html_(self) -> str:
        is_whole = not self.found.problems
        return notebook.job_html(self.found.title, self.found.origin, spelled(self.ranks), is_whole)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Ranks that are there, ascending."""
        return self._session.ranks

    @property
    def sources(self) -> tuple[RankSource, ...]:
        """The file of each rank that is in one."""
        return self._session.sources

    def only(self, *ranks: int) -> Job:
        """The same job, looking at some of its ranks.

        Returns:
            A job of these ranks, which shares what this one keeps.

        Raises:
            InputError: a rank is not there.
        """
        return Job(self._session.only(ranks))

    def close(self) -> None:
        """Let go of the tables and temporary files that are kept for the next question."""
        self._session.close()

    def map(self, task: Callable[[RankTrace], T], reads: Sequence[Table]) -> list[T]:
        """The result of ``task`` for every rank, which is called where the rank is read, with the tables in ``reads``.

        Returns:
            Results in the order of ranks.

        Raises:
            InputError: no rank can be read.
        """
        return self._session.map(task, reads)

    def compared(self, task: Callable[[RankTrace], T], reads: Sequence[Table]) -> list[T]:
        """What ``map`` of ``task`` and ``reads`` returns for ranks that can be compared, in the steps that all have.

        Returns:
            Results in the order of ranks.

        Raises:
            InputError: no rank can be read.
        """
        return self._session.compared(task, reads)

    def ask(self, question: Question, options: Mapping[str, Any]) -> pl.DataFrame:
        """The answer of all ranks to a ``question`` with these ``options``; what every analysis' method calls.

        Returns:
            One table.

        Raises:
            InputError: no rank can be read.
        """
        answer = self._session.ask(question, options, notebook.progress("Reading"))
        return Answer.of(question, answer) if isinstance(question, Analysis) else answer

    def run(
        self,
        analyses: Iterable[Analysis[Any] | str] = ALL,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        progress: Progress | None = None,
    ) -> JobResult:
        """The tables of several analyses and all about the job, from reading each rank once.

        Args:
            analyses: Which ones, or their names; all by default.
            options: Options of an analysis, by its name.
            progress: Called with the number of ranks done and of all; a notebook shows a bar by itself.

        Returns:
            The table of each analysis, and what is known of the ranks, their problems and findings.

        Raises:
            InputError: no rank can be read.
            UsageError: there is no analysis of that name.
        """
        asked = [named(analysis) if isinstance(analysis, str) else analysis for analysis in analyses]
        return self._session.run(asked, options, progress or notebook.progress("Reading"))

    def table(
        self, table: str | Table, *, rank: int | Iterable[int] | None = None, columns: Sequence[str] | None = None
    ) -> pl.DataFrame:
        """Rows of one table of all ranks, or of some, each with its rank.

        Args:
            table: Its name, e.g. "device_events", or itself, perhaps with columns of your own (an arg of an event).
            rank: One rank or several; all by default.
            columns: Only these; columns that are not asked for are not read.

        Returns:
            The declared columns of the table, ``rank`` first.

        Raises:
            UsageError: there is no such table, column or rank.
            InputError: a rank cannot be read.
        """
        return job_tables.job_table(self, table, rank, columns)

    def query(self, sql: str, *, progress: Progress | None = None) -> pl.DataFrame:
        """The answer to one SELECT over tables and analyses, each with its ``rank``; see ``holotrace.query``.

        Args:
            sql: One SELECT. An analysis is computed where it is named, with its default options.
            progress: Called with the number of ranks done and of all.

        Returns:
            The rows that the SELECT asks for.

        Raises:
            UsageError: the query cannot be run; the message lists what there is.
        """
        return answer(sql, self, told_of(self, sql, progress))

    def info(self) -> pl.DataFrame:
        """What is there, a row per rank: device, software, steps, events, how fast it was read.

        Returns:
            The columns of the table ``rank_info``.
        """
        return self.run(()).info

    def problems(self) -> pl.DataFrame:
        """What could not be read as it was written or is missing, and what was done about it.

        Returns:
            The columns of the table ``problems``; empty for whole traces.
        """
        return self.run(()).problems

    def noticed(self) -> pl.DataFrame:
        """Those that came up in the questions so far, which is what may be missing from their answers."""
        return self._session.problems()

    def notice(self, problems: Iterable[Mapping[str, Any]]) -> None:
        """Add what another question came upon: rows of the problems table."""
        self._session.noticed.add(problems)

    def clocks(self) -> pl.DataFrame:
        """How far the clocks of ranks are apart, a row per rank, and how sure that is.

        Returns:
            The offset of each rank's clock (ns) and its uncertainty; null where nothing tells.
        """
        return job_tables.job_clocks(self)

    def findings(self) -> tuple[Finding, ...]:
        """What the rules of all analyses find.

        Returns:
            Findings of all ranks together.
        """
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

        Raises:
            UsageError: neither is asked for, or the folder is that of the traces.
            InputError: the format of a rank has no trace to copy, or the folder cannot be written.
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
        critical_path: bool = False,
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
            critical_path: Add the critical path of the job as tracks of its own, a track per rank, with arrows where it
                goes on at another rank: see ``job_path``.
            progress: Called with the number of ranks written and of all.

        Returns:
            The path, how far the clock of each rank was moved, and what could not be read.

        Raises:
            UsageError: arguments contradict each other or there is no such step.
            InputError: the format of a rank has no trace to copy, or the file cannot be written.
        """
        return copies.write_timeline(
            self._session, Path(path), Wanted(detail, start_ns, end_ns, of_step, critical_path), progress
        )

    what_if = what_if

    # Any: only present/ knows of Plotly.
    def figure(self, analysis: str | Analysis[Any], **options: Any) -> Any:
        """The chart of an analysis, a Plotly figure for a notebook: ``job.figure("overlap")``.

        Args:
            analysis: Its name, or itself.
            options: Options of the analysis.

        Returns:
            A ``plotly.graph_objects.Figure``.

        Raises:
            UsageError: there is no such analysis.
            InputError: no rank can be read.
        """
        found = named(analysis) if isinstance(analysis, str) else analysis
        return figure(found, self.ask(found, options))

    def report(self, path: str | os.PathLike[str], *, progress: Progress | None = None) -> None:
        """Write the report, as the command ``holotrace report`` does.

        Args:
            path: Where; replaced if it is there. Its ending tells the format, as .json or .md; without one that tells,
                it is one HTML page that works offline.
            progress: Called with the number of ranks done and of all; a notebook shows a bar by itself.

        Raises:
            InputError: no rank can be read, or the file cannot be written.
            UsageError: no report can be written in a format with that ending.
        """
        out = place(os.fspath(path))
        result = self.run(writers.report_writer(out).analyses, progress=progress)
        writers.save_report(writers.ShownReport(result), out)

    def view(self, *, idle_s: float = IDLE_S, progress: Progress | None = None) -> View:
        """The report with every event, from a server that only this machine can reach; needs the extra ``view``.

        Args:
            idle_s: It stops when no page was open for so long.
            progress: Called with the number of ranks done and of all.

        Returns:
            Its address, ``url``, and the way to ``close`` it.

        Raises:
            MissingExtraError: the extra is not installed.
            InputError: no rank can be read.
        """
        return View(self._session, idle_s=idle_s, progress=progress or notebook.progress("Reading"))
