"""holotrace info: what is there."""

from __future__ import annotations

import click

from holotrace.cli.console import console, progress_bar
from holotrace.cli.job_command import job_command
from holotrace.cli.output import write_shown
from holotrace.core.tables import RANK_INFO
from holotrace.job import Job


@job_command("What is there: ranks, devices, steps, problems.", shows_problems=True)
@click.option("--format", "form", type=click.Choice(("table", "json")), default="table", show_default=True, help="How.")
def info(job: Job, form: str) -> None:
    """What is in the traces: ranks, devices, software, steps, events, problems, and how fast they were read."""
    from holotrace.present import terminal, writers  # noqa: PLC0415  # rich is not needed for --help

    with progress_bar("Reading") as progress:
        found = job.run((), progress=progress)
    if form == "json":
        shown = writers.Shown("info", found.info, RANK_INFO.columns, job.found.origin, found.problems)
        write_shown(shown, form, None)
    else:
        console().print(terminal.info(found.info, found.problems, job.found.origin))
