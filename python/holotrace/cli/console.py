"""Where output goes: the terminal, a file, and progress on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from mimetypes import guess_type
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holotrace import stores
from holotrace.engine.map_ranks import Progress
from holotrace.errors import UsageError
from holotrace.stores import Place

if TYPE_CHECKING:
    from rich.console import Console


def console() -> Console:
    """What to print on."""
    from rich.console import Console  # noqa: PLC0415  # with the one below, not needed for --help

    from holotrace.present.terminal import TEXT_WIDTH  # noqa: PLC0415

    return Console() if sys.stdout.isatty() else Console(width=TEXT_WIDTH)


def write(output: Place, content: str | bytes) -> None:
    """Save ``content`` as the user asked."""
    encoded = content.encode() if isinstance(content, str) else content
    try:
        if isinstance(output, Path):
            output.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(output, Path) and output.exists() and not output.is_file():
            # A pipe or a device, which nothing can take the place of.
            output.write_bytes(encoded)
        else:
            stores.save(output, encoded, media_type=guess_type(output.name)[0] or "application/octet-stream")
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}; name a place that can") from error
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
