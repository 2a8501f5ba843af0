"""What a reader sees first: causes with their worth, the way from an ideal step to the measured one, what has a say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from holotrace.analyses.factors import COMPUTING, factors, time_ratios
from holotrace.core.analysis import CAUSES, Finding, by_cost
from holotrace.core.schema import Column
from holotrace.diagnosis.causes import is_hidden
from holotrace.present import figures, report
from holotrace.present import format as fmt
from holotrace.present.charts.rows import Piece, Row, Rows
from holotrace.present.verdict import (
    MOST,
    OF_JOB,
    has_more_than_steps,
    has_profiler,
    hidden_worth,
    longest_ns,
    row_of,
    steps_of,
)
from holotrace.present.wording import FACTORS, WAITING, sentence

_NAME = 32  # characters of what is responsible
_TOLD = 12  # names of sections in a sentence
# What a row of the table of causes tells besides its sentence, in this order.
_DETAILS = ("steps", "responsible", "where_ns", "event_id", "low_ns", "high_ns", "confidence", "to_know_more")
_HIDDEN = "without the others"
_GAIN = "#c4314b"
_STEP = "Measured step"
_IDEAL_STEP, _WHOLE_TIME = "From an ideal step to the measured one", "What the measured time is made of"
_OF_STEP, _OF_RECORDED = ", in percent of the step", ", in percent of the recorded step"


@dataclass(frozen=True)
class Cause:
    """A cause, or where none is known a finding, as the first screen shows it."""

    severity: str
    message: str
    worth: str
    share: str
    details: tuple[tuple[str, str], ...]
    advice: report.Advice


@dataclass(frozen=True)
class Opening:
    """The first screen."""

    headline: str
    # What could be saved in all, or that no cause is known; and what limits a job that loses nothing.
    saving: str
    limits: str
    causes: tuple[Cause, ...]
    more: int
    # What the causes are: causes, or findings of the rules.
    noun: str
    waterfall: Rows | None
    waterfall_title: str
    status: str
    missing: str
    facts: str


def opening(result: report.Report, analyses: report.Analyses) -> Opening:
    """The first screen of a report."""
    ordered = by_cost(result.findings)
    causes = [finding for finding in ordered if finding.analysis == CAUSES]
    # What is only worth knowing may be explained by another finding.
    wrong = [finding for finding in ordered if finding.severity != "info"]
    said = report.verdict_parts(result, analyses)
    # What recording takes is told beside causes, and is said already where there are none.
    has_causes = any(finding.severity != "info" for finding in causes)
    told = causes if has_causes else wrong or ([] if said.causes.advice else ordered)
    drawn = _waterfall(result, analyses, causes)
    return Opening(
        headline=fmt.printable(said.where_time_goes),
        saving=said.causes.saving,
        limits=" ".join(text for text in (said.causes.limits, said.causes.advice) if text),
        causes=tuple(_cause(finding, result, analyses) for finding in told[:MOST]),
        more=max(0, len(told) - MOST),
        noun="cause" if has_causes else "finding",
        waterfall=drawn,
        waterfall_title=_title(result, drawn),
        status=_status(result, analyses),
        missing=fmt.printable(said.missing),
        facts=" · ".join(report.facts_in_a_line(result.info)),
    )


def _title(result: report.Report, waterfall: Rows | None) -> str:
    if waterfall is None or all(row.name != _STEP for row in waterfall.rows):
        return _WHOLE_TIME
    # The causes beside it have their parts of the job, or of the step without what recording takes.
    recorded = _OF_RECORDED if has_profiler(result.tables) else ""
    return _IDEAL_STEP + (_OF_STEP if has_more_than_steps(result.tables) else recorded)


def steps_of_causes(result: report.Report) -> dict[float, str]:
    """What was wrong in which step, of causes that not every step has."""
    table = result.tables.get(CAUSES)
    if table is None or table.is_empty() or "steps" not in table.columns:
        return {}
    said = (
        table.filter(pl.col("steps").list.len() < report.step_count(result)).select("message", "steps").explode("steps")
    )
    told = said.drop_nulls("steps").group_by("steps", maintain_order=True).agg("message")
    return {step: fmt.printable("; ".join(messages)) for step, messages in told.iter_rows()}


def _cause(finding: Finding, result: report.Report, analyses: report.Analyses) -> Cause:
    row = row_of(finding, result.tables.get(CAUSES))
    steps = report.step_count(result)
    steps = steps_of(row, steps)
    per_step = row.get("cost_per_step_ns") or (finding.cost_ns / steps if finding.cost_ns else None)
    each = " a step" if steps > 1 else ""
    of_what = OF_JOB if has_more_than_steps(result.tables) else ""
    share = f"{fmt.percent(row['share_ratio'])}{of_what}" if row.get("share_ratio") else ""
    return Cause(
        severity=finding.severity,
        message=fmt.printable(sentence(finding)),
        worth=hidden_worth(row, steps) or (f"{fmt.duration(per_step)}{each}" if per_step else ""),
        share=_HIDDEN if is_hidden(row) else share,
        details=(("Ranks", fmt.ranks(finding.ranks) if finding.ranks else "all"), *_details(row, analyses)),
        advice=report.advice(finding, analyses),
    )


def _details(row: Mapping[str, Any], analyses: report.Analyses) -> Iterable[tuple[str, str]]:
    columns = {column.name: column for a in analyses if a.name == CAUSES for column in a.columns}
    for name in _DETAILS:
        if name in columns and row.get(name) not in (None, []):
            yield fmt.label(columns[name]), _text(row[name], columns[name])


def _text(value: Any, column: Column) -> str:
    return fmt.duration(value) if column.name.endswith("_ns") else fmt.cell(value, column, fmt.Scale(grouped=False))


def _waterfall(result: report.Report, analyses: report.Analyses, causes: Sequence[Finding]) -> Rows | None:
    """From what devices compute to the measured step, and what the step would be without each cause."""
    parts, steps = _factors(result), _replayed_steps(result)
    if not parts:
        parts = [(part.label, part.ns, figures.color(part.name)) for part in report.parts(result, analyses)]
        steps = report.step_count(result)
    whole = sum(ns for _, ns, _ in parts)
    if whole <= 0:
        return None
    rows, reached = [], 0.0
    for label, ns, color in parts:
        if abs(ns) / whole >= report.WORTH_SAYING:
            rows.append(_bar(label, (reached, reached + ns), whole, steps, color))
        reached += ns
    rows.append(_bar(_STEP if steps > 1 else "Measured time", (0.0, whole), whole, steps, "var(--quiet)"))
    table = result.tables.get(CAUSES)
    for cause in causes[:MOST]:
        gain = min(float(cause.cost_ns or 0), whole)
        # What came before the steps made none of them longer.
        if gain and steps_of(row_of(cause, table), steps) == steps:
            rows.append(_bar(f"Without {_called(cause, result)}", (whole, whole - gain), whole, steps, _GAIN))
    return Rows(tuple(rows), (), "")


def _factors(result: report.Report) -> list[tuple[str, float, str]]:
    """Parts of the replayed time of the job: what is computed, and what each factor keeps from it."""
    table = result.tables.get(factors.name)
    ratios = {} if table is None else time_ratios(table)
    if table is None or not ratios:
        return []
    replayed = float(table["job_ns"][0])
    told = {
        COMPUTING: (_computing(result, table.height), "compute"),
        "balance": (FACTORS["balance"], "other"),
        "copies": (FACTORS["copies"], "memory"),
        "host": (_waiting(result), "idle"),
        "communication": (FACTORS["communication"], "communication"),
    }
    found = [(label, replayed * ratios[name], figures.COLORS[color]) for name, (label, color) in told.items()]
    recorded = _recorded(result)
    return [*found, ("Beyond the replay", recorded - replayed, figures.COLORS["sync"])] if recorded else found


def _computing(result: report.Report, rank_count: int) -> str:
    """What is computed, and whose mean that is: where a rank has several devices, they compute at the same time."""
    devices = result.tables.get("duty_cycle")
    if devices is not None and devices.height > devices["rank"].n_unique():
        return "Computing, mean of devices"
    return "Computing, mean of ranks" if rank_count > 1 else "Computing"


def _waiting(result: report.Report) -> str:
    """What devices do that neither compute nor move data: of those that meet, some wait for the others."""
    overlap = result.tables.get("overlap")
    meets = overlap is not None and "comm_ns" in overlap.columns and bool(overlap["comm_ns"].sum())
    return WAITING if meets else FACTORS["host"]


def _recorded(result: report.Report) -> float:
    """The recorded time of all steps of the rank that takes longest; 0 without steps: factors begin with work then."""
    table = result.tables.get("replay")
    return 0.0 if table is None or table["step"].drop_nulls().is_empty() else longest_ns(table)


def _replayed_steps(result: report.Report) -> int:
    """How many steps the replay is of; 1 without steps."""
    table = result.tables.get("replay")
    if table is None or table.is_empty():
        return 1
    counts = table.drop_nulls("step").group_by("rank").agg(pl.col("step").n_unique())["step"].unique().to_list()
    return int(counts[0]) if len(counts) == 1 else 1


def _called(cause: Finding, result: report.Report) -> str:
    """A cause in few words: its class, what is responsible, and the ranks unless it is all of them."""
    what = cause.rule.replace("-", " ")
    responsible = row_of(cause, result.tables.get(CAUSES)).get("responsible")
    if responsible:
        what += f" ({fmt.middle(fmt.printable(responsible), _NAME)})"
    if not cause.ranks or len(cause.ranks) == result.info.height:
        return what
    return f"{what}, rank{'s' if len(cause.ranks) > 1 else ''} {fmt.ranks(cause.ranks, 3)}"


def _bar(name: str, span: tuple[float, float], whole: float, steps: int, color: str) -> Row:
    start, end = span
    left, width = 100 * min(start, end) / whole, 100 * abs(end - start) / whole
    size = fmt.duration(abs(end - start) / steps)
    value = f"\u2212{size}" if end < start else f"+{size}" if start else size
    share = fmt.percent((end - start) / whole).replace("-", "\u2212")
    return Row(name, value, share, (Piece(round(left, 2), round(width, 2), color, f"{name}: {value}, {share}"),))


def _status(result: report.Report, analyses: report.Analyses) -> str:
    """Which questions have findings, which have none, and which have no answer."""
    found = {finding.analysis for finding in result.findings if finding.severity != "info"}
    answered = [a.name for a in analyses if report.has_answer(a, result.tables[a.name])]
    loud = [name for name in answered if name in found]
    silent = [a.name for a in analyses if a.name not in answered]
    sections = fmt.plural(len(answered), "section")
    if loud:
        said = [f"{sections} below: {_named(loud)} {'has' if len(loud) == 1 else 'have'} findings"]
        said += [f"{fmt.number(len(answered) - len(loud))} without"] if len(answered) > len(loud) else []
    else:
        said = [f"{sections} below, none with findings"]
    if silent:
        said.append(f"{fmt.number(len(silent))} left out, because the traces have no data for them")
    return "; ".join(said) + "."


def _named(names: Sequence[str]) -> str:
    words = [name.replace("_", " ") for name in names[:_TOLD]]
    return ", ".join(words)
