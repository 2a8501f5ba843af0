"""The report as one HTML page that needs no network."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import polars as pl
from markupsafe import Markup

from holotrace.analyses import ALL
from holotrace.core.analysis import Analysis, Finding, by_cost
from holotrace.core.charts import OverSteps, Ranking
from holotrace.core.schema import Column
from holotrace.core.tables import PROBLEMS
from holotrace.present import charts, figures, opening, page_frame, report
from holotrace.present import format as fmt
from holotrace.present.charts.cells import Cells
from holotrace.present.charts.plane import Plane
from holotrace.present.page_tables import TableView, embedded_json, of_analysis, of_table
from holotrace.present.timeline import section as timeline
from holotrace.present.wording import sentence

SHOWN_FINDINGS = 100


@dataclass(frozen=True)
class _Section:
    """One analysis on the page."""

    name: str
    command: str
    summary: str
    columns: tuple[tuple[str, Column], ...]
    # Each with what the page tells of it where one points at it.
    charts: tuple[tuple[charts.Picture, Markup | None], ...]
    table: TableView


@dataclass(frozen=True)
class _FindingView:
    """One finding as the page shows it."""

    severity: str
    rule: str
    analysis: str
    message: str
    ranks: str
    worth: str
    advice: report.Advice


def page(result: report.Report, analyses: report.Analyses = ALL, *, live: bool = False) -> str:
    """The whole page as text; a ``live`` one asks the server that it came from for more."""
    drawn = timeline.view(result.tables, live=live)
    told = [a for a in analyses if a.name in result.tables]
    answered = [analysis for analysis in told if report.has_answer(analysis, result.tables[analysis.name])]
    findings = by_cost(result.findings)
    source = shlex.quote(fmt.printable(result.source))
    return page_frame.filled(
        "report.html.j2",
        scripts=(timeline.script(live=live),),
        style=timeline.style(),
        is_live=live,
        title=fmt.printable(result.title),
        facts=report.facts(result.info, result.source),
        opening=opening.opening(result, told),
        status={name: _worst(result.findings, name) for name in result.tables},
        findings=[_finding(finding, told) for finding in findings[:SHOWN_FINDINGS]],
        finding_count=len(findings),
        sections=[_section(analysis, result) for analysis in answered],
        silent=[analysis.name.replace("_", " ") for analysis in told if analysis not in answered],
        problems=of_table("problems", PROBLEMS.columns, result.problems),
        source=source,
        command=f"holotrace show {(answered[0].name if answered else 'findings').replace('_', '-')} {source}",
        timeline=drawn,
        places={} if drawn is None else drawn.places,
    )


def _first_ns(info: pl.DataFrame) -> int | None:
    """When the first event of the job was."""
    first = info["first_ns"].min()
    return first if isinstance(first, int) else None


def _section(analysis: Analysis[Any], result: report.Report) -> _Section:
    table, first_ns = result.tables[analysis.name], _first_ns(result.info)
    drawn = [picture for one in figures.drawings(analysis, table) if (picture := charts.picture(one))]
    if isinstance(analysis.chart, OverSteps):
        steps = opening.steps_of_causes(result)
        drawn = [picture.flagged(steps) if isinstance(picture, Plane) else picture for picture in drawn]
    order = analysis.chart.y[0] if isinstance(analysis.chart, Ranking) else ""
    together = analysis.chart.y if analysis.chart else ()
    view = of_analysis(analysis, table, first_ns, order, together)
    return _Section(
        name=analysis.name,
        command=analysis.name.replace("_", "-"),
        summary=analysis.summary,
        columns=tuple((fmt.label(column), column) for column in analysis.columns),
        charts=tuple((picture, _told(picture)) for picture in drawn),
        table=view,
    )


def _told(picture: charts.Picture) -> Markup | None:
    return embedded_json(picture.told) if isinstance(picture, (Plane, Cells)) and picture.told else None


def _finding(finding: Any, analyses: report.Analyses) -> _FindingView:
    return _FindingView(
        severity=finding.severity,
        rule=finding.rule,
        analysis=finding.analysis,
        message=fmt.printable(sentence(finding)),
        ranks=fmt.ranks(finding.ranks) if finding.ranks else "all",
        worth=fmt.duration(finding.cost_ns),
        advice=report.advice(finding, analyses),
    )


def _worst(findings: Iterable[Finding], analysis: str) -> str:
    """The worst that rules say of an analysis; empty where they say nothing but what is worth knowing."""
    found = {finding.severity for finding in findings if finding.analysis == analysis}
    return next((severity for severity in ("critical", "warning") if severity in found), "")
