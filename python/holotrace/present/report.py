"""What a report says in words: the verdict, the facts of the job, the findings in order; and writing the page."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Protocol

import polars as pl

from holotrace.analyses import ALL
from holotrace.core.analysis import CAUSES, Analysis, Finding, by_cost
from holotrace.core.charts import Stacked
from holotrace.core.problems import DIFFERENT_STEPS, LEFT_OUT
from holotrace.core.schema import Unit
from holotrace.diagnosis.words.classes import UNRECORDED_RANK
from holotrace.present import format as fmt
from holotrace.present import verdict as causes_verdict
from holotrace.present.wording import sentence

_MOST_PEAKS = 3  # kinds of devices that are told
# Between two sentences; "e.g. 25 MB" has no capital letter after its full stop.
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`])")
_MEASURES = (Unit.NS, Unit.BYTES, Unit.RATIO, Unit.COUNT, Unit.FLOAT)
_SAME_TIME = 0.05  # of two times of a step; more apart, a reader would ask which one is right
_EXPOSED = "exposed_comm_ns"  # the part that is communication which nothing hides
_MUCH = 0.05  # share of the time from which on communication may be what slows a job down
WORTH_SAYING = 0.005  # share of the time below which a part is left out of the verdict


class Report(Protocol):
    """Everything the presentation needs to know of a job."""

    @property
    def tables(self) -> Mapping[str, pl.DataFrame]:
        """Result of each analysis, by its name."""

    @property
    def info(self) -> pl.DataFrame:
        """tables.RANK_INFO"""

    @property
    def problems(self) -> pl.DataFrame:
        """tables.PROBLEMS"""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the rules of all analyses found, in any order."""

    @property
    def title(self) -> str:
        """What the job is called."""

    @property
    def source(self) -> str:
        """Where it was read from, as a command would name it."""


Analyses = Sequence[Analysis[Any]]


@dataclass(frozen=True)
class Part:
    """One part of where the time goes, as an average over ranks."""

    name: str
    label: str
    ns: float
    ratio: float


@dataclass(frozen=True)
class Advice:
    """What a rule's docstring tells: what is wrong, why it matters, what to do."""

    what: str
    why: str
    what_to_do: str


@dataclass(frozen=True)
class Verdict:
    """What there is to say of a job; empty texts where there is nothing."""

    where_time_goes: str
    biggest: tuple[str, ...]
    """Of a job whose causes are not known: the biggest finding, and what to do."""
    causes: causes_verdict.Verdict
    missing: str


def verdict_parts(report: Report, analyses: Analyses = ALL) -> Verdict:
    """Where the time goes, what could be saved and why it is lost, what is missing."""
    known = causes_verdict.of(report.tables, report.findings, step_count(report))
    # What is wrong without a cause is told too.
    wrong = [finding for finding in report.findings if finding.severity != "info"]
    return Verdict(
        _where_time_goes(report, analyses),
        () if known.reasons or (known.saving and not wrong) else _biggest_finding(report, analyses),
        known,
        _what_is_missing(report, analyses),
    )


def verdict(report: Report, analyses: Analyses = ALL) -> tuple[str, ...]:
    """The same in some sentences, in their order."""
    said = verdict_parts(report, analyses)
    why = (f"Why, {number}: {line}" for number, line in enumerate(said.causes.why, 1))
    more = (f"And {fmt.plural(said.causes.more, 'more cause')}.",) if said.causes.more else ()
    to_do = (f"Next, {number}: {line}" for number, line in enumerate(said.causes.next, 1))
    known = (said.causes.saving, said.causes.limits, *why, *more, *to_do)
    return tuple(text for text in (said.where_time_goes, *known, *said.biggest, said.missing) if text)


def has_answer(analysis: Analysis[Any], table: pl.DataFrame) -> bool:
    """Whether a table is worth a section: formats differ in what they record, and not every job communicates."""
    measures = [column.name for column in analysis.columns if column.unit in _MEASURES]
    return not table.is_empty() and (not measures or any((table[name] != 0).any() for name in measures))


def step_count(report: Report) -> int:
    """How many steps every rank recorded; 1 where they differ or there are none, so that a worth is of the whole."""
    counts = report.info["step_count"].drop_nulls().unique().to_list()
    return int(counts[0]) if len(counts) == 1 and counts[0] else 1


