"""The tables of SQL that are not read rank by rank: those of the whole job, and the answers to the analyses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, Protocol

import polars as pl

from holotrace.analyses import ALL
from holotrace.core.analysis import Analysis
from holotrace.core.schema import Table
from holotrace.core.tables import FINDINGS, MADE, PROBLEMS
from holotrace.engine.job_tables import AskedJob, tables_of_job
from holotrace.engine.map_ranks import Progress
from holotrace.engine.questions import JobResult
from holotrace.present.writers import findings_table

_ANALYSES = {analysis.name: analysis for analysis in ALL}


@dataclass(frozen=True)
class Told:
    """A table that is given at once."""

    table: Table
    rows: Callable[[], pl.DataFrame]


class RunJob(AskedJob, Protocol):
    """What is needed of a job."""

    def run(
        self,
        analyses: Iterable[Analysis[Any]] = ...,
        options: Mapping[str, Mapping[str, Any]] | None = ...,
        progress: Progress | None = ...,
    ) -> JobResult: ...


def name_of(table: Table) -> str:
    """What a table of a trace is called beside the analyses: one of the same name has it for itself."""
    return f"{table.name}_table" if table.name in _ANALYSES else table.name


def told_of(job: RunJob, sql: str, progress: Progress | None) -> dict[str, Told]:
    """Each table by its name; an answer is computed when its rows are asked for.

    Args:
        job: What is asked.
        sql: The query; the analyses that it names are answered from one reading of each rank.
        progress: Called with the number of ranks done and of all.
    """
    of_job = {table.name: table for table in (*MADE, PROBLEMS)}
    known = {name: Told(of_job[name], rows) for name, rows in tables_of_job(job).items()}
    ask = _Ask(job, tuple(analysis for name, analysis in _ANALYSES.items() if _stands_for_rows(name, sql)), progress)
    answers = {
        name: Told(Table(name, analysis.summary, analysis.columns), partial(ask.answer, analysis))
        for name, analysis in _ANALYSES.items()
    }
    return {**known, **answers, FINDINGS.name: Told(FINDINGS, ask.findings)}


def _stands_for_rows(name: str, sql: str) -> bool:
    """Whether a query seems to read the table; what it says otherwise is only read later."""
    return re.search(rf"(?:\b(?:from|join)|,)\s*[\"`(]*{name}\b", sql, re.IGNORECASE) is not None


@dataclass(frozen=True)
class _Ask:
    """Asks a job for answers, once for all that one query needs."""

    job: RunJob
    # What the query seems to read.
    together: tuple[Analysis[Any], ...]
    progress: Progress | None
    # Polars reads several tables at a time, and the second finds what the first has asked for.
    _lock: Lock = field(default_factory=Lock)
    _known: dict[str, pl.DataFrame] = field(default_factory=dict)

    def answer(self, analysis: Analysis[Any]) -> pl.DataFrame:
        with self._lock:
            if analysis.name not in self._known:
                asked = self.together if analysis in self.together else (analysis,)
                self._known.update(self.job.run(asked, progress=self.progress).tables)
            return self._known[analysis.name]

    def findings(self) -> pl.DataFrame:
        with self._lock:
            return findings_table(self.job.run(progress=self.progress).findings)
