"""holotrace show: every analysis and every table as a command, made from its declaration."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import click
import polars as pl

from holotrace.analyses import ALL
from holotrace.cli.console import progress_bar
from holotrace.cli.errors import resolved
from holotrace.cli.options import job_at, output_options, path_argument, rank_option, search_options
from holotrace.cli.output import write_shown
from holotrace.core import tables
from holotrace.core.analysis import Analysis, PerJob
from holotrace.core.schema import Table
from holotrace.discovery import spelled
from holotrace.engine.sql_tables import name_of
from holotrace.errors import MissingDataError, UsageError
from holotrace.job import Job
from holotrace.present import writers
from holotrace.present.writers import Shown
from holotrace.stores import Place


@dataclass(frozen=True)
class _Topic:
    """Something that can be shown, and how to get it from a job."""

    name: str
    section: str
    summary: str
    details: str
    # Gets the job and the values of ``options``.
    answer: Callable[..., Shown]
    options: tuple[click.Option, ...] = field(default=())
    # The option that brings a step column, if the topic has one only then.
    step_option: str | None = None
    # A rank is compared with all others, so these are read as well.
    compares_ranks: bool = False
    every_analysis: bool = False
    # The same as a reader wants it first, for answers of ranks.
    for_people: Callable[[Shown], Shown] | None = None
    # Its chart in place of its table.
    drawn: Callable[[Shown], Shown] | None = None


class _Topics(click.Group):
    """One command per topic, listed by section."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_TOPICS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return resolved(self, ctx, args, super().resolve_command)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        topic = _TOPICS.get(cmd_name.replace("_", "-"))
        return None if topic is None else _command(topic)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section in dict.fromkeys(topic.section for topic in _TOPICS.values()):
            with formatter.section(section):
                formatter.write_dl(
                    [(topic.name, topic.summary) for topic in _TOPICS.values() if topic.section == section]
                )


