"""What notebooks show of a job, its findings and its tables: the page's look, without a script."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import polars as pl

from holotrace.core.analysis import Analysis, Finding, by_cost
from holotrace.core.schema import Column
from holotrace.errors import UsageError
from holotrace.present import figures, report
from holotrace.present import format as fmt
from holotrace.present.wording import sentence

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MOST_ROWS = 15
_MOST_FINDINGS = 12
# Both themes of a notebook show through.
_STYLE = """<style>
.holotrace { font: 14px/1.5 system-ui, sans-serif; max-width: 70rem; overflow-x: auto; }
.holotrace h4 { margin: 0 0 .3rem; font-size: 1.05rem; }
.holotrace p { margin: .3rem 0; }
.holotrace .quiet, .holotrace caption { opacity: .7; text-align: left; caption-side: bottom; }
.holotrace table { border-collapse: collapse; margin: .4rem 0; }
.holotrace th, .holotrace td { padding: .2rem .6rem; border-bottom: 1px solid rgba(128, 128, 128, .3);
  text-align: left !important; vertical-align: top; }
.holotrace th { font-weight: 600; white-space: nowrap; }
.holotrace .number { text-align: right !important; font-variant-numeric: tabular-nums; white-space: nowrap; }
.holotrace .unit { opacity: .6; font-weight: 400; }
.holotrace .severity { padding: 0 .5em; border-radius: 1em; font-size: .85em; background: rgba(31, 111, 184, .18); }
.holotrace .critical { background: rgba(200, 40, 30, .22); }
.holotrace .warning { background: rgba(220, 150, 0, .25); }
</style>"""


class Findings(tuple[Finding, ...]):
    """Findings, dearest first; a notebook shows them as a list with what each is worth."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{fmt.plural(len(self), 'finding')}: {'; '.join(sentence(one) for one in self[:3])}" if self else "none"

    def _repr_html_(self) -> str:
        return _page(findings_html(self))


class Answer(pl.DataFrame):
    """The answer to an analysis: a Polars frame that knows its columns, shows them with units, and draws its chart.

    What Polars makes of it, e.g. by ``filter``, is an ordinary frame.
    """

    # The analysis; in a tuple, since one that is an attribute would be a method. A copy in another process has none.
    _asked: tuple[Analysis[Any], ...] = ()

    @property
    def declared(self) -> tuple[Column, ...]:
        """Its columns with their units and meanings, in order; none of a copy that came from another process."""
        return self._asked[0].columns if self._asked else ()

    @classmethod
    def of(cls, analysis: Analysis[Any], table: pl.DataFrame) -> Answer:
        """The ``table`` that answers an ``analysis``.

        Returns:
            The same rows.
        """
        answer = cls(table)
        answer._asked = (analysis,)
        return answer

    def figure(self) -> Figure:
        """Its chart, a Plotly figure for a notebook: ``job.overlap().figure()``.

        Returns:
            A ``plotly.graph_objects.Figure``.

        Raises:
            UsageError: the analysis declares no chart, or it is not known which one was asked.
        """
        if not self._asked:
            raise UsageError("this table does not say which analysis it answers; ask job.figure(NAME)")
        return figures.figure(self._asked[0], self)

    def _repr_html_(self, **options: Any) -> str:
        # What was made of it has columns of its own.
        if not self._asked or self.columns != [column.name for column in self.declared]:
            return super()._repr_html_(**options)
        return _page(table_html(self, self.declared, self._asked[0].summary))


def table_html(table: pl.DataFrame, columns: Sequence[Column], caption: str = "") -> str:
    """The first rows as HTML, in the units of a report."""
    shown = [column for column in columns if table.is_empty() or table[column.name].null_count() < table.height]
    scales = fmt.scales(table, tuple(shown))
    kinds = ["number" if fmt.is_measure(column) else "" for column in shown]
    heads = "".join(_head(c, by.unit, kind) for c, by, kind in zip(shown, scales, kinds, strict=True))
    top = table.head(MOST_ROWS)
    cells = [
        [f'<td class="{kind}">{_text(fmt.cell(value, c, by))}</td>' for value in top[c.name].to_list()]
        for c, by, kind in zip(shown, scales, kinds, strict=True)
    ]
    rows = "".join(f"<tr>{''.join(row)}</tr>" for row in zip(*cells, strict=True))
    count = f"{fmt.number(min(MOST_ROWS, table.height))} of {fmt.plural(table.height, 'row')}"
    said = f"{_text(caption)} {count}." if table.height > MOST_ROWS else _text(caption)
    return f"<table><caption>{said}</caption><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


