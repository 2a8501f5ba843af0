"""Every form that an answer can be written in: text, JSON in one versioned envelope, CSV, Parquet, Markdown, HTML."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import TYPE_CHECKING, Any

import polars as pl

from holotrace.analyses import ALL
from holotrace.analyses.lanes import DRAWN
from holotrace.core.analysis import Finding, by_cost
from holotrace.core.schema import Column
from holotrace.core.tables import FINDINGS, PROBLEMS, RANK_INFO
from holotrace.errors import UsageError
from holotrace.present import files
from holotrace.present import format as fmt
from holotrace.present import report as reports
from holotrace.present.wording import sentence
from holotrace.stores import Place

if TYPE_CHECKING:
    from rich.console import RenderableType

# They grow when a field changes its meaning or goes; new fields may come without.
SCHEMA = "holotrace.table/1"
REPORT_SCHEMA = "holotrace.report/1"
TERMINAL_ROWS = 20  # of a table, unless there is a limit

# A spreadsheet takes a cell that begins like this for a formula, unless it is a number.
_FORMULA = r"^[=+\-@\t\r]"
_NUMBER = r"^[+-]?\d+(\.\d+)?([eE][+-]?\d+)?$"
_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f]"


@dataclass(frozen=True)
class Shown:
    """A table and what it is."""

    name: str
    table: pl.DataFrame
    columns: tuple[Column, ...]
    source: str
    # What may be missing from it: rows of the problems table.
    problems: pl.DataFrame = field(default_factory=PROBLEMS.empty)
    # Only so many rows; all if None.
    limit: int | None = None
    # How a terminal shows it, where that is not as a plain table: from its limit.
    render: Callable[[int], RenderableType] | None = None
    # Whether that tells the problems, too.
    tells_problems: bool = False
    # Whether that is a chart, which no other form holds.
    is_chart: bool = False
    # Sentences that say what the table comes to.
    verdict: tuple[str, ...] = ()
    # What a terminal shows in place of the table: rows and their columns, and a word on them.
    people: tuple[pl.DataFrame, tuple[Column, ...], str] | None = None
    # When the first event of the job was, from which a terminal counts points in time.
    first_ns: int | None = None
    # What a terminal says where it has no rows.
    when_empty: str = ""

    @property
    def head(self) -> pl.DataFrame:
        """The rows to show."""
        return self.table if self.limit is None else self.table.head(self.most(self.table.height))

    def most(self, rows: int) -> int:
        """How many rows to show where nobody says otherwise."""
        return rows if self.limit is None else min(self.limit, self.table.height)


@dataclass(frozen=True)
class ShownReport:
    """All answers of a job."""

    report: reports.Report
    analyses: reports.Analyses = ALL


@dataclass(frozen=True)
class Writer:
    """One form of answers: how it is chosen, and what makes it."""

    name: str
    suffixes: tuple[str, ...]
    is_binary: bool = False
    # What a web server says of it.
    media_type: str = "application/octet-stream"
    # Makes the content of a table, or of a report; None where it holds no such thing.
    write: Callable[[Shown], str | bytes] | None = None
    write_report: Callable[[ShownReport], str | bytes] | None = None
    # Whether its reports show the timeline, which takes analyses of its own.
    draws_timeline: bool = False

    @property
    def analyses(self) -> reports.Analyses:
        """Those that its reports show."""
        return (*ALL, *DRAWN) if self.draws_timeline else ALL


def form_of(name: str | None, output: str | None, writers: Sequence[Writer], default: Writer) -> Writer:
    """The writer that is called ``name``, or else the one that the output's ending tells.

    Args:
        name: What the user chose; None if nothing.
        output: The file to write; None for standard output.
        writers: Those that can write what is shown.
        default: What to take where neither tells.
    """
    chosen = next((writer for writer in writers if writer.name == name), None)
    ending = _ending(output) if output else ""
    told = next((writer for writer in WRITERS if ending in writer.suffixes), None) if ending else None
    if chosen and told and told is not chosen:
        raise UsageError(
            f"{output} ends as {told.name} does, and {chosen.name} was asked for; "
            f"end its name in {' or '.join(chosen.suffixes)}, or leave out --format"
        )
    if chosen:
        return chosen
    if told in writers:
        return told or default
    if ending:
        endings = ", ".join(suffix for writer in writers for suffix in writer.suffixes)
        raise UsageError(f"{output} ends in {ending}, which cannot be written here; its name can end in {endings}")
    return default


def report_writer(out: Place) -> Writer:
    """The writer that the ending of ``out`` tells; HTML where it has none."""
    return form_of(None, out.name, OF_REPORTS, HTML)


def save_report(shown: ShownReport, out: Place) -> None:
    """Write a report to ``out`` in the form that its ending tells, whole or not at all."""
    writer = report_writer(out)
    if writer.write_report is not None:
        files.write(out, writer.write_report(shown), media_type=writer.media_type)


def _ending(output: str) -> str:
    """``.csv`` of ``kernels.csv``; empty where nothing looks like one."""
    found = re.search(r"[^/\\](\.[A-Za-z][A-Za-z0-9]{0,9})$", output)
    return found[1].lower() if found else ""


def text(shown: Shown, width: int) -> RenderableType:
    """The table as a terminal shows it."""
    from holotrace.present import terminal  # noqa: PLC0415  # rich is needed for text only

    if shown.verdict:
        return terminal.with_verdict(text(replace(shown, verdict=()), width), shown.source, shown.verdict)
    if shown.table.is_empty() and shown.when_empty and shown.render is None:
        return terminal.line(shown.when_empty)
    rows = shown.most(TERMINAL_ROWS)
    if shown.render is not None:
        return shown.render(rows)
    if shown.people is None:
        return terminal.table(shown.table, shown.columns, limit=rows, width=width, first_ns=shown.first_ns)
    table, columns, note = shown.people
    rows = min(TERMINAL_ROWS if shown.limit is None else shown.limit, table.height)
    drawn = terminal.table(table, columns, limit=rows, width=width, first_ns=shown.first_ns)
    return terminal.with_note(drawn, note)


def _plain_text(shown: Shown) -> str:
    from holotrace.present import terminal  # noqa: PLC0415  # rich is needed for text only

    return terminal.as_text(text(shown, terminal.TEXT_WIDTH))


def json_text(shown: Shown) -> str:
    """The table in an envelope that says what it is; rows are objects with the declared column names."""
    return _dumped(
        {
            "schema": SCHEMA,
            "name": shown.name,
            "source": shown.source,
            "holotrace": _version(),
            **({"verdict": list(shown.verdict)} if shown.verdict else {}),
            "columns": _described(shown.columns),
            "problems": _rows(shown.problems),
            "data": _data(shown.head, shown.table.height),
        }
    )


def json_report(shown: ShownReport) -> str:
    """All answers in an envelope: the verdict, findings, problems, ranks, and the table of each analysis."""
    report = shown.report
    said = reports.verdict_parts(report, shown.analyses)
    told = {analysis.name: analysis for analysis in shown.analyses if analysis.name in report.tables}
    return _dumped(
        {
            "schema": REPORT_SCHEMA,
            "name": report.title,
            "source": report.source,
            "holotrace": _version(),
            "verdict": list(reports.verdict(report, shown.analyses)),
            "why": list(said.causes.why),
            "next": list(said.causes.next),
            "findings": _rows(findings_table(by_cost(report.findings))),
            "problems": _rows(report.problems),
            "ranks": _rows(report.info),
            "tables": {
                name: {
                    "columns": _described(analysis.columns),
                    "data": _data(report.tables[name], report.tables[name].height),
                }
                for name, analysis in told.items()
            },
        }
    )


def csv_text(shown: Shown) -> str:
    """The table as CSV with a head; lists of ranks are joined by blanks, and no cell is a formula."""
    table = shown.head
    lists = [column.name for column in shown.columns if column.unit in fmt.LISTS]
    plain = table.with_columns(pl.col(lists).cast(pl.List(pl.String())).list.join(" "))
    texts = [name for name, dtype in plain.schema.items() if dtype in (pl.String, pl.Categorical)]
    heads = pl.DataFrame({"head": plain.columns}, schema={"head": pl.String()}).select(_harmless("head")).to_series()
    harmless = plain.with_columns(map(_harmless, texts))
    return harmless.rename(dict(zip(plain.columns, heads, strict=True))).write_csv()


def _harmless(name: str) -> pl.Expr:
    """The texts as no spreadsheet takes them for formulas and no terminal for commands."""
    cell = pl.col(name).cast(pl.String).str.replace_all(_CONTROL, "\ufffd")
    is_formula = cell.str.contains(_FORMULA) & ~cell.str.contains(_NUMBER)
    return pl.when(is_formula).then("'" + cell).otherwise(cell).alias(name)


def parquet_bytes(shown: Shown) -> bytes:
    """The table as a Parquet file."""
    buffer = BytesIO()
    shown.head.write_parquet(buffer)
    return buffer.getvalue()


def markdown_text(shown: Shown) -> str:
    """What the table comes to, and the table, as Markdown."""
    parts = (*(_escaped(line) for line in shown.verdict), markdown_table(shown.head, shown.columns))
    return "\n\n".join(parts) + "\n"


def markdown_report(shown: ShownReport) -> str:
    """The verdict, the findings and the problems as Markdown."""
    report = shown.report
    said = reports.verdict_parts(report, shown.analyses)
    spent = (said.where_time_goes, said.causes.saving, said.causes.limits, *said.biggest, said.missing)
    parts = [f"# {_escaped(report.title)}", *(_escaped(line) for line in spent if line)]
    for title, lines in (("Why", said.causes.why), ("Next", said.causes.next)):
        if lines:
            listed = "\n".join(f"{number}. {_escaped(line)}" for number, line in enumerate(lines, 1))
            parts += [f"## {title}", listed]
    parts.append("## Findings")
    if report.findings:
        columns = tuple(c for c in FINDINGS.columns if c.name in ("severity", "message", "ranks", "cost_ns", "rule"))
        found = findings_table(by_cost(report.findings)).select(c.name for c in columns)
        parts.append(markdown_table(found, columns))
    else:
        parts.append("No rule found anything to fix.")
    columns = tuple(c for c in RANK_INFO.columns if c.name not in ("file", "rank_from", "step_runs", "step_ends"))
    parts += ["## Ranks", markdown_table(report.info.select(c.name for c in columns), columns), "## Problems"]
    parts.append("None." if report.problems.is_empty() else markdown_table(report.problems, PROBLEMS.columns))
    return "\n\n".join(parts) + "\n"


def markdown_table(table: pl.DataFrame, columns: Sequence[Column]) -> str:
    """Rows with numbers as people read them, each column in one unit."""
    scales = fmt.scales(table, tuple(columns), set())
    heads = [
        f"{fmt.label(column)} ({by.unit})" if by.unit else fmt.label(column)
        for column, by in zip(columns, scales, strict=True)
    ]
    rules = ["---:" if fmt.is_measure(column) else "---" for column in columns]
    rows = (
        [fmt.cell(row[column.name], column, by) for column, by in zip(columns, scales, strict=True)]
        for row in table.iter_rows(named=True)
    )
    return "\n".join(f"| {' | '.join(map(_escaped, cells))} |" for cells in (heads, rules, *rows))


def _escaped(cell: str) -> str:
    # Names come from traces; none may end its cell or bring markup.
    return re.sub(r"([\\|`<>\[\]*_])", r"\\\1", fmt.printable(cell))


def _html_report(shown: ShownReport) -> str:
    from holotrace.present import html  # noqa: PLC0415  # templates, needed by no other form

    return html.page(shown.report, shown.analyses)


TABLE = Writer("table", (".txt",), write=_plain_text)
JSON = Writer("json", (".json",), write=json_text, write_report=json_report)
CSV = Writer("csv", (".csv",), write=csv_text)
PARQUET = Writer("parquet", (".parquet",), is_binary=True, write=parquet_bytes)
MARKDOWN = Writer("markdown", (".md",), write=markdown_text, write_report=markdown_report)
HTML = Writer(
    "html",
    (".html", ".htm"),
    media_type="text/html; charset=utf-8",
    write_report=_html_report,
    draws_timeline=True,
)
WRITERS = (TABLE, JSON, CSV, PARQUET, MARKDOWN, HTML)
OF_TABLES = tuple(writer for writer in WRITERS if writer.write)
OF_REPORTS = tuple(writer for writer in WRITERS if writer.write_report)
OF_CHANGES = (*OF_TABLES, HTML)  # which has a page of its own for what changed between two jobs


def findings_table(findings: Sequence[Finding]) -> pl.DataFrame:
    """Findings as a table, in their order."""
    rows = [
        {
            **{
                name: getattr(finding, name)
                for name in ("severity", "rule", "analysis", "cost_ns", "step_cost_ns", "what_to_do")
            },
            "explains": ", ".join(finding.explains) or None,
            "message": sentence(finding),
            "ranks": list(finding.ranks),
            "values": json.dumps(dict(finding.values), ensure_ascii=False),
        }
        for finding in findings
    ]
    return pl.DataFrame(rows, schema=FINDINGS.empty().schema)


def _described(columns: Sequence[Column]) -> list[dict[str, str]]:
    return [{"name": c.name, "unit": c.unit.name.lower(), "meaning": c.meaning} for c in columns]


def _data(table: pl.DataFrame, total: int) -> dict[str, Any]:
    return {"count": table.height, "total": total, "rows": _rows(table)}


def _rows(table: pl.DataFrame) -> list[dict[str, Any]]:
    return [{key: _plain(value) for key, value in row.items()} for row in table.iter_rows(named=True)]


def _dumped(envelope: Mapping[str, Any]) -> str:
    return json.dumps(envelope, indent=2, ensure_ascii=False, allow_nan=False)


def _version() -> str:
    from importlib.metadata import version  # noqa: PLC0415  # takes long, and is needed for JSON only

    return version("holotrace")


def _plain(value: Any) -> Any:
    # JSON knows no infinity and no NaN.
    return None if isinstance(value, float) and not math.isfinite(value) else value