def parts(report: Report, analyses: Analyses = ALL) -> tuple[Part, ...]:
    """The parts of an average rank's time, from the first analysis that declares parts of a whole."""
    for analysis in analyses:
        units = {column.name: column.unit for column in analysis.columns}
        chart = analysis.chart
        if isinstance(chart, Stacked) and units[chart.x] is Unit.RANK and all(units[y] is Unit.NS for y in chart.y):
            table = report.tables.get(analysis.name)
            if table is None or table.is_empty():
                return ()
            labels = {column.name: fmt.label(column) for column in analysis.columns}
            table = table.filter(~pl.col(chart.x).is_in(_left_out(report)))
            by_rank = table.group_by(chart.x).agg(pl.col(chart.y).sum()).select(pl.col(chart.y).mean())
            sums = {name: float(by_rank[name][0] or 0.0) for name in chart.y}
            whole = sum(sums.values())
            return tuple(Part(y, labels[y], ns, ns / whole if whole else 0.0) for y, ns in sums.items())
    return ()


def facts(info: pl.DataFrame, source: str) -> tuple[tuple[str, str], ...]:
    """What was read, as (label, value) pairs."""
    seen = info.height
    of = int(info["world_count"].max() or seen) if seen else 0  # type: ignore[arg-type]  # an Int64 column
    absent = missing_ranks(info)
    ranks = f"{fmt.number(seen)} of {fmt.number(max(of, seen))}" if absent else fmt.number(seen)
    events, device_events = (int(info[name].sum() or 0) for name in ("event_count", "device_event_count"))
    steps = [fmt.number(count) for count in info["step_count"].drop_nulls().unique().sort()]
    read_ns, text, stored = (int(info[name].sum() or 0) for name in ("load_ns", "text_bytes", "file_bytes"))
    speed = f"; {fmt.size(text)} of text at {fmt.size(text / (read_ns / 1e9))}/s" if read_ns and text else ""
    span = info["span_ns"].max()
    pairs = (
        ("Source", fmt.printable(source)),
        ("Ranks", ranks + (f"; missing {fmt.ranks(absent)}" if absent else "")),
        ("Devices", _distinct(info["device"])),
        ("Peaks", _peaks(info)),
        ("Communication", _distinct(info["backend"])),
        ("Software", _distinct(info["software"])),
        ("Steps", steps[0] if len(steps) == 1 else f"{steps[0]} to {steps[-1]}" if steps else ""),
        ("Recorded time", fmt.duration(float(span)) if isinstance(span, int) else ""),
        ("Events", _events(events, device_events) if seen else "0"),
        ("Read", f"{fmt.size(stored)}{speed}" if stored else ""),
    )
    return tuple((label, value) for label, value in pairs if value)


def _events(in_files: int, on_devices: int) -> str:
    if on_devices > in_files:
        # Some of those on devices follow from what a file says.
        return f"{fmt.number(in_files)} read; {fmt.number(on_devices)} on devices, with those that follow from them"
    return f"{fmt.number(in_files)}, {fmt.number(on_devices)} on devices"


def _peaks(info: pl.DataFrame) -> str:
    """What the devices could do at most, and of what that is taken."""
    known = info.filter(pl.col("peak_tflops").is_not_null() | pl.col("peak_gbps").is_not_null())
    rows = (
        known.select("peak_type", "peak_tflops", "peak_gbps", "peak_from").unique(maintain_order=True).head(_MOST_PEAKS)
    )
    return "; ".join(
        ", ".join(
            part
            for part in (
                f"{fmt.number(round(flops))} TFLOP/s in {kind}, dense" if flops is not None else "",
                f"{fmt.number(round(memory))} GB/s" if memory is not None else "",
            )
            if part
        )
        + f" ({fmt.printable(source)})"
        for kind, flops, memory, source in rows.iter_rows()
    )


def facts_in_a_line(info: pl.DataFrame) -> tuple[str, ...]:
    """The few facts that tell one job from another."""
    known = dict(facts(info, ""))
    ranks = known["Ranks"].replace(";", ",")
    steps = known.get("Steps")
    said = (
        f"{ranks} rank" if ranks == "1" else f"{ranks} ranks" if ranks.replace(",", "").isdigit() else f"ranks {ranks}",
        known.get("Devices", ""),
        known.get("Communication", ""),
        f"{steps} step{'' if steps == '1' else 's'}" if steps and steps != "0" else "",
        f"{known['Recorded time']} recorded" if "Recorded time" in known else "",
    )
    return tuple(text for text in said if text)


