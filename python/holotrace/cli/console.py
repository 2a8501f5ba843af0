"""Where output goes: the terminal, a file, and progress on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from holotrace.engine.map_ranks import Progress
from holotrace.present import files
from holotrace.stores import Place

if TYPE_CHECKING:
    from rich.console import Console


def console() -> Console:
    """What to print on."""
    from rich.console import Console  # noqa: PLC0415  # with the one below, not needed for --help

    from holotrace.present.terminal import TEXT_WIDTH  # noqa: PLC0415

    return Console() if sys.stdout.isatty() else Console(width=TEXT_WIDTH)


def write(output: Place, content: str | bytes, media_type: str) -> None:
    """Save ``content`` as the user asked, whole or not at all."""
    files.write(output, content, media_type=media_type)
    click.echo(f"wrote {output}", err=True)


@contextmanager
def progress_bar(what: str) -> Iterator[Progress | None]:
    """Shows ranks as they are done, on stderr, if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415  # not needed for --help

    columns = (
        progress.TextColumn(what),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("ranks"),
        progress.TimeElapsedColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
