"""A table in the format and the place that were asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
import polars as pl

import holotrace
from holotrace.cli.console import PIPE_WIDTH, as_text, console, write
from holotrace.core.schema import Column
from holotrace.errors import UsageError
from holotrace.stores import Place

if TYPE_CHECKING:
    from rich.console import RenderableType

TABLE, JSON, CSV, PARQUET = FORMATS = ("table", "json", "csv", "parquet")
TERMINAL_ROWS = 20  # of a table, unless --limit says otherwise


@dataclass(frozen=True)
class Shown:
    """A table and what it is."""

    name: str
    table: pl.DataFrame
    columns: tuple[Column, ...]
    source: str
    # How a terminal shows it, where that is not as a plain table: from its limit.
    render: Callable[[int], RenderableType] | None = None


def write_shown(shown: Shown, form: str | None, limit: int | None, output: Place | None) -> None:
    """Print or save a table; without a format the name of the output file decides."""
    from holotrace.present import writers as export  # noqa: PLC0415  # not needed for --help

    form = form or _form_of(output)
    if limit is not None:
        limit = min(limit, shown.table.height)
    head = shown.table if limit is None else shown.table.head(limit)
    content: str | bytes
    if form == JSON:
        content = export.json_text(
            head,
            shown.columns,
            name=shown.name,
            source=shown.source,
            version=str(holotrace.__version__),
            total=shown.table.height,
        )
    elif form == CSV:
        content = export.csv_text(head, shown.columns)
    elif form == PARQUET:
        content = export.parquet_bytes(head)
    elif output is None:
        screen = console()
        screen.print(_rendered(shown, limit, screen.width))
        return
    else:
        content = as_text(_rendered(shown, limit, PIPE_WIDTH))
    if output is not None:
        write(output, content)
    elif isinstance(content, str):
        # What a file would hold, whatever characters the terminal is set to.
        click.echo(content.removesuffix("\n").encode())
    elif sys.stdout.isatty():
        raise UsageError("parquet is not for reading; name a file with -o")
    else:
        sys.stdout.buffer.write(content)


def _form_of(output: Place | None) -> str:
    suffix = output.suffix.removeprefix(".") if output else ""
    return suffix if suffix in FORMATS else TABLE


def _rendered(shown: Shown, limit: int | None, width: int) -> RenderableType:
    from holotrace.present import terminal  # noqa: PLC0415  # rich is not needed for --help

    rows = TERMINAL_ROWS if limit is None else limit
    if shown.render is not None:
        return shown.render(rows)
    return terminal.table(shown.table, shown.columns, limit=rows, width=width)
