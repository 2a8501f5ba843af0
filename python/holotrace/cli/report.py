"""holotrace report: one page with everything."""

from __future__ import annotations

import click

from holotrace.cli.console import console, progress_bar
from holotrace.cli.options import Output, job_arguments, job_at, rank_option
from holotrace.discovery import OnDuplicate
from holotrace.stores import Place


@click.command(short_help="One HTML page with everything.")
@job_arguments
@rank_option
@click.option(
    "-o",
    "--output",
    type=Output(),
    default="report.html",
    show_default=True,
    help="Where to write the page.",
)
def report(
    path: tuple[str, ...], recursive: bool, on_duplicate: OnDuplicate, ranks: tuple[int, ...], output: Place
) -> None:
    """One HTML page that works offline: a verdict, charts, tables, findings, problems."""
    from holotrace.analyses import ALL  # noqa: PLC0415  # with the two below, not needed for --help
    from holotrace.present import report as page  # noqa: PLC0415
    from holotrace.present import terminal  # noqa: PLC0415

    job = job_at(path, recursive=recursive, on_duplicate=on_duplicate, ranks=ranks, every_analysis=True)
    with progress_bar("Reading") as progress:
        result = job.run(progress=progress)
    page.write(result, output, ALL)
    console().print(terminal.verdict(result, ALL))
    click.echo(f"wrote {output}", err=True)
