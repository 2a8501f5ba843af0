"""holotrace info: what is there."""

from __future__ import annotations

import click
import polars as pl

from holotrace.cli.console import console, progress_bar
from holotrace.cli.job_command import job_command
from holotrace.cli.output import write_shown
from holotrace.core.problems import frame, problem
from holotrace.core.schema import legible
from holotrace.core.tables import RANK_INFO
from holotrace.job import Job


@job_command("What the traces contain: ranks, devices, steps, problems.", shows_problems=True)
@click.option(
    "--format",
    "form",
    type=click.Choice(("table", "json")),
    default="table",
    show_default=True,
    help="Format of the answer.",
)
def info(job: Job, form: str) -> None:
    """Show what the traces contain: ranks, devices, software, steps, events, problems; and how fast they were read."""
    from holotrace.present import terminal, writers  # noqa: PLC0415  # rich is not needed for --help

    with progress_bar("Reading") as progress:
        found = job.run((), progress=progress)
    if form == "json":
        problems = pl.concat([found.problems, _not_looked_at(job, found.problems)])
        shown = writers.Shown("info", found.info, RANK_INFO.columns, job.found.origin, problems)
        write_shown(shown, form, None)
    else:
        console().print(terminal.info(found.info, found.problems, job.found.origin, _left_out(job)))


def _left_out(job: Job) -> list[str]:
    """Each file that was there and is no rank's, with the reason."""
    return [f"{one.path}: {one.reason}" for one in job.found.left_out]


def _not_looked_at(job: Job, problems: pl.DataFrame) -> pl.DataFrame:
    """Files that are no problem, as nothing says that they are traces, as rows of the problems table."""
    known = set(problems["file"].drop_nulls())
    rows = (
        problem(
            "file left out", example=one.reason, file=one.path, action="not looked at; name the file itself to read it"
        )
        for one in job.found.left_out
        if legible(one.path) not in known
    )
    return frame(rows)
