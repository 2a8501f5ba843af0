"""holotrace overlay: the traces with more in them."""

from __future__ import annotations

from pathlib import Path

import click

from holotrace.cli.options import job_arguments, job_at, rank_option
from holotrace.errors import UsageError
from holotrace.sources import OnDuplicate


@click.command(short_help="Copies of the traces with more in them, to look at in Perfetto.")
@job_arguments
@rank_option
@click.option("--counters", is_flag=True, help="Add the length of each queue and the bandwidth of copies over time.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder for the copies, made if need be.",
)
def overlay(  # noqa: PLR0917  # click gives them by name
    path: tuple[str, ...],
    recursive: bool,
    on_duplicate: OnDuplicate,
    ranks: tuple[int, ...],
    counters: bool,
    output: Path,
) -> None:
    """Copies of the traces with more in them, to look at in Perfetto; all that was recorded stays as it is.

    Drop a copy onto https://ui.perfetto.dev to see it.
    """
    if not counters:
        raise UsageError("nothing was asked for; say what to add: --counters")
    for written in job_at(path, recursive=recursive, on_duplicate=on_duplicate, ranks=ranks).write_counters(output):
        click.echo(f"wrote {written}", err=True)
