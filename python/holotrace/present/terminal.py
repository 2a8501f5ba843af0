"""What the commands print: the verdict, findings, tables and facts, as rich renderables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from io import StringIO
from itertools import accumulate

import polars as pl
from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from holotrace.analyses import ALL
from holotrace.core.analysis import Finding, by_cost
from holotrace.core.problems import MISSING
from holotrace.core.schema import Column
from holotrace.present import format as fmt
from holotrace.present import report
from holotrace.present.wording import sentence

# Everything from a trace is a Text, never a string: rich would obey markup in a string.
_STYLES = {"critical": "bold red", "warning": "yellow", "info": "blue"}
# Wide enough for the tables, where no terminal says how wide it is.
TEXT_WIDTH = 160
# Characters of a line that a name keeps, however many columns stand beside it, and how many lines it may take.
_SHORTEST_TEXT, _LINES = 32, 2
_WIDEST = 20_000  # characters of a line


def as_text(renderable: RenderableType, width: int = TEXT_WIDTH) -> str:
    """What a terminal would show, without colours."""
    text = StringIO()
    Console(file=text, width=width).print(renderable)
    return text.getvalue()


def verdict(result: report.Report, analyses: report.Analyses = ALL) -> RenderableType:
    """The verdict in a box: where time goes and what could be saved, why it is lost, what to do next."""
    said = report.verdict_parts(result, analyses)
    lines = [said.where_time_goes, said.causes.saving, said.causes.limits, *said.biggest]
    sentences = [Text(fmt.printable(line)) for line in lines if line]
    for title, reasons in (("Why", said.causes.why), ("Next", said.causes.next)):
        if reasons:
            sentences.append(Text(title, style="bold"))
            sentences += [Text(f"{number}. {fmt.printable(line)}") for number, line in enumerate(reasons, 1)]
    if said.missing:
        sentences.append(Text(fmt.printable(said.missing), style="dim"))
    return Panel(Group(*sentences), title=Text(fmt.printable(result.title)), title_align="left")


def findings(found: Sequence[Finding], *, limit: int | None = None) -> RenderableType:
    """Findings, most expensive first; the first ``limit`` of them."""
    if not found:
        return Text("No rule found anything to fix.")
    ordered = by_cost(found)
    shown = ordered[:limit]
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    grid.add_column("Severity", no_wrap=True)
    grid.add_column("Finding", overflow="fold", ratio=1)
    grid.add_column("Rule", overflow="fold")
    grid.add_column("Ranks", overflow="fold")
    grid.add_column("Worth up to", justify="right", no_wrap=True)
    for finding in shown:
        grid.add_row(
            Text(finding.severity, style=_STYLES[finding.severity]),
            Text(fmt.printable(sentence(finding))),
            Text(finding.rule, style="dim"),
            Text(fmt.ranks(finding.ranks) if finding.ranks else "all"),
            Text(fmt.duration(finding.cost_ns)),
        )
    return _with_rest(grid, len(ordered) - len(shown), "finding")


def table(
    frame: pl.DataFrame,
    columns: tuple[Column, ...],
    *,
    limit: int | None = 20,
    width: int = 100,
    together: Collection[str] = (),
    first_ns: int | None = None,
) -> RenderableType:
    """A result table for a terminal ``width`` characters wide; long names wrap, the last columns go.

    Args:
        limit: Rows to show; all if None.
        together: Columns that share a unit, as the parts of a whole do.
        first_ns: When the first event of the job was, from which points in time are counted.
    """
    if frame.is_empty():
        return Text("No rows.")
    frame, columns = fmt.since_first_event(frame, columns, first_ns)
    # A column nobody filled, as the step where steps were not asked for, says nothing in every row.
    columns = tuple(column for column in columns if frame[column.name].null_count() < frame.height)
    # Scales come from all rows, so that the first rows look the same whatever the limit.
    scales = fmt.scales(frame, columns, {column.name for column in columns} & set(together))
    shown = frame if limit is None else frame.head(limit)
    texts = [
        [fmt.cell(value, column, by) for value in shown[column.name]]
        for column, by in zip(columns, scales, strict=True)
    ]
    heads = [(fmt.label(column), by.unit) for column, by in zip(columns, scales, strict=True)]
    needs = _needs(columns, heads, texts)
    kept = max(1, sum(end <= width for end in accumulate(need + 3 for need in needs)))
    left_out = [head for head, _ in heads[kept:]]
    columns, heads, texts = columns[:kept], heads[:kept], texts[:kept]
    widths = _widths(
        columns, needs[:kept], [_whole(head, cells) for head, cells in zip(heads, texts, strict=True)], width
    )
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column, (head, unit), wide in zip(columns, heads, widths, strict=True):
        title = Text(head)
        if unit:
            title.append(f"\n{unit}", style="dim")
        grid.add_column(title, justify="right" if fmt.is_measure(column) else "left", overflow="fold", width=wide)
    for row in zip(*texts, strict=True):
        grid.add_row(
            *(
                Text(cell if fmt.is_number(column) else fmt.middle(cell, _LINES * wide))
                for cell, column, wide in zip(row, columns, widths, strict=True)
            )
        )
    rest = _with_rest(grid, frame.height - shown.height, "row")
    if not left_out:
        return rest
    more = f"{fmt.plural(len(left_out), 'more column')}; show them with --wide: {', '.join(left_out)}"
    return Group(rest, Text(more, style="dim"))


def with_verdict(drawn: RenderableType, title: str, verdict: Sequence[str]) -> RenderableType:
    """What is drawn below a box that says what it comes to."""
    return Group(in_box(title, verdict), drawn)


def in_box(title: str, lines: Sequence[str]) -> RenderableType:
    """Sentences in a box."""
    said = Group(*(Text(fmt.printable(line)) for line in lines))
    return Panel(said, title=Text(fmt.printable(title)), title_align="left")


def line(text: str) -> RenderableType:
    """A sentence in place of what there is nothing of."""
    return Text(fmt.printable(text))


def with_note(drawn: RenderableType, note: str) -> RenderableType:
    """What is drawn with a line below it."""
    return Group(drawn, Text(note, style="dim")) if note else drawn


_MOST_LEFT_OUT = 20  # files that are named


def info(rank_info: pl.DataFrame, problems: pl.DataFrame, source: str, left_out: Sequence[str] = ()) -> RenderableType:
    """What is there: facts of the job, and what could not be read."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, value in report.facts(rank_info, source):
        grid.add_row(Text(label), Text(value))
    for text in left_out[:_MOST_LEFT_OUT]:
        grid.add_row(Text("Left out"), Text(fmt.printable(text)))
    if len(left_out) > _MOST_LEFT_OUT:
        grid.add_row(
            Text("Left out"), Text(f"{fmt.number(len(left_out) - _MOST_LEFT_OUT)} other files; --format json names all")
        )
    if problems.is_empty():
        grid.add_row(Text("Problems"), Text("none"))
        return grid
    kinds = problems.group_by("problem", "action").agg(
        pl.col("count").sum(),
        pl.col("rank").drop_nulls().unique(),
        pl.col("example").filter(pl.col("rank").is_null()).first(),
    )
    for problem, action, count, ranks, of_job in kinds.sort("count", "problem", descending=[True, False]).iter_rows():
        # How many ranks are missing is no number of times, and its example says it.
        is_counted = count > 1 and problem != MISSING
        times = f" ({fmt.number(count)} times)" if is_counted else f" ({fmt.middle(of_job, 120)})" if of_job else ""
        where = f" on rank{'s' if len(ranks) > 1 else ''} {fmt.ranks(ranks)}" if ranks else ""
        grid.add_row(Text("Problem"), Text(fmt.printable(f"{problem}{where}{times}; {action}"), style="yellow"))
    return grid