def findings_html(findings: Sequence[Finding]) -> str:
    """What is wrong, dearest first, what it is worth and what to do."""
    if not findings:
        return "<p>No rule found anything to fix.</p>"
    rows = "".join(_finding(finding) for finding in by_cost(findings)[:_MOST_FINDINGS])
    more = len(findings) - _MOST_FINDINGS
    rest = f'<p class="quiet">{fmt.plural(more, "more finding")}.</p>' if more > 0 else ""
    head = '<th>Severity</th><th>Finding</th><th>Ranks</th><th class="number">Worth up to</th>'
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{rest}"


def result_html(result: report.Report) -> str:
    """The verdict and the findings of a result."""
    said = "".join(f"<p>{_text(text)}</p>" for text in report.verdict(result))
    tables = ", ".join(name for name, table in result.tables.items() if not table.is_empty())
    note = f'<p class="quiet">Tables: {_text(tables)}. <code>result.tables["overlap"]</code> is one of them.</p>'
    return _page(f"<h4>{_text(result.title)}</h4>{said}{findings_html(result.findings)}{note}")


def change_html(told: str, sentences: Sequence[str]) -> str:
    """How much longer a step takes, and why."""
    return _page(f"<h4>{_text(told)}</h4>{''.join(f'<p>{_text(sentence)}</p>' for sentence in sentences)}")


def job_html(title: str, source: str, ranks: str, is_whole: bool) -> str:
    """What a job is, before anything is asked."""
    ask = '<code>job.run()</code>, <code>job.causes()</code>, <code>job.figure("overlap")</code>'
    missing = "" if is_whole else " Some data is missing: <code>job.problems()</code> lists it."
    told = f"<p>Ranks {_text(ranks or 'none')}, from <code>{_text(source)}</code>.{missing}</p>"
    return _page(f'<h4>{_text(title)}</h4>{told}<p class="quiet">Ask it: {ask}, <code>job.view()</code>.</p>')


def progress(what: str) -> Callable[[int, int], None] | None:
    """What shows ranks as they are done below a notebook's cell; None elsewhere."""
    python = sys.modules.get("IPython")
    shell = python.get_ipython() if python else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    shown: list[Any] = []

    def tell(done: int, total: int) -> None:
        bar = f"<progress value='{done}' max='{total}'></progress> {_text(what)}: {done} of {fmt.plural(total, 'rank')}"
        data = {"text/html": bar if done < total else "", "text/plain": ""}
        if shown:
            shown[0].update(data, raw=True)
        elif done < total:
            shown.append(python.display.display(data, raw=True, display_id=True))  # type: ignore[union-attr]  # as above

    return tell


def _head(column: Column, unit: str, kind: str) -> str:
    label = f'{_text(fmt.label(column))} <span class="unit">{_text(unit)}</span>'
    return f'<th class="{kind}" title="{_text(column.meaning)}">{label}</th>'


def _finding(finding: Finding) -> str:
    advice = report.advice(finding).what_to_do
    to_do = f'<br><span class="quiet">{_text(advice)}</span>' if advice else ""
    return (
        f'<tr><td><span class="severity {_text(finding.severity)}">{_text(finding.severity)}</span></td>'
        f"<td>{_text(sentence(finding))}{to_do}</td>"
        f"<td>{_text(fmt.ranks(finding.ranks) if finding.ranks else 'all')}</td>"
        f'<td class="number">{_text(fmt.duration(finding.cost_ns))}</td></tr>'
    )


def _page(content: str) -> str:
    return f'{_STYLE}<div class="holotrace">{content}</div>'


def _text(text: str) -> str:
    """Text that a browser takes for text, whatever it holds."""
    return escape(fmt.printable(text))
