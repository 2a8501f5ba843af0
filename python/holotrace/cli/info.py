"""holotrace info: what is there."""

from __future__ import annotations

import polars as pl

from holotrace.cli.console import progress_bar
from holotrace.cli.job_command import job_command
from holotrace.cli.options import output_options
from holotrace.cli.output import write_shown
from holotrace.core.problems import frame, problem
from holotrace.core.schema import legible
from holotrace.core.tables import RANK_INFO
from holotrace.job import Job
from holotrace.present.writers import Shown
from holotrace.stores import Place


@job_command("What the traces contain: ranks, devices, steps, problems.", shows_problems=True)
@output_options
def info(job: Job, limit: int | None, form: str | None, output: Place | None) -> None:
    """Show what the traces contain: ranks, devices, software, steps, events, problems; and how fast they were read."""
    from holotrace.present import terminal  # noqa: PLC0415  # rich is not needed for --help

    with progress_bar("Reading") as progress:
        found = job.run((), progress=progress)
    problems = pl.concat([found.problems, _not_looked_at(job, found.problems)])
    shown = Shown(
        "info",
        found.info,
        RANK_INFO.columns,
        job.found.origin,
        problems,
        limit,
        render=lambda _: terminal.info(found.info, found.problems, job.found.origin, _left_out(job)),
        tells_problems=True,
    )
    write_shown(shown, form, output)


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