def _needs(columns: Sequence[Column], heads: Sequence[tuple[str, str]], texts: Sequence[Sequence[str]]) -> list[int]:
    """The least characters of each column: numbers whole, texts on several lines, heads a word to a line."""
    return [
        max(
            *map(len, head.split()),
            len(unit),
            min(max(map(len, cells), default=0), _WIDEST if fmt.is_number(column) else _SHORTEST_TEXT),
        )
        for column, (head, unit), cells in zip(columns, heads, texts, strict=True)
    ]


def _whole(head: tuple[str, str], cells: Sequence[str]) -> int:
    """Characters of a column in which nothing is wrapped."""
    return max(map(len, (*head, *cells)))


def _widths(columns: Sequence[Column], needs: Sequence[int], whole: Sequence[int], width: int) -> list[int]:
    """Characters of each column: heads in one line if there is room, and texts get what is left."""
    is_text = [not fmt.is_number(column) for column in columns]
    with_heads = [need if text else full for need, full, text in zip(needs, whole, is_text, strict=True)]
    widths = with_heads if sum(with_heads) + 3 * len(columns) <= width else list(needs)
    left = width - 3 * len(columns) - sum(widths)
    # Short texts take what they need, and the long ones share the rest.
    texts = sorted((i for i, text in enumerate(is_text) if text), key=lambda i: whole[i] - widths[i])
    for position, i in enumerate(texts):
        more = min(whole[i] - widths[i], max(left, 0) // (len(texts) - position))
        widths[i] += more
        left -= more
    return widths


def _with_rest(grid: Table, left: int, noun: str) -> RenderableType:
    if left <= 0:
        return grid
    rest = f"{fmt.plural(left, f'more {noun}')}; show them with --limit"
    return Group(grid, Text(rest, style="dim"))