def missing_ranks(info: pl.DataFrame) -> tuple[int, ...]:
    """Ranks that the traces say exist and that were not read."""
    worlds = info["world_count"].drop_nulls()
    world = int(worlds.max()) if len(worlds) else 0  # type: ignore[arg-type]  # an Int64 column
    return tuple(sorted(set(range(world)) - set(info["rank"].to_list())))


def advice(finding: Finding, analyses: Analyses = ALL) -> Advice:
    """What the rule behind a finding is documented to say, or what the finding says itself."""
    if finding.what_to_do:
        return Advice("", "", finding.what_to_do)
    for analysis in analyses:
        if analysis.name == finding.analysis:
            for rule in analysis.rules:
                if rule.__name__.replace("_", "-") == finding.rule:
                    return _advice(inspect.getdoc(rule) or "")
    return Advice("", "", "")


def _advice(docstring: str) -> Advice:
    what, _, rest = docstring.partition("\n")
    paragraphs = [" ".join(text.split()) for text in re.split(r"\n\s*\n", rest) if text.strip()]
    if len(paragraphs) > 1:
        return Advice(what, " ".join(paragraphs[:-1]), paragraphs[-1])
    # One paragraph holds both: the last sentence is the one that asks for something.
    sentences = _SENTENCE.split(paragraphs[0]) if paragraphs else [""]
    return Advice(what, " ".join(sentences[:-1]), sentences[-1])


def _left_out(report: Report) -> list[int]:
    """Ranks that are compared with no other."""
    return report.problems.filter(pl.col("problem") == LEFT_OUT)["rank"].to_list()


def _compared(report: Report) -> pl.DataFrame:
    """The rows of rank_info of the other ranks."""
    return report.info.filter(~pl.col("rank").is_in(_left_out(report)))


def _where_time_goes(report: Report, analyses: Analyses) -> str:
    left_out = _left_out(report)
    compared = _compared(report)
    if left_out and compared.is_empty():
        return "Every file is cut off, so nothing is judged; the tables show what could be read."
    shares = sorted(parts(report, analyses), key=lambda part: -part.ns)
    whole = sum(part.ns for part in shares)
    if not whole:
        if not report.info["event_count"].sum():
            return "No rank recorded any time, so there is nothing to judge."
        return "No rank recorded work on a device, so only what hosts did is judged."
    said = [
        f"{fmt.percent(part.ratio)} {part.label.lower()} ({fmt.duration(part.ns)}{_of_idle(part, report)})"
        for part in shares
        if part.ratio >= WORTH_SAYING
    ]
    count = compared.height
    step_ns = _step_ns(report, whole)
    each = f", {fmt.duration(step_ns)} a step" if step_ns else ""
    kind = "whole ranks" if left_out else "ranks"
    who = f"each of the {fmt.number(count)} {kind} ran {fmt.duration(whole)} on average" if count > 1 else ""
    who = who or f"the rank ran {fmt.duration(whole)}"
    recorded = _recorded_ns(report)
    if recorded > (1 + _SAME_TIME) * whole:
        who = f"from the first work on its device to the last, {who}, of {fmt.duration(recorded)} recorded"
    return f"{who[0].upper()}{who[1:]}{each}: {fmt.listed(said)}."


def _of_idle(part: Part, report: Report) -> str:
    """Where most of the idle time is that no host is to blame for: within programs that run."""
    steps = report.tables.get("device_steps")
    if part.name != "idle_ns" or steps is None or steps.is_empty():
        return ""
    between, outside = (float(steps[name].sum() or 0) for name in ("other_ns", "idle_ns"))
    return ", most of it within programs, between their operations" if between > outside else ""


def _recorded_ns(report: Report) -> float:
    """How long the mean rank was recorded: causes are looked for also before its first work, and after its last."""
    ranks = _compared(report)
    spans = [ranks.select("rank", "span_ns")]
    replay = report.tables.get("replay")
    if replay is not None and not replay.is_empty():
        # It counts what hosts did where there are no steps.
        spans.append(
            replay.group_by("rank").agg(span_ns=pl.col("recorded_ns").sum()).join(ranks, on="rank", how="semi")
        )
    longest = pl.concat(spans, how="vertical_relaxed").drop_nulls().group_by("rank").agg(pl.col("span_ns").max())
    return float(longest["span_ns"].mean() or 0)  # type: ignore[arg-type]  # a column of numbers


