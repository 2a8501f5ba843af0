"""What is asked of a job at once, what each rank contributes to it, and what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from holotrace.analyses.causes import causes
from holotrace.analyses.duty_cycle import duty_cycle
from holotrace.core.analysis import Analysis, Finding
from holotrace.core.problems import frame
from holotrace.core.schema import Table
from holotrace.core.tables import PROBLEMS, RANK_INFO
from holotrace.core.trace import RankTrace
from holotrace.derive import worth
from holotrace.diagnosis.symptoms import folded
from holotrace.discovery import Survey
from holotrace.present.figures import figure
from holotrace.present.wording import worded


@dataclass(frozen=True)
class Answers:
    """One rank's part of everything that was asked."""

    parts: Mapping[str, pl.DataFrame]
    info: pl.DataFrame
    problems: pl.DataFrame


@dataclass(frozen=True)
class Questions:
    """Analyses to be answered from one reading of a rank, each with its options."""

    asked: tuple[tuple[Analysis[Any], Mapping[str, Any]], ...]
    # Whether all problems of a file are wanted, also those of what no analysis reads.
    every_problem: bool = False

    @property
    def reads(self) -> tuple[Table, ...]:
        return (*(table for analysis, _ in self.asked for table in analysis.reads), RANK_INFO, PROBLEMS)

    def __call__(self, rank: RankTrace) -> Answers:
        parts = {analysis.name: analysis.part(rank, options) for analysis, options in self.asked}
        return Answers(parts, rank[RANK_INFO], rank[PROBLEMS])

    def combined(self, answers: Sequence[Answers], doubts: Sequence[Mapping[str, Any]]) -> dict[str, pl.DataFrame]:
        """Each table of all ranks, by its name; ``doubts`` are problems known from elsewhere."""
        return {
            **{a.name: a.combine((answer.parts[a.name] for answer in answers), chosen) for a, chosen in self.asked},
            RANK_INFO.name: pl.concat([RANK_INFO.empty(), *(answer.info for answer in answers)]),
            PROBLEMS.name: pl.concat([frame(doubts), *(answer.problems for answer in answers)]),
        }


@dataclass(frozen=True)
class JobResult:
    """Everything a report shows, from one reading of each rank."""

    title: str
    source: str
    # Table of each analysis, by its name.
    tables: Mapping[str, pl.DataFrame]
    info: pl.DataFrame
    problems: pl.DataFrame
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, found: Survey, asked: Sequence[Analysis[Any]], tables: Mapping[str, pl.DataFrame]) -> JobResult:
        """The result of the job that was ``found``, from all its tables."""
        own = {analysis.name: tables[analysis.name] for analysis in asked}
        findings = [finding for analysis in asked for finding in analysis.findings(own[analysis.name])]
        info = tables[RANK_INFO.name]
        settled = worth.settled(findings, tables, info)
        # Of profiles of XLA the analyses of their own tell why devices stand still.
        if causes.name in own and (duty_cycle.name not in own or own[duty_cycle.name].is_empty()):
            settled = folded(settled, max(info["span_ns"].drop_nulls().to_list(), default=0))
        said = tuple(worded(finding) for finding in settled)
        return cls(found.title, found.origin, own, info, tables[PROBLEMS.name], said)

    # Any: only present/ knows of Plotly.
    def figure(self, analysis: Analysis[Any]) -> Any:
        """The chart of one of its analyses, a Plotly figure for a notebook: ``result.figure(Job.overlap)``."""
        return figure(analysis, self.tables[analysis.name])


def rows(rank: RankTrace, table: Table) -> pl.DataFrame:
    """One rank's rows of a table, with the rank they belong to."""
    return rank[table].select(pl.lit(rank.rank, pl.Int32()).alias("rank"), pl.exclude("rank"))
