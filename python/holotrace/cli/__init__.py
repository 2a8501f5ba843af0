"""The command ``holotrace``: the only place that prints and ends the process."""

from __future__ import annotations

import click

from holotrace import __getattr__ as attribute
from holotrace.cli.compare import compare
from holotrace.cli.convert import convert
from holotrace.cli.errors import Commands, prepare_for_abort
from holotrace.cli.info import info
from holotrace.cli.overlay import overlay
from holotrace.cli.query import query
from holotrace.cli.report import report
from holotrace.cli.runs import runs
from holotrace.cli.sample import sample
from holotrace.cli.show import show
from holotrace.cli.timeline import timeline
from holotrace.cli.view import view
from holotrace.cli.what_if import what_if

__all__ = ["main", "start"]


def _version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        click.echo(f"holotrace {attribute('__version__')}")
        context.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
@click.option("--debug", is_flag=True, help="Show where in the code an error came from.")
def main(debug: bool) -> None:
    """Where does the time of a training or serving job go, why, and what would fixing it save?

    PATH is a trace file, a folder of trace files (one per rank), a pattern, or a dataset. Traces come from the
    profilers of PyTorch, JAX and PyTorch/XLA.
    """


for command in (info, runs, show, query, compare, report, view, what_if, timeline, overlay, convert, sample):
    main.add_command(command)


def start() -> None:
    """Run the command as a process of its own."""
    prepare_for_abort()
    main(prog_name="holotrace")
