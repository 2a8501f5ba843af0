"""An answer in the form and the place that were asked for, and a word on what may be missing from it."""

from __future__ import annotations

import sys

import click
import polars as pl

from holotrace.cli.console import console, write
from holotrace.errors import UsageError
from holotrace.present import writers
from holotrace.present.writers import Shown, Writer
from holotrace.stores import Place

# Where the option --wide is remembered.
WIDE = f"{__name__}.wide"
_WIDEST = 20_000  # characters; a longer line loses names' middles


def write_shown(shown: Shown, form: str | None, output: Place | None) -> None:
    """Print or save a table; without a format the name of the output file decides."""
    writer = writers.form_of(form, None if output is None else output.name, writers.OF_TABLES, writers.TABLE)
    if shown.is_chart and writer is not writers.TABLE:
        raise UsageError(f"{writer.name} holds no chart; leave out --chart, or name a file that ends in .txt")
    if output is None and writer is writers.TABLE:
        if click.get_current_context().meta.get(WIDE):
            click.echo(_wide(shown))
        else:
            screen = console()
            screen.print(writers.text(shown, screen.width))
    elif writer.write is not None:
        put(writer.write(shown), writer, output)
    if writer is not writers.TABLE or not shown.tells_problems:
        tell_partial(shown.problems)


def _wide(shown: Shown) -> str:
    """The table in as many characters as it needs."""
    from holotrace.present import terminal  # noqa: PLC0415  # rich is not needed for --help

    lines = terminal.as_text(writers.text(shown, _WIDEST), _WIDEST).splitlines()
    return "\n".join(line.rstrip() for line in lines)


def put(content: str | bytes, writer: Writer, output: Place | None) -> None:
    """Save what a writer made, or print it."""
    if output is not None:
        write(output, content, writer.media_type)
    elif isinstance(content, str):
        # What a file would hold, whatever characters the terminal is set to.
        click.echo(content.removesuffix("\n").encode())
    elif sys.stdout.isatty():
        raise UsageError(f"{writer.name} is not for reading; name a file with -o")
    else:
        sys.stdout.buffer.write(content)


def tell_partial(problems: pl.DataFrame) -> None:
    """One line on stderr where the answer is of a part of the job only."""
    from holotrace.present.problems import in_words  # noqa: PLC0415  # not needed for --help

    if said := in_words(problems):
        click.echo(f"Note: {said}. holotrace show problems lists everything.", err=True)
