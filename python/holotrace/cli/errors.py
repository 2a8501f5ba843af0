"""What a command says when it fails: one sentence and a way out, and an exit code."""

from __future__ import annotations

import multiprocessing
import os
import sys
from typing import Any, NoReturn

import click

from holotrace.errors import HolotraceError, UsageError

USAGE, INPUT, DEFECT = 2, 3, 1
INTERRUPTED = 130  # 128 + SIGINT, as shells say it


class Commands(click.Group):
    """Commands whose errors end in one line on stderr."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _stop()
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if ctx.params.get("debug"):
                raise
            raise failure(error) from error


def _stop() -> NoReturn:
    """End at once."""
    processes = multiprocessing.active_children()
    for process in processes:
        process.terminate()
    click.echo("Interrupted.", err=True)
    if processes:
        # Their pool may find at exit that they are gone, which is no news.
        sys.unraisablehook = lambda _: None
        sys.exit(INTERRUPTED)
    # A thread in the middle of a rank cannot be stopped, and the interpreter would wait for it.
    sys.stdout.flush()
    os._exit(INTERRUPTED)


def failure(error: Exception) -> click.ClickException:
    """``error`` as click reports it."""
    if isinstance(error, HolotraceError):
        return _failure(str(error), USAGE if isinstance(error, UsageError) else INPUT)
    what = f"{type(error).__name__}: {error}".rstrip(": ")
    return _failure(f"unexpected {what}; see where it came from with holotrace --debug, and please report it", DEFECT)


def _failure(message: str, code: int) -> click.ClickException:
    # Paths and pieces of files may hold characters that a terminal would obey.
    printable = "".join(char if char.isprintable() else " " for char in message)
    return _Failed(printable, code)


class _Failed(click.ClickException):
    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it for the class and reads it here
