"""holotrace info: what is there."""

from __future__ import annotations

import click

from holotrace.cli.console import console, progress_bar
from holotrace.cli.options import job_arguments, job_at, rank_option
from holotrace.cli.output import JSON, TABLE, Shown, write_shown
from holotrace.core.tables import RANK_INFO
from holotrace.discovery import OnDuplicate


@click.command(short_help="What is there: ranks, devices, steps, problems.")
@job_arguments
@rank_option
@click.option("--format", "form", type=click.Choice((TABLE, JSON)), default=TABLE, show_default=True, help="How.")
def info(path: tuple[str, ...], recursive: bool, on_duplicate: OnDuplicate, ranks: tuple[int, ...], form: str) -> None:
    """What is in the traces: ranks, devices, software, steps, events, problems, and how fast they were read."""
    from holotrace.present import terminal  # noqa: PLC0415  # rich is not needed for --help

    job = job_at(path, recursive=recursive, on_duplicate=on_duplicate, ranks=ranks)
    with progress_bar("Reading") as progress:
        found = job.run((), progress=progress)
    if form == JSON:
        write_shown(Shown("info", found.info, RANK_INFO.columns, job.found.origin), JSON, None, None)
    else:
        console().print(terminal.info(found.info, found.problems, job.found.origin))
