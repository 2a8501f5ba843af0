"""holotrace report: everything about a job, for people or for programs."""

from __future__ import annotations

from typing import get_args

import click

from holotrace.cli.console import console, progress_bar
from holotrace.cli.errors import FOUND
from holotrace.cli.job_command import job_command
from holotrace.cli.options import Output
from holotrace.cli.output import put, tell_partial
from holotrace.core.analysis import CAUSES, Severity
from holotrace.job import Job
from holotrace.present import writers
from holotrace.stores import Place, place


@job_command("Write a report on everything: one page, or JSON or Markdown.", every_analysis=True, shows_problems=True)
@click.option(
    "--format",
    "form",
    type=click.Choice([writer.name for writer in writers.OF_REPORTS]),
    help="Format of the report; by default, it follows from the name of the output file, or is html.",
)
@click.option(
    "-o",
    "--output",
    type=Output(),
    help="Where to write the report; by default report.html, or standard output for other formats.",
)
@click.option(
    "--fail-on",
    type=click.Choice(tuple(reversed(get_args(Severity)))),
    help=f"End with exit code {FOUND} if there is a finding of this severity or a higher one.",
)
@click.option(
    "--unprofiled-step-ms",
    type=float,
    metavar="MS",
    help="How long a step takes without the profiler, in milliseconds: costs of causes are corrected for it.",
)
@click.pass_context
def report(
    context: click.Context,
    *,
    job: Job,
    form: str | None,
    output: Place | None,
    fail_on: str | None,
    unprofiled_step_ms: float | None,
) -> None:
    """Write a report: a verdict, charts, tables, findings and problems.

    It is one HTML page that works offline, or the same content as JSON or Markdown.
    """
    from holotrace.present import terminal  # noqa: PLC0415  # rich is not needed for --help

    named = None if output is None else output.name
    writer = writers.form_of(form, named, writers.OF_REPORTS, writers.HTML)
    if output is None and writer is writers.HTML:
        output = place("report.html")
    with progress_bar("Reading") as progress:
        options = {} if unprofiled_step_ms is None else {CAUSES: {"unprofiled_step_ms": unprofiled_step_ms}}
        result = job.run(writer.analyses, options, progress=progress)
    if writer.write_report is not None:
        put(writer.write_report(writers.ShownReport(result)), writer, output)
    if output is not None:
        console().print(terminal.verdict(result))
    tell_partial(result.problems)
    severities = get_args(Severity)
    if fail_on and any(severities.index(f.severity) >= severities.index(fail_on) for f in result.findings):
        context.exit(FOUND)
