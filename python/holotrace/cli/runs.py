"""holotrace runs: which runs a log directory has."""

from __future__ import annotations

import click

from holotrace.cli.options import output_options
from holotrace.cli.output import write_shown
from holotrace.runs import COLUMNS
from holotrace.runs import runs as listed
from holotrace.stores import Place


@click.command(short_help="Which runs a log directory of XLA profiles has.")
@click.argument("logdir")
@output_options
def runs(*, logdir: str, limit: int | None, form: str | None, output: Place | None) -> None:
    """Which runs of a profiler of XLA the log directory LOGDIR has, oldest first.

    Other commands read the newest of them; LOGDIR/RUN is any other, also in holotrace compare.
    """
    from holotrace.present.writers import Shown  # noqa: PLC0415  # not needed for --help

    write_shown(Shown("runs", listed(logdir), COLUMNS, logdir, limit=limit), form, output)
