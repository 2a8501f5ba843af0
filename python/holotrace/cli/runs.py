"""holotrace runs: which runs a log directory has."""

from __future__ import annotations

import click

from holotrace.cli.options import output_options
from holotrace.cli.output import write_shown
from holotrace.listing import COLUMNS
from holotrace.listing import runs as listed
from holotrace.present.writers import Shown
from holotrace.stores import Place


@click.command(short_help="List the runs in a log directory of XLA profiles.")
@click.argument("logdir")
@output_options
def runs(*, logdir: str, limit: int | None, form: str | None, output: Place | None) -> None:
    """List the XLA profiler runs in the log directory LOGDIR, oldest first.

    If you give LOGDIR to another command, it reads the newest run; give LOGDIR/RUN to choose a run.
    """
    write_shown(Shown("runs", listed(logdir), COLUMNS, logdir, limit=limit), form, output)
