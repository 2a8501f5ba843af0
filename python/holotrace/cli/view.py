"""holotrace view: the page with all events, from this machine."""

from __future__ import annotations

import webbrowser

import click

from holotrace.cli.console import progress_bar
from holotrace.cli.job_command import job_command
from holotrace.cli.output import tell_partial
from holotrace.job import Job

_S_PER_MINUTE = 60


@job_command("Open the report with every event in a browser (extra: view).", every_analysis=True, shows_problems=True)
@click.option("--no-browser", is_flag=True, help="Print the address, but open no browser.")
@click.option(
    "--idle",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="MINUTES",
    help="Stop when no page has been open for this number of minutes.",
)
def view(*, job: Job, no_browser: bool, idle: float) -> None:
    """Open the report in a browser, with a timeline that has every event.

    A server on this machine, which no other machine can reach, sends the events that come into view. It stops with
    Ctrl-C, or when no page has been open for some time (--idle).
    """
    with progress_bar("Reading") as progress:
        shown = job.view(idle_s=idle * _S_PER_MINUTE, progress=progress)
    with shown:
        tell_partial(job.noticed())
        click.echo(shown.url)
        click.echo("Ctrl-C stops it.", err=True)
        if not no_browser:
            webbrowser.open(shown.url)
        try:
            shown.wait()
        except KeyboardInterrupt:
            click.echo("stopped", err=True)
