"""The command ``holotrace``: the only place that prints and ends the process."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module

import click

from holotrace import __getattr__ as attribute
from holotrace.allocator import collect_seldom, nothing_collected
from holotrace.cli.errors import Commands, end_without_memory, prepare_for_abort

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


def commands() -> Iterator[click.Command]:
    """Of each file of this folder that has one, the command that is called like it."""
    for found in pkgutil.iter_modules(__path__):
        if not found.name.startswith("_"):
            command = getattr(import_module(f"{__name__}.{found.name}"), found.name, None)
            if isinstance(command, click.Command):
                yield command


with nothing_collected():
    for command in commands():
        main.add_command(command)


def start() -> None:
    """Run the command as a process of its own."""
    collect_seldom()
    prepare_for_abort()
    try:
        main(prog_name="holotrace")
    except SystemExit as ended:
        end_without_memory(ended)
        raise