def _step_ns(report: Report, whole: float) -> float | None:
    """The mean time of a step on devices; null where the ranks' numbers of steps differ, or the replay says another.

    The first work of a recording may have been launched before its first step: what ran is not the time of the steps.
    """
    compared = _compared(report)
    counts = compared["step_count"].drop_nulls().unique().to_list()
    if len(counts) != 1 or not counts[0]:
        return None
    mean = whole / int(counts[0])
    steps = report.tables.get("step_times")
    if steps is not None and not steps.is_empty():
        times = steps.filter(pl.col("rank").is_in(pl.lit(compared["rank"]).implode()))["total_ns"].to_list()
        if len(times) != counts[0] * compared["rank"].n_unique():
            # Of some steps nothing ran on a device.
            return None
        mean = fmean(times)
    replay = report.tables.get("replay")
    if replay is None or replay.is_empty():
        return mean
    longest = max(replay.group_by("rank").agg(pl.col("recorded_ns").sum())["recorded_ns"])
    return mean if abs(longest / counts[0] - mean) <= _SAME_TIME * mean else None


def _biggest_finding(report: Report, analyses: Analyses) -> tuple[str, ...]:
    if not report.findings and len(_left_out(report)) == report.info.height > 0:
        return ()
    if not report.findings:
        return ("No rule found anything to fix.",)
    # What is only worth knowing may cost most, and be explained by another finding.
    first = min(by_cost(report.findings), key=lambda finding: finding.severity == "info")
    some = first.ranks and len(first.ranks) < report.info.height
    where = f", on rank{'s' if len(first.ranks) > 1 else ''} {fmt.ranks(first.ranks)}" if some else ""
    worth = f" (worth up to {fmt.duration(first.cost_ns)})" if first.cost_ns else ""
    message = fmt.printable(sentence(first)).rstrip(".")
    to_do = advice(first, analyses).what_to_do
    return (f"The biggest finding{where}: {message}{worth}.", f"What to do: {to_do}" if to_do else "")


def _what_is_missing(report: Report, analyses: Analyses) -> str:
    absent = missing_ranks(report.info)
    # What concerns no single rank, as a rank that is missing, is said above or by the problem itself.
    of_ranks = report.problems.filter(pl.col("rank").is_not_null(), pl.col("problem") != LEFT_OUT)
    count = int(of_ranks["count"].sum() or 0)
    different = report.problems.filter(problem=DIFFERENT_STEPS)["example"]
    said = [f"ranks recorded different steps, and are {example}" for example in different]
    if left_out := _left_out(report):
        noun = "rank is" if len(left_out) == 1 else "ranks are"
        said.append(f"{fmt.number(len(left_out))} {noun} not compared with the others ({fmt.ranks(left_out)})")
    if count:
        said.append(f"{fmt.plural(count, 'problem')} came up in reading, listed under Problems")
    if absent:
        noun = "rank is" if len(absent) == 1 else "ranks are"
        exposed = next((part.ratio for part in parts(report, analyses) if part.name == _EXPOSED), 0.0)
        causes = report.tables.get(CAUSES)
        is_told = causes is not None and UNRECORDED_RANK in causes["cause"]
        is_unknown = exposed >= _MUCH and len(absent) >= report.info.height and not is_told
        them = "it" if len(absent) == 1 else "them"
        waits = f", so that nothing tells whether the exposed communication waits for {them}" if is_unknown else ""
        said.append(f"{fmt.number(len(absent))} {noun} missing ({fmt.ranks(absent)}){waits}")
    return f"Keep in mind: {fmt.listed(said)}." if said else ""


def _distinct(values: pl.Series) -> str:
    """The different values, most frequent first, each with how many ranks have it where they differ."""
    counts = values.drop_nulls().value_counts(sort=True, name="n")
    texts = [fmt.printable(text) for text in counts[values.name]]
    if len(texts) == 1:
        return texts[0]
    said = [f"{text} ({fmt.plural(n, 'rank')})" for text, n in zip(texts, counts["n"], strict=True)]
    return "; ".join(said[:3]) + (f" and {len(said) - 3} more" if len(said) > 3 else "")