@click.group(
    cls=_Topics,
    invoke_without_command=True,
    short_help="Show any answer or table, in any format.",
    subcommand_metavar="NAME PATH",
)
@click.pass_context
def show(context: click.Context) -> None:
    """Show one answer or table, on the terminal or as JSON, CSV, Parquet or Markdown. Without a NAME, list all of
    them."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _command(topic: _Topic) -> click.Command:
    @search_options
    @rank_option
    @click.option("--step", "steps", type=int, multiple=True, help="Only this step; may be given several times.")
    @output_options
    def run(
        *,
        path: tuple[str, ...],
        recursive: bool,
        on_duplicate: Any,  # one of the values of OnDuplicate, which click has checked
        ranks: tuple[int, ...],
        steps: tuple[int, ...],
        limit: int | None,
        form: str | None,
        output: Place | None,
        by_rank: bool = False,
        chart: bool = False,
        **options: Any,  # each as its own type says
    ) -> None:
        if steps and topic.step_option:
            options[topic.step_option] = True
        read = () if topic.compares_ranks else ranks
        job = job_at(
            path, recursive=recursive, on_duplicate=on_duplicate, ranks=read, every_analysis=topic.every_analysis
        )
        chosen = job.only(*ranks) if ranks else job
        shown = topic.answer(job, **options)
        if topic.compares_ranks:
            # Rows without a rank are of the whole job.
            is_asked = pl.col("rank").is_in(chosen.ranks) | pl.col("rank").is_null()
            shown = replace(shown, table=shown.table.filter(is_asked))
        if steps:
            shown = _of_steps(shown, steps)
        if topic.drawn is not None and chart:
            shown = topic.drawn(shown)
        elif topic.for_people is not None and not by_rank:
            shown = topic.for_people(shown)
        write_shown(replace(shown, problems=job.noticed(), limit=limit), form, output)

    command = click.command(topic.name, help=f"{topic.summary}\n\n{topic.details}", short_help=topic.summary)(run)
    own = [*([_by_rank()] if topic.for_people else []), *([_chart()] if topic.drawn else [])]
    command.params = [path_argument(), *command.params, *own, *topic.options]
    return command


def _chart() -> click.Option:
    return click.Option(["--chart"], is_flag=True, help="Draw the chart instead of the table.")


def _by_rank() -> click.Option:
    told = "On a terminal, show the rows of every rank. The default is one row per name, or the outliers first."
    return click.Option(["--by-rank"], is_flag=True, help=told)


def _for_people(analysis: Analysis[Any], shown: Shown) -> Shown:
    from holotrace.present import over_ranks  # noqa: PLC0415  # not needed for --help

    return replace(shown, people=over_ranks.for_people(analysis, shown.table))


def _drawn(analysis: Analysis[Any], shown: Shown) -> Shown:
    from holotrace.present import figures, terminal_charts  # noqa: PLC0415  # not needed for --help

    drawing = figures.drawing(analysis, shown.table)
    return replace(shown, render=lambda limit: terminal_charts.chart(drawing, limit), is_chart=True)


def _of_steps(shown: Shown, steps: tuple[int, ...]) -> Shown:
    if "step" not in shown.table.columns:
        raise UsageError(f"{shown.name} has no steps; leave out --step")
    table = shown.table.filter(pl.col("step").is_in(steps))
    if table.is_empty() and not shown.table.is_empty():
        there = spelled(shown.table["step"].drop_nulls().unique())
        raise MissingDataError(f"{shown.name} has no step {spelled(steps)}; there are steps {there or 'none'}")
    return replace(shown, table=table)


def _analysis(analysis: Analysis[Any]) -> _Topic:
    def answer(job: Job, **options: Any) -> Shown:
        with progress_bar("Reading") as progress:
            result = job.run((analysis,), {analysis.name: options}, progress)
        first = result.info["first_ns"].min()
        first_ns = first if isinstance(first, int) else None
        table = result.tables[analysis.name]
        when_empty = _when_empty(analysis) if table.is_empty() else ""
        return Shown(name, table, analysis.columns, job.found.origin, first_ns=first_ns, when_empty=when_empty)

    name = analysis.name.replace("_", "-")
    text, _, arguments = (inspect.getdoc(analysis.source) or "").partition("\nArgs:\n")
    meanings = dict(re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", arguments, flags=re.MULTILINE))
    options = tuple(option(parameter, meanings.get(parameter.name, "")) for parameter in analysis.parameters)
    by_step = "by_step" if any(parameter.name == "by_step" for parameter in analysis.parameters) else None
    details = text.partition("\n")[2].strip()
    compares = isinstance(analysis, PerJob)
    return _Topic(
        *(name, "Analyses", analysis.summary, details, answer, options, by_step, compares),
        for_people=partial(_for_people, analysis),
        drawn=partial(_drawn, analysis) if analysis.chart else None,
    )


def _when_empty(analysis: Analysis[Any]) -> str:
    if analysis.when_empty or not analysis.needs:
        return analysis.when_empty
    tables = [name_of(table).replace("_", "-") for table in analysis.needs]
    made_from = " and ".join(tables)
    return (
        f"No rows. They would be made from {made_from}; holotrace show {tables[0]} lists what the recording has of it."
    )


def option(parameter: inspect.Parameter, meaning: str) -> click.Option:
    """The command line option for an analysis' option."""
    kinds = [kind for kind in get_args(parameter.annotation) if kind is not NoneType]
    literal = get_origin(parameter.annotation) is Literal
    kind = parameter.annotation if literal or len(kinds) != 1 else kinds[0]
    return click.Option(
        ["--" + parameter.name.replace("_", "-")],
        type=click.Choice(get_args(kind)) if literal else kind,
        is_flag=kind is bool,
        default=parameter.default,
        show_default=parameter.default is not None and kind is not bool,
        help=" ".join(meaning.split()),
    )


def _table(table: Table) -> _Topic:
    def answer(job: Job) -> Shown:
        rows = job.table(table)
        columns = table.columns if "rank" in table.column_names else (tables.RANK, *table.columns)
        return Shown(name, rows, columns, job.found.origin)

    name = name_of(table).replace("_", "-")
    return _Topic(name, "Tables", f"{table.meaning}.", "", answer)


def _findings(job: Job) -> Shown:
    from holotrace.present import terminal  # noqa: PLC0415  # rich is not needed for --help

    with progress_bar("Reading") as progress:
        found = job.run(progress=progress).findings
    return writers.Shown(
        "findings",
        writers.findings_table(found),
        tables.FINDINGS.columns,
        job.found.origin,
        render=lambda limit: terminal.findings(found, limit=limit),
    )


def _info(job: Job) -> Shown:
    return Shown("info", job.info(), tables.RANK_INFO.columns, job.found.origin)


def _clocks(job: Job) -> Shown:
    return Shown("clocks", job.clocks(), tables.CLOCKS.columns, job.found.origin)


_ABOUT = "About the job"
_TOPICS = {
    topic.name: topic
    for topic in (
        *map(_analysis, ALL),
        _Topic("findings", _ABOUT, f"{tables.FINDINGS.meaning}.", "", _findings, every_analysis=True),
        _Topic("info", _ABOUT, f"{tables.RANK_INFO.meaning}.", "", _info),
        _Topic("clocks", _ABOUT, f"{tables.CLOCKS.meaning}.", "", _clocks, compares_ranks=True),
        *(_table(table) for table in (*tables.ALL, tables.CALLS)),
    )
}
