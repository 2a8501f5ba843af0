"""The report as one HTML page that needs no network."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import polars as pl
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from holotrace.analyses import ALL
from holotrace.core.analysis import Analysis, Finding, by_cost
from holotrace.core.charts import Ranking
from holotrace.core.schema import Column
from holotrace.core.tables import PROBLEMS
from holotrace.present import charts, figures, opening, report
from holotrace.present import format as fmt
from holotrace.present.charts.plane import Plane
from holotrace.present.wording import sentence

SCRIPTS = ("charts.js", "report.js")
STYLES = ("charts.css", "report.css")
EMBEDDED_ROWS = 2_000  # rows of a table a browser sorts at once without a pause, and a page carries by mail
SHOWN_ROWS = 15  # rows that are there before anybody asks for more
SHOWN_FINDINGS = 100
LONG_TEXT = 24  # characters
_EXACT = 2**53  # whole numbers up to this are floats without loss


@dataclass(frozen=True)
class _Head:
    """One column as the page shows it."""

    label: str
    unit: str
    name: str
    meaning: str
    kind: str
    sort: str


@dataclass(frozen=True)
class _TableView:
    """A table as the page shows it: the first rows as text, the embedded rows as data for the script."""

    name: str
    heads: tuple[_Head, ...]
    left_out: frozenset[str]
    rows: tuple[tuple[str, ...], ...]
    embedded: int
    total: int
    order: str
    data: Markup


@dataclass(frozen=True)
class _Section:
    """One analysis on the page."""

    name: str
    command: str
    summary: str
    columns: tuple[tuple[str, Column], ...]
    chart: charts.Picture | None
    # What the page tells of the chart where one points at it.
    told: Markup | None
    table: _TableView


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


def page(result: report.Report, analyses: report.Analyses = ALL) -> str:
    """The whole page as text."""
    environment = Environment(
        loader=PackageLoader("holotrace.present", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["coded"] = _coded
    scripts = [_script(_asset(name)) for name in SCRIPTS]
    told = [a for a in analyses if a.name in result.tables]
    # Formats differ in what they record, so some questions have no answer in a job and would only fill the page.
    answered = [analysis for analysis in told if not result.tables[analysis.name].is_empty()]
    findings = by_cost(result.findings)
    return environment.get_template("report.html.j2").render(
        title=fmt.printable(result.title),
        facts=report.facts(result.info, result.source),
        opening=opening.opening(result, told),
        status={name: _worst(result.findings, name) for name in result.tables},
        findings=[_finding(finding, told) for finding in findings[:SHOWN_FINDINGS]],
        finding_count=len(findings),
        sections=[_section(analysis, result.tables[analysis.name], _first_ns(result.info)) for analysis in answered],
        silent=[analysis.name.replace("_", " ") for analysis in told if analysis not in answered],
        problems=_table("problems", PROBLEMS.columns, result.problems),
        source=shlex.quote(fmt.printable(result.source)),
        version=version("holotrace"),
        css=Markup("".join(map(_asset, STYLES))),  # our own files
        scripts=scripts,
        # Only these scripts may run, so that even a name that broke out of its text could do nothing.
        script_hashes=Markup(" ".join(map(_hash, scripts))),  # base64
    )


def _first_ns(info: pl.DataFrame) -> int | None:
    """When the first event of the job was."""
    first = info["first_ns"].min()
    return first if isinstance(first, int) else None


def _section(analysis: Analysis[Any], table: pl.DataFrame, first_ns: int | None) -> _Section:
    chart = None if analysis.chart is None else charts.picture(figures.drawing(analysis, table))
    told = chart.told if isinstance(chart, Plane) else {}
    order = analysis.chart.y[0] if isinstance(analysis.chart, Ranking) else ""
    together = analysis.chart.y if analysis.chart else ()
    shown, columns = fmt.since_first_event(table, analysis.columns, first_ns)
    return _Section(
        name=analysis.name,
        command=analysis.name.replace("_", "-"),
        summary=analysis.summary,
        columns=tuple((fmt.label(column), column) for column in analysis.columns),
        chart=chart,
        told=_json(told) if told else None,
        table=_table(analysis.name, columns, shown, order, together),
    )


def _table(
    name: str, columns: tuple[Column, ...], table: pl.DataFrame, order: str = "", together: tuple[str, ...] = ()
) -> _TableView:
    if order:
        table = table.sort(order, descending=True, nulls_last=True, maintain_order=True)
    # A column nobody filled, as the step where steps were not asked for, says nothing in every row.
    left_out = frozenset(c.name for c in columns if 0 < table.height == table[c.name].null_count())
    columns = tuple(column for column in columns if column.name not in left_out)
    scales = fmt.scales(table, columns, together)
    top = table.select(column.name for column in columns).head(EMBEDDED_ROWS)
    heads = tuple(
        _Head(
            label=fmt.label(column),
            unit=by.unit,
            name=column.name,
            meaning=column.meaning,
            kind=_kind(column, top[column.name]),
            sort="descending" if column.name == order else "none",
        )
        for column, by in zip(columns, scales, strict=True)
    )
    shown = top.head(SHOWN_ROWS)
    rows = zip(*(_texts(shown[c.name], c, by) for c, by in zip(columns, scales, strict=True)), strict=True)
    embedded = zip(*(_embedded(top[c.name], c, by) for c, by in zip(columns, scales, strict=True)), strict=True)
    data = {
        "columns": [
            {
                "number": fmt.is_number(column),
                "kind": head.kind,
                "factor": by.factor,
                "decimals": by.decimals,
                "grouped": by.grouped,
            }
            for column, head, by in zip(columns, heads, scales, strict=True)
        ],
        "shown": SHOWN_ROWS,
        "rows": list(embedded),
    }
    ordered = next((f"{head.label.lower()} first" for head in heads if head.name == order), "")
    return _TableView(
        name=name,
        heads=heads,
        left_out=left_out,
        rows=tuple(rows),
        embedded=top.height,
        total=table.height,
        order=f"largest {ordered}" if ordered else "",
        data=_json(data),
    )


def _texts(values: pl.Series, column: Column, by: fmt.Scale) -> list[str]:
    return [fmt.cell(value, column, by) for value in values.to_list()]


def _embedded(values: pl.Series, column: Column, by: fmt.Scale) -> Sequence[float | str | None]:
    """A column for the script: texts, and numbers as they are, to be sorted by; it writes them with the same scale."""
    if not fmt.is_number(column):
        return _texts(values, column, by)
    numbers: list[float | None] = values.to_list()
    if values.dtype.is_float():
        return [None if value is None or not math.isfinite(value) else value for value in numbers]
    if by.grouped:
        return numbers
    # One that names something goes as text where the script's floats would make it another.
    return [value if value is None or abs(value) <= _EXACT else str(value) for value in numbers]


def _kind(column: Column, values: pl.Series) -> str:
    """How a column stands: measures to the right, long texts wrapped, the rest in one line."""
    if fmt.is_measure(column):
        return "number"
    if column.unit in fmt.LISTS:
        return "short"
    lengths = values.cast(pl.String).str.len_chars()
    return "long" if not fmt.is_number(column) and (lengths > LONG_TEXT).any() else "short"


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


def _coded(text: str) -> Markup:
    """The text with what stands between backticks set as code."""
    pieces = re.split(r"`([^`]+)`", text)
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if i % 2 else piece for i, piece in enumerate(pieces)
    )


def _json(data: Any) -> Markup:
    """Data for a script element, which ends at the first ``</script`` whatever surrounds it."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # escaped just here


def _script(text: str) -> Markup:
    """A script of ours as the content of its element."""
    return Markup(re.sub(r"</(script)", r"<\\/\1", text, flags=re.IGNORECASE))  # our own


def _hash(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _asset(name: str) -> str:
    return (files("holotrace.present") / "templates" / name).read_text(encoding="utf-8")
